//! mod_access_compat: Order, Allow, Deny, Satisfy.
//!
//! Difficulty: the module has no merge of its own, so a section that says any of it replaces all
//! that was said outside; and `Satisfy` and `Order` are kept for each method, so that `<Limit>`
//! changes them for some.

use super::{decide::Inquiry, hosts::in_domain, requirement::Decision};
use crate::{
    local::{Local, Set},
    reading::{Methods, Reading},
};
use saker_ap_expr::{Dependency, Subnet};
use saker_apache_syntax::Node;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    AllowThenDeny,
    /// What is neither allowed nor denied is allowed.
    #[default]
    DenyThenAllow,
    MutualFailure,
}

#[derive(Clone, Debug)]
enum From {
    All,
    Ip(Subnet),
    /// A name, or the end of one.
    Host(Box<[u8]>),
    Environment {
        name: Box<[u8]>,
        negated: bool,
    },
}

/// What is said for some methods.
type ForMethods<T> = Vec<(Methods, T)>;

#[derive(Clone, Debug, Default)]
struct Said {
    /// The last one for a method counts.
    order: ForMethods<Order>,
    satisfy_any: ForMethods<bool>,
    allow: ForMethods<From>,
    deny: ForMethods<From>,
}

#[derive(Clone, Debug, Default)]
pub struct AccessCompat {
    said: Option<Arc<Said>>,
}

impl AccessCompat {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("order", set_order),
        ("allow", |node, local, reading| {
            add(node, local, reading, |said| &mut said.allow)
        }),
        ("deny", |node, local, reading| {
            add(node, local, reading, |said| &mut said.deny)
        }),
        ("Satisfy", set_satisfy),
    ];

    pub fn is_said(&self) -> bool {
        self.said.is_some()
    }

    pub fn under(&self, over: &AccessCompat) -> AccessCompat {
        AccessCompat {
            said: over.said.as_ref().or(self.said.as_ref()).cloned(),
        }
    }

    fn said_here(&mut self) -> &mut Said {
        Arc::make_mut(self.said.get_or_insert_default())
    }

    pub fn satisfy_any(&self, method: &[u8]) -> bool {
        self.said
            .as_ref()
            .and_then(|said| last(&said.satisfy_any, method))
            .unwrap_or_default()
    }

    /// Whether the request is let in by where it comes from.
    pub fn lets_in(&self, inquiry: &mut Inquiry<'_>) -> Decision {
        let Some(said) = &self.said else {
            return Decision::Granted;
        };
        let order = last(&said.order, inquiry.method()).unwrap_or_default();
        // The list that has the last word is asked first: what it says needs no second opinion.
        let (first, second) = match order {
            Order::DenyThenAllow => (&said.allow, &said.deny),
            Order::AllowThenDeny | Order::MutualFailure => (&said.deny, &said.allow),
        };
        let first = inquiry.any_of(first);
        let granted = match (order, first) {
            (_, Named::Unknown(wait)) => return wait,
            (Order::DenyThenAllow, Named::Yes) => true,
            (_, Named::Yes) => false,
            (order, Named::No) => match inquiry.any_of(second) {
                Named::Unknown(wait) => return wait,
                Named::Yes => order != Order::DenyThenAllow,
                Named::No => order == Order::DenyThenAllow,
            },
        };
        if granted {
            Decision::Granted
        } else {
            Decision::Denied
        }
    }
}

fn last<T: Copy>(all: &ForMethods<T>, method: &[u8]) -> Option<T> {
    all.iter()
        .rev()
        .find(|(methods, _)| methods.include(method))
        .map(|(_, value)| *value)
}

/// Whether a list names the client.
enum Named {
    Yes,
    No,
    /// Its name has to be looked up first.
    Unknown(Decision),
}

