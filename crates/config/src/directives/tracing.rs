//! `[tracing]`: OpenTelemetry traces.
//!
//! Called by: `file`; `resolve/upstreams` makes an upstream of the endpoint.
//! Out of scope: the collector's protocol (`saker-telemetry`), and sending (`saker-gateway`).

use super::fields::FIELD_NAME;
use crate::{
    context::{FILE, TRACING},
    kind::{Kind, Word},
    model::{TraceTrust, Tracing},
    row::{Draft, Row, Rows},
    value::{Value, ValueError},
};

static ENDPOINT: Word = Word {
    expects: "the URL of a collector, such as \"http://127.0.0.1:4318\"",
    pattern: "^https?://",
    read: read_endpoint,
};

static HEADER_VALUE: Word = Word {
    expects: "the value of a header field",
    pattern: "^[!-~ \\t]+$",
    read: |text| {
        let is_value = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match is_value {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

impl Draft for Tracing {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<Tracing>] = &[
    Row {
        name: "tracing",
        contexts: FILE,
        kind: Kind::Section(TRACING),
        summary: "OpenTelemetry traces of requests.",
        since: "0.2",
        aliases: &["otel", "opentelemetry", "opentracing"],
        ..Row::BASE
    },
    Row {
        name: "endpoint",
        contexts: TRACING,
        kind: Kind::Word(&ENDPOINT),
        required: true,
        example: Some("\"http://127.0.0.1:4318\""),
        summary: "Collector that takes OTLP over HTTP (protobuf). Without a path: /v1/traces.",
        since: "0.2",
        aliases: &["otel_exporter", "url", "collector"],
        set: |tracing, given| {
            tracing.origin = given.origin();
            let (server, target) = split(&given.text());
            tracing.endpoint = Some(server.into());
            tracing.target = target.into();
        },
        ..Row::BASE
    },
    Row {
        name: "sample",
        contexts: TRACING,
        kind: Kind::Fraction,
        default: Some("1.0"),
        example: Some("0.01"),
        summary: "Part of the traces that begin here and are recorded. A trace that a trusted \
                  client has begun is recorded if that client records it.",
        since: "0.2",
        aliases: &["sample_ratio", "otel_trace", "sampler"],
        set: |tracing, given| tracing.sample_ppm = given.number(),
        ..Row::BASE
    },
    Row {
        name: "service",
        contexts: TRACING,
        kind: Kind::Text,
        default: Some("\"saker\""),
        summary: "Name of the service (`service.name`).",
        since: "0.2",
        aliases: &["otel_service_name", "service_name"],
        set: |tracing, given| tracing.service = given.text().into(),
        ..Row::BASE
    },
    Row {
        name: "headers",
        contexts: TRACING,
        kind: Kind::MapOf(&FIELD_NAME, &Kind::Word(&HEADER_VALUE)),
        default: Some("{}"),
        example: Some("{ Authorization = \"Bearer secret\" }"),
        summary: "Request fields for the collector, such as credentials.",
        since: "0.2",
        set: |tracing, given| {
            tracing.headers = given
                .map()
                .into_iter()
                .map(|(name, value)| (name.into(), value.text().into()))
                .collect();
        },
        ..Row::BASE
    },
    Row {
        name: "trust",
        contexts: TRACING,
        kind: Kind::Choice(&["proxies", "all", "none"]),
        default: Some("\"proxies\""),
        summary: "Requests whose `traceparent` and `tracestate` are continued: those of \
                  `trusted_proxies`, all, or none. Other requests begin a trace, and upstreams get \
                  the fields of that.",
        since: "0.2",
        aliases: &["otel_trace_context", "propagate"],
        set: |tracing, given| {
            tracing.trust = match given.text().as_str() {
                "all" => TraceTrust::All,
                "none" => TraceTrust::None,
                _ => TraceTrust::Proxies,
            };
        },
        ..Row::BASE
    },
    Row {
        name: "timeout",
        contexts: TRACING,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: 600_000,
        },
        default: Some("\"10s\""),
        unit: Some("milliseconds"),
        summary: "Maximum time for sending a batch. Batches that the collector does not take are \
                  dropped.",
        since: "0.2",
        set: |tracing, given| tracing.timeout_ms = given.number(),
        ..Row::BASE
    },
];

/// The server of a URL, and the path on it.
fn split(url: &str) -> (String, String) {
    let start = url.find("://").map_or(0, |at| at + 3);
    match url[start..].find('/') {
        Some(at) if url.len() > start + at + 1 => {
            (url[..start + at].to_owned(), url[start + at..].to_owned())
        }
        Some(at) => (url[..start + at].to_owned(), "/v1/traces".to_owned()),
        None => (url.to_owned(), "/v1/traces".to_owned()),
    }
}

fn read_endpoint(text: &str) -> Result<Value, ValueError> {
    if !(text.starts_with("http://") || text.starts_with("https://")) {
        let help = match text.split_once("://") {
            Some(("grpc", rest)) => Some(format!(
                "OTLP over gRPC is not supported: write \"http://{rest}\" and the collector's HTTP port (4318)"
            )),
            _ => Some(format!("write \"http://{text}\"")),
        };
        return Err(ValueError::plain(help));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['?', '#', '@']) {
        return Err(ValueError::with_help(
            "spaces, \"?\", \"#\", and credentials are not allowed",
            "write credentials into `headers`",
        ));
    }
    let (server, _) = split(text);
    match super::upstream_server::read_server(&server) {
        Ok(_) => Ok(Value::Text(text.to_owned())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (text, server, target) in [
            ("http://a:4318", "http://a:4318", "/v1/traces"),
            ("http://a:4318/", "http://a:4318", "/v1/traces"),
            ("https://a/otlp/v1/traces", "https://a", "/otlp/v1/traces"),
        ] {
            assert!(read_endpoint(text).is_ok(), "{text}");
            assert_eq!(split(text), (server.to_owned(), target.to_owned()));
        }
        for bad in [
            "",
            "a:4318",
            "grpc://a:4317",
            "http://u:p@a",
            "http://a/?x",
            "http://",
        ] {
            assert!(read_endpoint(bad).is_err(), "{bad}");
        }
    }
}
