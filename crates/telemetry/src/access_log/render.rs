//! Renders one item of a log line.
//!
//! Called by: `pipeline/log.rs`, once per item and request.
//! Caveat: cost; the items of `combined` are a few appends each.

use super::item::{Item, Kind, TimeForm, Unit};
use super::record::Variables;
use super::{ConnectionStatus, LogClock, Record};
use crate::escape::{append_decimal, append_escaped};
use crate::local_time::{Civil, append_padded, append_strftime};
use saker_http::{Fields, HeadView, KnownField, basic_credentials};
use std::io::Write as _;
use std::net::SocketAddr;

pub(super) fn item(item: &Item, record: &Record<'_>, clock: &mut LogClock, out: &mut Vec<u8>) {
    match &item.condition {
        Some(condition) if !condition.holds(record.status) => out.push(b'-'),
        _ => kind(&item.kind, record, clock, out),
    }
}

fn kind(kind: &Kind, record: &Record<'_>, clock: &mut LogClock, out: &mut Vec<u8>) {
    match kind {
        Kind::Literal(text) => out.extend_from_slice(text),
        Kind::ClientAddress => text_or_dash(record.client_text, out),
        Kind::ClientName => either(record.client_name, record.client_text, out),
        Kind::PeerAddress => either(record.peer_text, record.client_text, out),
        Kind::LocalAddress => local_address(record.local, out),
        Kind::BodyBytes {
            dash_for_none: true,
        } if record.body_bytes == 0 => out.push(b'-'),
        Kind::BodyBytes { .. } => append_decimal(record.body_bytes, out),
        Kind::Cookie(name) => value(record.head.and_then(|head| cookie(head, name)), out),
        Kind::Duration(unit) => duration(record.duration_us, *unit, out),
        Kind::FirstByte => number_or_dash(record.first_byte_us, out),
        Kind::Environment(name) => looked_up(record.environment, name, out),
        Kind::File => value(record.file, out),
        Kind::Protocol => text_or_dash(protocol(record).as_bytes(), out),
        Kind::KnownField(field) => known_field(record.head, *field, out),
        Kind::RequestField(name) => joined(record.head.iter().flat_map(|head| head.all(name)), out),
        Kind::KeepaliveCount => append_decimal(record.keepalive_count.into(), out),
        Kind::LogId => text_or_dash(record.log_id.as_bytes(), out),
        Kind::ConnectionLogId => text_or_dash(record.connection_log_id.as_bytes(), out),
        Kind::Method { last: true } if record.final_method.is_some() => {
            value(record.final_method, out)
        }
        Kind::Method { .. } => value(record.head.map(HeadView::method_token), out),
        Kind::Note(name) => looked_up(record.notes, name, out),
        Kind::ResponseField(name) => response_field(record.response_fields, name, out),
        Kind::CanonicalPort => port(record.canonical_port.or(local_port(record)), out),
        Kind::LocalPort => port(local_port(record), out),
        Kind::RemotePort => append_decimal(record.client_port.into(), out),
        Kind::ProcessId => append_decimal(clock.process_id().into(), out),
        Kind::ThreadId { hexadecimal: false } => append_decimal(clock.thread_id(), out),
        Kind::ThreadId { hexadecimal: true } => hexadecimal(clock.thread_id(), out),
        Kind::Query { last: true } => query(record.final_query.unwrap_or(record.query), out),
        Kind::Query { last: false } => query(record.query, out),
        Kind::TlsVariable(name) => tls_variable(record, name, out),
        Kind::RequestLine => text_or_dash(record.request_line, out),
        Kind::Handler => text_or_dash(record.handler.as_bytes(), out),
        Kind::Status { last } => status(record, *last, out),
        Kind::Path { last: true } => text_or_dash(record.final_path.unwrap_or(record.path), out),
        Kind::Path { last: false } => text_or_dash(record.path, out),
        Kind::Time { end, form } => time(record, *end, form, clock, out),
        Kind::User => user(record.user, out),
        Kind::BasicUser => basic_user(record, out),
        Kind::SiteName => text_or_dash(record.site_name.as_bytes(), out),
        Kind::HostAsked => either(record.host, record.site_name.as_bytes(), out),
        Kind::ConnectionStatus => out.push(connection_status(record.connection_status)),
        Kind::ConnectionField => out.extend_from_slice(connection_field(record.connection_status)),
        Kind::Completion if record.connection_status == ConnectionStatus::Aborted => {}
        Kind::Completion => out.extend_from_slice(b"OK"),
        Kind::BareLength => {
            let fields = record.response_fields;
            let length = fields.and_then(|fields| fields.first("content-length"));
            append_escaped(length.unwrap_or_default(), out);
        }
        Kind::BytesIn => append_decimal(record.bytes_in, out),
        Kind::BytesOut => append_decimal(record.bytes_out, out),
        Kind::BytesInAndOut => {
            append_decimal(record.bytes_in.saturating_add(record.bytes_out), out)
        }
        Kind::RequestTrailer(name) => looked_up(record.request_trailers, name, out),
        Kind::ResponseTrailer(name) => looked_up(record.response_trailers, name, out),
    }
}

