//! Lines about sessions in the access logs of streams.
//!
//! Called by: the rules, when a session has ended.
//! Caveat: what clients choose (names in hellos) cannot begin another line, nor end a value.

use saker_config::model::{
    SessionVariable, Stream, StreamLogFormat, StreamLogPart, StreamLogValue,
};
use saker_net::clock;
use saker_stream_proxy::Session;
use saker_telemetry::local_time::{Civil, TimeZone};

/// Members of JSON that are numbers.
const NUMBERS: &[&str] = &["status", "bytes_sent", "bytes_received", "session_time"];

/// Returns a line with its end.
pub fn line(stream: &Stream, session: &Session, format: &StreamLogFormat) -> Vec<u8> {
    let mut line = Vec::with_capacity(160);
    match format {
        StreamLogFormat::Text(parts) => {
            for part in parts {
                match part {
                    StreamLogPart::Literal(text) => line.extend_from_slice(text.as_bytes()),
                    StreamLogPart::Value(of) => match value(stream, session, *of) {
                        Some(value) => append_text(&value, &mut line),
                        None => line.push(b'-'),
                    },
                }
            }
        }
        StreamLogFormat::Json(members) => {
            for (name, of) in members {
                line.push(if line.is_empty() { b'{' } else { b',' });
                line.extend_from_slice(format!("\"{name}\":").as_bytes());
                match value(stream, session, *of) {
                    None => line.extend_from_slice(b"null"),
                    Some(value) if NUMBERS.contains(name) => line.extend_from_slice(&value),
                    Some(value) => append_json(&value, &mut line),
                }
            }
            line.push(b'}');
        }
    }
    line.push(b'\n');
    line
}

fn value(stream: &Stream, session: &Session, of: StreamLogValue) -> Option<Vec<u8>> {
    match of {
        StreamLogValue::Stream => Some(stream.name.as_bytes().to_vec()),
        StreamLogValue::ServerName => Some(session.server_name()?.as_bytes().to_vec()),
        StreamLogValue::Session(SessionVariable::TimeIso8601) => Some(now()),
        StreamLogValue::Session(SessionVariable::Status) => {
            Some(session.status.to_string().into_bytes())
        }
        StreamLogValue::Session(variable) => session.value(variable),
    }
}

fn now() -> Vec<u8> {
    let unix_s = clock::realtime_s();
    let offset_s = TimeZone::local().offset_s(unix_s);
    let civil = Civil::at(unix_s, offset_s);
    let minutes = offset_s.unsigned_abs() / 60;
    let sign = if offset_s < 0 { '-' } else { '+' };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        civil.year,
        civil.month,
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        minutes / 60,
        minutes % 60
    )
    .into_bytes()
}

fn append_text(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'"' | b'\\' | 0..=31 | 127.. => {
                out.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
            }
            _ => out.push(*byte),
        }
    }
}

fn append_json(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for part in String::from_utf8_lossy(value).chars() {
        match part {
            '"' | '\\' => out.extend_from_slice(&[b'\\', part as u8]),
            '\0'..='\x1f' => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(part)).as_bytes());
            }
            _ => out.extend_from_slice(part.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_line() {
        let mut text = Vec::new();
        append_text(b"a\n\"b\\\x7f\xff", &mut text);
        assert_eq!(text, br"a\x0A\x22b\x5C\x7F\xFF");
        let mut json = Vec::new();
        append_json(b"a\n\"b\\\xff", &mut json);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            "\"a\\u000A\\\"b\\\\\u{fffd}\""
        );
    }

    #[test]
    fn times_have_an_offset() {
        let text = String::from_utf8(now()).unwrap();
        assert_eq!(text.len(), "2026-01-02T03:04:05+00:00".len(), "{text}");
    }
}
