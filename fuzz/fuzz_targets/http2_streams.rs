//! Whatever our client and our server do with their streams, and however late it arrives, neither
//! finds fault with the other, no content is lost or sent beyond a window, and in the end nothing
//! is left over.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::Input;
use saker_http2::{Connection, ErrorCode, Event, HeadStore, Indexing, Limits, StreamId};

#[path = "../../crates/http2/src/connection/tests/pair.rs"]
mod pair;

fuzz_target!(|data: &[u8]| {
    let mut pair = pair::Pair::new();
    let mut input = Input::new(data);
    // So that no input is slow for its size alone.
    for _ in 0..2_000 {
        let (Some(operation), Some(which), Some(amount)) =
            (input.byte(), input.byte(), input.u16())
        else {
            break;
        };
        pair.step(operation % 14, which, usize::from(amount));
    }
    pair.finish();
});
