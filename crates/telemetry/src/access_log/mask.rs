//! Masks: what an access log does not write about clients.
//!
//! Called by: the worker's side of access logs, for each line of a log with a mask.
//! Caveat: a value can stand in several items (the request line, the query, Referer, the fields of
//! proxies); it is masked in all of them. Names of parameters are compared decoded.
//! Out of scope: the error log, which names clients so that they can be banned.

use super::record::Record;
use saker_http::{Fields, HeadView, RequestHead, query::form_decoded};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Stands for a masked value.
const MASKED: &[u8] = b"***";
/// Fields in which proxies name clients.
const FORWARDING: [&str; 8] = [
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-client-ip",
    "client-ip",
    "fastly-client-ip",
];

/// Parts of requests and responses that are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    parameters: Vec<Box<str>>,
    cookies: Vec<Box<str>>,
    fields: Vec<Box<str>>,
    client: bool,
    user: bool,
}

/// The parts of a record that differ.
struct Masked {
    head: Option<RequestHead>,
    request_line: Vec<u8>,
    query: Option<Vec<u8>>,
    final_query: Option<Option<Vec<u8>>>,
    response: Option<Fields>,
    client: Vec<u8>,
    peer: Vec<u8>,
}

impl Mask {
    /// Parses `query:NAME`, `cookie:NAME`, `header:NAME`, `client`, and `user`; `None`: another
    /// word is among them.
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Option<Mask> {
        let mut mask = Mask::default();
        for word in words {
            let (kind, name) = word.split_once(':').unwrap_or((word, ""));
            let list = match (kind, name) {
                ("client", "") => {
                    mask.client = true;
                    continue;
                }
                ("user", "") => {
                    mask.user = true;
                    continue;
                }
                (_, "") => return None,
                ("query", _) => &mut mask.parameters,
                ("cookie", _) => &mut mask.cookies,
                ("header", _) => &mut mask.fields,
                _ => return None,
            };
            list.push(name.into());
        }
        Some(mask)
    }

    /// Returns true if it masks nothing.
    pub fn is_empty(&self) -> bool {
        *self == Mask::default()
    }

    /// Calls `write` with the record as it may be written.
    pub fn apply(&self, record: &Record<'_>, write: impl FnOnce(&Record<'_>)) {
        let masked = self.masked(record);
        write(&Record {
            head: masked.head.as_ref().map(RequestHead::view).or(record.head),
            request_line: &masked.request_line,
            query: masked.query.as_deref(),
            final_query: masked.final_query.as_ref().map(|query| query.as_deref()),
            response_fields: masked.response.as_ref().or(record.response_fields),
            client_text: &masked.client,
            peer_text: &masked.peer,
            client_name: if self.client { b"" } else { record.client_name },
            user: match record.user {
                Some(_) if self.user => Some("***"),
                user => user,
            },
            ..*record
        });
    }

    fn masked(&self, record: &Record<'_>) -> Masked {
        let query = |query: Option<&[u8]>| query.map(|query| self.query(query));
        let address = |text: &[u8]| match self.client {
            true => truncated(text),
            false => text.to_vec(),
        };
        Masked {
            head: record.head.map(|head| self.head(head)),
            request_line: self.target(record.request_line),
            query: query(record.query),
            final_query: record.final_query.map(query),
            response: record
                .response_fields
                .filter(|_| !self.fields.is_empty() || !self.cookies.is_empty())
                .map(|fields| self.response(fields)),
            client: address(record.client_text),
            peer: address(record.peer_text),
        }
    }

    fn head(&self, head: HeadView<'_>) -> RequestHead {
        let target = self.target(head.target());
        let target = String::from_utf8_lossy(&target).into_owned();
        let method = String::from_utf8_lossy(head.method_token()).into_owned();
        let bare = RequestHead::build(&method, &target, head.version(), &[]);
        let fields: Vec<(&[u8], Vec<u8>)> = head
            .fields()
            .map(|(name, value)| (name, self.field(name, value)))
            .collect();
        bare.with_fields(fields.iter().map(|(name, value)| (*name, &**value)))
    }

    fn field(&self, name: &[u8], value: &[u8]) -> Vec<u8> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        if any(&self.fields, name, true)
            || (self.client && FORWARDING.iter().any(|one| is(one)))
            || (self.user && is("authorization"))
        {
            return MASKED.to_vec();
        }
        if is("cookie") && !self.cookies.is_empty() {
            return self.pairs(value, b';', |name| {
                any(&self.cookies, name.trim_ascii(), false)
            });
        }
        match is("referer") {
            true => self.target(value),
            false => value.to_vec(),
        }
    }

    fn response(&self, fields: &Fields) -> Fields {
        let mut masked = Fields::new();
        for (name, value) in fields.iter() {
            let value = if any(&self.fields, name.as_bytes(), true) {
                MASKED.to_vec()
            } else if name.eq_ignore_ascii_case("set-cookie") {
                self.set_cookie(value)
            } else if name.eq_ignore_ascii_case("location") {
                self.target(value)
            } else {
                value.to_vec()
            };
            masked.append(name.to_owned(), value);
        }
        masked
    }

    /// Only the first pair of a Set-Cookie is the cookie.
    fn set_cookie(&self, value: &[u8]) -> Vec<u8> {
        let end = value.iter().position(|byte| *byte == b';');
        let (pair, rest) = value.split_at(end.unwrap_or(value.len()));
        let mut masked = self.pairs(pair, b';', |name| {
            any(&self.cookies, name.trim_ascii(), false)
        });
        masked.extend_from_slice(rest);
        masked
    }

    /// A target, a request line, or a URL, whose query ends at a space or a fragment.
    fn target(&self, text: &[u8]) -> Vec<u8> {
        let Some(at) = text.iter().position(|byte| *byte == b'?') else {
            return text.to_vec();
        };
        let (before, rest) = text.split_at(at + 1);
        let end = rest.iter().position(|byte| matches!(byte, b' ' | b'#'));
        let (query, after) = rest.split_at(end.unwrap_or(rest.len()));
        [before, &self.query(query), after].concat()
    }

    fn query(&self, query: &[u8]) -> Vec<u8> {
        if self.parameters.is_empty() {
            return query.to_vec();
        }
        self.pairs(query, b'&', |name| {
            any(&self.parameters, &form_decoded(name), false)
        })
    }

    /// Masks the values of pairs by their names. A pair without `=` is kept: it has no value.
    fn pairs(&self, text: &[u8], between: u8, is_masked: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for (at, pair) in text.split(|byte| *byte == between).enumerate() {
            if at > 0 {
                out.push(between);
            }
            match pair.iter().position(|byte| *byte == b'=') {
                Some(equals) if is_masked(&pair[..equals]) => {
                    out.extend_from_slice(&pair[..=equals]);
                    out.extend_from_slice(MASKED);
                }
                _ => out.extend_from_slice(pair),
            }
        }
        out
    }
}

