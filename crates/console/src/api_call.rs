//! A call of the API: the parameters that a route takes, checked before its action begins; and a
//! request made from names and values.
//!
//! Called by: `api`, for each request; the command line, for `saker api`.
//! Caveat: the OpenAPI document says the same, because all three are made from the same table.
//! Out of scope: what values mean.

use crate::{
    api_routes::API,
    exchange::Form,
    route_parameters::Parameter,
    routes::{Access, Kind, Route},
};
use serde_json::{Map, Value};

/// The routes of the API, for the command line.
pub fn api_routes() -> impl Iterator<Item = ApiCall> {
    API.iter().map(ApiCall)
}

/// A route that can be called.
#[derive(Clone, Copy, Debug)]
pub struct ApiCall(&'static Route);

impl ApiCall {
    pub fn method(&self) -> &'static str {
        self.0.method
    }

    /// The path below `/api/v1/`.
    pub fn name(&self) -> &'static str {
        self.0.path.trim_start_matches("/api/v1/")
    }

    pub fn summary(&self) -> &'static str {
        self.0.summary
    }

    /// The least role, and whether owners may call it for their site.
    pub fn role(&self) -> (&'static str, bool) {
        match self.0.access {
            Access::Public => ("none", true),
            Access::Role(role) => (role.name(), false),
            Access::Site(role) => (role.name(), true),
        }
    }

    /// The answer has no end.
    pub fn is_stream(&self) -> bool {
        self.0.kind == Kind::Events
    }

    /// Names of the parameters, whether they are needed, and what they are.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, bool, &'static str)> {
        let all = self.0.parameters.iter();
        all.map(|one| (one.name, one.required, one.summary))
    }

    /// Target and content of a request with these values, which are text.
    ///
    /// # Errors
    /// A sentence: a name is unknown or missing, or a value is of another type.
    pub fn request(&self, values: &[(String, String)]) -> Result<(String, String), String> {
        let known = |name: &str| self.0.parameters.iter().find(|one| one.name == name);
        if let Some((name, _)) = values.iter().find(|(name, _)| known(name).is_none()) {
            let names: Vec<&str> = self.0.parameters.iter().map(|one| one.name).collect();
            return Err(match names.is_empty() {
                true => format!("unknown parameter `{name}`; the route takes none"),
                false => format!(
                    "unknown parameter `{name}` (expected: {})",
                    names.join(", ")
                ),
            });
        }
        let mut body = Map::new();
        for parameter in self.0.parameters {
            let own = values.iter().filter(|(name, _)| name == parameter.name);
            let own: Vec<&str> = own.map(|(_, value)| value.as_str()).collect();
            if let Some(value) = typed(parameter, &own)? {
                body.insert(parameter.name.to_owned(), value);
            }
        }
        if self.0.method == "POST" {
            return Ok((self.0.path.to_owned(), Value::Object(body).to_string()));
        }
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(values);
        let query = query.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        Ok((format!("{}{mark}{query}", self.0.path), String::new()))
    }
}

/// The value of a parameter, from texts. `None`: it is left out.
fn typed(parameter: &Parameter, texts: &[&str]) -> Result<Option<Value>, String> {
    let name = parameter.name;
    let wrong = |what: &str| Err(format!("`{name}` must be {what}"));
    match (parameter.schema, texts) {
        (_, []) if parameter.required => Err(format!("`{name}` is missing")),
        (_, []) => Ok(None),
        ("strings", texts) => Ok(Some(texts.iter().copied().collect())),
        (_, [_, _, ..]) => wrong("given once"),
        ("string", [text]) => Ok(Some(Value::from(*text))),
        ("integer", [text]) => match text.parse::<i64>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => wrong("a number"),
        },
        ("boolean", [text]) => match text.parse::<bool>() {
            Ok(value) => Ok(Some(value.into())),
            Err(_) => wrong("true or false"),
        },
        (_, [text]) => match serde_json::from_str::<Value>(text) {
            Ok(value) if value.is_object() => Ok(Some(value)),
            _ => wrong("an object in JSON"),
        },
    }
}

/// Checks the query of a request by the parameters of its route.
pub fn check_query(route: &Route, query: &Form) -> Result<(), String> {
    for parameter in route.parameters {
        let value = query.get(parameter.name);
        if parameter.required && value.is_empty() {
            return Err(format!("`{}` is missing", parameter.name));
        }
        if parameter.schema == "integer" && !value.is_empty() && value.parse::<i64>().is_err() {
            return Err(format!("`{}` must be a number", parameter.name));
        }
    }
    Ok(())
}

