//! Schemas of the API's answers: a table of their fields, by route.
//!
//! Called by: `openapi`. The console's tests hold every answer that they get against the schemas,
//! and take a field that is not listed for a fault; clients should not, as later versions have more.
//! Caveat: `T?` is T or null, `[]T` an array of T; a name that begins with a capital is a shape.
//! A field whose own name ends with `?` may be left out.
//! Out of scope: event streams; answers of errors, which have `ok` and `error`.

use crate::routes::Action;
use serde_json::{Map, Value, json};

/// Names and types of the fields of an object.
type Fields = &'static [(&'static str, &'static str)];

const COUNT: Fields = &[("count", "integer")];
const CHANGE: Fields = &[("id", "string"), ("confirm_until", "integer")];
const NOTHING: Fields = &[];

/// Objects within answers.
const SHAPES: &[(&str, Fields)] = &[
    (
        "Step",
        &[("phase", "string"), ("text", "string"), ("place", "string")],
    ),
    (
        "Ban",
        &[
            ("address", "string"),
            ("since", "integer"),
            ("seconds_left", "integer?"),
            ("reason", "string"),
        ],
    ),
    ("HeldBan", &[("address", "string"), ("by", "[]string")]),
    (
        "Upstream",
        &[
            ("name", "string"),
            ("members", "[]Member"),
            ("discovery", "Discovery?"),
        ],
    ),
    (
        "Discovery",
        &[
            ("source", "string"),
            ("servers", "integer"),
            ("age_ms", "integer?"),
            ("error", "string?"),
        ],
    ),
    (
        "Member",
        &[
            ("address", "string"),
            ("state", "string"),
            ("standby", "boolean"),
            ("weight", "number"),
            ("busy", "integer"),
            ("requests", "integer"),
            ("failures", "integer"),
        ],
    ),
    (
        "Node",
        &[
            ("name", "string"),
            ("id", "string"),
            ("version", "string"),
            ("state", "string"),
            ("is_this", "boolean"),
            ("is_in_sync", "boolean"),
            ("position", "string"),
            ("queue_records", "integer"),
            ("pages_from", "string?"),
            ("heard_ms_ago", "integer"),
            ("lag_ms", "integer?"),
        ],
    ),
    (
        "Redirect",
        &[
            ("site", "string"),
            ("from", "string"),
            ("to", "string"),
            ("status", "integer"),
        ],
    ),
    ("Ocsp", &[("state", "string"), ("until_unix_s", "integer?")]),
    (
        "Certificate",
        &[
            ("names", "[]string"),
            ("not_after_unix_s", "integer"),
            ("days_left?", "integer"),
            ("ocsp", "Ocsp"),
        ],
    ),
    ("LogFile", &[("file", "string"), ("summary", "string")]),
    (
        "Top",
        &[
            ("text", "string"),
            ("count", "integer"),
            ("error", "integer"),
        ],
    ),
    (
        "Prefix",
        &[
            ("text", "string"),
            ("count", "integer"),
            ("error", "integer"),
            ("hits", "integer"),
            ("misses", "integer"),
            ("passes", "integer"),
        ],
    ),
    (
        "Pass",
        &[
            ("text", "string"),
            ("count", "integer"),
            ("error", "integer"),
            ("cause", "string"),
            ("fields", "[]string"),
            ("rule", "string"),
            ("help", "string"),
        ],
    ),
    (
        "Diagnostic",
        &[
            ("severity", "string"),
            ("file", "string"),
            ("line", "integer"),
            ("column", "integer"),
            ("length", "integer"),
            ("is_here", "boolean"),
            ("message", "string"),
            ("help", "string"),
        ],
    ),
    ("Candidate", &[("text", "string"), ("detail", "string")]),
    ("Pending", CHANGE),
    (
        "Setting",
        &[
            ("name", "string"),
            ("summary", "string"),
            ("expects", "string"),
            ("unit", "string?"),
            ("default", "string?"),
            ("example", "string?"),
            ("required", "boolean"),
            ("value", "string?"),
            ("origin", "string"),
            ("line", "integer?"),
            ("inherited", "string?"),
        ],
    ),
    (
        "Table",
        &[
            ("path", "string"),
            ("summary", "string"),
            ("label", "string?"),
            ("exists", "boolean"),
        ],
    ),
    (
        "SiteSetting",
        &[
            ("name", "string"),
            ("summary", "string"),
            ("expects", "string"),
            ("value", "string?"),
        ],
    ),
    (
        "AuditEntry",
        &[
            ("at", "integer"),
            ("user", "string"),
            ("role", "string"),
            ("client", "string"),
            ("action", "string"),
            ("detail", "any"),
        ],
    ),
    (
        "Entry",
        &[
            ("entry", "string"),
            ("url", "string"),
            ("site", "string"),
            ("status", "integer"),
            ("bytes", "integer"),
            ("is_private", "boolean"),
            ("age_s", "integer?"),
            ("fresh_for_s", "integer?"),
            ("kept_for_s", "integer"),
            ("tags", "[]string"),
            ("key?", "[]string"),
            ("codings?", "[]string"),
            ("standing?", "string"),
            ("fields?", "[]string"),
        ],
    ),
    (
        "CacheSite",
        &[
            ("site", "string"),
            ("entries", "integer"),
            ("bytes", "integer"),
            ("pass_reasons", "object"),
            ("hits", "integer"),
            ("stale", "integer"),
            ("misses", "integer"),
            ("passes", "integer"),
            ("coalesced", "integer"),
            ("refreshes", "integer"),
            ("bytes_from_memory", "integer"),
            ("bytes_from_files", "integer"),
        ],
    ),
    (
        "WarmLine",
        &[
            ("url", "string"),
            ("variation", "any"),
            ("outcome", "string"),
            ("reason", "string?"),
            ("text", "string?"),
        ],
    ),
];

