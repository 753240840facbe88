//! SETTINGS (RFC 9113 section 6.5; RFC 8441 section 3; RFC 9218 section 2.1): what the peer told
//! us, and what we tell it.
//!
//! Parameters we do not know are ignored (section 6.5.2). Values are checked here; what follows
//! from a change (windows of open streams, the encoder's table) is the connection's.

use crate::error::Reason;
use crate::frame::{FRAME_BYTES_CAP, FRAME_BYTES_MIN, FrameHeader, flag, kind};
use crate::limits::Limits;
use crate::stream::StreamId;
use crate::window;

/// RFC 9113 section 6.5.2.
pub(crate) const HEADER_TABLE_BYTES: u32 = 4_096;
/// Number of streams a client opens before it has heard how many it may; the standard's own lower
/// advice (RFC 9113 section 6.5.2).
const CONCURRENT_STREAMS_AT_FIRST: u32 = 100;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
const NO_RFC7540_PRIORITIES: u16 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// Peer's SETTINGS, or the initial values until they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerSettings {
    pub header_table_bytes: u32,
    pub concurrent_streams_max: u32,
    pub initial_window_bytes: u32,
    pub header_list_bytes_max: Option<u32>,
    pub connect_protocol: bool,
}

impl PeerSettings {
    pub fn new() -> Self {
        PeerSettings {
            header_table_bytes: HEADER_TABLE_BYTES,
            concurrent_streams_max: CONCURRENT_STREAMS_AT_FIRST,
            initial_window_bytes: window::INITIAL_BYTES,
            header_list_bytes_max: None,
            connect_protocol: false,
        }
    }

    /// Takes over a payload, in order (RFC 9113 section 6.5.3). `role` is ours.
    pub fn apply(&mut self, payload: &[u8], role: Role) -> Result<(), Reason> {
        let (entries, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Reason::BadFrameSize);
        }
        for [id0, id1, v0, v1, v2, v3] in entries {
            self.set(
                u16::from_be_bytes([*id0, *id1]),
                u32::from_be_bytes([*v0, *v1, *v2, *v3]),
                role,
            )?;
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32, role: Role) -> Result<(), Reason> {
        match id {
            HEADER_TABLE_SIZE => self.header_table_bytes = value,
            // RFC 9113 section 6.5.2: a server must not send 1.
            ENABLE_PUSH if value > 1 || (value == 1 && role == Role::Client) => {
                return Err(Reason::BadSetting);
            }
            MAX_CONCURRENT_STREAMS => self.concurrent_streams_max = value,
            INITIAL_WINDOW_SIZE if i32::try_from(value).is_err() => {
                return Err(Reason::WindowSettingTooLarge);
            }
            INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
            MAX_FRAME_SIZE if !(FRAME_BYTES_MIN..=FRAME_BYTES_CAP).contains(&value) => {
                return Err(Reason::BadSetting);
            }
            // Not kept: no frame that we write is larger than the least that it may be.
            MAX_HEADER_LIST_SIZE => self.header_list_bytes_max = Some(value),
            // RFC 8441 section 3: 0 or 1, and never 0 after 1.
            ENABLE_CONNECT_PROTOCOL if value > 1 || (value == 0 && self.connect_protocol) => {
                return Err(Reason::BadSetting);
            }
            ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
            // RFC 9218 section 2.1.
            NO_RFC7540_PRIORITIES if value > 1 => return Err(Reason::BadSetting),
            _ => {}
        }
        Ok(())
    }
}

