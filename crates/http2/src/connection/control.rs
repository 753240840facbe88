//! Frames in that are neither fields nor content: SETTINGS, PING, WINDOW_UPDATE, RST_STREAM,
//! PRIORITY, PRIORITY_UPDATE.

use saker_http_mux::Priority;

use super::state::Turn;
use super::{Connection, Event};
use crate::error::{ErrorCode, Reason};
use crate::frame::{self, FrameHeader, STREAM_ID_MAX, flag};
use crate::settings::{self, Role};
use crate::stream::StreamId;

impl Connection {
    /// RFC 9113 section 6.5.
    pub(super) fn receive_settings<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        on_connection(header)?;
        if header.has(flag::ACK) {
            return self
                .receive_settings_ack(payload, turn.now_ms)
                .map(|()| None);
        }
        self.count_settings(turn)?;
        let before = self.peer;
        if !std::mem::replace(&mut self.is_peer_known, true) && self.role == Role::Client {
            // RFC 9113 section 6.5.2: no limit unless the peer sets one.
            self.peer.concurrent_streams_max = u32::MAX;
        }
        self.peer.apply(payload, self.role)?;
        if self.peer.header_table_bytes != before.header_table_bytes {
            self.encoder
                .set_table_bytes_max(self.peer.header_table_bytes as usize);
        }
        let difference =
            i64::from(self.peer.initial_window_bytes) - i64::from(before.initial_window_bytes);
        let opened = self
            .streams
            .adjust_send_windows(difference)
            .map_err(|_| Reason::WindowOverflow)?;
        settings::write_ack(turn.out);
        Ok((opened && self.send_window.is_open()).then_some(Event::WindowOpened))
    }

    /// We send SETTINGS once; more acknowledgements than that mean nothing.
    fn receive_settings_ack(&mut self, payload: &[u8], now_ms: u64) -> Result<(), Reason> {
        if !payload.is_empty() {
            return Err(Reason::SettingsAckWithPayload);
        }
        if std::mem::replace(&mut self.is_settings_acked, true) {
            return self.count_empty_frame(now_ms);
        }
        self.decoder.settings_acknowledged();
        Ok(())
    }

    fn count_settings(&mut self, turn: &Turn<'_>) -> Result<(), Reason> {
        let fits = self.floods.settings.take(
            self.limits.settings_max,
            self.limits.settings_per_second,
            turn.now_ms,
        );
        if fits {
            Ok(())
        } else {
            Err(Reason::TooManySettings)
        }
    }

    /// RFC 9113 section 6.7.
    pub(super) fn receive_ping<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        on_connection(header)?;
        let payload: [u8; 8] = payload.try_into().map_err(|_| Reason::BadFrameSize)?;
        if !self.floods.pings.take(
            self.limits.pings_max,
            self.limits.pings_per_second,
            turn.now_ms,
        ) {
            return Err(Reason::TooManyPings);
        }
        if header.has(flag::ACK) {
            self.receive_ping_ack(payload, turn.out);
        } else {
            frame::write_ping(true, payload, turn.out);
        }
        Ok(None)
    }

    /// RFC 9113 section 6.9.
    pub(super) fn receive_window_update<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        let increment = u32::from_be_bytes(payload.try_into().map_err(|_| Reason::BadFrameSize)?)
            & STREAM_ID_MAX;
        let limits = &self.limits;
        if !self.floods.window_updates.take(
            limits.window_updates_max,
            limits.window_updates_per_second,
            turn.now_ms,
        ) {
            return Err(Reason::TooManyWindowUpdates);
        }
        if header.stream == StreamId::CONNECTION {
            return self.open_connection_window(increment);
        }
        if self.is_idle(header.stream) {
            return Err(Reason::FrameOnIdleStream);
        }
        self.open_stream_window(header.stream, increment, turn)
    }

    fn open_connection_window<'a>(&mut self, increment: u32) -> Result<Option<Event<'a>>, Reason> {
        if increment == 0 {
            return Err(Reason::ZeroIncrement);
        }
        let was_open = self.send_window.is_open();
        self.send_window
            .adjust(i64::from(increment))
            .map_err(|_| Reason::WindowOverflow)?;
        Ok((!was_open && self.send_window.is_open()).then_some(Event::WindowOpened))
    }

    /// On closed streams the frame is ignored (RFC 9113 section 5.1), unless it could never be
    /// right.
    fn open_stream_window<'a>(
        &mut self,
        id: StreamId,
        increment: u32,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        if increment == 0 {
            return self.reset_for(id, Reason::ZeroIncrement, turn);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let was_open = stream.send_window.is_open();
        if stream.send_window.adjust(i64::from(increment)).is_err() {
            return self.reset_for(id, Reason::WindowOverflow, turn);
        }
        let opened = !was_open && stream.send_window.is_open() && !stream.local_ended;
        self.streams.requeue(id);
        Ok((opened && self.send_window.is_open()).then_some(Event::WindowOpened))
    }

    /// RFC 9113 section 6.4.
    pub(super) fn receive_reset<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        on_stream(header)?;
        let code = ErrorCode::from(u32::from_be_bytes(
            payload.try_into().map_err(|_| Reason::BadFrameSize)?,
        ));
        let id = header.stream;
        if self.is_idle(id) {
            return Err(Reason::FrameOnIdleStream);
        }
        let Some(stream) = self.streams.get(id) else {
            return self.count_empty_frame(turn.now_ms).map(|()| None);
        };
        let (is_of_interest, is_unanswered) = (self.is_of_interest(stream), !stream.local_ended);
        self.streams.remove(id);
        if self.is_server() && is_unanswered {
            self.count_reset(turn.now_ms)?;
        }
        Ok(is_of_interest.then_some(Event::Reset { stream: id, code }))
    }

    /// RFC 9113 section 6.3. Deprecated: checked and ignored. Of a stream that is idle there is
    /// nothing to reset.
    pub(super) fn receive_priority<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        on_stream(header)?;
        self.count_priority(turn.now_ms)?;
        let reason = match payload.try_into().map(super::headers::depends_on) {
            Err(_) => Reason::BadFrameSize,
            Ok(other) if other == header.stream => Reason::SelfDependency,
            Ok(_) => return Ok(None),
        };
        if self.is_idle(header.stream) {
            Err(reason)
        } else {
            self.reset_for(header.stream, reason, turn)
        }
    }

    /// RFC 9218 section 7.1. For streams that are closed it means nothing; values that can't be
    /// read neither.
    pub(super) fn receive_priority_update<'a>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event<'a>>, Reason> {
        on_connection(header)?;
        self.count_priority(turn.now_ms)?;
        let (id, value) = payload
            .split_first_chunk::<4>()
            .ok_or(Reason::BadFrameSize)?;
        let id = StreamId(u32::from_be_bytes(*id) & STREAM_ID_MAX);
        if !self.is_server() || !id.is_of_client() {
            return Err(Reason::BadStreamId);
        }
        let priority = Priority::parse(value);
        if self.is_idle(id) {
            self.idle_priorities.keep(id.0.into(), priority);
        } else {
            self.streams.set_priority(id, priority);
        }
        Ok(None)
    }

    fn count_priority(&mut self, now_ms: u64) -> Result<(), Reason> {
        let limits = &self.limits;
        let fits = self.floods.priority_updates.take(
            limits.priority_updates_max,
            limits.priority_updates_per_second,
            now_ms,
        );
        if fits {
            Ok(())
        } else {
            Err(Reason::TooManyPriorityUpdates)
        }
    }
}

pub(super) fn on_connection(header: FrameHeader) -> Result<(), Reason> {
    if header.stream == StreamId::CONNECTION {
        Ok(())
    } else {
        Err(Reason::FrameOnStream)
    }
}

fn on_stream(header: FrameHeader) -> Result<(), Reason> {
    if header.stream == StreamId::CONNECTION {
        Err(Reason::FrameOnConnection)
    } else {
        Ok(())
    }
}
