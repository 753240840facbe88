//! mod_allowmethods: which methods a place takes at all.

use crate::{
    modules::access::require::method_number,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;

/// By number; `None`: nothing was said, `reset` was said or all are taken.
#[derive(Clone, Debug, Default)]
pub struct AllowMethods {
    allowed: Option<Vec<usize>>,
}

impl AllowMethods {
    pub const DIRECTIVES: &'static [(&'static str, Set<AllowMethods>)] = &[("AllowMethods", set)];

    pub fn merge(&self, over: &AllowMethods) -> AllowMethods {
        AllowMethods {
            allowed: over.allowed.as_ref().or(self.allowed.as_ref()).cloned(),
        }
    }

    pub fn allow(&self, method: &[u8]) -> bool {
        match &self.allowed {
            Some(allowed) if !allowed.is_empty() => {
                method_number(method).is_some_and(|number| allowed.contains(&number))
            }
            _ => true,
        }
    }
}

fn set(node: &Node, allowmethods: &mut AllowMethods, _: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    if words.is_empty() {
        return Err("No method or 'reset' keyword given".into());
    }
    if words.iter().any(|word| word.eq_ignore_ascii_case(b"reset")) {
        allowmethods.allowed = Some(Vec::new());
        return if words.len() > 1 {
            Err("Together with 'reset' no other methods may be given".into())
        } else {
            Ok(())
        };
    }
    let number = |word: &Vec<u8>| {
        method_number(word).ok_or_else(|| {
            format!(
                "AllowMethods: Unknown method '{}'",
                String::from_utf8_lossy(word)
            )
        })
    };
    allowmethods.allowed = Some(words.iter().map(number).collect::<Result<_, _>>()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods() {
        let of = |names: &[&str]| AllowMethods {
            allowed: Some(
                names
                    .iter()
                    .filter_map(|name| method_number(name.as_bytes()))
                    .collect(),
            ),
        };
        let (some, reset, nothing) = (of(&["GET", "OPTIONS"]), of(&[]), AllowMethods::default());
        assert!(
            some.allow(b"GET")
                && some.allow(b"HEAD")
                && some.allow(b"OPTIONS")
                && !some.allow(b"POST")
                && !some.allow(b"FOO")
        );
        assert!(reset.allow(b"POST") && nothing.allow(b"FOO"));
        assert!(
            nothing.merge(&some).merge(&reset).allow(b"POST")
                && !some.merge(&nothing).allow(b"POST")
        );
    }
}
