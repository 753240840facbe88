//! Ban commands on the control socket: JSON to types and back. Pure.
//!
//! Called by: `protocol` and `client`.

use saker_ipset::Block;
use serde_json::{Value, json};

/// Bans in one answer.
pub const LIST_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanVerb {
    List,
    Ban {
        blocks: Vec<Block>,
        /// `None`: for good.
        seconds: Option<u64>,
        reason: String,
    },
    /// Empty: all.
    Unban {
        blocks: Vec<Block>,
    },
}

impl BanVerb {
    /// `None`: the verb is not about bans.
    pub fn parse(verb: &str, request: &Value) -> Option<Result<BanVerb, String>> {
        Some(match verb {
            "bans" => Ok(BanVerb::List),
            "ban" => ban(request),
            "unban" => match (request.get("all").and_then(Value::as_bool), blocks(request)) {
                (Some(true), Ok(blocks)) if blocks.is_empty() => Ok(BanVerb::Unban { blocks }),
                (_, Ok(blocks)) if blocks.is_empty() => {
                    Err("nothing to unban: \"addresses\" or \"all\" is required".into())
                }
                (_, blocks) => blocks.map(|blocks| BanVerb::Unban { blocks }),
            },
            _ => return None,
        })
    }

    pub fn to_json(&self) -> Value {
        let texts = |blocks: &[Block]| blocks.iter().map(Block::to_string).collect::<Vec<_>>();
        match self {
            BanVerb::List => json!({ "verb": "bans" }),
            BanVerb::Ban {
                blocks,
                seconds,
                reason,
            } => {
                json!({ "verb": "ban", "addresses": texts(blocks), "seconds": seconds, "reason": reason })
            }
            BanVerb::Unban { blocks } => {
                json!({ "verb": "unban", "addresses": texts(blocks), "all": blocks.is_empty() })
            }
        }
    }
}

fn ban(request: &Value) -> Result<BanVerb, String> {
    let blocks = blocks(request)?;
    if blocks.is_empty() {
        return Err("nothing to ban: \"addresses\" is required".into());
    }
    let seconds = match request.get("seconds") {
        None | Some(Value::Null) => None,
        Some(seconds) => Some(
            seconds
                .as_u64()
                .filter(|seconds| *seconds > 0)
                .ok_or("\"seconds\" must be a positive number")?,
        ),
    };
    let reason = match request.get("reason") {
        None | Some(Value::Null) => String::new(),
        Some(reason) => reason
            .as_str()
            .ok_or("\"reason\" must be a string")?
            .to_owned(),
    };
    Ok(BanVerb::Ban {
        blocks,
        seconds,
        reason,
    })
}

fn blocks(request: &Value) -> Result<Vec<Block>, String> {
    let texts = crate::fields::texts(request, "addresses")?;
    texts
        .iter()
        .map(|text| {
            text.parse()
                .map_err(|()| format!("invalid address or CIDR block `{text}`"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BanVerb, String> {
        let request: Value = serde_json::from_str(text).unwrap();
        BanVerb::parse(request["verb"].as_str().unwrap(), &request).expect("a verb about bans")
    }

    #[test]
    fn what_is_said_comes_back() {
        let blocks = vec![
            "192.0.2.0/24".parse().unwrap(),
            "2001:db8::1".parse().unwrap(),
        ];
        for verb in [
            BanVerb::List,
            BanVerb::Ban {
                blocks: blocks.clone(),
                seconds: Some(60),
                reason: "why".into(),
            },
            BanVerb::Ban {
                blocks: blocks.clone(),
                seconds: None,
                reason: String::new(),
            },
            BanVerb::Unban { blocks },
            BanVerb::Unban { blocks: Vec::new() },
        ] {
            assert_eq!(parse(&verb.to_json().to_string()), Ok(verb));
        }
        assert_eq!(BanVerb::parse("status", &Value::Null), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            r#"{"verb":"ban"}"#,
            r#"{"verb":"ban","addresses":["example.org"]}"#,
            r#"{"verb":"ban","addresses":["::1"],"seconds":0}"#,
            r#"{"verb":"ban","addresses":["::1"],"reason":1}"#,
            r#"{"verb":"unban"}"#,
            r#"{"verb":"unban","all":false}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
