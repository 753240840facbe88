//! Questions and answers about pages between the servers of a cluster, as bytes.
//!
//! Called by: `ask` and `answer`.
//! Caveat: a format between servers of different versions. The first byte is the version; what has
//! another one is not understood, and the page is made by the server that wants it. Only servers of
//! the cluster get here, and yet everything is checked: lengths, names and values of fields, and
//! that a target is a path.
//! Out of scope: what pages mean (`copy`).

use crate::{
    page::Page,
    record::{By, Record, VaryRecord, number, take},
    search_variance::SearchRule,
};
use saker_cache_rules::rules::Life;
use saker_cluster::RequiredPlace;
use saker_http::chars::is_token;
use saker_pipeline::{Client, Forwarding};
use std::net::SocketAddr;

const VERSION: u8 = 1;

/// Longer questions are not read.
pub const ASK_BYTES_MAX: usize = 256 << 10;

/// Room for the head of a page, beside its content.
pub const PAGE_HEAD_BYTES_MAX: usize = 1 << 20;

const IS_SECURE: u8 = 1;
const IS_TLS: u8 = 2;
const IS_DIRECT: u8 = 4;
const IS_PROXIED: u8 = 8;

/// A request for a page, as a client made it, without anything personal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub required: RequiredPlace,
    /// The client.
    pub address: SocketAddr,
    /// Ports of the listener and of the connection.
    pub ports: [u16; 2],
    pub secure: bool,
    pub tls: bool,
    pub forwarding: Forwarding,
    pub target: Vec<u8>,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Ask {
    /// The question for this client.
    pub fn of(client: &Client, listener_port: u16, required: RequiredPlace) -> Ask {
        Ask {
            required,
            address: client.address,
            ports: [listener_port, client.local.port()],
            secure: client.secure,
            tls: client.tls,
            forwarding: client.forwarding,
            target: Vec::new(),
            fields: Vec::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.required.encode_into(&mut out);
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(
            flag(self.secure, IS_SECURE)
                | flag(self.tls, IS_TLS)
                | flag(self.forwarding == Forwarding::Direct, IS_DIRECT)
                | flag(self.forwarding == Forwarding::Proxied, IS_PROXIED),
        );
        let ports = self.ports.iter().flat_map(|port| port.to_le_bytes());
        out.extend(ports);
        push(self.address.to_string().as_bytes(), &mut out);
        push(&self.target, &mut out);
        push_fields(
            self.fields.iter().map(|(name, value)| (&**name, &**value)),
            &mut out,
        );
        out
    }

    /// `None`: not what `encode` writes, or nothing that a client may ask for.
    pub fn decode(bytes: &[u8]) -> Option<Ask> {
        let mut rest = versioned(bytes)?;
        let required = RequiredPlace::decode_from(&mut rest)?;
        let [flags] = *take(&mut rest, 1)? else {
            return None;
        };
        let forwarding = match flags & (IS_DIRECT | IS_PROXIED) {
            0 => Forwarding::Unknown,
            IS_DIRECT => Forwarding::Direct,
            IS_PROXIED => Forwarding::Proxied,
            _ => return None,
        };
        let mut port = || Some(u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?));
        let ports = [port()?, port()?];
        let address = std::str::from_utf8(text(&mut rest)?).ok()?.parse().ok()?;
        let target = text(&mut rest)?.to_vec();
        let is_path = target.first() == Some(&b'/') && target.iter().all(u8::is_ascii_graphic);
        let fields = fields(&mut rest)?;
        (is_path && rest.is_empty()).then_some(Ask {
            required,
            address,
            ports,
            secure: flags & IS_SECURE != 0,
            tls: flags & IS_TLS != 0,
            forwarding,
            target,
            fields,
        })
    }
}

/// The reason why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// The server cannot say: it is behind, or its request failed.
    Now,
    /// It is not one for all clients, or too long.
    Ever,
}

/// A page, as one server hands it to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPage {
    /// Time by the clock of the server that hands it out, to which the times of `life` relate.
    pub now_ms: i64,
    pub key: Vec<u8>,
    pub site: Vec<u8>,
    pub tags: Vec<Vec<u8>>,
    pub status: u16,
    pub by: By,
    pub is_template: bool,
    pub life: Life,
    pub vary_record: Option<VaryRecord>,
    pub search_rule: Option<SearchRule>,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub content: Vec<u8>,
}

