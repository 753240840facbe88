//! What the server and its starter say to each other, as bytes; and descriptors that go along.
//!
//! Difficulty: none of it is trusted by the starter, which is root: lengths are bounded, and what does not decode is no order. Texts are bytes
//! behind their length, numbers are little endian. Absent on purpose: versions. Both ends are the same program.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A request's head is far smaller, and an environment is made of it.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// A tether, three standard descriptors, and what a program inherits besides.
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
}

pub struct Reader<'m>(pub &'m [u8]);

impl<'m> Reader<'m> {
    pub fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or(io::ErrorKind::InvalidData)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub fn text(&mut self) -> io::Result<&'m [u8]> {
        let length = usize::try_from(self.number()?).map_err(io::Error::other)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(io::ErrorKind::InvalidData)?;
        self.0 = rest;
        Ok(text)
    }

    pub fn string(&mut self) -> io::Result<String> {
        String::from_utf8(self.text()?.to_vec()).map_err(io::Error::other)
    }

    pub fn optional(&mut self) -> io::Result<Option<&'m [u8]>> {
        let is_there = self.number()? != 0;
        Ok(Some(self.text()?).filter(|_| is_there))
    }

    pub fn list<T>(&mut self, mut each: impl FnMut(&mut Reader<'m>) -> io::Result<T>) -> io::Result<Vec<T>> {
        let count = self.number()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(each(self)?);
        }
        Ok(items)
    }
}

/// A whole message into a stream.
pub fn write_message(mut stream: impl Write, message: &[u8]) -> io::Result<()> {
    stream.write_all(&(message.len() as u64).to_le_bytes())?;
    stream.write_all(message)
}

pub fn read_message(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let mut message = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// One byte that says what it is about, and descriptors, as one packet.
pub fn send_packet(socket: impl AsFd, what: u8, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(&[what])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// `None`: nobody is at the other end any more.
pub fn receive_packet(socket: impl AsFd) -> io::Result<Option<(u8, Vec<OwnedFd>)>> {
    let mut what = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut what)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
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
        let message = read_message(stream.as_slice()).unwrap();
        let mut reader = Reader(&message);
        assert_eq!(reader.text().unwrap(), b"a");
        assert_eq!((reader.optional().unwrap(), reader.optional().unwrap()), (None, Some(&b""[..])));
        assert_eq!(reader.list(Reader::number).unwrap(), [1, 2]);
        assert!(reader.0.is_empty() && reader.number().is_err());
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(read_message(&u64::MAX.to_le_bytes()[..]).is_err());
        let mut writer = Writer::default();
        writer.number(u64::MAX);
        assert!(Reader(&writer.0).text().is_err() && Reader(&writer.0).list(Reader::number).is_err());
    }
}
