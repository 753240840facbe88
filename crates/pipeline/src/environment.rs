//! Environment variables of a request.
//!
//! Called by: rules, which set them; programs, logs, and expressions, which read them.
//! Caveat: a variable whose value depends on the request beyond recorded tests must be set with
//! [`Environment::set`]; otherwise its outcome is cached for other requests.
//! Out of scope: the parameters of programs (the gateway).

type Bytes = Box<[u8]>;

/// Environment variables of a request, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(Bytes, Bytes)>,
    /// The variables depend on the request in a way that no recorded test covers.
    varies: bool,
}

impl Environment {
    /// Returns the value of a variable. Names are case-sensitive.
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.variables
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| &**value)
    }

    /// Returns the value of a variable: an exact match, or else one that ignores case.
    pub fn first_in_any_case(&self, name: &[u8]) -> Option<&[u8]> {
        let ignoring_case = || {
            self.variables
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| &**value)
        };
        self.first(name).or_else(ignoring_case)
    }

    /// Sets a variable whose value may differ between requests for the same path.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.varies = true;
        self.set_known(name, value);
    }

    /// Sets a variable whose value is determined by the configuration, the path, and recorded
    /// tests.
    pub fn set_known(&mut self, name: &[u8], value: &[u8]) {
        match self
            .variables
            .iter_mut()
            .find(|(known, _)| **known == *name)
        {
            Some((_, old)) => *old = value.into(),
            None => self.variables.push((name.into(), value.into())),
        }
    }

    pub fn unset(&mut self, name: &[u8]) {
        self.variables.retain(|(known, _)| **known != *name);
    }

    /// Records that the variables depend on the request in a way that no test covers.
    pub fn mark_varying(&mut self) {
        self.varies = true;
    }

    pub fn varies(&self) -> bool {
        self.varies
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables
            .iter()
            .map(|(name, value)| (&**name, &**value))
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    pub fn len(&self) -> usize {
        self.variables.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let mut all = Environment::default();
        all.set(b"a", b"1");
        all.set(b"b", b"2");
        all.set(b"a", b"3");
        assert_eq!((all.first(b"a"), all.first(b"A")), (Some(&b"3"[..]), None));
        all.unset(b"a");
        assert_eq!(all.iter().collect::<Vec<_>>(), [(&b"b"[..], &b"2"[..])]);
    }
}
