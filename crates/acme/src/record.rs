//! The stored state of one set of names in addition to its certificate: failures, the open order,
//! the time of renewal.

use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub names: Vec<String>,
    /// Made at a handshake; renewed only while the ask rule allows it.
    pub on_demand: bool,
    /// URL of the one that signed the certificate.
    pub directory: Option<String>,
    /// Time of issue.
    pub issued_at: u64,
    /// Consecutive failures.
    pub failures: u32,
    /// Time before which no attempt is made.
    pub attempt_at: u64,
    pub reason: Option<String>,
    pub order: Option<OpenOrder>,
    pub renew_at: Option<u64>,
    /// Time at which the authority is asked again about `renew_at`.
    pub check_at: u64,
}

/// An order that was made and has not come to an end that we know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOrder {
    pub url: String,
    pub directory: String,
    /// PEM. Kept before the authority gets to know it, so that no certificate is without its key.
    pub key: String,
    pub made_at: u64,
}

impl Record {
    pub fn new(names: &[String], on_demand: bool) -> Record {
        Record {
            names: names.to_vec(),
            on_demand,
            ..Record::default()
        }
    }

    pub fn to_json(&self) -> String {
        let order = self
            .order
            .as_ref()
            .map(|order| json!({ "url": order.url, "directory": order.directory, "key": order.key, "made_at": order.made_at }));
        let record = json!({
            "names": self.names,
            "on_demand": self.on_demand,
            "directory": self.directory,
            "issued_at": self.issued_at,
            "failures": self.failures,
            "attempt_at": self.attempt_at,
            "reason": self.reason,
            "order": order,
            "renew_at": self.renew_at,
            "check_at": self.check_at,
        });
        format!("{record:#}\n")
    }

    /// Parses a record. Missing fields get their defaults; `None` if the text is not a record.
    pub fn from_json(text: &str) -> Option<Record> {
        let value: Value = serde_json::from_str(text).ok()?;
        let names = value
            .get("names")?
            .as_array()?
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()?;
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        Some(Record {
            names,
            on_demand: value
                .get("on_demand")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            directory: text_of(&value, "directory"),
            issued_at: number("issued_at").unwrap_or_default(),
            failures: number("failures")
                .and_then(|number| u32::try_from(number).ok())
                .unwrap_or_default(),
            attempt_at: number("attempt_at").unwrap_or_default(),
            reason: text_of(&value, "reason"),
            order: value.get("order").and_then(order),
            renew_at: number("renew_at"),
            check_at: number("check_at").unwrap_or_default(),
        })
    }
}

fn order(value: &Value) -> Option<OpenOrder> {
    let made_at = value.get("made_at").and_then(Value::as_u64)?;
    Some(OpenOrder {
        url: text_of(value, "url")?,
        directory: text_of(value, "directory")?,
        key: text_of(value, "key")?,
        made_at,
    })
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_went() {
        let order = OpenOrder {
            url: "u".into(),
            directory: "d".into(),
            key: "-----\n".into(),
            made_at: 7,
        };
        let names = vec!["*.a.example".to_owned(), "a.example".to_owned()];
        let record = Record {
            names: names.clone(),
            on_demand: true,
            directory: Some("d".into()),
            issued_at: 5,
            failures: 3,
            attempt_at: 9,
            reason: Some("\"why\"".into()),
            order: Some(order),
            renew_at: Some(11),
            check_at: 12,
        };
        assert_eq!(Record::from_json(&record.to_json()), Some(record));
        assert_eq!(
            Record::from_json(&Record::new(&names, false).to_json()),
            Some(Record::new(&names, false))
        );
    }

    #[test]
    fn what_is_missing_or_broken_is_as_new() {
        assert_eq!(
            Record::from_json("{\"names\": [\"a\"]}"),
            Some(Record::new(&["a".into()], false))
        );
        assert_eq!(
            Record::from_json("{\"names\": [\"a\"], \"order\": 7, \"failures\": -1}"),
            Some(Record::new(&["a".into()], false))
        );
        for bad in ["", "[]", "{}", "{\"names\": 7}", "{\"names\": [7]}"] {
            assert_eq!(Record::from_json(bad), None, "{bad}");
        }
    }
}
