//! Records after the handshake: application data, alerts, key updates.
//!
//! The difficulty is everything that a peer may send besides data: TLS 1.3 key updates, which
//! change keys between two records and may come in pieces; renegotiation in TLS 1.2, which is
//! refused; floods of records without data. Records are full (16 KiB), but small at the start of a
//! response on a fresh or idle connection: a client can use a record when it is there whole, and a
//! full one is longer than the first congestion window, so it would arrive a round trip later.
//! Absent on purpose: renegotiation, post-handshake authentication.

use super::record_key::{Broken, HEADER, PLAINTEXT_MAX, Protection, RecordKey};
use crate::error::{TlsError, Whose};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion,
    kernel::KernelConnection, server::ServerConnectionData,
};

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// With headers a TCP segment on the common paths, tunnels and time stamps included.
const SMALL_RECORD: usize = 1_340;
/// Sent in small records at first: the usual initial congestion window is ten segments (RFC 6928).
const SMALL_BYTES: usize = 10 * SMALL_RECORD;
/// Records without data in a row; rustls allows as many.
const EMPTY_RECORDS_MAX: u8 = 32;

pub struct Records {
    seal: RecordKey,
    open: RecordKey,
    /// Makes the next keys.
    keys: KernelConnection<ServerConnectionData>,
    /// Records that one key may seal.
    seal_max: u64,
    small_left: usize,
    empty_records: u8,
    /// A key update that has not come whole.
    partial: Vec<u8>,
    /// The peer wants us to change our key, too.
    update_due: bool,
    has_refused_renegotiation: bool,
    is_closed_by_peer: bool,
    is_closed: bool,
}

/// The sequence number and keys after a key update.
type NextSecrets = Result<(u64, ConnectionTrafficSecrets), rustls::Error>;

impl Records {
    pub fn new(
        secrets: ExtractedSecrets,
        keys: KernelConnection<ServerConnectionData>,
        is_closed_by_peer: bool,
    ) -> Result<Records, TlsError> {
        let is_tls13 = keys.protocol_version() == ProtocolVersion::TLSv1_3;
        let key = |(sequence, secrets): &(u64, ConnectionTrafficSecrets)| {
            RecordKey::new(secrets, *sequence, is_tls13)
        };
        Ok(Records {
            seal: key(&secrets.tx)?,
            open: key(&secrets.rx)?,
            seal_max: confidentiality_limit(&keys),
            keys,
            small_left: SMALL_BYTES,
            empty_records: 0,
            partial: Vec::new(),
            update_due: false,
            has_refused_renegotiation: false,
            is_closed_by_peer,
            is_closed: false,
        })
    }

    pub fn is_closed_by_peer(&self) -> bool {
        self.is_closed_by_peer
    }

    pub fn begin_small(&mut self) {
        self.small_left = SMALL_BYTES;
    }