/// Fields of the answer to an action beside `ok`. `None`: it has no answer in JSON, or another
/// one.
fn fields(action: Action) -> Option<Fields> {
    Some(match action {
        Action::Status => STATUS,
        Action::Live => &[("at", "[]integer"), ("series", "object")],
        Action::Explain => &[("steps", "[]Step")],
        Action::CacheStatistics => STATISTICS,
        Action::CacheEntries => &[("entries", "[]Entry"), ("is_cut?", "boolean")],
        Action::CacheBody => BODY,
        Action::Purge => PURGE,
        Action::Warm => &[("job", "integer")],
        Action::WarmProgress => WARM,
        Action::Bans => &[("bans", "[]Ban"), ("count", "integer")],
        Action::Ban | Action::AddServer | Action::RemoveServer | Action::ChangeMember => COUNT,
        Action::AddRedirect | Action::RemoveRedirect => COUNT,
        Action::Unban => &[("count", "integer"), ("still_held", "[]HeldBan")],
        Action::Cluster => CLUSTER,
        Action::Upstreams => &[
            ("upstreams", "[]Upstream"),
            ("php_pools", "[]string"),
            ("changes", "object"),
        ],
        Action::TestMember => TEST,
        Action::Redirects => &[("redirects", "[]Redirect")],
        Action::Tops => TOPS,
        Action::Logs => &[("files", "[]LogFile")],
        Action::LogText => &[("lines", "[]string")],
        Action::Certificates => &[("certificates", "[]Certificate")],
        Action::Configuration => &[
            ("files", "[]string"),
            ("file?", "string"),
            ("text?", "string"),
            ("digest?", "string"),
            ("pending?", "Pending?"),
        ],
        Action::Check => &[("has_errors", "boolean"), ("diagnostics", "[]Diagnostic")],
        Action::Complete => &[("typed", "integer"), ("candidates", "[]Candidate")],
        Action::Apply | Action::ApplySite => CHANGE,
        Action::Settings => SETTINGS,
        Action::ChangeSettings => &[
            ("has_errors", "boolean"),
            ("diagnostics", "[]Diagnostic"),
            ("file", "string"),
            ("base", "string"),
            ("text", "string"),
        ],
        Action::SiteSettings => &[
            ("site", "string"),
            ("base", "string"),
            ("settings", "[]SiteSetting"),
        ],
        Action::Reload => &[
            ("generation", "integer"),
            ("listeners", "integer"),
            ("sites", "integer"),
            ("warnings", "[]string"),
        ],
        Action::Audit => &[("entries", "[]AuditEntry")],
        Action::StopWarming
        | Action::RestartPhp
        | Action::RenewCertificate
        | Action::Confirm
        | Action::RollBack
        | Action::ConfirmSite
        | Action::RollBackSite => NOTHING,
        _ => return None,
    })
}

const STATUS: Fields = &[
    ("version", "string"),
    ("pid", "integer"),
    ("uptime_s", "integer"),
    ("uptime_ms", "integer"),
    ("is_stopping", "boolean"),
    ("finishing_pid", "integer?"),
    ("generation", "integer"),
    ("configuration", "string"),
    ("workers", "integer"),
    ("listeners", "[]string"),
    ("sites", "integer"),
    ("shutdown_timeout_ms", "integer"),
    ("counters", "object"),
    ("last_reload", "object?"),
    ("sandbox", "object?"),
    ("certificates", "[]Certificate"),
    ("page_cache", "any"),
    ("hosts", "any"),
    ("upstreams", "[]Upstream"),
];

/// Servers that share no purges have the first three, and the clients.
const CLUSTER: Fields = &[
    ("node", "string"),
    ("is_connected", "boolean"),
    ("is_in_sync", "boolean"),
    ("clients?", "object"),
    ("id?", "string"),
    ("engine?", "string"),
    ("error?", "string?"),
    ("reconnects?", "integer"),
    ("staleness_ms?", "integer?"),
    ("position?", "string"),
    ("sent?", "integer"),
    ("received?", "integer"),
    ("queue_records?", "integer"),
    ("queue_bytes?", "integer"),
    ("cache_clears?", "integer"),
    ("last_clear?", "string?"),
    ("nodes?", "[]Node"),
];