/// The first text, or the second where the first is empty.
fn either(text: &[u8], otherwise: &[u8], out: &mut Vec<u8>) {
    text_or_dash(if text.is_empty() { otherwise } else { text }, out);
}

fn looked_up(lookup: Option<Variables<'_>>, name: &str, out: &mut Vec<u8>) {
    value(lookup.and_then(|lookup| lookup.value(name)), out);
}

fn tls_variable(record: &Record<'_>, name: &str, out: &mut Vec<u8>) {
    let text = record.tls.and_then(|session| session.value(name));
    value(text.as_deref().map(str::as_bytes), out);
}

fn port(port: Option<u16>, out: &mut Vec<u8>) {
    number_or_dash(port.map(u64::from), out);
}

/// `HTTP/1.1`; empty if no request could be parsed.
pub(super) fn protocol<'a>(record: &Record<'a>) -> &'a str {
    match record.head {
        Some(head) if record.protocol.is_empty() => head.version().as_str(),
        _ => record.protocol,
    }
}

/// Absent is `-`; empty is empty.
fn value(text: Option<&[u8]>, out: &mut Vec<u8>) {
    match text {
        Some(text) => append_escaped(text, out),
        None => out.push(b'-'),
    }
}

fn text_or_dash(text: &[u8], out: &mut Vec<u8>) {
    value((!text.is_empty()).then_some(text), out);
}

fn number_or_dash(number: Option<u64>, out: &mut Vec<u8>) {
    match number {
        Some(number) => append_decimal(number, out),
        None => out.push(b'-'),
    }
}

fn local_port(record: &Record<'_>) -> Option<u16> {
    record.local.map(|address| address.port())
}

fn local_address(local: Option<SocketAddr>, out: &mut Vec<u8>) {
    match local {
        // Writing to memory cannot fail.
        Some(address) => drop(write!(out, "{}", address.ip())),
        None => out.push(b'-'),
    }
}

fn hexadecimal(number: u64, out: &mut Vec<u8>) {
    let _ = write!(out, "{number:x}");
}

fn known_field(head: Option<HeadView<'_>>, field: KnownField, out: &mut Vec<u8>) {
    match head {
        // Several lines are one list (RFC 9110 section 5.2).
        Some(head) if head.known_count(field) > 1 => joined(head.all(field.name()), out),
        Some(head) => value(head.known(field), out),
        None => out.push(b'-'),
    }
}

fn joined<'a>(mut lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    value(lines.next(), out);
    for line in lines {
        out.extend_from_slice(b", ");
        append_escaped(line, out);
    }
}

/// Like Apache: the media type is logged without its parameters, and of other fields only
/// Set-Cookie as a list.
fn response_field(fields: Option<&Fields>, name: &str, out: &mut Vec<u8>) {
    let Some(fields) = fields else {
        return out.push(b'-');
    };
    if name.eq_ignore_ascii_case("set-cookie") {
        joined(
            fields
                .iter()
                .filter(|line| line.0.eq_ignore_ascii_case(name))
                .map(|line| line.1),
            out,
        );
    } else if name.eq_ignore_ascii_case("content-type") {
        value(
            fields
                .first(name)
                .and_then(|text| text.split(|byte| *byte == b';').next())
                .map(<[u8]>::trim_ascii),
            out,
        );
    } else {
        value(fields.first(name), out);
    }
}

