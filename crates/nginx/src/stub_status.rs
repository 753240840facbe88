//! `stub_status`: the numbers of connections and requests, in the words that collectors parse.
//!
//! Called by: `content`.
//! Out of scope: counting, which the server does.

use saker_http::Status;
use saker_pipeline::{Body, Chunk, Response};
use std::rc::Rc;

/// The numbers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    pub accepted: u64,
    pub open: u64,
    pub requests: u64,
    /// Requests that are being answered.
    pub busy: u64,
}

/// Returns the numbers of all workers.
pub type Count = Rc<dyn Fn() -> ServerCounts>;

/// Returns the page.
pub fn respond(counts: ServerCounts) -> Response {
    let ServerCounts {
        accepted,
        open,
        requests,
        busy,
    } = counts;
    // The request for this page is being answered, on a connection that is open.
    let (open, busy) = (open.max(1), busy.max(1));
    let waiting = open.saturating_sub(busy);
    let text = format!(
        "Active connections: {open} \nserver accepts handled requests\n {accepted} {accepted} \
         {requests} \nReading: 0 Writing: {busy} Waiting: {waiting} \n"
    );
    let mut response = Response::new(Status::OK);
    response
        .fields_mut()
        .set("Content-Type", &b"text/plain"[..]);
    response.body = Body::Memory(Chunk::from(text.into_bytes()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_find_their_words() {
        let response = respond(ServerCounts {
            accepted: 7,
            open: 3,
            requests: 9,
            busy: 1,
        });
        let Body::Memory(chunk) = &response.body else {
            panic!("the page is in memory")
        };
        let text = String::from_utf8_lossy(chunk.bytes()).into_owned();
        let expected = "Active connections: 3 \nserver accepts handled requests\n 7 7 9 \n\
                        Reading: 0 Writing: 1 Waiting: 2 \n";
        assert_eq!(text, expected);
    }
}
