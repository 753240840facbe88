//! Questions to a name server and its answers (RFC 1035), as far as names of addresses and
//! addresses of names go. Bytes in, bytes out.
//!
//! Caveat: responses are untrusted. Names in them may point backwards only and have at most 255
//! octets, and a response counts only if it repeats the query's id and question.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const CLASS_INTERNET: u16 = 1;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;
/// RFC 1035 section 2.3.4.
const NAME_BYTES_MAX: usize = 255;
const LABEL_BYTES_MAX: usize = 63;
/// Maximum number of records read from one response.
const RECORDS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The names of an address.
    NamesOf(IpAddr),
    /// The addresses of a name, of the same kind as this one.
    AddressesOf(String, IpAddr),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// It did not fit: ask again over TCP.
    pub is_cut: bool,
    /// The server could not find out (SERVFAIL, REFUSED...), which is no answer.
    pub failed: bool,
}

impl Question {
    fn name(&self) -> String {
        match self {
            Question::NamesOf(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Question::NamesOf(IpAddr::V6(address)) => {
                let digits = address
                    .octets()
                    .into_iter()
                    .rev()
                    .flat_map(|octet| [octet & 15, octet >> 4]);
                let labels: String = digits.map(|digit| format!("{digit:x}.")).collect();
                format!("{labels}ip6.arpa")
            }
            Question::AddressesOf(name, _) => name.trim_end_matches('.').to_owned(),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Question::NamesOf(_) => TYPE_PTR,
            Question::AddressesOf(_, IpAddr::V4(_)) => TYPE_A,
            Question::AddressesOf(_, IpAddr::V6(_)) => TYPE_AAAA,
        }
    }

    /// The message; `None`: the name is none.
    pub fn encode(&self, number: u16) -> Option<Vec<u8>> {
        // Recursion is desired; one question.
        let mut message = [number.to_be_bytes(), [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]].concat();
        let name = self.name();
        if name.len() > NAME_BYTES_MAX - 2 {
            return None;
        }
        for label in name.split('.') {
            let length = u8::try_from(label.len())
                .ok()
                .filter(|length| (1..=LABEL_BYTES_MAX).contains(&usize::from(*length)))?;
            message.push(length);
            message.extend_from_slice(label.as_bytes());
        }
        message.push(0);
        message.extend_from_slice(&self.kind().to_be_bytes());
        message.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
        Some(message)
    }

    /// `None`: this is no answer to it.
    pub fn decode(&self, number: u16, message: &[u8]) -> Option<Answer> {
        let mut cursor = Cursor { message, at: 0 };
        let (id, flags) = (cursor.number()?, cursor.number()?);
        let [questions, records, ..] = [
            cursor.number()?,
            cursor.number()?,
            cursor.number()?,
            cursor.number()?,
        ];
        if id != number || flags & 0x8000 == 0 || questions != 1 {
            return None;
        }
        let asked = cursor.name()?;
        if !asked.eq_ignore_ascii_case(&self.name())
            || cursor.number()? != self.kind()
            || cursor.number()? != CLASS_INTERNET
        {
            return None;
        }
        // 3: there is no such name, which is an answer.
        let mut answer = Answer {
            is_cut: flags & 0x0200 != 0,
            failed: !matches!(flags & 15, 0 | 3),
            ..Answer::default()
        };
        for _ in 0..usize::from(records).min(RECORDS_MAX) {
            if self.read_record(&mut cursor, &mut answer).is_none() {
                // What is broken behind the part that fits is asked for again, or not believed.
                return answer.is_cut.then_some(answer);
            }
        }
        Some(answer)
    }

    fn read_record(&self, cursor: &mut Cursor<'_>, answer: &mut Answer) -> Option<()> {
        cursor.name()?;
        let (kind, class) = (cursor.number()?, cursor.number()?);
        cursor.skip(4)?;
        let length = usize::from(cursor.number()?);
        let start = cursor.at;
        let data = cursor.message.get(start..start.checked_add(length)?)?;
        if class == CLASS_INTERNET && kind == self.kind() {
            match kind {
                TYPE_PTR => answer.names.push(
                    Cursor {
                        message: cursor.message,
                        at: start,
                    }
                    .name()?,
                ),
                TYPE_A => answer
                    .addresses
                    .push(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
                _ => answer
                    .addresses
                    .push(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
            }
        }
        // Aliases on the way (TYPE_CNAME) lead to records of the wanted type in the same answer,
        // whose names are not compared: this asks recursive servers, which is whom it trusts.
        debug_assert_ne!(self.kind(), TYPE_CNAME);
        cursor.at = start + length;
        Some(())
    }
}

struct Cursor<'m> {
    message: &'m [u8],
    at: usize,
}

impl Cursor<'_> {
    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self
            .at
            .checked_add(count)
            .filter(|at| *at <= self.message.len())?;
        Some(())
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.message.get(self.at..self.at + 2)?;
        self.at += 2;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }

