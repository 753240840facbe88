//! SETTINGS (RFC 9114 section 7.2.4, RFC 9204 section 5, RFC 9220 section 3, RFC 9297 section
//! 2.1.1): what the peer told us, and what we tell it. They come once; settings we do not know are
//! ignored (RFC 9114 section 7.2.4.1).

use crate::error::Reason;
use crate::frame::{FrameHeader, kind};
use crate::limits::Limits;
use crate::varint;

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
const QPACK_BLOCKED_STREAMS: u64 = 0x07;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x08;
const H3_DATAGRAM: u64 = 0x33;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// Peer's SETTINGS, or the defaults until they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerSettings {
    pub table_bytes_max: u64,
    pub blocked_streams_max: u64,
    pub field_section_bytes_max: Option<u64>,
    pub connect_protocol: bool,
    pub datagrams: bool,
}

impl PeerSettings {
    pub fn parse(payload: &[u8]) -> Result<PeerSettings, Reason> {
        let (mut settings, mut rest) = (PeerSettings::default(), payload);
        let mut seen = Seen::default();
        while !rest.is_empty() {
            let id = number(&mut rest)?;
            let value = number(&mut rest)?;
            seen.note(id)?;
            settings.set(id, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, id: u64, value: u64) -> Result<(), Reason> {
        match id {
            // RFC 9114 section 7.2.4.1.
            0x00 | 0x02..=0x05 => return Err(Reason::SettingOfHttp2),
            QPACK_MAX_TABLE_CAPACITY => self.table_bytes_max = value,
            QPACK_BLOCKED_STREAMS => self.blocked_streams_max = value,
            MAX_FIELD_SECTION_SIZE => self.field_section_bytes_max = Some(value),
            // RFC 8441 section 3, RFC 9297 section 2.1.1: 0 or 1.
            ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM if value > 1 => return Err(Reason::BadSetting),
            ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
            H3_DATAGRAM => self.datagrams = value == 1,
            _ => {}
        }
        Ok(())
    }
}

/// RFC 9114 section 7.2.4: no setting comes twice. Looked at for those below 64, which all that
/// mean something are.
#[derive(Default)]
struct Seen(u64);

impl Seen {
    fn note(&mut self, id: u64) -> Result<(), Reason> {
        let bit = if id < 64 { 1 << id } else { 0 };
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        if is_new {
            Ok(())
        } else {
            Err(Reason::SettingTwice)
        }
    }
}

fn number(rest: &mut &[u8]) -> Result<u64, Reason> {
    let (value, len) = varint::parse(rest).ok_or(Reason::BadFrameSize)?;
    *rest = rest.get(len..).unwrap_or_default();
    Ok(value)
}

/// Our SETTINGS. Values that hold without being said are left out.
pub(crate) fn write(limits: &Limits, role: Role, connect_protocol: bool, out: &mut Vec<u8>) {
    let entries = [
        (
            QPACK_MAX_TABLE_CAPACITY,
            u64::from(limits.table_bytes),
            limits.table_bytes > 0,
        ),
        (
            MAX_FIELD_SECTION_SIZE,
            u64::from(limits.header_list_bytes_max),
            true,
        ),
        (
            QPACK_BLOCKED_STREAMS,
            u64::from(limits.blocked_streams_max),
            limits.table_bytes > 0 && limits.blocked_streams_max > 0,
        ),
        (
            ENABLE_CONNECT_PROTOCOL,
            1,
            role == Role::Server && connect_protocol,
        ),
    ];
    let sent = || entries.iter().filter(|entry| entry.2);
    let length = sent()
        .map(|(id, value, _)| varint::len(*id) + varint::len(*value))
        .sum::<usize>() as u64;
    FrameHeader {
        kind: kind::SETTINGS,
        length,
    }
    .write(out);
    for (id, value, _) in sent() {
        varint::write(*id, out);
        varint::write(*value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[(u64, u64)]) -> Result<PeerSettings, Reason> {
        let mut payload = Vec::new();
        for (id, value) in entries {
            varint::write(*id, &mut payload);
            varint::write(*value, &mut payload);
        }
        PeerSettings::parse(&payload)
    }

    #[test]
    fn values_are_checked_on_both_sides_of_each_edge() {
        type Entries = &'static [(u64, u64)];
        let rows: [(Entries, Option<Reason>); 16] = [
            (&[], None),
            (&[(0, 0)], Some(Reason::SettingOfHttp2)),
            (&[(2, 0)], Some(Reason::SettingOfHttp2)),
            (&[(3, 100)], Some(Reason::SettingOfHttp2)),
            (&[(4, 1)], Some(Reason::SettingOfHttp2)),
            (&[(5, 16_384)], Some(Reason::SettingOfHttp2)),
            (&[(1, varint::MAX), (6, 0), (7, varint::MAX)], None),
            (&[(8, 1), (0x33, 1)], None),
            (&[(8, 2)], Some(Reason::BadSetting)),
            (&[(0x33, 2)], Some(Reason::BadSetting)),
            (&[(0x21, 7), (0x40, 7), (varint::MAX, 1)], None),
            (&[(1, 0), (6, 1), (1, 0)], Some(Reason::SettingTwice)),
            (&[(0x21, 0), (0x21, 0)], Some(Reason::SettingTwice)),
            (&[(63, 0), (63, 0)], Some(Reason::SettingTwice)),
            (&[(64, 0), (64, 0)], None),
            (&[(6, 5)], None),
        ];
        for (entries, want) in rows {
            assert_eq!(parse(entries).err(), want, "{entries:?}");
        }
    }

    #[test]
    fn a_payload_is_whole_entries() {
        for payload in [&[6][..], &[6, 0x40], &[0x40]] {
            assert_eq!(PeerSettings::parse(payload), Err(Reason::BadFrameSize));
        }
    }

    #[test]
    fn what_we_send_is_read_back() {
        let limits = Limits::default();
        let mut out = Vec::new();
        write(&limits, Role::Server, true, &mut out);
        let (header, used) = FrameHeader::parse(&out).unwrap();
        assert_eq!(
            header,
            FrameHeader {
                kind: kind::SETTINGS,
                length: (out.len() - used) as u64
            }
        );
        let want = PeerSettings {
            table_bytes_max: 4_096,
            blocked_streams_max: 16,
            field_section_bytes_max: Some(32 * 1024),
            connect_protocol: true,
            datagrams: false,
        };
        assert_eq!(PeerSettings::parse(&out[used..]), Ok(want));
        out.clear();
        write(
            &Limits {
                table_bytes: 0,
                ..limits
            },
            Role::Client,
            true,
            &mut out,
        );
        assert_eq!(out, [4, 5, 6, 0x80, 0, 0x80, 0]);
    }
}