/// Returns true if one of the names, or of the beginnings before a `*`, is this one.
fn any(names: &[Box<str>], name: &[u8], ignores_case: bool) -> bool {
    names.iter().any(|wanted| {
        let (wanted, is_start) = match wanted.strip_suffix('*') {
            Some(start) => (start.as_bytes(), true),
            None => (wanted.as_bytes(), false),
        };
        let Some(start) = name.get(..wanted.len()) else {
            return false;
        };
        let is_same = match ignores_case {
            true => start.eq_ignore_ascii_case(wanted),
            false => start == wanted,
        };
        is_same && (is_start || name.len() == wanted.len())
    })
}

/// An address without its last 8 bits (IPv4) or 80 bits (IPv6).
fn truncated(text: &[u8]) -> Vec<u8> {
    let address = std::str::from_utf8(text).ok().map(str::parse::<IpAddr>);
    match address {
        Some(Ok(IpAddr::V4(address))) => {
            let [a, b, c, _] = address.octets();
            Ipv4Addr::new(a, b, c, 0).to_string().into_bytes()
        }
        Some(Ok(IpAddr::V6(address))) => {
            let network = address.to_bits() >> 80 << 80;
            Ipv6Addr::from_bits(network).to_string().into_bytes()
        }
        _ if text.is_empty() => Vec::new(),
        _ => MASKED.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::{Format, LogClock};
    use saker_http::Version;

    fn line(words: &[&str], format: &str) -> String {
        let head = RequestHead::build(
            "GET",
            "/a?to%6ben=1&x=2&token",
            Version::Http11,
            &[
                ("Cookie", "sid=abc; theme=dark"),
                ("Referer", "http://b/?x=1&token=9#f"),
                ("X-Forwarded-For", "198.51.100.7"),
                ("Authorization", "Basic YTpi"),
            ],
        );
        let mut response = Fields::new();
        response.append("Set-Cookie", &b"sid=def; Path=/"[..]);
        let record = Record {
            head: Some(head.view()),
            request_line: b"GET /a?to%6ben=1&x=2&token HTTP/1.1",
            query: Some(b"to%6ben=1&x=2&token"),
            client_text: b"192.0.2.77",
            client_name: b"host.example",
            user: Some("ann"),
            response_fields: Some(&response),
            ..Record::default()
        };
        let mask = Mask::parse(words.iter().copied()).unwrap();
        let (format, mut clock) = (Format::parse(format).unwrap(), LogClock::default());
        let mut out = Vec::new();
        mask.apply(&record, |record| format.write(record, &mut clock, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_masked_wherever_they_stand() {
        let cases = [
            (
                &["query:token"][..],
                "%r|%q|%{Referer}i",
                "GET /a?to%6ben=***&x=2&token HTTP/1.1|?to%6ben=***&x=2&token|http://b/?x=1&token=***#f\n",
            ),
            (
                &["cookie:*"],
                "%{Cookie}i|%{sid}C|%{Set-Cookie}o",
                "sid=***; theme=***|***|sid=***; Path=/\n",
            ),
            (&["cookie:si*"], "%{Cookie}i", "sid=***; theme=dark\n"),
            (
                &["client"],
                "%a %h %{X-Forwarded-For}i",
                "192.0.2.0 192.0.2.0 ***\n",
            ),
            (
                &["header:authorization"],
                "%{Authorization}i %u",
                "*** ann\n",
            ),
            (&["user"], "%{Authorization}i %u", "*** ***\n"),
        ];
        for (words, format, expected) in cases {
            assert_eq!(line(words, format), expected, "{words:?} {format}");
        }
    }

    #[test]
    fn addresses_lose_their_end() {
        for (text, expected) in [
            ("192.0.2.77", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
            ("::ffff:192.0.2.77", "::"),
            ("unix:", "***"),
            ("", ""),
        ] {
            assert_eq!(truncated(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn words() {
        for bad in ["", "token", "query:", "body:x", "client:x"] {
            assert_eq!(Mask::parse([bad]), None, "{bad}");
        }
        assert!(Mask::parse([]).unwrap().is_empty());
    }
}
