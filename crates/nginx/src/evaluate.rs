//! Values of texts and variables.
//!
//! Called by: everything that evaluates a text of the configuration.
//! Caveat: values of maps are kept for the request, as in nginx, unless they are volatile.
//! Out of scope: built-in variables (`builtin`).

use crate::{builtin::Held, pages, request::Request, subrequest::is_of_main};
use saker_ap_expr::{RequestPart, Subnet};
use saker_config::model::Underscores;
use saker_http::{Fields, HeadView};
use saker_ipset::forwarded::{loose_hops_from_end, parse_octets};
use saker_nginx_model::{
    Part, Text,
    geoip::GeoIpPart,
    modules::maps::{Geo, Map, Split},
    variables::{Source, Variable},
};
use std::net::{IpAddr, Ipv4Addr};

/// Maps whose sources are maps.
const DEPTH_MAX: u8 = 16;
/// A text that grows beyond this fails the request.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

fn append(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(value);
}

impl Request<'_> {
    /// Returns the value of a text.
    pub fn text(&mut self, text: &Text) -> Vec<u8> {
        self.text_with(text, append)
    }

    /// Returns the value of a text whose variables are written by a function.
    pub fn text_with(&mut self, text: &Text, write: impl Fn(&[u8], &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_with(text, &mut out, append, write);
        out
    }

    /// Appends the value of a text whose parts are all written by a function.
    pub fn append_text(&mut self, text: &Text, out: &mut Vec<u8>, write: fn(&[u8], &mut Vec<u8>)) {
        self.append_with(text, out, write, write);
    }

    /// One that grows too long leaves nothing, and fails the request.
    fn append_with(
        &mut self,
        text: &Text,
        out: &mut Vec<u8>,
        write_literal: impl Fn(&[u8], &mut Vec<u8>),
        write: impl Fn(&[u8], &mut Vec<u8>),
    ) {
        let from = out.len();
        for part in &text.parts {
            match part {
                Part::Literal(literal) => write_literal(literal, out),
                Part::Capture(group) => {
                    if let Some(value) = self.capture(*group) {
                        write(&value, out);
                    }
                }
                Part::Variable(Variable::Builtin(builtin)) => match self.held(*builtin) {
                    Held::Text(value) => write(value, out),
                    Held::Short(value) => write(value.as_bytes(), out),
                    Held::Nothing => {}
                    Held::Made => {
                        if let Some(value) = self.made(*builtin) {
                            write(&value, out);
                        }
                    }
                },
                Part::Variable(variable) => {
                    if let Some(value) = self.variable(variable) {
                        write(&value, out);
                    }
                }
            }
            if out.len() - from > TEXT_BYTES_MAX {
                self.state.has_failed = true;
                return out.truncate(from);
            }
        }
    }

    /// Returns the text of a group of the last match.
    pub fn capture(&self, group: u8) -> Option<Vec<u8>> {
        let (subject, spans) = self.state.captures.as_ref()?;
        let range = spans.get(usize::from(group))?;
        subject.get(range).map(<[u8]>::to_vec)
    }

    /// Returns the value of a variable; `None`: it has none.
    pub fn variable(&mut self, variable: &Variable) -> Option<Vec<u8>> {
        match variable {
            Variable::Builtin(builtin) => self.builtin(*builtin),
            Variable::Field(name) => self.field_as_named(name),
            Variable::Argument(name) => self.argument(name),
            Variable::Cookie(name) => self.cookie(name),
            Variable::Named(number) => self.named(*number),
            // Those of streams stand in no text of `http`.
            Variable::Session(_) => None,
            // Trailers come behind the response; access logs have them.
            Variable::SentTrailer(_) | Variable::UpstreamTrailer(_) => None,
            Variable::PrefaceTlv(number, inner) => self.preface_tlv(*number, *inner),
            Variable::SentField(name) => self.sent_field(name),
            Variable::UpstreamCookie(name) => {
                self.depends_on_request();
                let is_upstream = self.exchange.upstream.is_answered_by_program;
                let (_, fields) = self.state.response.as_ref().filter(|_| is_upstream)?;
                cookie_set(fields, name)
            }
            Variable::UpstreamField(name) => {
                self.depends_on_request();
                let is_upstream = self.exchange.upstream.is_answered_by_program;
                let own = self.state.response.as_ref().filter(|_| is_upstream);
                let left = self.exchange.upstream.left_fields.as_deref();
                let fields = left.or(own.map(|(_, fields)| fields))?;
                joined_lines(fields, name)
            }
        }
    }

    /// Returns a field of the response. Before there is one, only the type of a file is known.
    fn sent_field(&mut self, name: &str) -> Option<Vec<u8>> {
        if let Some((_, fields)) = &self.state.response {
            let value = joined_lines(fields, name);
            self.depends_on_request();
            return value;
        }
        let location = &self.state.location;
        let is_of_file = location.conf.upstreams.pass.is_none();
        if name == "content-type" && is_of_file {
            let media_type = pages::media_type(&location.conf, &self.exchange.path);
            return Some(media_type.into_bytes());
        }
        self.state.wants_response = true;
        self.depends_on_request();
        None
    }

    /// Takes the response, which tables may now depend on.
    pub fn take_response(&mut self, status: u16, fields: &Fields) {
        let fields = match self.nginx.reads_responses {
            true => fields.clone(),
            // Nothing asks for more than the status.
            false => Fields::new(),
        };
        self.state.response = Some((status, fields));
        let variables = &self.nginx.variables;
        for (value, variable) in self.state.values.iter_mut().zip(variables) {
            if !variable.is_stored() {
                *value = None;
            }
        }
    }

    /// The head of the client's request.
    pub fn main_head(&self) -> HeadView<'_> {
        match &self.state.main {
            Some(main) => main.view(),
            None => self.exchange.head.view(),
        }
    }

    /// Returns the lines of a field, joined.
    pub fn field(&mut self, name: &str) -> Option<Vec<u8>> {
        if self.state.main.is_some() && is_of_main(name) {
            self.depends_on_request();
            return joined(self.main_head(), name);
        }
        let value = joined(self.exchange.head.view(), name);
        self.depends_on_field(name, value.as_deref());
        value
    }

    /// Returns the value of `$http_NAME`: names with underscores count, too, where they are not
    /// dropped.
    fn field_as_named(&mut self, name: &str) -> Option<Vec<u8>> {
        let value = self.field(name);
        let passes = self.state.location.settings.underscores == Underscores::Pass;
        if value.is_some() || !passes || !name.contains('-') {
            return value;
        }
        self.depends_on_request();
        let is_named = |own: &[u8]| {
            own.len() == name.len()
                && own.iter().zip(name.bytes()).all(|(own, wanted)| match own {
                    b'_' => wanted == b'-',
                    own => own.eq_ignore_ascii_case(&wanted),
                })
        };
        let fields = self.exchange.head.view();
        let mut fields = fields.fields().filter(|(own, _)| is_named(own));
        fields.next().map(|(_, value)| value.to_vec())
    }

    /// Returns the first argument of a name, compared regardless of case; its value as sent.
    fn argument(&mut self, name: &str) -> Option<Vec<u8>> {
        self.depends_on_query();
        let query = self.exchange.query.as_deref()?;
        query.split(|byte| *byte == b'&').find_map(|pair| {
            let (key, rest) = pair.split_at_checked(name.len())?;
            let value = rest.strip_prefix(b"=")?;
            key.eq_ignore_ascii_case(name.as_bytes())
                .then(|| value.to_vec())
        })
    }

    /// Returns the first cookie of a name, compared regardless of case.
    pub fn cookie(&mut self, name: &str) -> Option<Vec<u8>> {
        let all = self.field("cookie")?;
        cookie(&all, name).map(<[u8]>::to_vec)
    }

    fn named(&mut self, number: usize) -> Option<Vec<u8>> {
        if let Some(Some(value)) = self.state.values.get(number) {
            return Some(value.to_vec());
        }
        let nginx = self.nginx;
        let source = &nginx.variables.get(number)?.source;
        if self.state.depth >= DEPTH_MAX {
            self.state.has_failed = true;
            return None;
        }
        self.state.depth += 1;
        let (value, is_kept) = match source {
            Source::Set => {
                if let Some(variable) = nginx.variables.get(number) {
                    self.log_unset(&variable.name);
                }
                (None, false)
            }
            Source::Unknown | Source::Slot => (None, false),
            Source::Map(at) => match nginx.tables.maps.get(*at) {
                Some(map) => (self.map(map), !map.is_volatile),
                None => (None, false),
            },
            Source::Geo(at) => {
                let geo = nginx.tables.geos.get(*at);
                (geo.map(|geo| self.geo(geo)), true)
            }
            Source::GeoIp(part) => (self.geo_ip(*part), true),
            Source::Split(at) => {
                let split = nginx.tables.splits.get(*at);
                (split.and_then(|split| self.split(split)), true)
            }
        };
        self.state.depth -= 1;
        if is_kept && let Some(value) = &value {
            self.set_value(number, value);
        }
        value
    }

    fn map(&mut self, map: &Map) -> Option<Vec<u8>> {
        let value = self.text(&map.source);
        let mut lower = String::from_utf8_lossy(&value).to_ascii_lowercase();
        if map.has_hostnames && lower.ends_with('.') {
            lower.pop();
        }
        if let Some(text) = map.names.literal(&lower) {
            return Some(self.text(text));
        }
        // Nothing is compared with expressions.
        let regexes = map.names.regexes.iter().filter(|_| !lower.is_empty());
        for (regex, text) in regexes {
            if self.regex(regex, &value) {
                return Some(self.text(text));
            }
        }
        map.default.as_ref().map(|text| self.text(text))
    }

    fn geo(&mut self, geo: &Geo) -> Vec<u8> {
        let address = match &geo.source {
            None => self.forwarded_address(&geo.proxies, geo.is_recursive),
            Some(text) => geo_address(&self.text(text)),
        };
        let of_client = geo.source.is_none() && geo.proxies.is_empty();
        let found = match of_client && geo.networks.len() <= NETWORKS_MAX {
            // Outcomes are kept for all clients of which the same is true.
            true => {
                let mut networks = geo.networks.iter().rev();
                networks.find(|(network, _)| self.is_client_within(network))
            }
            false => {
                if of_client {
                    self.depends_on_request();
                }
                let place = geo.index.find(address);
                place.and_then(|place| geo.networks.get(place))
            }
        };
        found.map_or_else(|| geo.default.to_vec(), |(_, value)| value.to_vec())
    }

    /// The value of a variable that a database has.
    fn geo_ip(&mut self, part: GeoIpPart) -> Option<Vec<u8>> {
        self.depends_on_request();
        let tables = &self.nginx.tables.geoip;
        let database = tables.of(part)?;
        let address = self.forwarded_address(&tables.proxies, tables.is_recursive);
        database.value(address, part)
    }

    /// The client's address, or the one that a proxy names.
    fn forwarded_address(&mut self, proxies: &[Subnet], is_recursive: bool) -> IpAddr {
        let mut address = self.exchange.client.ip();
        if proxies.is_empty() {
            return address;
        }
        self.depends_on_request();
        let list = self.field("x-forwarded-for").unwrap_or_default();
        let list = String::from_utf8_lossy(&list);
        let is_proxy = |address: IpAddr| proxies.iter().any(|proxy| proxy.contains(address));
        for hop in loose_hops_from_end(&list) {
            let Some(named) = hop.filter(|_| is_proxy(address)) else {
                break;
            };
            address = named.ip();
            if !is_recursive {
                break;
            }
        }
        address
    }

    fn split(&mut self, split: &Split) -> Option<Vec<u8>> {
        let value = self.text(&split.source);
        let hash = murmur2(&value);
        let part = split.parts.iter().find(|(bound, _)| hash < *bound);
        let text = part.map(|(_, text)| text).or(split.rest.as_ref())?;
        Some(self.text(text))
    }

    /// Returns true if a value counts as true.
    pub fn is_true(value: Option<&[u8]>) -> bool {
        value.is_some_and(|value| !value.is_empty() && value != b"0")
    }

    /// Records the method, which `GET` and `HEAD` of a cached route share.
    pub fn method(&mut self) -> Vec<u8> {
        let method = self.main_head().method_token().to_vec();
        self.depends_on_value(RequestPart::Method, Some(&method));
        method
    }
}