    /// Opens all whole records; how many bytes they were.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, TlsError> {
        let mut used = 0;
        while let Some((&mut header, rest)) = input
            .get_mut(used..)
            .and_then(<[u8]>::split_first_chunk_mut::<HEADER>)
        {
            if self.is_closed_by_peer {
                break;
            }
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            self.check_header(header, length, out)?;
            let Some(fragment) = rest.get_mut(..length) else {
                break;
            };
            self.record(header, fragment, plain, out)?;
            used += HEADER + length;
        }
        // RFC 8446 section 6.1: what comes after close_notify is ignored.
        Ok(if self.is_closed_by_peer {
            input.len()
        } else {
            used
        })
    }

    fn check_header(
        &mut self,
        header: [u8; HEADER],
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let is_known = match self.open.protection {
            Protection::Tls13 => header[0] == DATA,
            _ => (CHANGE_CIPHER_SPEC..=DATA).contains(&header[0]),
        };
        if !is_known || header[1] != 3 {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "a record of a kind that may not come now",
                out,
            ));
        }
        if length > self.open.fragment_max() {
            return Err(self.fail(
                AlertDescription::RecordOverflow,
                "a record longer than allowed",
                out,
            ));
        }
        Ok(())
    }

    fn record(
        &mut self,
        header: [u8; HEADER],
        fragment: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let (kind, content) = match self.open.open(header, fragment) {
            Ok(opened) => opened,
            Err(Broken::Mac) => {
                return Err(self.fail(
                    AlertDescription::BadRecordMac,
                    "a record that does not decrypt",
                    out,
                ));
            }
            Err(Broken::TooLong) => {
                return Err(self.fail(
                    AlertDescription::RecordOverflow,
                    "a record longer than allowed",
                    out,
                ));
            }
            Err(Broken::NoType) => {
                return Err(self.fail(
                    AlertDescription::UnexpectedMessage,
                    "a record of padding alone",
                    out,
                ));
            }
        };
        self.count_empty(kind == DATA && !content.is_empty(), out)?;
        // RFC 8446 section 5.1: messages may not be interleaved with other records.
        if kind != HANDSHAKE && !self.partial.is_empty() {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "a record amid a handshake message",
                out,
            ));
        }
        match kind {
            DATA => plain.extend_from_slice(content),
            ALERT => self.alert(content, out)?,
            HANDSHAKE if self.open.protection == Protection::Tls13 => {
                self.post_handshake(content, out)?
            }
            HANDSHAKE => self.refuse_renegotiation(content, out)?,
            _ => {
                return Err(self.fail(
                    AlertDescription::UnexpectedMessage,
                    "a record of a kind that may not come now",
                    out,
                ));
            }
        }
        Ok(())
    }

    fn count_empty(&mut self, has_data: bool, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.empty_records = if has_data {
            0
        } else {
            self.empty_records.saturating_add(1)
        };
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "too many records without data",
                out,
            ));
        }
        Ok(())
    }

    fn alert(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let is_tls13 = self.open.protection == Protection::Tls13;
        let (level, description) = match *content {
            [level, description] => (level, description),
            // RFC 8446 section 5.4.
            [] if is_tls13 => {
                return Err(self.fail(AlertDescription::UnexpectedMessage, "an empty alert", out));
            }
            _ => {
                return Err(self.fail(AlertDescription::DecodeError, "an alert that is none", out));
            }
        };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => self.is_closed_by_peer = true,
            // RFC 8446 section 6.1: a close_notify follows it.
            AlertDescription::UserCanceled if is_tls13 => {}
            // RFC 5246 section 7.2: warnings go by; RFC 8446 section 6 knows none.
            _ if level == 1 && !is_tls13 => {}
            other => return Err(rustls::Error::AlertReceived(other).into()),
        }
        Ok(())
    }

    /// RFC 8446 section 4.6: of a client nothing but a key update may come, as post-handshake
    /// authentication was not asked for.
    fn post_handshake(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        const KEY_UPDATE: u8 = 24;
        if content.is_empty() || self.partial.len() + content.len() > 5 {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "a handshake message that may not come now",
                out,
            ));
        }
        self.partial.extend_from_slice(content);
        match self.partial[..] {
            [KEY_UPDATE, 0, 0, 1, requested @ 0..=1] => {
                self.partial = Vec::new();
                self.open = self.next_key(KernelConnection::update_rx_secret)?;
                self.update_due |= requested == 1;
                Ok(())
            }
            [KEY_UPDATE, 0, 0, 1, _] => Err(self.fail(
                AlertDescription::IllegalParameter,
                "a key update of unknown kind",
                out,
            )),
            ref begun
                if [KEY_UPDATE, 0, 0, 1].starts_with(begun) || begun == [KEY_UPDATE, 0, 0, 1] =>
            {
                Ok(())
            }
            _ => Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "a handshake message that may not come now",
                out,
            )),
        }
    }

    /// RFC 8446 section 4.6.3: the update itself goes under the old key. One is due before the next
    /// data, however often it was asked for: answered at once, a peer that asks and does not read
    /// would make answers pile up.
    fn update_seal_key(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.update_due = false;
        self.seal.seal(HANDSHAKE, 5, out, |out| {
            out.extend_from_slice(&[24, 0, 0, 1, 0])
        })?;
        self.seal = self.next_key(KernelConnection::update_tx_secret)?;
        Ok(())
    }

    fn next_key(
        &mut self,
        update: fn(&mut KernelConnection<ServerConnectionData>) -> NextSecrets,
    ) -> Result<RecordKey, TlsError> {
        let (sequence, secrets) = update(&mut self.keys)?;
        RecordKey::new(&secrets, sequence, true)
    }

    /// RFC 5246 section 7.2.2: a warning; a client that insists is cut off.
    fn refuse_renegotiation(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        const CLIENT_HELLO: u8 = 1;
        if content.first() != Some(&CLIENT_HELLO) || self.has_refused_renegotiation {
            return Err(self.fail(
                AlertDescription::UnexpectedMessage,
                "renegotiation, which is not offered",
                out,
            ));
        }
        self.has_refused_renegotiation = true;
        if self.is_closed {
            Ok(())
        } else {
            self.send_alert(1, AlertDescription::NoRenegotiation, out)
        }
    }

    pub fn send(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.is_closed {
            return Err(TlsError::Ended);
        }
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        out.reserve(left + (left / PLAINTEXT_MAX + 1) * self.seal.overhead());
        let mut parts = Parts { parts, at: 0 };
        while left > 0 {
            let length = self.record_length(left);
            self.make_room(out)?;
            self.seal
                .seal(DATA, length, out, |out| parts.take(length, out))?;
            left -= length;
        }
        Ok(())
    }

    fn record_length(&mut self, left: usize) -> usize {
        if self.small_left == 0 {
            return left.min(PLAINTEXT_MAX);
        }
        let length = left.min(SMALL_RECORD);
        self.small_left = self.small_left.saturating_sub(length);
        length
    }

    /// Changes the key where that is due, or before it has sealed all it may (RFC 8446 section
    /// 5.5); TLS 1.2 can't, and ends after 16 million records.
    fn make_room(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.seal.sequence + 2 < self.seal_max && !self.update_due {
            return Ok(());
        }
        match self.seal.protection {
            Protection::Tls13 => self.update_seal_key(out),
            _ => {
                self.close(out)?;
                Err(TlsError::refused(
                    Whose::Ours,
                    "the key has sealed all it may",
                ))
            }
        }
    }

    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.is_closed {
            return Ok(());
        }
        self.is_closed = true;
        self.send_alert(1, AlertDescription::CloseNotify, out)
    }

    fn fail(
        &mut self,
        alert: AlertDescription,
        reason: &'static str,
        out: &mut Vec<u8>,
    ) -> TlsError {
        // RFC 8446 section 6.1: nothing is sent behind our close_notify.
        if std::mem::replace(&mut self.is_closed, true) {
            return TlsError::peer(reason);
        }
        match self.send_alert(2, alert, out) {
            Ok(()) => TlsError::peer(reason),
            Err(fault) => fault,
        }
    }

    fn send_alert(
        &mut self,
        level: u8,
        alert: AlertDescription,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        self.seal.seal(ALERT, 2, out, |out| {
            out.extend_from_slice(&[level, u8::from(alert)])
        })
    }
}

fn confidentiality_limit(keys: &KernelConnection<ServerConnectionData>) -> u64 {
    match keys.negotiated_cipher_suite() {
        rustls::SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        rustls::SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
    }
}

/// Pieces that are taken as if they were one.
struct Parts<'p> {
    parts: &'p [&'p [u8]],
    /// Taken of the first.
    at: usize,
}

impl Parts<'_> {
    fn take(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while let Some((first, rest)) = self.parts.split_first() {
            let left = first.get(self.at..).unwrap_or_default();
            let taken = left.len().min(count);
            out.extend_from_slice(&left[..taken]);
            count -= taken;
            self.at += taken;
            if self.at < first.len() {
                return;
            }
            (self.parts, self.at) = (rest, 0);
        }
    }
}

#[cfg(test)]
mod tests;
