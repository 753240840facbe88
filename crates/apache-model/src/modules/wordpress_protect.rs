//! LiteSpeed's WordPressProtect: attempts at wp-login.php and xmlrpc.php, in a place and below.
//!
//! `WordPressProtect [off|on|throttle|drop|deny|captcha,] [limit]`; 0 is off, 1 on as the server
//! above says, and the limit from 5 to 1000.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_config::model::{LoginAction, Logins};
use std::sync::Arc;

/// LiteSpeed's bounds.
const LIMIT: std::ops::RangeInclusive<u32> = 5..=1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordPressProtect {
    is_on: Option<bool>,
    action: Option<LoginAction>,
    limit: Option<u32>,
}

impl WordPressProtect {
    pub const DIRECTIVES: &'static [(&'static str, Set<WordPressProtect>)] =
        &[("WordPressProtect", set)];

    pub fn merge(&self, over: &WordPressProtect) -> WordPressProtect {
        WordPressProtect {
            is_on: over.is_on.or(self.is_on),
            action: over.action.or(self.action),
            limit: over.limit.or(self.limit),
        }
    }

    pub fn in_use(&self) -> Option<Arc<Logins>> {
        let defaults = Logins::default();
        let (action, attempts) = (
            self.action.unwrap_or(defaults.action),
            self.limit.unwrap_or(defaults.attempts),
        );
        (self.is_on == Some(true)).then(|| {
            Arc::new(Logins {
                action,
                attempts,
                ..defaults
            })
        })
    }
}

fn set(
    node: &Node,
    wordpress_protect: &mut WordPressProtect,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    *wordpress_protect = read(&texts(node).join(" "))?;
    Ok(())
}

fn read(text: &str) -> Result<WordPressProtect, String> {
    let mut read = WordPressProtect {
        is_on: Some(true),
        ..WordPressProtect::default()
    };
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "off" | "0" => read.is_on = Some(false),
            "on" | "1" => {}
            "throttle" => read.action = Some(LoginAction::Throttle),
            "drop" => read.action = Some(LoginAction::Drop),
            "deny" => read.action = Some(LoginAction::Deny),
            "captcha" | "challenge" => read.action = Some(LoginAction::Challenge),
            other => match other.parse::<u32>() {
                Ok(limit) => read.limit = Some(limit.clamp(*LIMIT.start(), *LIMIT.end())),
                Err(_) => {
                    return Err(format!(
                        "WordPressProtect: {other:?} is neither off, on, throttle, drop, deny, captcha nor a number"
                    ));
                }
            },
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said() {
        let in_use = |text: &str| {
            read(text)
                .unwrap()
                .in_use()
                .map(|rule| (rule.action, rule.attempts))
        };
        assert_eq!(in_use("drop, 20"), Some((LoginAction::Drop, 20)));
        assert_eq!(in_use("deny,2"), Some((LoginAction::Deny, 5)));
        assert_eq!(in_use("5000"), Some((LoginAction::Throttle, 1000)));
        assert_eq!(in_use("captcha"), Some((LoginAction::Challenge, 10)));
        assert_eq!(
            (in_use("on"), in_use("1")),
            (
                Some((LoginAction::Throttle, 10)),
                Some((LoginAction::Throttle, 10))
            )
        );
        assert_eq!((in_use("off"), in_use("0")), (None, None));
        assert!(read("often").is_err());
        let outer = read("drop, 20").unwrap();
        assert_eq!(
            outer
                .merge(&read("7").unwrap())
                .in_use()
                .map(|rule| (rule.action, rule.attempts)),
            Some((LoginAction::Drop, 7))
        );
        assert_eq!(outer.merge(&read("off").unwrap()).in_use(), None);
    }
}
