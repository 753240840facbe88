//! A connection's bytes are the same requests however they arrive, the next request begins where
//! the last one ended, and requests sent on by the client role are the same again: nothing can be
//! smuggled past the upstream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut};
use saker_http1::BodyFraming;
use saker_http1::client::{ClientConnection, RequestLine, encode_request_head};

#[path = "../../crates/http1/src/tests/machine/mod.rs"]
mod machine;
use machine::{Outcome, run, run_pieces};

const SENTINEL: &[u8] = b"GET /sentinel HTTP/1.1\r\nHost: s\r\n\r\n";

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Some(knob) = input.u16() else { return };
    let bytes = input.rest();
    let whole = run(bytes, bytes.len());
    assert_eq!(run_pieces(cut(bytes, knob)), whole, "cut by {knob}");
    let (last, before) = match whole.split_last() {
        Some((last, before)) => (Some(last), before),
        None => (None, &[][..]),
    };
    assert!(
        before
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Accept { close: false, .. })),
        "nothing after the end: {whole:?}"
    );
    match last {
        None | Some(Outcome::Accept { close: false, .. }) => next_is_seen(bytes, &whole),
        Some(Outcome::Accept { close: true, .. } | Outcome::Reject(_) | Outcome::RejectBody(_)) => {
            nothing_more_is_seen(bytes, &whole)
        }
        Some(Outcome::Wait) => {}
    }
    sent_on(&whole);
});

/// The connection is between two requests.
fn next_is_seen(bytes: &[u8], whole: &[Outcome]) {
    let outcomes = run(&[bytes, SENTINEL].concat(), usize::MAX);
    let (last, before) = outcomes.split_last().expect("the sentinel");
    assert_eq!(before, whole);
    assert!(
        matches!(last, Outcome::Accept { target, body, close: false, .. } if target == b"/sentinel" && body.is_empty())
    );
}

fn nothing_more_is_seen(bytes: &[u8], whole: &[Outcome]) {
    assert_eq!(run(&[bytes, SENTINEL].concat(), usize::MAX), whole);
}

fn sent_on(outcomes: &[Outcome]) {
    let (mut wire, mut expected) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let Outcome::Accept {
            method,
            target,
            body,
            ..
        } = outcome
        else {
            continue;
        };
        let line = RequestLine {
            method,
            target,
            host: b"a.example",
        };
        let framing = if body.is_empty() {
            BodyFraming::None
        } else {
            BodyFraming::Length(body.len() as u64)
        };
        encode_request_head(line, [], framing, ClientConnection::KeepAlive, &mut wire)
            .expect("an accepted request can be sent");
        wire.extend_from_slice(body);
        expected.push(Outcome::Accept {
            method: method.clone(),
            target: target.clone(),
            body: body.clone(),
            trailers: 0,
            close: false,
        });
    }
    assert_eq!(run(&wire, usize::MAX), expected);
}
