//! The OpenAPI document of the API, made from the table of routes.
//!
//! Called by: `api`.
//! Caveat: answers are described as objects; their fields are those of the command line's JSON.

use crate::{
    route_parameters::Parameter,
    routes::{Access, Kind, ROUTES, Route},
};
use serde_json::{Map, Value, json};

pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES
        .iter()
        .filter(|route| matches!(route.kind, Kind::Api | Kind::Events))
    {
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
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
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
        _ => json!({ "application/json": { "schema": { "type": "object" } } }),
    };
    let mut operation = json!({
        "summary": route.summary,
        "description": rights,
        "responses": {
            "200": { "description": "Done.", "content": content },
            "400": { "description": "The request is wrong; `error` says why." },
            "401": { "description": "There are no valid credentials." },
            "403": { "description": "The role does not suffice." },
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
        for route in ROUTES
            .iter()
            .filter(|route| route.path.starts_with("/api/"))
        {
            let own = &document["paths"][route.path][route.method.to_ascii_lowercase()];
            assert_eq!(own["summary"], route.summary, "{}", route.path);
        }
        let purge = &document["paths"]["/api/v1/cache/purge"]["post"]["requestBody"];
        let urls = &purge["content"]["application/json"]["schema"]["properties"]["urls"];
        assert_eq!(urls["type"], "array");
    }
}
