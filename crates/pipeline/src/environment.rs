//! Environment variables of a request.
//!
//! Called by: rules, which set them; programs, logs, and expressions, which read them.
//! Caveat: a variable whose value depends on the request beyond recorded tests must be set with
//! [`Environment::set`]; otherwise its outcome is cached for other requests.
//! Out of scope: the parameters of programs (the gateway).

use saker_ap_expr::Facts;
use std::{borrow::Cow, fmt};

/// Room for the variables of most requests.
const USUAL_BYTES: usize = 192;
const USUAL_COUNT: usize = 6;
/// Texts that are no longer used are dropped if there are more than so many bytes in all.
const COMPACTED_BYTES_MIN: usize = 4 << 10;

/// Environment variables of a request, in the order in which they were first set.
#[derive(Default)]
pub struct Environment {
    /// All texts. Those of variables that were replaced or unset stay until the end.
    bytes: Vec<u8>,
    variables: Vec<Variable>,
    /// The variables depend on the request in a way that no recorded test covers.
    varies: bool,
    /// A name occurs twice: see [`Environment::set_behind`].
    has_repeated: bool,
}

/// Places of a name and a value: first byte and length.
#[derive(Clone, Copy)]
struct Variable {
    name: (u32, u32),
    value: (u32, u32),
}

/// A copy has room for the variables that follow: those of kept decisions become a request's.
impl Clone for Environment {
    fn clone(&self) -> Environment {
        if self.variables.is_empty() {
            return Environment {
                varies: self.varies,
                ..Environment::default()
            };
        }
        let mut bytes = Vec::with_capacity(self.bytes.len() + USUAL_BYTES);
        bytes.extend_from_slice(&self.bytes);
        let mut variables = Vec::with_capacity(self.variables.len() + USUAL_COUNT);
        variables.extend_from_slice(&self.variables);
        Environment {
            bytes,
            variables,
            varies: self.varies,
            has_repeated: self.has_repeated,
        }
    }
}

/// Facts of a request of which no more is known: enough for edits without expressions.
impl Facts for Environment {
    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.first(name).map(Cow::Borrowed)
    }
}

impl Environment {
    /// Returns the value of a variable. The case of names does not matter, as in Apache, whose access
    /// rules may spell a variable in another way than what sets it.
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.position(name)
            .and_then(|at| self.variables.get(at))
            .map(|variable| self.text(variable.value))
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.variables.iter().position(|variable| {
            variable.name.1 as usize == name.len()
                && self.text(variable.name).eq_ignore_ascii_case(name)
        })
    }

    fn text(&self, (start, length): (u32, u32)) -> &[u8] {
        self.bytes
            .get(start as usize..start as usize + length as usize)
            .unwrap_or_default()
    }

    fn keep(&mut self, text: &[u8]) -> (u32, u32) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        (start as u32, text.len() as u32)
    }

    /// Sets a variable whose value may differ between requests for the same path.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.varies = true;
        self.set_known(name, value);
    }

    /// Sets a variable whose value is determined by the configuration, the path, and recorded
    /// tests.
    pub fn set_known(&mut self, name: &[u8], value: &[u8]) {
        match self.position(name) {
            Some(at) => {
                let value = self.keep(value);
                self.variables[at].value = value;
            }
            None => {
                if self.variables.is_empty() {
                    self.bytes.reserve(USUAL_BYTES);
                    self.variables.reserve(USUAL_COUNT);
                }
                let (name, value) = (self.keep(name), self.keep(value));
                self.variables.push(Variable { name, value });
            }
        }
        self.compact();
    }

    /// Sets a variable for programs: look-ups find what was set before, if anything was, as in Apache,
    /// whose mod_env adds its variables behind those of others.
    pub fn set_behind(&mut self, name: &[u8], value: &[u8]) {
        let Some(first) = self.position(name) else {
            return self.set_known(name, value);
        };
        let value = self.keep(value);
        let mut later = self.variables.iter().skip(first + 1);
        let later = later.position(|variable| self.text(variable.name) == name);
        match later {
            Some(at) => self.variables[first + 1 + at].value = value,
            None => {
                let known = self.variables[first].name;
                let name = match self.text(known) == name {
                    true => known,
                    // Programs get both spellings.
                    false => self.keep(name),
                };
                self.variables.push(Variable { name, value });
                self.has_repeated = true;
            }
        }
        self.compact();
    }

    /// Returns true if a name occurs twice.
    pub fn has_repeated(&self) -> bool {
        self.has_repeated
    }

    /// Gives each variable the value that was set last, which programs get.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.has_repeated) {
            return;
        }
        let before = std::mem::take(self);
        self.varies = before.varies;
        for (name, value) in before.iter() {
            let is_same = |variable: &Variable| self.text(variable.name) == name;
            let known = self.variables.iter().position(is_same);
            let value = self.keep(value);
            match known {
                Some(at) => self.variables[at].value = value,
                None => {
                    let name = self.keep(name);
                    self.variables.push(Variable { name, value });
                }
            }
        }
    }

    /// Variables as programs get them: each once, with the value that was set last.
    pub fn settled(&self) -> Cow<'_, Environment> {
        if !self.has_repeated {
            return Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.settle();
        Cow::Owned(settled)
    }

    /// Rules that set one variable again and again must not make the texts grow without bound.
    fn compact(&mut self) {
        if self.bytes.len() < COMPACTED_BYTES_MIN {
            return;
        }
        let used: usize = self
            .variables
            .iter()
            .map(|variable| variable.name.1 as usize + variable.value.1 as usize)
            .sum();
        if used >= self.bytes.len() / 2 {
            return;
        }
        let before = std::mem::take(self);
        (self.varies, self.has_repeated) = (before.varies, before.has_repeated);
        for (name, value) in before.iter() {
            let (name, value) = (self.keep(name), self.keep(value));
            self.variables.push(Variable { name, value });
        }
    }

    pub fn unset(&mut self, name: &[u8]) {
        while let Some(at) = self.position(name) {
            self.variables.remove(at);
        }
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
            .map(|variable| (self.text(variable.name), self.text(variable.value)))
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    pub fn len(&self) -> usize {
        self.variables.len()
    }
}

