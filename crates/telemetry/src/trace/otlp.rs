//! OTLP: spans as protobuf (opentelemetry-proto 1.x, `ExportTraceServiceRequest`).
//!
//! Called by: the exporter, for each batch.
//! Caveat: an encoder for six messages of a stable format instead of prost and its generated code:
//! it is shorter than the bindings to it would be, and adds no build step. A test of the server
//! decodes what is sent with OpenTelemetry's own bindings.
//! Out of scope: responses of collectors, of which only the status counts.

use super::span::{AttributeValue, Span};

/// Wire types (protobuf encoding, "Message Structure").
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
/// `Status.code`: error.
const STATUS_ERROR: u64 = 2;

/// Encodes a batch of spans of one service.
pub fn encode(service: &str, spans: &[Span]) -> Vec<u8> {
    let mut resource = Vec::new();
    message(
        1,
        &attribute("service.name", &AttributeValue::Text(service.into())),
        &mut resource,
    );
    let version = AttributeValue::Text(env!("CARGO_PKG_VERSION").into());
    message(
        1,
        &attribute("telemetry.sdk.name", &AttributeValue::Text("saker".into())),
        &mut resource,
    );
    message(
        1,
        &attribute("telemetry.sdk.version", &version),
        &mut resource,
    );
    let mut scope = Vec::new();
    message(1, b"saker", &mut scope);
    let mut scope_spans = Vec::new();
    message(1, &scope, &mut scope_spans);
    for one in spans {
        message(2, &span(one), &mut scope_spans);
    }
    let mut resource_spans = Vec::new();
    message(1, &resource, &mut resource_spans);
    message(2, &scope_spans, &mut resource_spans);
    let mut request = Vec::new();
    message(1, &resource_spans, &mut request);
    request
}

fn span(span: &Span) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    message(1, &span.trace_id, &mut out);
    message(2, &span.span_id, &mut out);
    if !span.state.is_empty() {
        message(3, &span.state, &mut out);
    }
    if let Some(parent) = &span.parent_id {
        message(4, parent, &mut out);
    }
    message(5, span.name.as_bytes(), &mut out);
    number(6, span.kind as u64, &mut out);
    fixed(7, span.start_ns, &mut out);
    fixed(8, span.end_ns, &mut out);
    for (name, value) in &span.attributes {
        message(9, &attribute(name, value), &mut out);
    }
    if span.is_error {
        let mut status = Vec::new();
        number(3, STATUS_ERROR, &mut status);
        message(15, &status, &mut out);
    }
    out
}

/// A `KeyValue`.
fn attribute(name: &str, value: &AttributeValue) -> Vec<u8> {
    let mut any = Vec::new();
    match value {
        AttributeValue::Text(text) => message(1, text.as_bytes(), &mut any),
        AttributeValue::Number(value) => number(3, *value as u64, &mut any),
    }
    let mut out = Vec::new();
    message(1, name.as_bytes(), &mut out);
    message(2, &any, &mut out);
    out
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn message(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | LENGTH, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | VARINT, out);
    varint(value, out);
}

fn fixed(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_format() {
        let mut out = Vec::new();
        varint(300, &mut out);
        number(1, 150, &mut out);
        message(2, b"testing", &mut out);
        fixed(3, 1, &mut out);
        assert_eq!(
            out,
            [
                &[0xac, 0x02, 0x08, 0x96, 0x01, 0x12, 0x07][..],
                b"testing",
                &[0x19, 1, 0, 0, 0, 0, 0, 0, 0]
            ]
            .concat()
        );
    }
}
