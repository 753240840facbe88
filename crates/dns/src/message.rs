//! Questions to a name server and its answers (RFC 1035): addresses of names, names of addresses,
//! and servers of services. Bytes in, bytes out.
//!
//! Called by: `exchange`.
//! Caveat: responses are untrusted. Names in them may point backwards only and have at most 255
//! octets; a response counts only if it repeats the query's id and question, and a record in it only
//! if its owner is the name in question or what aliases (CNAME) in the same response lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const CLASS_INTERNET: u16 = 1;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;
const TYPE_SRV: u16 = 33;
/// RFC 1035 section 2.3.4.
const NAME_BYTES_MAX: usize = 255;
const LABEL_BYTES_MAX: usize = 63;
/// Maximum number of records read from one response.
const RECORDS_MAX: usize = 64;
/// There is no such name (RFC 1035 section 4.1.1).
pub const NAME_ERROR: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The names of an address.
    NamesOf(IpAddr),
    /// The addresses of a name, of the same kind as this one.
    AddressesOf(String, IpAddr),
    /// The servers of a service (RFC 2782).
    ServersOf(String),
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceServer {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub host: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub servers: Vec<ServiceServer>,
    /// Seconds for which all of it holds; `None`: it has no record.
    pub ttl_s: Option<u32>,
    /// The last alias, if it has no record of the kind in question: ask for that name.
    pub alias: Option<String>,
    /// It did not fit: ask again over TCP.
    pub is_cut: bool,
    /// The response code (RFC 1035 section 4.1.1).
    pub code: u8,
}

impl Answer {
    /// The server could not find out (SERVFAIL, REFUSED...), which is no answer.
    pub fn failed(&self) -> bool {
        !matches!(self.code, 0 | NAME_ERROR)
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.addresses.is_empty() && self.servers.is_empty()
    }
}

/// A record of a response that may matter.
struct Record<'m> {
    owner: String,
    kind: u16,
    ttl_s: u32,
    start: usize,
    data: &'m [u8],
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
            Question::AddressesOf(name, _) | Question::ServersOf(name) => {
                name.trim_end_matches('.').to_owned()
            }
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Question::NamesOf(_) => TYPE_PTR,
            Question::AddressesOf(_, IpAddr::V4(_)) => TYPE_A,
            Question::AddressesOf(_, IpAddr::V6(_)) => TYPE_AAAA,
            Question::ServersOf(_) => TYPE_SRV,
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
        let mut answer = Answer {
            is_cut: flags & 0x0200 != 0,
            code: (flags & 15) as u8,
            ..Answer::default()
        };
        let mut found = Vec::new();
        for _ in 0..usize::from(records).min(RECORDS_MAX) {
            match read_record(&mut cursor) {
                Some(record) => found.extend(record),
                // What is broken behind the part that fits is asked for again, or not believed.
                None => return answer.is_cut.then_some(answer),
            }
        }
        match self.take(&found, message, &mut answer) {
            Some(()) => Some(answer),
            None => answer.is_cut.then_some(answer),
        }
    }

    /// Takes the records that the name in question leads to. `None`: one of them is broken.
    fn take(&self, found: &[Record<'_>], message: &[u8], answer: &mut Answer) -> Option<()> {
        let mut owners = vec![self.name()];
        let is_owner = |owners: &[String], name: &str| {
            owners.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let mut ttl_s = u32::MAX;
        // Each pass follows an alias or ends: servers may give records in any order.
        loop {
            let last = owners.last().cloned()?;
            let alias = found.iter().find(|record| {
                record.kind == TYPE_CNAME && record.owner.eq_ignore_ascii_case(&last)
            });
            let Some(alias) = alias else { break };
            let at = alias.start;
            let target = Cursor { message, at }.name()?;
            if is_owner(&owners, &target) {
                break;
            }
            ttl_s = ttl_s.min(alias.ttl_s);
            owners.push(target);
        }
        for record in found {
            if record.kind != self.kind() || !is_owner(&owners, &record.owner) {
                continue;
            }
            ttl_s = ttl_s.min(record.ttl_s);
            answer.ttl_s = Some(ttl_s);
            let mut cursor = Cursor {
                message,
                at: record.start,
            };
            match record.kind {
                TYPE_PTR => answer.names.push(cursor.name()?),
                TYPE_A => answer
                    .addresses
                    .push(Ipv4Addr::from(<[u8; 4]>::try_from(record.data).ok()?).into()),
                TYPE_AAAA => answer
                    .addresses
                    .push(Ipv6Addr::from(<[u8; 16]>::try_from(record.data).ok()?).into()),
                _ => answer.servers.push(ServiceServer {
                    priority: cursor.number()?,
                    weight: cursor.number()?,
                    port: cursor.number()?,
                    host: cursor.name()?,
                }),
            }
        }
        if answer.is_empty() && owners.len() > 1 {
            answer.alias = owners.pop();
        }
        Some(())
    }
}

/// Reads a record. `Some(None)`: one of another class. `None`: it is broken.
fn read_record<'m>(cursor: &mut Cursor<'m>) -> Option<Option<Record<'m>>> {
    let owner = cursor.name()?;
    let (kind, class) = (cursor.number()?, cursor.number()?);
    let ttl_s = u32::from(cursor.number()?) << 16 | u32::from(cursor.number()?);
    let length = usize::from(cursor.number()?);
    let start = cursor.at;
    let data = cursor.message.get(start..start.checked_add(length)?)?;
    cursor.at = start + length;
    Some((class == CLASS_INTERNET).then_some(Record {
        owner,
        kind,
        // RFC 2181 section 8: a lifetime with the first bit set is none.
        ttl_s: if ttl_s > i32::MAX as u32 { 0 } else { ttl_s },
        start,
        data,
    }))
}