impl Inquiry<'_> {
    fn any_of(&mut self, list: &ForMethods<From>) -> Named {
        for (methods, from) in list {
            if !methods.include(self.method()) {
                continue;
            }
            let found = match from {
                From::All => true,
                From::Ip(network) => {
                    self.asked(Dependency::Client);
                    network.contains(self.exchange.client.ip())
                }
                From::Environment { name, negated } => {
                    self.asked(Dependency::Environment);
                    self.exchange.environment.first(name).is_some() != *negated
                }
                From::Host(domain) => match self.client_name() {
                    Ok(name) => name.is_some_and(|name| in_domain(domain, name.as_bytes())),
                    Err(wait) => return Named::Unknown(wait),
                },
            };
            if found {
                return Named::Yes;
            }
        }
        Named::No
    }
}

fn set_order(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let word = node.arguments().into_iter().next().unwrap_or_default();
    let order = match &*word.to_ascii_lowercase() {
        b"allow,deny" => Order::AllowThenDeny,
        b"deny,allow" => Order::DenyThenAllow,
        b"mutual-failure" => Order::MutualFailure,
        _ => return Err("unknown order".into()),
    };
    local
        .access_compat
        .said_here()
        .order
        .push((reading.methods.clone(), order));
    Ok(())
}

fn set_satisfy(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let word = node.arguments().into_iter().next().unwrap_or_default();
    let any = match &*word.to_ascii_lowercase() {
        b"any" => true,
        b"all" => false,
        _ => return Err("Satisfy either 'any' or 'all'.".into()),
    };
    local
        .access_compat
        .said_here()
        .satisfy_any
        .push((reading.methods.clone(), any));
    Ok(())
}

/// `from`, then any number of what it may be.
fn add(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
    list: fn(&mut Said) -> &mut ForMethods<From>,
) -> Result<(), String> {
    let words = node.arguments();
    let Some((_, rest)) = words
        .split_first()
        .filter(|(first, _)| first.eq_ignore_ascii_case(b"from"))
    else {
        return Err("allow and deny must be followed by 'from'".into());
    };
    for word in rest {
        let from = from(word)?;
        list(local.access_compat.said_here()).push((reading.methods.clone(), from));
    }
    Ok(())
}

fn from(word: &[u8]) -> Result<From, String> {
    let lower = word.to_ascii_lowercase();
    if let (Some(_), Some(name)) = (lower.strip_prefix(b"env=!"), word.get(5..)) {
        return Ok(From::Environment {
            name: name.into(),
            negated: true,
        });
    }
    if let (Some(_), Some(name)) = (lower.strip_prefix(b"env="), word.get(4..)) {
        return Ok(From::Environment {
            name: name.into(),
            negated: false,
        });
    }
    match Subnet::parse(word) {
        _ if lower == b"all" => Ok(From::All),
        Ok(network) => Ok(From::Ip(network)),
        Err(_) if word.contains(&b'/') => Err(format!(
            "'{}': an IP address was expected",
            String::from_utf8_lossy(word)
        )),
        Err(_) => Ok(From::Host(lower.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let kind = |text: &str| match from(text.as_bytes()) {
            Ok(From::All) => "all".to_owned(),
            Ok(From::Ip(_)) => "ip".into(),
            Ok(From::Host(name)) => String::from_utf8_lossy(&name).into_owned(),
            Ok(From::Environment { name, negated }) => format!(
                "{}{}",
                if negated { "!" } else { "" },
                String::from_utf8_lossy(&name)
            ),
            Err(error) => error,
        };
        for (text, expected) in [
            ("ALL", "all"),
            ("10.1", "ip"),
            ("10.0.0.0/8", "ip"),
            ("::1", "ip"),
            (".Example.com", ".example.com"),
            ("env=Ok", "Ok"),
            ("ENV=!no", "!no"),
            (
                "example.com/8",
                "'example.com/8': an IP address was expected",
            ),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn the_last_word_for_a_method() {
        let get: Vec<Box<[u8]>> = vec![b"GET".as_slice().into()];
        let all = vec![(Methods::All, 1), (Methods::Only(get), 2)];
        assert_eq!(
            (
                last(&all, b"HEAD"),
                last(&all, b"POST"),
                last::<u8>(&vec![], b"GET")
            ),
            (Some(2), Some(1), None)
        );
    }
}
