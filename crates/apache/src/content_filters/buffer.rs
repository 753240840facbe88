//! mod_buffer (`BUFFER`): gathers small pieces to larger ones, so that what comes behind is not
//! called for each.

use super::{ContentFilter, Passage, Stage, Transform, TransformedBody};
use crate::{host::Host, local::Local};
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{Body, BodyError, Exchange, LocalFuture, RequestBody};

pub struct Buffer;

impl ContentFilter for Buffer {
    fn name(&self) -> &str {
        "BUFFER"
    }

    fn stage(&self) -> Stage {
        Stage::ContentSet
    }

    /// They come in the largest pieces anyway.
    fn changes_files(&self) -> bool {
        false
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        if matches!(passage.response.body, Body::Stream(_)) {
            let length = passage
                .response
                .fields()
                .first("Content-Length")
                .map(<[u8]>::to_vec);
            passage.transform(Gather::new(passage.local.buffer.size_bytes()));
            length
                .into_iter()
                .for_each(|length| passage.response.fields_mut().set("Content-Length", length));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn input(
        &self,
        _: &mut Exchange,
        _: &Host,
        _: &Watcher,
        local: &Local,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        Box::new(TransformedBody::same_length(
            body,
            Box::new(Gather::new(local.buffer.size_bytes())),
        ))
    }
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
