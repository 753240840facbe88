//! Request buffering: content is read ahead because its length is unknown, or so that a slow client
//! doesn't occupy an upstream.
//!
//! Programs are given CONTENT_LENGTH and read no further (RFC 3875 section 4.1.2), so all content
//! is buffered before they are contacted: in memory, then in an unnamed file. Servers understand
//! chunks; for them only a little is buffered, since many of them work better with a length
//! (mod_proxy_http does the same).
//! Caveat: buffered content must still be sent, whichever upstream is chosen; and when there is no
//! more room for files, content of known length is streamed, while other content fails.

use crate::{failure::Failure, spool::Room};
use saker_files::{BufferFile, buffer_files::Share};
use saker_http::Fields;
use saker_pipeline::{BodyError, Chunk, ChunkQueue, RequestBody};
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

/// Kept in memory; the rest goes to the file.
const MEMORY_BYTES_MAX: u64 = 256 << 10;
/// Maximum content buffered for servers (Apache's MAX_MEM_SPOOL).
const AHEAD_BYTES_MAX: u64 = 16 << 10;

pub struct Collected {
    chunks: ChunkQueue,
    file: Option<BufferFile>,
    /// `None`: all of it is here.
    rest: Option<Box<dyn RequestBody>>,
    bytes: u64,
    declared: Option<u64>,
    trailers: Option<Fields>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBuffering {
    Whole,
    /// As much as may turn out to be all.
    Little,
}

/// Reads content ahead.
pub async fn buffer_request(
    content: Box<dyn RequestBody>,
    buffering: RequestBuffering,
    room: Room,
) -> Result<Box<dyn RequestBody>, Failure> {
    let declared = content
        .length()
        .filter(|_| buffering == RequestBuffering::Whole);
    let mut collected = Collected {
        chunks: ChunkQueue::default(),
        file: None,
        rest: None,
        bytes: 0,
        declared,
        trailers: None,
    };
    let mut content = content;
    while buffering == RequestBuffering::Whole || collected.bytes < AHEAD_BYTES_MAX {
        match poll_fn(|cx| content.poll_chunk(cx)).await {
            None => {
                collected.trailers = content.trailers();
                return Ok(Box::new(collected));
            }
            Some(chunk) => {
                let chunk = chunk.map_err(Failure::Client)?;
                if !collected.push(chunk, &room).await {
                    break;
                }
            }
        }
    }
    if buffering == RequestBuffering::Whole && declared.is_none() {
        let is_alone = collected.bytes > room.files.share(Share::Request);
        return Err(if is_alone {
            Failure::LengthRequired
        } else {
            Failure::NoRoom
        });
    }
    collected.rest = Some(content);
    Ok(Box::new(collected))
}

impl Collected {
    /// Keeps it, and says whether there is room for more.
    async fn push(&mut self, chunk: Chunk, room: &Room) -> bool {
        self.bytes += chunk.len() as u64;
        if self.bytes <= MEMORY_BYTES_MAX && self.file.is_none() {
            self.chunks.push(chunk);
            return true;
        }
        let make = || {
            BufferFile::new(
                Arc::clone(&room.files),
                room.client,
                Share::Request,
                u64::MAX,
            )
        };
        let file = self.file.get_or_insert_with(make);
        let has_room = file.has_room(chunk.len());
        file.push(chunk.bytes());
        if has_room {
            poll_fn(|cx| file.poll_settled(cx)).await;
        }
        has_room
    }
}

impl RequestBody for Collected {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.chunks.pop() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(file) = &mut self.file {
            match file.poll_pop(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(bytes))) => return Poll::Ready(Some(Ok(Chunk::from(bytes)))),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(BodyError::Source))),
            }
        }
        self.rest
            .as_mut()
            .map_or(Poll::Ready(None), |rest| rest.poll_chunk(cx))
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.rest
            .as_mut()
            .and_then(|rest| rest.trailers())
            .or_else(|| self.trailers.take())
    }

    fn take_time(&mut self) {
        self.rest.iter_mut().for_each(|rest| rest.take_time());
    }

    fn length(&self) -> Option<u64> {
        if self.rest.is_none() {
            Some(self.bytes)
        } else {
            self.declared
        }
    }

    fn is_end(&self) -> bool {
        let is_read = self.file.as_ref().is_none_or(BufferFile::is_empty);
        self.chunks.is_empty() && is_read && self.rest.as_ref().is_none_or(|rest| rest.is_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_files::BufferFiles;

    struct Pieces(usize, usize, Option<u64>);

    impl RequestBody for Pieces {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
            self.0 = match self.0.checked_sub(1) {
                None => return Poll::Ready(None),
                Some(left) => left,
            };
            Poll::Ready(Some(Ok(Chunk::from(vec![self.0 as u8; self.1]))))
        }

        fn length(&self) -> Option<u64> {
            self.2
        }

        fn is_end(&self) -> bool {
            self.0 == 0
        }
    }

    fn room() -> Room {
        Room {
            files: BufferFiles::new(std::env::temp_dir().into()),
            client: [7; 9],
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    async fn read(mut body: Box<dyn RequestBody>) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(chunk) = poll_fn(|cx| body.poll_chunk(cx)).await {
            all.extend_from_slice(chunk.unwrap().bytes());
        }
        assert!(body.is_end());
        all
    }

    /// Files are closed on a thread of their own, and give their room back there.
    fn all_released(room: &Room) {
        while room.files.bytes() > 0 {
            std::thread::yield_now();
        }
    }

    fn expected(count: usize, bytes: usize) -> Vec<u8> {
        (0..count)
            .rev()
            .flat_map(|piece| vec![piece as u8; bytes])
            .collect()
    }

    #[test]
    fn programs_get_a_length_whatever_it_is() {
        for (count, bytes) in [(0, 1), (3, 5), (9, 100_000), (50, 100_000)] {
            run(async {
                let body = buffer_request(
                    Box::new(Pieces(count, bytes, None)),
                    RequestBuffering::Whole,
                    room(),
                )
                .await
                .unwrap();
                assert_eq!(body.length(), Some((count * bytes) as u64));
                assert!(
                    read(body).await == expected(count, bytes),
                    "{count} pieces of {bytes}"
                );
            });
        }
    }

    #[test]
    fn servers_get_one_if_it_is_short() {
        run(async {
            let short = buffer_request(
                Box::new(Pieces(2, 100, None)),
                RequestBuffering::Little,
                room(),
            )
            .await
            .unwrap();
            assert_eq!((short.length(), read(short).await.len()), (Some(200), 200));
            let long = buffer_request(
                Box::new(Pieces(9, 10_000, None)),
                RequestBuffering::Little,
                room(),
            )
            .await
            .unwrap();
            assert_eq!((long.length(), read(long).await.len()), (None, 90_000));
        });
    }

    #[test]
    fn where_files_have_no_room_what_has_a_length_goes_on_as_it_comes() {
        let (count, bytes) = (100, 100_000);
        run(async {
            let room = room();
            room.files.set_bounds(2 << 20, 2 << 20);
            let body = buffer_request(
                Box::new(Pieces(count, bytes, Some(10_000_000))),
                RequestBuffering::Whole,
                room.clone(),
            )
            .await
            .unwrap();
            assert!(room.files.bytes() <= 1 << 20 && room.files.waits() == 1);
            assert_eq!(body.length(), Some(10_000_000));
            assert!(read(body).await == expected(count, bytes));
            all_released(&room);
            let alone = buffer_request(
                Box::new(Pieces(count, bytes, None)),
                RequestBuffering::Whole,
                room.clone(),
            )
            .await;
            assert!(matches!(alone, Err(Failure::LengthRequired)));
            drop(alone);
            all_released(&room);
            let other = buffer_request(
                Box::new(Pieces(12, bytes, Some(1_200_000))),
                RequestBuffering::Whole,
                room.clone(),
            )
            .await
            .unwrap();
            let late = buffer_request(
                Box::new(Pieces(9, bytes, None)),
                RequestBuffering::Whole,
                room.clone(),
            )
            .await;
            assert!(matches!(late, Err(Failure::NoRoom)));
            assert!(read(other).await == expected(12, bytes));
        });
    }

    #[test]
    fn a_disk_that_takes_nothing_stops_no_upload_with_a_length() {
        run(async {
            let room = Room {
                files: BufferFiles::new(std::path::Path::new("/nowhere").into()),
                client: [7; 9],
            };
            let body = buffer_request(
                Box::new(Pieces(30, 100_000, Some(3_000_000))),
                RequestBuffering::Whole,
                room.clone(),
            )
            .await
            .unwrap();
            assert_eq!(body.length(), Some(3_000_000));
            assert!(read(body).await == expected(30, 100_000));
            let unknown = buffer_request(
                Box::new(Pieces(30, 100_000, None)),
                RequestBuffering::Whole,
                room,
            )
            .await;
            assert!(matches!(unknown, Err(Failure::NoRoom)));
        });
    }
}