/// Our SETTINGS. Values that are the protocol's own are left out, but for the number of streams,
/// which has no bound unless told.
pub(crate) fn write(limits: &Limits, role: Role, connect_protocol: bool, out: &mut Vec<u8>) {
    let server = role == Role::Server;
    let entries = [
        (
            HEADER_TABLE_SIZE,
            limits.header_table_bytes,
            limits.header_table_bytes != HEADER_TABLE_BYTES,
        ),
        (ENABLE_PUSH, 0, !server),
        (
            MAX_CONCURRENT_STREAMS,
            limits.concurrent_streams_max,
            server,
        ),
        (
            INITIAL_WINDOW_SIZE,
            limits.stream_window_bytes,
            limits.stream_window_bytes != window::INITIAL_BYTES,
        ),
        (
            MAX_FRAME_SIZE,
            limits.frame_bytes_max,
            limits.frame_bytes_max != FRAME_BYTES_MIN,
        ),
        (MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max, true),
        (ENABLE_CONNECT_PROTOCOL, 1, server && connect_protocol),
        (NO_RFC7540_PRIORITIES, 1, true),
    ];
    let sent = || entries.iter().filter(|entry| entry.2);
    FrameHeader {
        length: 6 * sent().count() as u32,
        kind: kind::SETTINGS,
        flags: 0,
        stream: StreamId::CONNECTION,
    }
    .write(out);
    for (id, value, _) in sent() {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(crate) fn write_ack(out: &mut Vec<u8>) {
    FrameHeader {
        length: 0,
        kind: kind::SETTINGS,
        flags: flag::ACK,
        stream: StreamId::CONNECTION,
    }
    .write(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(entries: &[(u16, u32)], role: Role) -> Result<PeerSettings, Reason> {
        let payload: Vec<u8> = entries
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let mut settings = PeerSettings::new();
        settings.apply(&payload, role).map(|()| settings)
    }

    #[test]
    fn values_are_checked_on_both_sides_of_each_edge() {
        let rows: [(u16, u32, Role, Option<Reason>); 19] = [
            (ENABLE_PUSH, 0, Role::Server, None),
            (ENABLE_PUSH, 1, Role::Server, None),
            (ENABLE_PUSH, 2, Role::Server, Some(Reason::BadSetting)),
            (ENABLE_PUSH, 0, Role::Client, None),
            (ENABLE_PUSH, 1, Role::Client, Some(Reason::BadSetting)),
            (INITIAL_WINDOW_SIZE, 0x7fff_ffff, Role::Server, None),
            (
                INITIAL_WINDOW_SIZE,
                0x8000_0000,
                Role::Server,
                Some(Reason::WindowSettingTooLarge),
            ),
            (
                MAX_FRAME_SIZE,
                16_383,
                Role::Server,
                Some(Reason::BadSetting),
            ),
            (MAX_FRAME_SIZE, 16_384, Role::Server, None),
            (MAX_FRAME_SIZE, 16_777_215, Role::Server, None),
            (
                MAX_FRAME_SIZE,
                16_777_216,
                Role::Server,
                Some(Reason::BadSetting),
            ),
            (ENABLE_CONNECT_PROTOCOL, 1, Role::Client, None),
            (
                ENABLE_CONNECT_PROTOCOL,
                2,
                Role::Client,
                Some(Reason::BadSetting),
            ),
            (NO_RFC7540_PRIORITIES, 1, Role::Server, None),
            (
                NO_RFC7540_PRIORITIES,
                2,
                Role::Server,
                Some(Reason::BadSetting),
            ),
            (HEADER_TABLE_SIZE, u32::MAX, Role::Server, None),
            (MAX_CONCURRENT_STREAMS, 0, Role::Client, None),
            (MAX_HEADER_LIST_SIZE, 0, Role::Client, None),
            (0x0a0a, u32::MAX, Role::Client, None),
        ];
        for (id, value, role, want) in rows {
            assert_eq!(
                apply(&[(id, value)], role).err(),
                want,
                "{id} {value} {role:?}"
            );
        }
    }

    #[test]
    fn later_values_win_and_extended_connect_can_not_be_taken_back() {
        let settings = apply(
            &[
                (INITIAL_WINDOW_SIZE, 1),
                (HEADER_TABLE_SIZE, 7),
                (INITIAL_WINDOW_SIZE, 2),
            ],
            Role::Server,
        )
        .unwrap();
        assert_eq!(
            (settings.initial_window_bytes, settings.header_table_bytes),
            (2, 7)
        );
        let taken_back = [(ENABLE_CONNECT_PROTOCOL, 1), (ENABLE_CONNECT_PROTOCOL, 0)];
        assert_eq!(apply(&taken_back, Role::Client), Err(Reason::BadSetting));
    }

    #[test]
    fn a_payload_is_whole_entries() {
        assert_eq!(
            PeerSettings::new().apply(&[0; 5], Role::Server),
            Err(Reason::BadFrameSize)
        );
        assert_eq!(PeerSettings::new().apply(&[], Role::Server), Ok(()));
    }

    #[test]
    fn what_we_send_is_read_back() {
        let limits = Limits {
            header_table_bytes: 8_192,
            stream_window_bytes: 9,
            frame_bytes_max: 20_000,
            ..Limits::default()
        };
        let mut out = Vec::new();
        write(&limits, Role::Server, true, &mut out);
        let mut read = PeerSettings::new();
        read.apply(&out[9..], Role::Client).unwrap();
        let want = PeerSettings {
            header_table_bytes: 8_192,
            concurrent_streams_max: 128,
            initial_window_bytes: 9,
            header_list_bytes_max: Some(32 * 1024),
            connect_protocol: true,
        };
        assert_eq!(read, want);
    }
}