fn cookie<'a>(head: HeadView<'a>, name: &str) -> Option<&'a [u8]> {
    head.cookies()
        .filter(|cookie| cookie.name.eq_ignore_ascii_case(name.as_bytes()))
        .find_map(|cookie| cookie.value)
}

fn duration(duration_us: Option<u64>, unit: Unit, out: &mut Vec<u8>) {
    let divisor = match unit {
        Unit::SecondsAndMilliseconds => {
            match duration_us {
                Some(duration) => {
                    let ms = duration / 1000;
                    out.extend(format!("{}.{:03}", ms / 1000, ms % 1000).bytes());
                }
                None => out.push(b'-'),
            }
            return;
        }
        Unit::Seconds => 1_000_000,
        Unit::Milliseconds => 1000,
        Unit::Microseconds => 1,
    };
    number_or_dash(duration_us.map(|duration| duration / divisor), out);
}

fn query(query: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(query) = query {
        out.push(b'?');
        append_escaped(query, out);
    }
}

fn status(record: &Record<'_>, last: bool, out: &mut Vec<u8>) {
    let status = if last || record.original_status == 0 {
        record.status
    } else {
        record.original_status
    };
    number_or_dash((status != 0).then_some(status.into()), out);
}

/// Like Apache: an empty name shows as two quotes, unlike a missing one.
fn user(user: Option<&str>, out: &mut Vec<u8>) {
    match user {
        Some("") => out.extend_from_slice(b"\"\""),
        other => value(other.map(str::as_bytes), out),
    }
}

/// The verified user, or the one that the client claims to be, as in nginx's `$remote_user`.
fn basic_user(record: &Record<'_>, out: &mut Vec<u8>) {
    let claimed = || {
        let value = record.head?.known(KnownField::Authorization)?;
        basic_credentials::parse(value).map(|(user, _)| user)
    };
    match record.user {
        Some(user) => text_or_dash(user.as_bytes(), out),
        None => value(claimed().as_deref(), out),
    }
}

fn connection_status(status: ConnectionStatus) -> u8 {
    match status {
        ConnectionStatus::Aborted => b'X',
        ConnectionStatus::KeepAlive => b'+',
        ConnectionStatus::Close => b'-',
    }
}

fn connection_field(status: ConnectionStatus) -> &'static [u8] {
    match status {
        ConnectionStatus::KeepAlive => b"keep-alive",
        ConnectionStatus::Aborted | ConnectionStatus::Close => b"close",
    }
}

fn time(record: &Record<'_>, end: bool, form: &TimeForm, clock: &mut LogClock, out: &mut Vec<u8>) {
    let time_us = if end {
        record.end_us()
    } else {
        record.begin_us()
    };
    let (unix_s, fraction_us) = (
        time_us.div_euclid(1_000_000),
        time_us.rem_euclid(1_000_000) as u32,
    );
    match form {
        TimeForm::Clf => clock.append_clf(unix_s, out),
        TimeForm::Strftime(format) => {
            let local = clock.zone().at(unix_s);
            append_strftime(
                format,
                unix_s,
                &Civil::at(unix_s, local.offset_s),
                &local.abbreviation,
                out,
            );
        }
        TimeForm::Seconds => append_decimal(unix_s.max(0).unsigned_abs(), out),
        TimeForm::Milliseconds => append_decimal((time_us / 1000).max(0).unsigned_abs(), out),
        TimeForm::Microseconds => append_decimal(time_us.max(0).unsigned_abs(), out),
        TimeForm::MillisecondFraction => append_padded(fraction_us / 1000, 3, out),
        TimeForm::MicrosecondFraction => append_padded(fraction_us, 6, out),
    }
}