    /// RFC 1035 section 4.1.4.
    fn name(&mut self) -> Option<String> {
        let (mut name, mut at, mut jumped) = (String::new(), self.at, false);
        loop {
            let length = usize::from(*self.message.get(at)?);
            if length >= 0xc0 {
                let target = (length & 0x3f) << 8 | usize::from(*self.message.get(at + 1)?);
                if !jumped {
                    self.at = at + 2;
                }
                // Only backwards, so that it ends.
                if target >= at {
                    return None;
                }
                (at, jumped) = (target, true);
                continue;
            }
            if length > LABEL_BYTES_MAX {
                return None;
            }
            if length == 0 {
                if !jumped {
                    self.at = at + 1;
                }
                return Some(name);
            }
            let label = self.message.get(at + 1..at + 1 + length)?;
            if !name.is_empty() {
                name.push('.');
            }
            // Bytes that no host name has are kept as something that no domain has either.
            name.extend(label.iter().map(|byte| {
                if byte.is_ascii_graphic() && *byte != b'.' {
                    char::from(*byte)
                } else {
                    '?'
                }
            }));
            if name.len() > NAME_BYTES_MAX {
                return None;
            }
            at += 1 + length;
        }
    }
}

/// The first name server that a text in the form of resolv.conf (5) names.
pub fn server_of(resolv_conf: &str) -> Option<IpAddr> {
    let mut words = resolv_conf.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut line| {
        (line.next() == Some("nameserver"))
            .then(|| line.next())
            .flatten()?
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(
        question: &Question,
        number: u16,
        flags: [u8; 2],
        records: &[(u16, Vec<u8>)],
    ) -> Vec<u8> {
        let mut message = question.encode(number).unwrap();
        message[2..4].copy_from_slice(&flags);
        message[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        for (kind, data) in records {
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&kind.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
            message.extend_from_slice(&(data.len() as u16).to_be_bytes());
            message.extend_from_slice(data);
        }
        message
    }

    #[test]
    fn questions() {
        let of = |address: &str| Question::NamesOf(address.parse().unwrap());
        assert_eq!(of("66.249.66.1").name(), "1.66.249.66.in-addr.arpa");
        assert_eq!(
            of("2001:db8::567:89ab").name(),
            "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
        let any = IpAddr::from([0, 0, 0, 0]);
        for bad in ["", "a..b", &"a".repeat(64), &"abc.".repeat(80)] {
            assert_eq!(
                Question::AddressesOf(bad.into(), any).encode(1),
                None,
                "{bad}"
            );
        }
        let message = Question::AddressesOf("a.bc.".into(), any)
            .encode(0x1234)
            .unwrap();
        assert_eq!(
            message,
            b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x01\0\x01"
        );
    }

    #[test]
    fn answers() {
        let question = Question::NamesOf([192, 0, 2, 1].into());
        let name = b"\x05crawl\x09googlebot\x03com\0".to_vec();
        let message = answer_to(
            &question,
            7,
            [0x81, 0x80],
            &[(TYPE_CNAME, vec![0xc0, 12]), (TYPE_PTR, name)],
        );
        assert_eq!(
            question.decode(7, &message).unwrap().names,
            ["crawl.googlebot.com"]
        );
        assert_eq!(question.decode(8, &message), None, "another number");
        assert_eq!(
            Question::NamesOf([192, 0, 2, 2].into()).decode(7, &message),
            None,
            "another question"
        );
        for cut in 0..message.len() {
            assert_eq!(question.decode(7, &message[..cut]), None, "{cut}");
        }
        let question = Question::AddressesOf("a.test".into(), [0, 0, 0, 0].into());
        let message = answer_to(&question, 7, [0x81, 0x80], &[(TYPE_A, vec![192, 0, 2, 1])]);
        assert_eq!(
            question.decode(7, &message).unwrap().addresses,
            [IpAddr::from([192, 0, 2, 1])]
        );
        let message = answer_to(&question, 7, [0x81, 0x83], &[]);
        assert_eq!(
            question.decode(7, &message),
            Some(Answer::default()),
            "no such name"
        );
        let message = answer_to(&question, 7, [0x81, 0x82], &[]);
        assert!(question.decode(7, &message).unwrap().failed);
        let message = answer_to(&question, 7, [0x83, 0x80], &[(TYPE_A, vec![1])]);
        assert!(question.decode(7, &message).unwrap().is_cut);
    }

    #[test]
    fn names_that_go_in_circles_end() {
        let question = Question::NamesOf([192, 0, 2, 1].into());
        let end = question.encode(7).unwrap().len() as u8 + 12;
        for data in [
            vec![0xc0, end],
            vec![0xc0, 255],
            vec![1, b'a', 0xc0, end],
            vec![63],
            vec![0x40],
        ] {
            let message = answer_to(&question, 7, [0x81, 0x80], &[(TYPE_PTR, data)]);
            assert_eq!(question.decode(7, &message), None);
        }
    }

    #[test]
    fn resolv_conf() {
        assert_eq!(
            server_of("# x\nsearch a.test\nnameserver fe80::1%eth0\nnameserver 192.0.2.53\n"),
            Some([192, 0, 2, 53].into())
        );
        assert_eq!(server_of("nameserver\n"), None);
    }
}
