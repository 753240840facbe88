//! A log format is refused at a place in its text, or writes exactly one line without control
//! characters, whatever the client sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::Input;
use saker_http::{Fields, HeadIndex, HeadView};
use saker_http1::{Parsed, RequestLimits, parse_request};
use saker_telemetry::access_log::{Format, LogClock, Lookup, Record};

/// A source of variables in which every name has the same value.
struct Same<'v>(&'v [u8]);

impl Lookup for Same<'_> {
    fn value(&self, _: &str) -> Option<&[u8]> {
        Some(self.0)
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(sent_bytes), Some(start_s), Some(status)) = (input.byte(), input.u64(), input.u16())
    else {
        return;
    };
    let rest = input.rest();
    let (sent, text) = rest.split_at(usize::from(sent_bytes).min(rest.len()));
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match Format::parse(text) {
        Ok(format) => one_line(&format, sent, start_s as i64, status),
        Err(error) => assert!(text.is_char_boundary(error.offset) && !error.message.is_empty()),
    }
});

fn one_line(format: &Format, sent: &[u8], start_s: i64, status: u16) {
    let bytes = [
        b"GET /x HTTP/1.1\r\nHost: a\r\nReferer: ",
        sent,
        b"\r\nCookie: a=",
        sent,
        b"\r\n\r\n",
    ]
    .concat();
    let mut index = HeadIndex::default();
    let complete = matches!(
        parse_request(&bytes, &RequestLimits::default(), &mut index),
        Ok(Parsed::Complete { .. })
    );
    let mut fields = Fields::new();
    fields.append("x-a", sent.to_vec());
    let lookup = Same(sent);
    let record = Record {
        head: complete.then(|| HeadView::new(&bytes, &index)),
        request_line: sent,
        client_text: b"192.0.2.1",
        host: sent,
        path: sent,
        query: Some(sent),
        status,
        start_s,
        duration_us: Some(start_s as u64),
        first_byte_us: Some(u64::MAX),
        bytes_in: u64::MAX,
        bytes_out: u64::MAX,
        user: std::str::from_utf8(sent).ok(),
        file: Some(sent),
        response_fields: Some(&fields),
        notes: Some(&lookup),
        environment: Some(&lookup),
        request_trailers: Some(&lookup),
        response_trailers: Some(&lookup),
        ..Record::default()
    };
    let mut out = Vec::new();
    format.write(&record, &mut LogClock::new(), &mut out);
    let line = out.strip_suffix(b"\n").expect("a line end");
    assert!(
        line.iter()
            .all(|byte| !byte.is_ascii_control() || *byte == b'\t'),
        "{:?}",
        String::from_utf8_lossy(line)
    );
}
