//! The methods that a rule applies to.
//!
//! Called by: rules inside `<Limit>` and `<LimitExcept>`.

/// A set of methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    #[default]
    All,
    /// In capital letters; GET includes HEAD, and HEAD includes GET.
    Only(Vec<Box<[u8]>>),
    AllBut(Vec<Box<[u8]>>),
}

impl Methods {
    pub fn include(&self, method: &[u8]) -> bool {
        let named = |names: &[Box<[u8]>]| {
            let numbered = as_numbered(method);
            names.iter().any(|name| as_numbered(name) == numbered)
        };
        match self {
            Methods::All => true,
            Methods::Only(names) => named(names),
            Methods::AllBut(names) => !named(names),
        }
    }
}

/// Returns the method that Apache numbers: HEAD has the number of GET.
pub fn as_numbered(method: &[u8]) -> &[u8] {
    if method == b"HEAD" { b"GET" } else { method }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods() {
        let names: Vec<Box<[u8]>> = vec![b"GET".as_slice().into(), b"POST".as_slice().into()];
        let (only, all_but) = (Methods::Only(names.clone()), Methods::AllBut(names));
        assert!(only.include(b"HEAD") && only.include(b"POST") && !only.include(b"PUT"));
        assert!(
            !all_but.include(b"HEAD") && all_but.include(b"PUT") && Methods::All.include(b"PUT")
        );
    }
}