/// Checks the content of a request by the parameters of its route.
pub fn check_body(route: &Route, body: &Value) -> Result<(), String> {
    let Some(body) = body.as_object() else {
        return Err("the content must be an object in JSON".to_owned());
    };
    for parameter in route.parameters {
        let name = parameter.name;
        let is_text = |value: &Value| value.is_string();
        let expected = match (parameter.schema, body.get(name)) {
            (_, None | Some(Value::Null)) if parameter.required => {
                return Err(format!("`{name}` is missing"));
            }
            (_, None | Some(Value::Null)) => continue,
            ("string", Some(value)) => (value.is_string(), "a string"),
            ("integer", Some(value)) => (value.is_i64() || value.is_u64(), "a whole number"),
            ("boolean", Some(value)) => (value.is_boolean(), "true or false"),
            ("strings", Some(value)) => (
                value.as_array().is_some_and(|all| all.iter().all(is_text)),
                "an array of strings",
            ),
            (_, Some(value)) => (value.is_object(), "an object"),
        };
        if let (false, expected) = expected {
            return Err(format!("`{name}` must be {expected}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(method: &str, name: &str) -> ApiCall {
        let mut found = api_routes().filter(|one| one.method() == method && one.name() == name);
        found.next().expect("a route")
    }

    fn request(
        method: &str,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<(String, String), String> {
        let values: Vec<(String, String)> = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        call(method, name).request(&values)
    }

    #[test]
    fn requests_are_made_of_names_and_values() {
        let (target, body) = request(
            "POST",
            "cache/purge",
            &[("urls", "/a"), ("urls", "/b"), ("all", "false")],
        )
        .expect("a request");
        assert_eq!(target, "/api/v1/cache/purge");
        assert_eq!(body, r#"{"all":false,"urls":["/a","/b"]}"#);
        let (target, _) =
            request("GET", "explain", &[("url", "/a?b&c"), ("header", "A: b")]).expect("a request");
        assert_eq!(target, "/api/v1/explain?url=%2Fa%3Fb%26c&header=A%3A+b");
        for (method, name, values) in [
            ("POST", "cache/purge", &[("nosuch", "1")][..]),
            ("POST", "cache/purge", &[("all", "yes")]),
            ("POST", "bans/ban", &[]),
            (
                "POST",
                "bans/ban",
                &[("addresses", "192.0.2.1"), ("seconds", "x")],
            ),
            ("POST", "configuration/confirm", &[("id", "a"), ("id", "b")]),
            ("POST", "site/apply", &[("base", "a"), ("values", "[]")]),
            ("GET", "status", &[("a", "b")]),
        ] {
            assert!(request(method, name, values).is_err(), "{name} {values:?}");
        }
    }

    /// A request of the command line passes the check of the server, for each route.
    #[test]
    fn requests_pass_their_own_check() {
        for route in API {
            let values: Vec<(String, String)> = route
                .parameters
                .iter()
                .map(|one| {
                    let value = match one.schema {
                        "integer" => "1",
                        "boolean" => "true",
                        "object" => "{}",
                        _ => "x",
                    };
                    (one.name.to_owned(), value.to_owned())
                })
                .collect();
            let (target, body) = ApiCall(route).request(&values).expect(route.path);
            if route.method == "POST" {
                let body: Value = serde_json::from_str(&body).expect("JSON");
                assert_eq!(check_body(route, &body), Ok(()), "{}", route.path);
            } else {
                let query = target.split_once('?').map_or("", |(_, query)| query);
                let query = Form::parse(query.as_bytes());
                assert_eq!(check_query(route, &query), Ok(()), "{}", route.path);
            }
        }
    }

    #[test]
    fn wrong_content_is_refused() {
        let route = API
            .iter()
            .find(|one| one.path.ends_with("/bans/ban"))
            .expect("a route");
        assert_eq!(
            check_body(route, &json!({ "addresses": ["a"], "reason": null })),
            Ok(())
        );
        for wrong in [
            json!([]),
            json!({}),
            json!({ "addresses": "a" }),
            json!({ "addresses": [1] }),
            json!({ "addresses": ["a"], "seconds": "1" }),
            json!({ "addresses": ["a"], "seconds": 1.5 }),
            json!({ "addresses": ["a"], "reason": {} }),
        ] {
            assert!(check_body(route, &wrong).is_err(), "{wrong}");
        }
        assert!(check_query(route, &Form::parse(b"addresses=")).is_err());
    }
}
