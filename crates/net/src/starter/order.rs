//! What is to be started, as whom: an order to the starter.
//!
//! Whom it names is looked up by the starter, which is root, and not by whoever asks. Difficulty: a program may have to be told the number of a
//! descriptor that it inherits, and only the starter knows it: [`descriptor`] stands for it in arguments and environment.

use super::wire::{Reader, Writer};
use crate::program::ProgramLimits;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

/// Which grants allow it, and which checks it has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// A script of the user's own, looked at as suEXEC does, with an environment as suEXEC leaves it.
    Script,
    /// A program that the configuration names, as somebody who is not root.
    Program,
    /// A log program, as root if need be: with exactly the arguments that the configuration gives it. What else the order says of it does not
    /// count: environment and folder are the starter's, as the server was started with them. It ends when its input does, whoever has gone.
    LogProgram,
}

impl OrderKind {
    fn number(self) -> u64 {
        match self {
            OrderKind::Program => 0,
            OrderKind::Script => 1,
            OrderKind::LogProgram => 2,
        }
    }

    fn of_number(number: u64) -> io::Result<OrderKind> {
        [OrderKind::Program, OrderKind::Script, OrderKind::LogProgram]
            .into_iter()
            .find(|kind| kind.number() == number)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub kind: OrderKind,
    /// A name or a number, as in the configuration.
    pub user: String,
    /// `None`: the user's own.
    pub group: Option<String>,
    pub file: PathBuf,
    /// What it is told its own name is.
    pub name: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub folder: PathBuf,
    pub limits: ProgramLimits,
}

/// Stands for the number of what is inherited, by its place among it. No argument can have a NUL of its own (execve(2)).
pub fn descriptor(place: u8) -> OsString {
    OsString::from_vec(vec![0, b'0' + place.min(9)])
}

/// With numbers in place of what stands for them.
pub fn with_descriptors(text: &OsStr, numbers: &[i32]) -> OsString {
    let mut made = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes().iter();
    while let Some(byte) = bytes.next() {
        match byte {
            0 => {
                let place = usize::from(bytes.next().copied().unwrap_or_default().wrapping_sub(b'0'));
                made.extend_from_slice(numbers.get(place).map(i32::to_string).unwrap_or_default().as_bytes());
            }
            byte => made.push(*byte),
        }
    }
    OsString::from_vec(made)
}

impl Order {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.kind.number());
        writer.text(self.user.as_bytes());
        writer.optional(self.group.as_deref().map(str::as_bytes));
        writer.text(self.file.as_os_str().as_bytes());
        writer.text(self.name.as_bytes());
        writer.list(&self.arguments, |writer, argument| writer.text(argument.as_bytes()));
        writer.list(&self.environment, |writer, (name, value)| {
            writer.text(name.as_bytes());
            writer.text(value.as_bytes());
        });
        writer.text(self.folder.as_os_str().as_bytes());
        for limit in [self.limits.cpu_s, self.limits.memory_bytes, self.limits.processes] {
            let (soft, hard) = limit.unwrap_or_default();
            [u64::from(limit.is_some()), soft, hard].into_iter().for_each(|number| writer.number(number));
        }
        writer.0
    }

    pub fn decode(message: &[u8]) -> io::Result<Order> {
        let mut reader = Reader(message);
        let words = |text: &[u8]| OsString::from_vec(text.to_vec());
        Ok(Order {
            kind: OrderKind::of_number(reader.number()?)?,
            user: reader.string()?,
            group: reader.optional()?.map(|group| String::from_utf8_lossy(group).into_owned()),
            file: PathBuf::from(words(reader.text()?)),
            name: words(reader.text()?),
            arguments: reader.list(|reader| reader.text().map(words))?,
            environment: reader.list(|reader| Ok((words(reader.text()?), words(reader.text()?))))?,
            folder: PathBuf::from(words(reader.text()?)),
            limits: ProgramLimits { cpu_s: limit(&mut reader)?, memory_bytes: limit(&mut reader)?, processes: limit(&mut reader)? },
        })
    }
}

fn limit(reader: &mut Reader<'_>) -> io::Result<Option<(u64, u64)>> {
    let (is_there, soft, hard) = (reader.number()?, reader.number()?, reader.number()?);
    Ok((is_there == 1).then_some((soft, hard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_given() {
        let order = Order {
            kind: OrderKind::Script,
            user: "alice".into(),
            group: None,
            file: "/srv/a/x.cgi".into(),
            name: "x.cgi".into(),
            arguments: vec!["a".into(), "".into()],
            environment: vec![("A".into(), "b".into())],
            folder: "/srv/a".into(),
            limits: ProgramLimits { cpu_s: Some((1, u64::MAX)), ..ProgramLimits::default() },
        };
        let message = order.encode();
        assert_eq!(Order::decode(&message).unwrap(), order);
        for length in 0..message.len() {
            assert!(Order::decode(&message[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn numbers_of_descriptors() {
        let text = [OsStr::new("a="), &descriptor(1), OsStr::new(",")].concat_os();
        assert_eq!(with_descriptors(&text, &[7, 12]), "a=12,");
        assert_eq!(with_descriptors(&text, &[7]), "a=,");
    }

    trait ConcatOs {
        fn concat_os(&self) -> OsString;
    }

    impl ConcatOs for [&OsStr; 3] {
        fn concat_os(&self) -> OsString {
            self.iter().copied().collect()
        }
    }
}