struct Cursor<'m> {
    message: &'m [u8],
    at: usize,
}

impl Cursor<'_> {
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
    servers_of(resolv_conf).next()
}

/// Iterates over the name servers that a text in the form of resolv.conf (5) names.
pub fn servers_of(resolv_conf: &str) -> impl Iterator<Item = IpAddr> {
    let words = resolv_conf.lines().map(str::split_ascii_whitespace);
    words.filter_map(|mut line| {
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
        let missing = question.decode(7, &message).unwrap();
        assert!(missing.is_empty() && missing.code == NAME_ERROR && !missing.failed());
        let message = answer_to(&question, 7, [0x81, 0x82], &[]);
        assert!(question.decode(7, &message).unwrap().failed());
        let message = answer_to(&question, 7, [0x83, 0x80], &[(TYPE_A, vec![1])]);
        assert!(question.decode(7, &message).unwrap().is_cut);
    }

    /// Owner, kind, lifetime, and data of records behind the question.
    fn response(question: &Question, records: &[(&str, u16, u32, Vec<u8>)]) -> Vec<u8> {
        let mut message = answer_to(question, 7, [0x81, 0x80], &[]);
        message[7] = records.len() as u8;
        for (owner, kind, ttl_s, data) in records {
            message.extend(labels(owner));
            message.extend([kind.to_be_bytes(), [0, 1]].concat());
            message.extend(ttl_s.to_be_bytes());
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
        }
        message
    }

    fn labels(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn aliases_lead_to_addresses_and_other_names_do_not() {
        let question = Question::AddressesOf("a.test".into(), [0, 0, 0, 0].into());
        let answer = |records: &[_]| question.decode(7, &response(&question, records)).unwrap();
        let found = answer(&[
            ("c.test", TYPE_A, 50, vec![192, 0, 2, 3]),
            ("b.test", TYPE_CNAME, 20, labels("C.test")),
            ("A.test", TYPE_CNAME, 90, labels("b.test")),
            ("other.test", TYPE_A, 1, vec![192, 0, 2, 66]),
        ]);
        assert_eq!(found.addresses, [IpAddr::from([192, 0, 2, 3])]);
        assert_eq!(found.ttl_s, Some(20), "the shortest on the way");
        let found = answer(&[("other.test", TYPE_A, 1, vec![192, 0, 2, 66])]);
        assert_eq!(
            (found.addresses, found.ttl_s),
            (vec![], None),
            "another's address"
        );
        let found = answer(&[("a.test", TYPE_CNAME, 9, labels("b.test"))]);
        assert_eq!(found.alias.as_deref(), Some("b.test"));
        let found = answer(&[
            ("a.test", TYPE_CNAME, 9, labels("b.test")),
            ("b.test", TYPE_CNAME, 9, labels("a.test")),
        ]);
        assert!(found.is_empty(), "aliases in a circle end");
    }

    #[test]
    fn servers_of_a_service() {
        let question = Question::ServersOf("_http._tcp.a.test".into());
        let data = [vec![0, 1, 0, 5, 0x1f, 0x90], labels("one.test")].concat();
        let message = response(&question, &[("_http._tcp.a.test", TYPE_SRV, 7, data)]);
        let found = question.decode(7, &message).unwrap();
        let [server] = &found.servers[..] else {
            panic!("{found:?}");
        };
        assert_eq!((server.priority, server.weight, server.port), (1, 5, 8080));
        assert_eq!(server.host, "one.test");
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
