//! `BUFFER` (mod_buffer): gathers small pieces of content into larger ones.
//!
//! Called by: the front ends, through [`filter_response`] and [`filter_request`].
//! Caveat: content in memory or in files already comes in large pieces and is left alone.

use crate::transform::{Transform, TransformedBody, transform_response};
use saker_pipeline::{Body, BodyError, RequestBody, Response};

/// Gathers a streamed response into pieces of `size_bytes`. Its Content-Length stays.
pub fn filter_response(response: &mut Response, size_bytes: usize) {
    if !matches!(response.body, Body::Stream(_)) {
        return;
    }
    let length = response
        .fields()
        .first("Content-Length")
        .map(<[u8]>::to_vec);
    transform_response(response, Gather::new(size_bytes));
    if let Some(length) = length {
        response.fields_mut().set("Content-Length", length);
    }
}

/// Returns a request body that comes in pieces of `size_bytes`.
pub fn filter_request(body: Box<dyn RequestBody>, size_bytes: usize) -> Box<dyn RequestBody> {
    let gather = Box::new(Gather::new(size_bytes));
    Box::new(TransformedBody::same_length(body, gather))
}

struct Gather {
    size_bytes: usize,
    gathered: Vec<u8>,
}

impl Gather {
    fn new(size_bytes: usize) -> Gather {
        Gather {
            size_bytes,
            gathered: Vec::new(),
        }
    }
}

impl Transform for Gather {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.gathered.extend_from_slice(input);
        if self.gathered.len() >= self.size_bytes {
            output.append(&mut self.gathered);
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        output.append(&mut self.gathered);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_gathered_up_to_the_size() {
        let (mut gather, mut output) = (Gather::new(4), Vec::new());
        for (piece, expected) in [
            ("a", ""),
            ("bc", ""),
            ("d", "abcd"),
            ("efghij", "abcdefghij"),
            ("k", "abcdefghij"),
        ] {
            gather.push(piece.as_bytes(), &mut output).unwrap();
            assert_eq!(output, expected.as_bytes());
        }
        gather.finish(&mut output).unwrap();
        assert_eq!(output, b"abcdefghijk");
    }
}