const NO_PAGE_NOW: u8 = 0;
const NO_PAGE_EVER: u8 = 1;
const PAGE: u8 = 2;

/// An answer without a page.
pub fn encode_none(why: NoPage) -> Vec<u8> {
    let why = match why {
        NoPage::Now => NO_PAGE_NOW,
        NoPage::Ever => NO_PAGE_EVER,
    };
    vec![VERSION, why]
}

/// An answer with a page and its content.
pub fn encode_page(
    page: &Page,
    (vary_record, search_rule): (Option<&VaryRecord>, Option<&SearchRule>),
    now_ms: i64,
    content: &[u8],
) -> Vec<u8> {
    let mut out = vec![VERSION, PAGE];
    out.extend_from_slice(&now_ms.to_le_bytes());
    out.extend_from_slice(&page.status.0.to_le_bytes());
    push(&page.key, &mut out);
    push(&page.site, &mut out);
    out.extend_from_slice(&(page.tags.len() as u32).to_le_bytes());
    page.tags.iter().for_each(|tag| push(tag, &mut out));
    let rules = Record::Page {
        by: page.by,
        is_private: page.is_private,
        is_template: page.is_template,
        life: page.life.clone(),
    };
    push(&rules.encode(), &mut out);
    let vary_record = vary_record.map(|vary_record| {
        // Numbers of fetches are each server's own.
        let since = 0;
        Record::Vary(VaryRecord {
            since,
            ..vary_record.clone()
        })
    });
    let search_rule = search_rule.map(|rule| Record::Search(rule.clone()));
    for record in [vary_record, search_rule] {
        let bytes = record.map(|record| record.encode());
        push(&bytes.unwrap_or_default(), &mut out);
    }
    let fields = page.fields.iter();
    let fields: Vec<_> = fields
        .map(|(name, value)| (name.as_bytes(), value))
        .collect();
    push_fields(fields.into_iter(), &mut out);
    push(content, &mut out);
    out
}

/// The answer of a server; `None`: it is not understood.
pub fn decode_answer(bytes: &[u8]) -> Option<Result<SharedPage, NoPage>> {
    let mut rest = versioned(bytes)?;
    match take(&mut rest, 1)? {
        [NO_PAGE_NOW] if rest.is_empty() => Some(Err(NoPage::Now)),
        [NO_PAGE_EVER] if rest.is_empty() => Some(Err(NoPage::Ever)),
        [PAGE] => decode_page(rest).map(Ok),
        _ => None,
    }
}

fn decode_page(mut rest: &[u8]) -> Option<SharedPage> {
    let now_ms = i64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
    let status = u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?);
    let (key, site) = (text(&mut rest)?.to_vec(), text(&mut rest)?.to_vec());
    let tags = (0..number(&mut rest)?).map(|_| text(&mut rest).map(<[u8]>::to_vec));
    let tags = tags.collect::<Option<Vec<_>>>()?;
    let Record::Page {
        by,
        is_private: false,
        is_template,
        life,
    } = Record::decode(text(&mut rest)?)?
    else {
        return None;
    };
    let vary_record = match text(&mut rest)? {
        [] => None,
        bytes => match Record::decode(bytes)? {
            Record::Vary(vary_record) => Some(vary_record),
            _ => return None,
        },
    };
    let search_rule = match text(&mut rest)? {
        [] => None,
        bytes => match Record::decode(bytes)? {
            Record::Search(rule) => Some(rule),
            _ => return None,
        },
    };
    let fields = fields(&mut rest)?;
    let content = text(&mut rest)?.to_vec();
    let is_final = (200..600).contains(&status);
    (rest.is_empty() && is_final).then_some(SharedPage {
        now_ms,
        key,
        site,
        tags,
        status,
        by,
        is_template,
        life,
        vary_record,
        search_rule,
        fields,
        content,
    })
}

fn versioned(bytes: &[u8]) -> Option<&[u8]> {
    bytes.strip_prefix(&[VERSION])
}

fn push(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn push_fields<'f>(fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(fields.len() as u32).to_le_bytes());
    for (name, value) in fields {
        push(name, out);
        push(value, out);
    }
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = number(rest)?;
    take(rest, length as usize)
}

fn fields(rest: &mut &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let count = number(rest)?;
    let one = |_| {
        let (name, value) = (text(rest)?, text(rest)?);
        let ends_line = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        let is_field = is_token(name) && !value.iter().any(ends_line);
        is_field.then(|| (name.to_vec(), value.to_vec()))
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests;