/// The same names and values in the same order, wherever they lie.
impl PartialEq for Environment {
    fn eq(&self, other: &Environment) -> bool {
        self.varies == other.varies && self.iter().eq(other.iter())
    }
}

impl Eq for Environment {}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &[u8]| text.escape_ascii().to_string();
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_behind_another_is_for_programs() {
        let mut all = Environment::default();
        all.set_known(b"a", b"1");
        all.set_behind(b"a", b"2");
        all.set_behind(b"a", b"3");
        all.set_behind(b"b", b"4");
        assert_eq!((all.first(b"a"), all.len()), (Some(&b"1"[..]), 3));
        let settled = all.settled();
        assert_eq!((settled.first(b"a"), settled.len()), (Some(&b"3"[..]), 2));
        all.unset(b"a");
        all.settle();
        assert_eq!((all.first(b"a"), all.len()), (None, 1));
    }

    #[test]
    fn variables() {
        let mut all = Environment::default();
        all.set(b"a", b"1");
        all.set(b"b", b"2");
        all.set(b"a", b"3");
        all.set(b"B", b"4");
        assert_eq!(
            (all.first(b"A"), all.first(b"b"), all.len()),
            (Some(&b"3"[..]), Some(&b"4"[..]), 2)
        );
        all.unset(b"a");
        assert_eq!(all.iter().collect::<Vec<_>>(), [(&b"b"[..], &b"4"[..])]);
        all.set_behind(b"B", b"5");
        assert_eq!(all.first(b"B"), Some(&b"4"[..]));
        let settled = all.settled();
        assert_eq!(
            settled.iter().collect::<Vec<_>>(),
            [(&b"b"[..], &b"4"[..]), (b"B", b"5")],
            "programs get both spellings"
        );
    }

    #[test]
    fn texts_of_replaced_values_do_not_add_up() {
        let mut all = Environment::default();
        all.set_known(b"first", b"stays");
        for round in 0..1000 {
            all.set(b"again", format!("{round:0>100}").as_bytes());
            all.set_known(b"gone", &[b'x'; 50]);
            all.unset(b"gone");
        }
        assert!(
            all.bytes.len() <= COMPACTED_BYTES_MIN + 200,
            "{}",
            all.bytes.len()
        );
        assert_eq!(
            (all.first(b"first"), all.len(), all.varies()),
            (Some(&b"stays"[..]), 2, true)
        );
        assert!(
            all.first(b"again")
                .is_some_and(|value| value.ends_with(b"0999"))
        );
        let mut other = Environment::default();
        other.set_known(b"first", b"stays");
        other.set(b"again", all.first(b"again").unwrap());
        assert_eq!(all, other);
    }
}
