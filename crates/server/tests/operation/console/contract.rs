//! The API against its own description: every route of the OpenAPI document, with what it takes and
//! with what it does not.

use crate::console::{fixture::Fixture, schemas};
use serde_json::{Map, Value, json};

/// A value of a schema, which no server has heard of.
fn sample(schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "string" => json!("sample"),
        "integer" => json!(7),
        "boolean" => json!(true),
        "array" => json!(["sample"]),
        "object" => json!({}),
        other => panic!("a schema of type {other}"),
    }
}

/// A value that is none of the schema.
fn wrong(schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "object" => json!("x"),
        _ => json!({ "x": 1 }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => text(&list[0]),
        other => other.to_string(),
    }
}

struct Contract {
    fixture: Fixture,
    token: String,
}

impl Contract {
    /// Calls a route; the status is one that the document lists, and the answer is JSON of the API.
    fn call(
        &self,
        (method, path): (&str, &str),
        operation: &Value,
        target: &str,
        body: &Value,
    ) -> u16 {
        let content = match method {
            "POST" => body.to_string(),
            _ => String::new(),
        };
        let fields = [format!("Authorization: Bearer {}", self.token)];
        let response = self.fixture.ask(method, target, &fields, &content);
        let status = response.status;
        assert!(
            operation["responses"][status.to_string()].is_object(),
            "{method} {path}: {status} is not described: {}",
            response.text()
        );
        assert_eq!(
            response.field("content-type"),
            Some("application/json"),
            "{method} {path}"
        );
        let answer: Value = serde_json::from_slice(&response.body).unwrap();
        schemas::check(method, path, status, &answer);
        status
    }

    fn query(&self, (method, path): (&str, &str), operation: &Value) {
        let parameters = operation["parameters"].as_array().unwrap();
        let encoded = |names: &[&Value], value: &dyn Fn(&Value) -> Value| {
            let pairs: Vec<String> = names
                .iter()
                .map(|one| {
                    format!(
                        "{}={}",
                        one["name"].as_str().unwrap(),
                        text(&value(&one["schema"]))
                    )
                })
                .collect();
            format!("{path}?{}", pairs.join("&"))
        };
        let all: Vec<&Value> = parameters.iter().collect();
        let route = (method, path);
        self.call(route, operation, &encoded(&all, &sample), &Value::Null);
        let required = |one: &&Value| one["required"] == true;
        let needed: Vec<&Value> = parameters.iter().filter(required).collect();
        if needed.is_empty() {
            let status = self.call(route, operation, path, &Value::Null);
            assert!(matches!(status, 200 | 404), "{path}: {status}");
        }
        for left_out in &needed {
            let rest: Vec<&Value> = needed
                .iter()
                .filter(|one| *one != left_out)
                .copied()
                .collect();
            let status = self.call(route, operation, &encoded(&rest, &sample), &Value::Null);
            assert_eq!(status, 400, "{path} without {left_out}");
        }
        for number in parameters
            .iter()
            .filter(|one| one["schema"]["type"] == "integer")
        {
            let target = encoded(&[number], &|_| json!("x"));
            assert_eq!(
                self.call(route, operation, &target, &Value::Null),
                400,
                "{target}"
            );
        }
    }

    fn body(&self, (method, path): (&str, &str), operation: &Value) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let properties = schema["properties"].as_object().unwrap();
        let whole: Map<String, Value> = properties
            .iter()
            .map(|(name, schema)| (name.clone(), sample(schema)))
            .collect();
        let route = (method, path);
        self.call(route, operation, path, &Value::Object(whole.clone()));
        for name in schema["required"].as_array().unwrap() {
            let mut part = whole.clone();
            part.remove(name.as_str().unwrap());
            let status = self.call(route, operation, path, &Value::Object(part));
            assert_eq!(status, 400, "{path} without {name}");
        }
        for (name, schema) in properties {
            let mut other = whole.clone();
            other.insert(name.clone(), wrong(schema));
            let status = self.call(route, operation, path, &Value::Object(other));
            assert_eq!(status, 400, "{path} with another {name}");
        }
        for content in [json!([]), json!("x"), json!(1)] {
            assert_eq!(
                self.call(route, operation, path, &content),
                400,
                "{path} {content}"
            );
        }
    }
}

#[test]
fn every_route_keeps_what_its_description_says() {
    let fixture = Fixture::start("console-contract", "cache = true");
    let token = fixture.token("administrator");
    let (_, document) = fixture.api(&token, "GET", "/api/v1/openapi.json", &Value::Null);
    assert_eq!(document["openapi"], "3.1.0");
    let contract = Contract { fixture, token };
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            count += 1;
            let content = &operation["responses"]["200"]["content"];
            if content["text/event-stream"].is_object() {
                continue;
            }
            let method = method.to_ascii_uppercase();
            let route = (method.as_str(), path.as_str());
            match method.as_str() {
                "POST" => contract.body(route, operation),
                _ => contract.query(route, operation),
            }
        }
    }
    assert!(count > 40, "{count}");
}