/// The address that `geo` looks up for a value: one that is no address counts as the last of all, as
/// nginx documents it.
pub fn geo_address(value: &[u8]) -> IpAddr {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let address = parse_octets(text).map(IpAddr::from);
    let address = address.or_else(|| text.parse().ok());
    address.map_or(IpAddr::V4(Ipv4Addr::BROADCAST), |address| {
        address.to_canonical()
    })
}

/// Networks of a table that outcomes are kept by, one by one.
const NETWORKS_MAX: usize = 32;

/// The value of a cookie as nginx finds it: names begin behind `;` and `,`, values end at `;`, and
/// spaces around `=` don't count.
fn cookie<'c>(all: &'c [u8], name: &str) -> Option<&'c [u8]> {
    let mut rest = all;
    while !rest.is_empty() {
        let value = rest.split_at_checked(name.len()).and_then(|(key, behind)| {
            let is_it = key.eq_ignore_ascii_case(name.as_bytes());
            let behind = behind.trim_ascii_start().strip_prefix(b"=")?;
            is_it.then(|| behind.trim_ascii_start())
        });
        if let Some(value) = value {
            return value.split(|byte| *byte == b';').next();
        }
        let end = rest.iter().position(|byte| matches!(byte, b';' | b','));
        rest = rest.get(end? + 1..)?.trim_ascii_start();
    }
    None
}

