//! Claims of a token (RFC 7519 section 4).
//!
//! Called by: token checks, sessions, and the access phase, which makes request fields of them.
//! Caveat: a name with dots finds a claim of exactly that name first (`https://a.example/roles`),
//! and then one inside objects (`realm_access.roles`).
//! Out of scope: signatures (`token`).

use serde_json::{Map, Value};

/// The claims of a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims(pub Map<String, Value>);

impl Claims {
    /// Reads a JSON object.
    pub fn parse(bytes: &[u8]) -> Option<Claims> {
        match serde_json::from_slice(bytes).ok()? {
            Value::Object(claims) => Some(Claims(claims)),
            _ => None,
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).or_else(|| {
            let mut parts = name.split('.');
            let first = self.0.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part))
        })
    }

    /// A number of seconds; fractions count down (RFC 7519 section 2, NumericDate).
    pub fn seconds(&self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        value
            .as_i64()
            .or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }

    /// A claim as text: of a list all elements, with commas between them. Texts with control
    /// characters are none, and neither are elements with commas: both would read as something
    /// else where they are used.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            Value::Array(list) => {
                let texts: Vec<String> = list
                    .iter()
                    .filter_map(plain)
                    .filter(|text| !text.contains(','))
                    .collect();
                Some(texts.join(",")).filter(|text| !text.is_empty())
            }
            value => plain(value),
        }
    }

    /// The texts of a claim: the elements of a list, or the one text. The words of `scope` and
    /// `scp` are elements (RFC 8693 section 4.2).
    pub fn texts(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Some(Value::Array(list)) => list.iter().filter_map(plain).collect(),
            Some(Value::String(words)) if matches!(name, "scope" | "scp") => words
                .split(' ')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            Some(value) => plain(value).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// True if one of the texts of a claim is one of `wanted`.
    pub fn has_any(&self, name: &str, wanted: &[String]) -> bool {
        let texts = self.texts(name);
        wanted.iter().any(|wanted| texts.contains(wanted))
    }
}

fn plain(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims::parse(
            br#"{"sub":"ann","n":7,"ok":true,"groups":["a","b,c","d\n",3],"a.b":"exact","a":{"b":"inner","c":{"d":["x"]}},
                "scope":"read write","bad":"a\r\nX: y","empty":"","exp":12.9,"null":null}"#,
        )
        .expect("an object")
    }

    #[test]
    fn claims_as_texts() {
        let claims = claims();
        for (name, expected) in [
            ("sub", Some("ann")),
            ("n", Some("7")),
            ("ok", Some("true")),
            ("groups", Some("a,3")),
            ("a.b", Some("exact")),
            ("a.c.d", Some("x")),
            ("a.c", None),
            ("a.x.y", None),
            ("bad", None),
            ("empty", None),
            ("null", None),
            ("missing", None),
        ] {
            assert_eq!(claims.text(name).as_deref(), expected, "{name}");
        }
        assert_eq!(claims.seconds("exp"), Some(12));
        assert_eq!(claims.seconds("sub"), None);
    }

    #[test]
    fn claims_as_sets() {
        let claims = claims();
        let has = |name: &str, wanted: &str| claims.has_any(name, &[wanted.to_owned()]);
        assert!(has("scope", "write") && !has("scope", "read write"));
        assert!(has("groups", "b,c") && !has("groups", "b") && has("sub", "ann"));
        assert!(!has("missing", "") && !has("empty", ""));
        assert!(Claims::parse(b"[]").is_none() && Claims::parse(b"{").is_none());
    }
}
