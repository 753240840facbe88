//! Dynamic virtual host commands on the control socket: JSON to types and back. Pure.
//!
//! Called by: `protocol` and `client`.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostsVerb {
    Stat,
    /// Removes answers; they are queried again when they are next needed.
    Purge {
        names: Vec<String>,
        all: bool,
    },
}

impl HostsVerb {
    /// `None`: the verb is not about hosts.
    pub fn parse(verb: &str, request: &Value) -> Option<Result<HostsVerb, String>> {
        match verb {
            "hosts-stat" => Some(Ok(HostsVerb::Stat)),
            "hosts-purge" => Some(purge(request)),
            _ => None,
        }
    }

    pub fn to_json(&self) -> Value {
        match self {
            HostsVerb::Stat => json!({ "verb": "hosts-stat" }),
            HostsVerb::Purge { names, all } => {
                json!({ "verb": "hosts-purge", "names": names, "all": all })
            }
        }
    }
}

fn purge(request: &Value) -> Result<HostsVerb, String> {
    let all = match request.get("all") {
        None | Some(Value::Null) => false,
        Some(value) => value.as_bool().ok_or("\"all\" must be true or false")?,
    };
    let names = crate::fields::texts(request, "names")?;
    match names.is_empty() && !all {
        true => Err("nothing to purge: \"names\" or \"all\" is required".into()),
        false => Ok(HostsVerb::Purge { names, all }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back() {
        for verb in [
            HostsVerb::Stat,
            HostsVerb::Purge {
                names: vec!["a.example".into()],
                all: false,
            },
            HostsVerb::Purge {
                names: Vec::new(),
                all: true,
            },
        ] {
            let said = verb.to_json();
            assert_eq!(
                HostsVerb::parse(said["verb"].as_str().unwrap_or_default(), &said),
                Some(Ok(verb))
            );
        }
        assert!(HostsVerb::parse("hosts-purge", &json!({})).is_some_and(|verb| verb.is_err()));
        assert!(
            HostsVerb::parse("hosts-purge", &json!({ "all": 1 })).is_some_and(|verb| verb.is_err())
        );
        assert_eq!(HostsVerb::parse("status", &json!({})), None);
    }
}
