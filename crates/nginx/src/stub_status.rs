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
    /// Connections whose request has begun to come.
    pub reading: u64,
}

impl ServerCounts {
    /// The request that asks is being answered, on a connection that is open.
    pub fn with_this_request(self) -> ServerCounts {
        ServerCounts {
            open: self.open.max(1),
            busy: self.busy.max(1),
            ..self
        }
    }

    /// Connections on which nothing happens.
    pub fn waiting(self) -> u64 {
        self.open.saturating_sub(self.busy + self.reading)
    }
}

/// Returns the numbers of all workers.
pub type Count = Rc<dyn Fn() -> ServerCounts>;

/// Returns the page.
pub fn respond(counts: ServerCounts) -> Response {
    let counts = counts.with_this_request();
    let waiting = counts.waiting();
    let ServerCounts {
        accepted,
        open,
        requests,
        busy,
        reading,
    } = counts;
    let text = format!(
        "Active connections: {open} \nserver accepts handled requests\n {accepted} {accepted} \
         {requests} \nReading: {reading} Writing: {busy} Waiting: {waiting} \n"
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
            reading: 1,
        });
        let Body::Memory(chunk) = &response.body else {
            panic!("the page is in memory")
        };
        let text = String::from_utf8_lossy(chunk.bytes()).into_owned();
        let expected = "Active connections: 3 \nserver accepts handled requests\n 7 7 9 \n\
                        Reading: 1 Writing: 1 Waiting: 1 \n";
        assert_eq!(text, expected);
    }
}
