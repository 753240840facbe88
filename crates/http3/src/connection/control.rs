//! Frames on the peer's control stream: SETTINGS, GOAWAY, MAX_PUSH_ID, CANCEL_PUSH, PRIORITY_UPDATE
//! (RFC 9114 sections 6.2.1 and 7.2, RFC 9218 section 7.2).

use super::{Connection, Event};
use crate::error::Reason;
use crate::frame::{FrameHeader, kind};
use crate::settings::{PeerSettings, Role};
use crate::varint;
use saker_http_mux::Priority;

impl Connection {
    /// Frames up to the next event, or as far as the input goes.
    pub(super) fn receive_control<'a>(
        &mut self,
        input: &mut &[u8],
        now_ms: u64,
    ) -> Result<Option<Event<'a>>, Reason> {
        loop {
            let skipped = (input.len() as u64).min(self.control.skipped);
            self.control.skipped -= skipped;
            *input = input.get(skipped as usize..).unwrap_or_default();
            if let Some(frame) = self.control.frame {
                let event = self.control_payload(frame, input, now_ms)?;
                if event.is_some() || self.control.frame.is_some() {
                    return Ok(event);
                }
            } else {
                let (header, used) = self.control.header.take(input);
                *input = input.get(used..).unwrap_or_default();
                let Some(header) = header else {
                    return Ok(None);
                };
                self.begin_control_frame(header, now_ms)?;
            }
        }
    }

    /// Which frame may come when, and whether it is looked at.
    fn begin_control_frame(&mut self, header: FrameHeader, now_ms: u64) -> Result<(), Reason> {
        // RFC 9114 section 6.2.1.
        if self.peer.is_none() && header.kind != kind::SETTINGS {
            return Err(Reason::NoSettings);
        }
        let too_large = match header.kind {
            kind::SETTINGS if self.peer.is_some() => return Err(Reason::SecondSettings),
            kind::SETTINGS => Reason::SettingsTooLarge,
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                return Err(Reason::FrameOnControlStream);
            }
            kind::MAX_PUSH_ID if self.role == Role::Client => {
                return Err(Reason::MaxPushIdFromServer);
            }
            // RFC 9218 section 7.2.
            kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_OF_PUSH if self.role == Role::Client => {
                return Err(Reason::PriorityUpdateFromServer);
            }
            kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH => Reason::BadFrameSize,
            kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_OF_PUSH => Reason::ControlFrameTooLarge,
            other if kind::is_of_http2(other) => return Err(Reason::FrameOfHttp2),
            _ => {
                self.count_skipped(header.length, now_ms)?;
                self.control.skipped = header.length;
                return Ok(());
            }
        };
        if header.length > u64::from(self.limits.control_frame_bytes_max) {
            return Err(too_large);
        }
        self.control.frame = Some(header);
        Ok(())
    }

    /// Gathers the payload; a whole one is acted upon.
    fn control_payload<'a>(
        &mut self,
        frame: FrameHeader,
        input: &mut &[u8],
        now_ms: u64,
    ) -> Result<Option<Event<'a>>, Reason> {
        let missing = (frame.length as usize).saturating_sub(self.control.payload.len());
        let (part, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        if part.len() < missing {
            self.control.payload.extend_from_slice(part);
            return Ok(None);
        }
        self.control.frame = None;
        if self.control.payload.is_empty() {
            return self.control_frame(frame.kind, part, now_ms);
        }
        let mut payload = std::mem::take(&mut self.control.payload);
        payload.extend_from_slice(part);
        self.control_frame(frame.kind, &payload, now_ms)
    }

    fn control_frame<'a>(
        &mut self,
        kind: u64,
        payload: &[u8],
        now_ms: u64,
    ) -> Result<Option<Event<'a>>, Reason> {
        match kind {
            kind::SETTINGS => self.receive_settings(payload)?,
            kind::GOAWAY => return self.receive_goaway(number(payload)?, now_ms).map(Some),
            kind::MAX_PUSH_ID => self.receive_max_push_id(number(payload)?, now_ms)?,
            // RFC 9114 section 7.2.3: nothing was promised, and nothing may be.
            kind::CANCEL_PUSH => return number(payload).and(Err(Reason::NoSuchPush)),
            kind::PRIORITY_UPDATE => self.receive_priority_update(payload, now_ms)?,
            _ => return Err(Reason::NoSuchPush),
        }
        Ok(None)
    }

    fn receive_settings(&mut self, payload: &[u8]) -> Result<(), Reason> {
        let settings = PeerSettings::parse(payload)?;
        self.encoder.allow_table(settings.table_bytes_max);
        self.peer = Some(settings);
        Ok(())
    }

    /// RFC 9114 section 7.2.7. Nothing is pushed; the rule for the client is kept all the same.
    fn receive_max_push_id(&mut self, id: u64, now_ms: u64) -> Result<(), Reason> {
        self.count_empty_frame(now_ms)?;
        match self.max_push_id.replace(id) {
            Some(before) if before > id => Err(Reason::MaxPushIdReduced),
            _ => Ok(()),
        }
    }

    /// RFC 9218 section 7.2. For streams that are closed it means nothing; values that can't be
    /// read neither.
    fn receive_priority_update(&mut self, payload: &[u8], now_ms: u64) -> Result<(), Reason> {
        let limits = &self.limits;
        if !self.floods.priority_updates.take(
            limits.priority_updates_max,
            limits.priority_updates_per_second,
            now_ms,
        ) {
            return Err(Reason::TooManyPriorityUpdates);
        }
        let (id, used) = varint::parse(payload).ok_or(Reason::BadFrameSize)?;
        // Streams that QUIC has heard of and we have not count like those that may still be opened.
        let first_impossible =
            self.next_request + 4 * 2 * u64::from(self.limits.concurrent_streams_max);
        if id & 3 != 0 || id >= first_impossible {
            return Err(Reason::BadPriorityStream);
        }
        let priority = Priority::parse(payload.get(used..).unwrap_or_default());
        if id >= self.next_request {
            self.idle_priorities.keep(id, priority);
        } else if let Some(stream) = self.streams.get_mut(id) {
            stream.is_priority_told = true;
            self.streams.set_priority(id, priority);
        }
        Ok(())
    }
}

/// A payload that is one integer (RFC 9114 section 7.1).
fn number(payload: &[u8]) -> Result<u64, Reason> {
    match varint::parse(payload) {
        Some((value, len)) if len == payload.len() => Ok(value),
        _ => Err(Reason::BadFrameSize),
    }
}
