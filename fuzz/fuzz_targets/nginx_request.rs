//! Whatever the locations, scripts, tables, and texts of an nginx configuration say, and whatever is
//! asked for: the rules come to an end after a bounded number of changes, an answer has a bounded head,
//! and a session of a stream has a decision and lines of its own in the log.
//!
//! An input is a line for the request (a byte that chooses the path, then a field) and the inside of a
//! server; behind a byte 0xff, that of a stream server. Configurations that are refused are not asked.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../bodies/nginx_request.rs"]
mod body;

fuzz_target!(|data: &[u8]| {
    body::run(data);
});