/// The lines of a field, joined.
pub fn joined(head: HeadView<'_>, name: &str) -> Option<Vec<u8>> {
    let mut lines = head.all(name);
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    let mut value = lines.next()?.to_vec();
    for line in lines {
        value.extend_from_slice(separator);
        value.extend_from_slice(line);
    }
    Some(value)
}

/// The value of a cookie that a response sets.
fn cookie_set(fields: &Fields, name: &str) -> Option<Vec<u8>> {
    fields.iter().find_map(|(field, value)| {
        if !field.eq_ignore_ascii_case("set-cookie") {
            return None;
        }
        let (own, rest) = value.split_at_checked(name.len())?;
        let rest = rest.strip_prefix(b"=")?;
        let end = rest.iter().position(|byte| *byte == b';');
        own.eq_ignore_ascii_case(name.as_bytes()).then(|| {
            rest.get(..end.unwrap_or(rest.len()))
                .unwrap_or_default()
                .to_vec()
        })
    })
}

/// MurmurHash2 with the seed 0, which `split_clients` uses.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(chunk);
        let mut part = u32::from_le_bytes(bytes).wrapping_mul(M);
        part ^= part >> 24;
        hash = hash.wrapping_mul(M) ^ part.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    for (index, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * index);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Returns the values of all lines of a name, with commas between them.
fn joined_lines(fields: &Fields, name: &str) -> Option<Vec<u8>> {
    let lines = fields.iter();
    let mut values = lines.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    let mut value = values.next()?.1.to_vec();
    for (_, more) in values {
        value.extend_from_slice(b", ");
        value.extend_from_slice(more);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the public reference implementation with the seed 0 in place of the length's
    /// product.
    #[test]
    fn murmur() {
        assert_eq!(murmur2(b""), 0);
        assert_ne!(murmur2(b"a"), murmur2(b"b"));
        assert_eq!(murmur2(b"abcd"), murmur2(b"abcd"));
        assert_ne!(murmur2(b"abcde"), murmur2(b"abcdf"));
    }
}
