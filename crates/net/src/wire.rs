//! The messages between the server and its broker, as bytes; and descriptors that go along.
//!
//! Caveat: the broker, which is root, trusts none of it: lengths are bounded, and what does not
//! decode is refused. Texts are bytes behind their length, numbers are little endian. Out of scope:
//! versions. Both ends are the same program.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::{
    ffi::OsString,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

/// A request's head is far smaller, and an environment is made of it.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// The first grants, which root sends: those of 10,000 virtual hosts are some 10 MB.
pub const GRANTS_BYTES_MAX: usize = 1 << 30;
/// A liveness channel, three standard descriptors, and what a program inherits besides.
pub const DESCRIPTORS_MAX: usize = 8;

#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text);
    }

    pub fn optional(&mut self, text: Option<&[u8]>) {
        self.number(u64::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    pub fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Writer, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| each(self, item));
    }

    pub fn texts(&mut self, all: &[OsString]) {
        self.list(all, |writer, text| writer.text(text.as_bytes()));
    }

    pub fn pairs(&mut self, all: &[(OsString, OsString)]) {
        self.list(all, |writer, (name, value)| {
            writer.text(name.as_bytes());
            writer.text(value.as_bytes());
        });
    }
}

pub struct Reader<'m>(pub &'m [u8]);

impl<'m> Reader<'m> {
    pub fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self
            .0
            .split_first_chunk::<8>()
            .ok_or(io::ErrorKind::InvalidData)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub fn text(&mut self) -> io::Result<&'m [u8]> {
        let length = usize::try_from(self.number()?).map_err(io::Error::other)?;
        let (text, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(io::ErrorKind::InvalidData)?;
        self.0 = rest;
        Ok(text)
    }

    pub fn string(&mut self) -> io::Result<String> {
        String::from_utf8(self.text()?.to_vec()).map_err(io::Error::other)
    }

    pub fn optional(&mut self) -> io::Result<Option<&'m [u8]>> {
        match (self.number()?, self.text()?) {
            (0, b"") => Ok(None),
            (1, text) => Ok(Some(text)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Reader<'m>) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let count = self.number()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(each(self)?);
        }
        Ok(items)
    }

    pub fn optional_string(&mut self) -> io::Result<Option<String>> {
        let text = self.optional()?;
        text.map(|text| String::from_utf8(text.to_vec()).map_err(io::Error::other))
            .transpose()
    }

    pub fn texts(&mut self) -> io::Result<Vec<OsString>> {
        self.list(|reader| Ok(OsString::from_vec(reader.text()?.to_vec())))
    }

    pub fn pairs(&mut self) -> io::Result<Vec<(OsString, OsString)>> {
        let word = |reader: &mut Reader<'m>| {
            Ok::<_, io::Error>(OsString::from_vec(reader.text()?.to_vec()))
        };
        self.list(|reader| Ok((word(reader)?, word(reader)?)))
    }

    /// Nothing may be left.
    pub fn end(&self) -> io::Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

/// A whole message into a stream.
pub fn write_message(mut stream: impl Write, message: &[u8]) -> io::Result<()> {
    stream.write_all(&(message.len() as u64).to_le_bytes())?;
    stream.write_all(message)
}

pub fn read_message(mut stream: impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length))
        .ok()
        .filter(|length| *length <= bytes_max);
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    // Memory is taken for what has come, not for what is announced.
    let mut message = Vec::new();
    match stream.take(length as u64).read_to_end(&mut message)? {
        read if read == length => Ok(message),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// One byte that says what it is about, and descriptors, as one packet.
pub fn send_packet(socket: impl AsFd, what: u8, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(
        socket,
        &[IoSlice::new(&[what])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives a packet. `None`: the peer has closed its end.
pub fn receive_packet(socket: impl AsFd) -> io::Result<Option<(u8, Vec<OwnedFd>)>> {
    let mut what = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut what)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            descriptors.extend(all);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((received.bytes > 0).then_some((what[0], descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.text(b"a");
        writer.optional(None);
        writer.optional(Some(b""));
        writer.list(&[1, 2], |writer, number| writer.number(*number));
        let mut stream = Vec::new();
        write_message(&mut stream, &writer.0).unwrap();
        let message = read_message(stream.as_slice(), MESSAGE_BYTES_MAX).unwrap();
        let mut reader = Reader(&message);
        assert_eq!(reader.text().unwrap(), b"a");
        assert_eq!(
            (reader.optional().unwrap(), reader.optional().unwrap()),
            (None, Some(&b""[..]))
        );
        assert_eq!(reader.list(Reader::number).unwrap(), [1, 2]);
        assert!(reader.0.is_empty() && reader.number().is_err());
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(read_message(&u64::MAX.to_le_bytes()[..], MESSAGE_BYTES_MAX).is_err());
        let mut writer = Writer::default();
        writer.number(u64::MAX);
        assert!(
            Reader(&writer.0).text().is_err() && Reader(&writer.0).list(Reader::number).is_err()
        );
    }
}
