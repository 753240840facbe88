//! The peer's unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2): which is which,
//! and what comes on QPACK's.
//!
//! Each begins with its type, which may come in parts. Of control, encoder and decoder streams
//! there is one each, and none may end.

use super::state::Use;
use super::{Connection, Event};
use crate::error::{ErrorCode, Reason};
use crate::frame::stream_type;
use crate::settings::Role;

impl Connection {
    pub(super) fn receive_unidirectional<'a>(
        &mut self,
        id: u64,
        bytes: &'a [u8],
        fin: bool,
        now_ms: u64,
    ) -> Result<(usize, Option<Event<'a>>), Reason> {
        let mut rest = bytes;
        if self.peer_streams.is_untyped(id) {
            match self.peer_streams.take_type(id, &mut rest) {
                Some(kind) => {
                    if let Some(event) = self.begin_unidirectional(id, kind, now_ms)? {
                        return Ok((bytes.len(), Some(event)));
                    }
                }
                // RFC 9114 section 6.2: a stream that ends before its type is none.
                None if fin => self.peer_streams.forget(id),
                None => {}
            }
        }
        let which = self.peer_streams.use_of(id);
        let event = match which {
            Use::Control => self.receive_control(&mut rest, now_ms)?,
            Use::Encoder => self.receive_encoder_stream(&mut rest, now_ms)?,
            Use::Decoder => {
                self.encoder
                    .receive(rest)
                    .map_err(|_| Reason::BadDecoderStream)?;
                rest = &[];
                None
            }
            Use::None => {
                rest = &[];
                None
            }
        };
        // RFC 9114 section 6.2.1, RFC 9204 section 4.2.
        if fin && rest.is_empty() && which != Use::None && event.is_none() {
            return Err(Reason::CriticalStreamClosed);
        }
        Ok((bytes.len() - rest.len(), event))
    }

    /// RFC 9114 section 6.2.
    fn begin_unidirectional<'a>(
        &mut self,
        id: u64,
        kind: u64,
        now_ms: u64,
    ) -> Result<Option<Event<'a>>, Reason> {
        let place = match kind {
            stream_type::CONTROL => &mut self.peer_streams.control,
            stream_type::ENCODER => &mut self.peer_streams.encoder,
            stream_type::DECODER => &mut self.peer_streams.decoder,
            // RFC 9114 sections 4.6 and 6.2.2: as a client we have allowed no push at all.
            stream_type::PUSH if self.role == Role::Server => return Err(Reason::ClientPushStream),
            stream_type::PUSH => return Err(Reason::PushRefused),
            _ => {
                self.count_empty_frame(now_ms)?;
                return Ok(Some(Event::Stop {
                    stream: id,
                    code: ErrorCode::StreamCreationError,
                }));
            }
        };
        if place.replace(id).is_some() {
            Err(Reason::SecondStreamOfType)
        } else {
            Ok(None)
        }
    }

    fn receive_encoder_stream<'a>(
        &mut self,
        input: &mut &[u8],
        now_ms: u64,
    ) -> Result<Option<Event<'a>>, Reason> {
        if !input.is_empty() {
            let (limits, bucket) = (&self.limits, &mut self.floods.table_updates);
            let mut is_flood = false;
            let outcome = self.decoder.receive(input, || {
                is_flood = !bucket.take(
                    limits.table_updates_max,
                    limits.table_updates_per_second,
                    now_ms,
                );
                !is_flood
            });
            *input = &[];
            outcome.map_err(|_| {
                if is_flood {
                    Reason::TooManyTableUpdates
                } else {
                    Reason::BadEncoderStream
                }
            })?;
            self.unblock();
        }
        Ok(self
            .unblocked
            .pop_front()
            .map(|stream| Event::Unblocked { stream }))
    }

    /// The peer gave up one of its unidirectional streams.
    pub(super) fn unidirectional_reset(&mut self, id: u64) -> Result<(), Reason> {
        self.peer_streams.forget(id);
        if self.peer_streams.use_of(id) == Use::None {
            Ok(())
        } else {
            Err(Reason::CriticalStreamClosed)
        }
    }
}
