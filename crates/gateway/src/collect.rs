//! A request's content that is read ahead: because its length was not told, or so that a slow client holds nobody.
//!
//! Programs are told CONTENT_LENGTH and read no further (RFC 3875 section 4.1.2), so for them all of it is here before they are asked: in memory,
//! then in a file without a name. Servers understand chunks; for them it is tried with a little only, since many of them are happier with a
//! length (mod_proxy_http does the same). Difficulty: what was read must still be given, whoever is asked in the end.

use saker_files::unnamed;
use saker_http::Fields;
use saker_pipeline::{BodyError, Chunk, RequestBody};
use std::{
    collections::VecDeque,
    fs::File,
    future::poll_fn,
    io,
    os::unix::fs::FileExt,
    path::Path,
    task::{Context, Poll},
};

/// Kept in memory; the rest goes to the file.
const MEMORY_BYTES_MAX: u64 = 256 << 10;
/// What is read ahead for servers (Apache's MAX_MEM_SPOOL).
const AHEAD_BYTES_MAX: u64 = 16 << 10;
const PIECE_BYTES: usize = 64 << 10;

pub struct Collected {
    chunks: VecDeque<Chunk>,
    disk: Option<Disk>,
    /// `None`: all of it is here.
    rest: Option<Box<dyn RequestBody>>,
    bytes: u64,
    trailers: Option<Fields>,
}

struct Disk {
    file: File,
    written: u64,
    read: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    Whole,
    /// As much as may turn out to be all.
    Little,
}

/// Reads content ahead.
pub async fn collect(content: Box<dyn RequestBody>, ahead: Ahead, folder: &Path) -> Result<Box<dyn RequestBody>, BodyError> {
    let mut collected = Collected { chunks: VecDeque::new(), disk: None, rest: None, bytes: 0, trailers: None };
    let mut content = content;
    while ahead == Ahead::Whole || collected.bytes < AHEAD_BYTES_MAX {
        match poll_fn(|cx| content.poll_chunk(cx)).await {
            None => {
                collected.trailers = content.trailers();
                return Ok(Box::new(collected));
            }
            Some(chunk) => collected.push(chunk?, folder).map_err(|_| BodyError::Source)?,
        }
    }
    collected.rest = Some(content);
    Ok(Box::new(collected))
}

impl Collected {
    fn push(&mut self, chunk: Chunk, folder: &Path) -> io::Result<()> {
        self.bytes += chunk.len() as u64;
        if self.bytes <= MEMORY_BYTES_MAX && self.disk.is_none() {
            self.chunks.push_back(chunk);
            return Ok(());
        }
        let disk = match &mut self.disk {
            Some(disk) => disk,
            none => none.insert(Disk { file: unnamed(folder)?, written: 0, read: 0 }),
        };
        disk.file.write_all_at(chunk.bytes(), disk.written)?;
        disk.written += chunk.len() as u64;
        Ok(())
    }

    fn next_of_disk(&mut self) -> Option<Result<Chunk, BodyError>> {
        let disk = self.disk.as_mut().filter(|disk| disk.read < disk.written)?;
        let bytes = usize::try_from(disk.written - disk.read).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = vec![0; bytes];
        if disk.file.read_exact_at(&mut piece, disk.read).is_err() {
            return Some(Err(BodyError::Source));
        }
        disk.read += bytes as u64;
        Some(Ok(Chunk::from(piece)))
    }
}

impl RequestBody for Collected {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(piece) = self.next_of_disk() {
            return Poll::Ready(Some(piece));
        }
        self.rest.as_mut().map_or(Poll::Ready(None), |rest| rest.poll_chunk(cx))
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.rest.as_mut().and_then(|rest| rest.trailers()).or_else(|| self.trailers.take())
    }

    fn take_time(&mut self) {
        self.rest.iter_mut().for_each(|rest| rest.take_time());
    }

    fn length(&self) -> Option<u64> {
        self.rest.is_none().then_some(self.bytes)
    }

    fn is_end(&self) -> bool {
        let is_read = self.disk.as_ref().is_none_or(|disk| disk.read == disk.written);
        self.chunks.is_empty() && is_read && self.rest.as_ref().is_none_or(|rest| rest.is_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, task::Waker};

    struct Pieces(usize, usize);

    impl RequestBody for Pieces {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
            self.0 = match self.0.checked_sub(1) {
                None => return Poll::Ready(None),
                Some(left) => left,
            };
            Poll::Ready(Some(Ok(Chunk::from(vec![self.0 as u8; self.1]))))
        }

        fn length(&self) -> Option<u64> {
            None
        }

        fn is_end(&self) -> bool {
            self.0 == 0
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("waits"),
        }
    }

    fn read(mut body: Box<dyn RequestBody>) -> Vec<u8> {
        let mut all = Vec::new();
        while let Poll::Ready(Some(Ok(chunk))) = body.poll_chunk(&mut Context::from_waker(Waker::noop())) {
            all.extend_from_slice(chunk.bytes());
        }
        assert!(body.is_end());
        all
    }

    #[test]
    fn programs_get_a_length_whatever_it_is() {
        for (count, bytes) in [(0, 1), (3, 5), (9, 100_000)] {
            let body = now(collect(Box::new(Pieces(count, bytes)), Ahead::Whole, &std::env::temp_dir())).unwrap();
            assert_eq!(body.length(), Some((count * bytes) as u64));
            let all = read(body);
            let expected: Vec<u8> = (0..count).rev().flat_map(|piece| vec![piece as u8; bytes]).collect();
            assert!(all == expected, "{count} pieces of {bytes}");
        }
    }

    #[test]
    fn servers_get_one_if_it_is_short() {
        let short = now(collect(Box::new(Pieces(2, 100)), Ahead::Little, Path::new("/nowhere"))).unwrap();
        assert_eq!((short.length(), read(short).len()), (Some(200), 200));
        let long = now(collect(Box::new(Pieces(9, 10_000)), Ahead::Little, Path::new("/nowhere"))).unwrap();
        assert_eq!((long.length(), read(long).len()), (None, 90_000));
    }
}
