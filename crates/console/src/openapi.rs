//! The OpenAPI document of the API, made from the tables of routes and of their answers.
//!
//! Called by: `api`; tests, which check answers against it.

use crate::{
    answers,
    api_routes::API,
    route_parameters::Parameter,
    routes::{Access, Kind, Route},
};
use serde_json::{Map, Value, json};

pub fn document() -> Value {
    let mut paths = Map::new();
    for route in API {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Saker",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "API of a running server's console.",
        },
        "security": [{ "token": [] }],
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": answers::shapes(),
        },
        "paths": paths,
    })
}

fn operation(route: &Route) -> Value {
    let rights = match route.access {
        Access::Public => "Everybody.".to_owned(),
        Access::Role(role) => format!("Role: {} or higher.", role.name()),
        Access::Site(role) => format!("Role: {} or higher; owner, for the own site.", role.name()),
    };
    let content = match route.kind {
        Kind::Events => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
        _ => json!({ "application/json": { "schema": answers::schema(route.action) } }),
    };
    let error = |text: &str| {
        let content = json!({ "application/json": { "schema": answers::error_schema() } });
        json!({ "description": text, "content": content })
    };
    let id = route.path.trim_start_matches("/api/v1/");
    let id = format!("{}_{id}", route.method.to_ascii_lowercase());
    let mut operation = json!({
        "operationId": id.replace(['/', '-', '.'], "_"),
        "summary": route.summary,
        "description": rights,
        "responses": {
            "200": { "description": "Done.", "content": content },
            "400": error("The request is wrong; `error` says why."),
            "401": error("There are no valid credentials."),
            "403": error("The role does not suffice."),
            "404": error("The parameters name something that is not there."),
            "409": error("The server is in another state than the change needs."),
        },
    });
    match route.method {
        "POST" => {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": body(route.parameters) } },
            });
        }
        _ => operation["parameters"] = route.parameters.iter().map(parameter).collect(),
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.summary,
        "schema": schema(parameter.schema),
    })
}

fn body(parameters: &[Parameter]) -> Value {
    let mut properties = Map::new();
    for parameter in parameters {
        let mut schema = schema(parameter.schema);
        schema["description"] = parameter.summary.into();
        properties.insert(parameter.name.to_owned(), schema);
    }
    let required: Vec<&str> = parameters
        .iter()
        .filter(|parameter| parameter.required)
        .map(|parameter| parameter.name)
        .collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn schema(name: &str) -> Value {
    match name {
        "strings" => json!({ "type": "array", "items": { "type": "string" } }),
        name => json!({ "type": name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_api_is_described() {
        let document = document();
        let mut ids = std::collections::HashSet::new();
        for route in API {
            let own = &document["paths"][route.path][route.method.to_ascii_lowercase()];
            assert_eq!(own["summary"], route.summary, "{}", route.path);
            let id = own["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{id}");
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            assert!(id.bytes().all(is_name), "{id}");
        }
        let purge = &document["paths"]["/api/v1/cache/purge"]["post"]["requestBody"];
        let urls = &purge["content"]["application/json"]["schema"]["properties"]["urls"];
        assert_eq!(urls["type"], "array");
    }
}