/// Owners see their site alone.
const STATISTICS: Fields = &[
    ("entries?", "integer"),
    ("bytes?", "integer"),
    ("entries_max?", "integer"),
    ("bytes_max?", "integer"),
    ("stored?", "integer"),
    ("evicted?", "integer"),
    ("expired?", "integer"),
    ("damaged?", "integer"),
    ("purges?", "integer"),
    ("is_complete?", "boolean"),
    ("sites", "[]CacheSite"),
];

const BODY: Fields = &[
    ("url", "string"),
    ("site", "string"),
    ("status", "integer"),
    ("bytes", "integer"),
    ("is_private", "boolean"),
    ("age_s", "integer?"),
    ("fresh_for_s", "integer?"),
    ("kept_for_s", "integer"),
    ("tags", "[]string"),
    ("content_type", "string"),
    ("content_encoding", "string"),
    ("body", "string"),
    ("is_cut", "boolean"),
];

/// A count has pages, a purge a number.
const PURGE: Fields = &[
    ("pages?", "integer"),
    ("bytes?", "integer"),
    ("is_cut?", "boolean"),
    ("number?", "integer"),
    ("sites?", "[]string"),
    ("acknowledged?", "object"),
];

const WARM: Fields = &[
    ("known", "integer"),
    ("fetched", "integer"),
    ("already_there", "integer"),
    ("not_cacheable", "integer"),
    ("failed", "integer"),
    ("lines", "[]WarmLine"),
    ("next", "integer"),
    ("is_over", "boolean"),
];

const TEST: Fields = &[
    ("upstream", "string"),
    ("member", "string"),
    ("is_tls", "boolean"),
    ("connect_ms", "number?"),
    ("request", "string"),
    ("status", "integer?"),
    ("answer_ms", "number?"),
    ("is_passed", "boolean"),
    ("error_of_member", "string?"),
];

/// Before the first request there are no lists yet.
const TOPS: Fields = &[
    ("requests?", "integer"),
    ("since_s?", "integer"),
    ("is_sampled", "boolean"),
    ("urls?", "[]Top"),
    ("clients?", "[]Top"),
    ("user_agents?", "[]Top"),
    ("errors?", "[]Top"),
    ("prefixes", "[]Prefix"),
    ("passes", "[]Pass"),
];

const SETTINGS: Fields = &[
    ("file", "string"),
    ("digest", "string"),
    ("table", "string"),
    ("header", "string"),
    ("summary", "string"),
    ("line", "integer?"),
    ("settings", "[]Setting"),
    ("tables", "[]Table"),
];

/// The schema of the answer of an action, if all is well.
pub fn schema(action: Action) -> Value {
    match fields(action) {
        Some(fields) => object(&[&[("ok", "true")], fields].concat()),
        None => json!({ "type": "object", "required": ["openapi", "paths"] }),
    }
}

/// The schema of every answer that is an error.
pub fn error_schema() -> Value {
    object(&[("ok", "false"), ("error", "string")])
}

/// The shapes, by name.
pub fn shapes() -> Value {
    let mut shapes = Map::new();
    for (name, fields) in SHAPES {
        shapes.insert((*name).to_owned(), object(fields));
    }
    Value::Object(shapes)
}

fn object(fields: &[(&str, &str)]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, kind) in fields {
        let own = name.trim_end_matches('?');
        properties.insert(own.to_owned(), of_kind(kind));
        if own == *name {
            required.push(own);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn of_kind(kind: &str) -> Value {
    if let Some(element) = kind.strip_prefix("[]") {
        return json!({ "type": "array", "items": of_kind(element) });
    }
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let is_shape = kind.starts_with(|first: char| first.is_ascii_uppercase());
    match (kind.strip_suffix('?'), kind) {
        (_, "any") => json!({}),
        (_, "true") => json!({ "const": true }),
        (_, "false") => json!({ "const": false }),
        (Some(name), _) if is_shape => {
            json!({ "anyOf": [reference(name), { "type": "null" }] })
        }
        (None, name) if is_shape => reference(name),
        (Some(kind), _) => json!({ "type": [kind, "null"] }),
        (None, kind) => json!({ "type": kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api_routes::API, routes::Kind};

    #[test]
    fn every_route_has_an_answer_of_known_types() {
        for route in API {
            let has_other = route.kind == Kind::Events || route.action == Action::OpenApi;
            assert_eq!(fields(route.action).is_none(), has_other, "{}", route.path);
        }
        let all = API.iter().filter_map(|route| fields(route.action));
        let all = all
            .chain(SHAPES.iter().map(|(_, fields)| *fields))
            .flatten();
        for (name, kind) in all {
            let kind = kind.trim_start_matches("[]").trim_end_matches('?');
            let is_plain =
                ["string", "integer", "number", "boolean", "object", "any"].contains(&kind);
            let is_shape = SHAPES.iter().any(|(own, _)| *own == kind);
            assert!(is_plain || is_shape, "{name}: {kind}");
        }
    }
}
