//! Reads decoded fields into a [`HeadStore`] and refuses what is malformed (RFC 9113 sections
//! 8.1.1, 8.2 and 8.3; RFC 9114 sections 4.1.2, 4.2 and 4.3 say the same, so that only the first is
//! cited below).
//!
//! Place in the walk: between HPACK or QPACK, which say what each field is and whether its bytes
//! are allowed, and the connection, which makes a stream of what is left. The one difficulty: the
//! decoder must see the whole block whatever is wrong with it, or its table is out of step with the
//! peer's; so after a fault or beyond a limit fields are dropped and decoding goes on.
//!
//! Methods, targets and hosts are held to what `http1` accepts, since both end in the same places.

use saker_http::chars::{is_target_char, is_token};
use saker_http::host::parse_authority;
use saker_http::{KnownField, Method, Span, Version};

use crate::{HeadFault, HeadStore, NameKind, Priority};

/// As `http1` has it; longer than any registered method.
const METHOD_BYTES_MAX: usize = 64;
/// Bytes that each field counts in addition to its own (RFC 9113 section 6.5.2).
const FIELD_OVERHEAD_BYTES: usize = 32;

/// Takes the fields of a block in their order.
pub trait FieldSink {
    /// `never_indexed`: must not be put in tables by intermediaries (RFC 7541 section 6.2.3, RFC
    /// 9204 section 7.1.3). Returning false stops the decoder; the connection has to end then,
    /// since the table state may be lost.
    fn field(&mut self, kind: NameKind, name: &[u8], value: &[u8], never_indexed: bool) -> bool;
}

/// Size limits of heads and trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// All fields, each with 32 bytes on top (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
    pub list_bytes_max: u32,
    /// Fields; all `cookie` fields count as one.
    pub field_count_max: u32,
    /// `:path` of a request.
    pub target_bytes_max: u32,
    /// Name and value of one field together.
    pub field_bytes_max: u32,
    /// A Host that names another host than `:authority` is dropped, as in Apache and as of an
    /// absolute target in HTTP/1 (RFC 9112 section 3.2.2), where the request is malformed
    /// otherwise.
    pub authority_replaces_host: bool,
    /// A malformed request is a refusal, for a response with a status, unless one of its fields is
    /// no field at all, as in nginx. It is a fault otherwise.
    pub answers_malformed: bool,
}

/// Kind of field section being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `extended_connect`: `:protocol` is allowed, because our SETTINGS said so (RFC 8441 section
    /// 3).
    Request {
        extended_connect: bool,
    },
    Response,
    Trailers,
}

/// Reason for which a request gets the status of an error, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRefusal {
    /// The target exceeds its limit: 414.
    Target,
    /// The fields exceed a limit: 431.
    Fields,
    /// The head is malformed, and so is a request without the content that it announces: 400.
    Malformed(HeadFault),
}

/// Facts of a head that the connection needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadFacts {
    /// Over a limit, or malformed: the store has what fitted.
    pub refusal: Option<HeadRefusal>,
    pub content_length: Option<u64>,
    pub is_connect: bool,
    pub priority: Priority,
}

#[derive(Clone, Copy, Debug, Default)]
struct PseudoFields {
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
    status: bool,
}

pub struct HeadReader<'s> {
    store: &'s mut HeadStore,
    shape: Shape,
    bytes_left: usize,
    fields_left: u32,
    target_bytes_max: usize,
    field_bytes_max: usize,
    authority_replaces_host: bool,
    answers_malformed: bool,
    pseudo: PseudoFields,
    /// The pseudo-fields are complete, because a regular one has come.
    in_fields: bool,
    has_host: bool,
    fault: Option<HeadFault>,
    facts: HeadFacts,
}

impl FieldSink for HeadReader<'_> {
    #[inline]
    fn field(&mut self, kind: NameKind, name: &[u8], value: &[u8], _never_indexed: bool) -> bool {
        if self.fault.is_none() && self.fits(kind, name, value) {
            self.fault = self.take(kind, name, value).err();
        }
        true
    }
}

impl<'s> HeadReader<'s> {
    pub fn new(
        store: &'s mut HeadStore,
        shape: Shape,
        version: Version,
        limits: &HeadLimits,
    ) -> Self {
        store.clear(version);
        HeadReader {
            store,
            shape,
            bytes_left: limits.list_bytes_max as usize,
            fields_left: limits.field_count_max,
            target_bytes_max: limits.target_bytes_max as usize,
            field_bytes_max: limits.field_bytes_max as usize,
            authority_replaces_host: limits.authority_replaces_host,
            answers_malformed: limits.answers_malformed,
            pseudo: PseudoFields::default(),
            in_fields: false,
            has_host: false,
            fault: None,
            facts: HeadFacts::default(),
        }
    }

    /// After the last field.
    pub fn finish(mut self) -> Result<HeadFacts, HeadFault> {
        let is_answered = self.answers_malformed && matches!(self.shape, Shape::Request { .. });
        let sound = match self.fault {
            Some(fault) => Err(fault),
            None if self.facts.refusal.is_some() => Ok(()),
            None => self.end_pseudo_fields().and_then(|()| self.check_host()),
        };
        match sound {
            Err(fault) if is_answered && !fault.is_of_field() => {
                self.facts.refusal = Some(HeadRefusal::Malformed(fault))
            }
            other => other?,
        }
        if self.facts.refusal.is_some() {
            self.finish_cut_off();
        }
        self.store.push_cookies();
        if self.facts.refusal.is_none()
            && self
                .store
                .view()
                .has_joined_value_over(self.field_bytes_max.saturating_sub(1), true)
        {
            self.facts.refusal = Some(HeadRefusal::Fields);
        }
        Ok(self.facts)
    }

    /// With the request line from what there is, for the log.
    fn finish_cut_off(&mut self) {
        let has_line = !self.store.view().start_line().is_empty();
        if has_line || !matches!(self.shape, Shape::Request { .. }) {
            return;
        }
        // Nothing has been checked, and a line is one line.
        let fits = |span: &Span| !self.store.pseudo(*span).iter().any(u8::is_ascii_control);
        let [method, path] = [self.pseudo.method, self.pseudo.path]
            .map(|span| span.filter(fits).unwrap_or_default());
        self.store.write_line(method, path);
    }

    /// RFC 9113 section 8.3.1: http and https must have one of the two.
    fn check_host(&self) -> Result<(), HeadFault> {
        let is_request = matches!(self.shape, Shape::Request { .. });
        if is_request && !self.has_host && self.pseudo.authority.is_none() {
            Err(HeadFault::MissingHost)
        } else {
            Ok(())
        }
    }

    /// Counts a field; `false`: it is over a limit, as everything after it is.
    fn fits(&mut self, kind: NameKind, name: &[u8], value: &[u8]) -> bool {
        let is_further_cookie =
            kind == NameKind::Known(KnownField::Cookie) && self.store.has_cookies();
        let fields = u32::from(!is_further_cookie);
        let bytes = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if self.facts.refusal.is_some() {
            return false;
        }
        if bytes > self.bytes_left || fields > self.fields_left {
            self.facts.refusal = Some(HeadRefusal::Fields);
            return false;
        }
        let max = if kind == NameKind::Path {
            self.target_bytes_max.saturating_add(name.len())
        } else {
            self.field_bytes_max
        };
        // As long as HTTP/1 would write it.
        let name_bytes = match kind {
            NameKind::Path => name.len(),
            NameKind::Authority => b"Host: ".len(),
            _ => name.len() + b": ".len(),
        };
        if name_bytes + value.len() > max {
            // The target is kept, for the log.
            self.facts.refusal = Some(if kind == NameKind::Path {
                HeadRefusal::Target
            } else {
                HeadRefusal::Fields
            });
            return kind == NameKind::Path;
        }
        self.bytes_left -= bytes;
        self.fields_left -= fields;
        true
    }

    fn take(&mut self, kind: NameKind, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        match kind {
            NameKind::Known(known) => {
                self.end_pseudo_fields()?;
                self.known(known, name, value)
            }
            NameKind::Other => {
                self.end_pseudo_fields()?;
                self.other(name, value)
            }
            NameKind::Malformed => Err(why_malformed(name, value)),
            _ => self.pseudo_field(kind, value),
        }
    }

    fn pseudo_field(&mut self, kind: NameKind, value: &[u8]) -> Result<(), HeadFault> {
        // RFC 9113 section 8.1: none in trailers. Section 8.3: all before the first regular field.
        if self.shape == Shape::Trailers {
            return Err(HeadFault::PseudoFieldInTrailers);
        }
        if self.in_fields {
            return Err(HeadFault::PseudoFieldLate);
        }
        let slot = match (kind, self.shape) {
            (NameKind::Status, Shape::Response) => return self.status(value),
            (NameKind::Method, Shape::Request { .. }) => &mut self.pseudo.method,
            (NameKind::Scheme, Shape::Request { .. }) => &mut self.pseudo.scheme,
            (NameKind::Authority, Shape::Request { .. }) => &mut self.pseudo.authority,
            (NameKind::Path, Shape::Request { .. }) => &mut self.pseudo.path,
            (
                NameKind::Protocol,
                Shape::Request {
                    extended_connect: true,
                },
            ) => &mut self.pseudo.protocol,
            _ => return Err(HeadFault::PseudoFieldUnknown),
        };
        if slot.is_some() {
            return Err(HeadFault::PseudoFieldDoubled);
        }
        *slot = Some(self.store.keep_pseudo(value));
        Ok(())
    }

    /// RFC 9113 section 8.3.2. 101 is not used in HTTP/2 (section 8.6).
    fn status(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if std::mem::replace(&mut self.pseudo.status, true) {
            return Err(HeadFault::PseudoFieldDoubled);
        }
        let [
            hundreds @ b'1'..=b'9',
            tens @ b'0'..=b'9',
            ones @ b'0'..=b'9',
        ] = value
        else {
            return Err(HeadFault::BadStatus);
        };
        let digit = |byte: &u8| u16::from(byte - b'0');
        let status = 100 * digit(hundreds) + 10 * digit(tens) + digit(ones);
        self.store.set_status(status);
        if status == 101 {
            Err(HeadFault::BadStatus)
        } else {
            Ok(())
        }
    }

    /// Before the first regular field, or at the end if there is none.
    #[inline]
    fn end_pseudo_fields(&mut self) -> Result<(), HeadFault> {
        if self.in_fields {
            return Ok(());
        }
        self.in_fields = true;
        match self.shape {
            Shape::Request { .. } => self.begin_request(),
            Shape::Response if !self.pseudo.status => Err(HeadFault::PseudoFieldMissing),
            _ => Ok(()),
        }
    }

    fn begin_request(&mut self) -> Result<(), HeadFault> {
        let PseudoFields {
            method, authority, ..
        } = self.pseudo;
        let method = method.ok_or(HeadFault::PseudoFieldMissing)?;
        let token = self.store.pseudo(method);
        let known = Method::from_token(token);
        if known == Method::Extension && (!is_token(token) || token.len() > METHOD_BYTES_MAX) {
            return Err(HeadFault::BadMethod);
        }
        self.facts.is_connect = known == Method::Connect;
        let target = self.target()?;
        if authority.is_some_and(|span| !self.store.check_authority(span)) {
            return Err(HeadFault::BadAuthority);
        }
        self.store.write_line(method, target);
        if authority.is_some() {
            self.store.push_authority();
        }
        Ok(())
    }

    /// Which pseudo-fields there must be, and which of them is the target.
    fn target(&mut self) -> Result<Span, HeadFault> {
        match self.pseudo {
            // RFC 9113 section 8.5.
            PseudoFields {
                scheme: None,
                path: None,
                protocol: None,
                authority: Some(authority),
                ..
            } if self.facts.is_connect => {
                let with_port = parse_authority(self.store.pseudo(authority))
                    .is_some_and(|authority| authority.port.is_some());
                if with_port {
                    Ok(authority)
                } else {
                    Err(HeadFault::BadAuthority)
                }
            }
            PseudoFields {
                authority: None, ..
            } if self.facts.is_connect => Err(HeadFault::PseudoFieldMissing),
            PseudoFields { protocol: None, .. } if self.facts.is_connect => {
                Err(HeadFault::PseudoFieldForbidden)
            }
            // RFC 8441 section 4.
            PseudoFields {
                protocol: Some(protocol),
                ..
            } if !self.facts.is_connect || protocol.len == 0 => {
                Err(HeadFault::PseudoFieldForbidden)
            }
            PseudoFields {
                scheme: Some(scheme),
                path: Some(path),
                protocol,
                ..
            } => {
                self.check_scheme(scheme)?;
                self.check_path(path)?;
                if let Some(protocol) = protocol {
                    self.check_protocol(protocol)?;
                }
                Ok(path)
            }
            _ => Err(HeadFault::PseudoFieldMissing),
        }
    }

    /// RFC 3986 section 3.1.
    fn check_scheme(&mut self, scheme: Span) -> Result<(), HeadFault> {
        let text = self.store.pseudo(scheme);
        let follows =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !text.first().is_some_and(u8::is_ascii_alphabetic) || !text.iter().all(follows) {
            return Err(HeadFault::BadScheme);
        }
        self.store.set_scheme(scheme);
        Ok(())
    }

    fn check_protocol(&mut self, protocol: Span) -> Result<(), HeadFault> {
        if !is_token(self.store.pseudo(protocol)) {
            return Err(HeadFault::PseudoFieldForbidden);
        }
        self.store.set_protocol(protocol);
        Ok(())
    }

    /// RFC 9113 section 8.3.1: absolute, or `*` for OPTIONS.
    fn check_path(&self, path: Span) -> Result<(), HeadFault> {
        let text = self.store.pseudo(path);
        let is_options = || {
            self.pseudo
                .method
                .is_some_and(|method| self.store.pseudo(method) == b"OPTIONS")
        };
        let valid = match text.first() {
            Some(b'/') => text.iter().all(|byte| is_target_char(*byte)),
            Some(b'*') => text.len() == 1 && is_options(),
            _ => false,
        };
        if valid {
            Ok(())
        } else {
            Err(HeadFault::BadPath)
        }
    }

    fn known(&mut self, known: KnownField, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        match known {
            // RFC 9113 section 8.2.2.
            KnownField::Connection | KnownField::TransferEncoding | KnownField::Upgrade => {
                return Err(HeadFault::ConnectionField);
            }
            KnownField::Te if !value.eq_ignore_ascii_case(b"trailers") => {
                return Err(HeadFault::BadTe);
            }
            KnownField::Host if matches!(self.shape, Shape::Request { .. }) => {
                return self.host(name, value);
            }
            KnownField::ContentLength if self.shape != Shape::Trailers => {
                self.content_length(value)?
            }
            KnownField::Cookie => {
                self.store.add_cookie(value);
                return Ok(());
            }
            _ => {}
        }
        self.store.push(name, value, Some(known));
        Ok(())
    }

    /// RFC 9113 section 8.3.1: `:authority` stands for Host, which may repeat it, in another
    /// spelling of the same. Neither may be empty (RFC 9114 section 4.3.1).
    fn host(&mut self, _name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        if std::mem::replace(&mut self.has_host, true) {
            return Err(HeadFault::SeveralHosts);
        }
        let Some(host) = parse_authority(value) else {
            return Err(HeadFault::BadAuthority);
        };
        match self.pseudo.authority {
            Some(authority) => {
                let default_port = self.default_port();
                let authority = parse_authority(self.store.pseudo(authority));
                let is_same =
                    authority.is_some_and(|authority| authority.is_same(host, default_port));
                if is_same || self.authority_replaces_host {
                    Ok(())
                } else {
                    Err(HeadFault::HostDiffers)
                }
            }
            None => {
                self.store.push_host(value);
                Ok(())
            }
        }
    }

    /// Default port of the request's scheme.
    fn default_port(&self) -> Option<u16> {
        let scheme = self.store.scheme();
        let is = |name: &[u8]| scheme.eq_ignore_ascii_case(name);
        if is(b"https") {
            Some(443)
        } else {
            is(b"http").then_some(80)
        }
    }

    /// RFC 9110 section 8.6: digits only, and once, though equal ones could be let pass.
    fn content_length(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if self.facts.content_length.is_some() {
            return Err(HeadFault::SeveralLengths);
        }
        let digits = value
            .iter()
            .map(|byte| byte.is_ascii_digit().then(|| u64::from(byte - b'0')));
        let length = digits.into_iter().try_fold(0u64, |length, digit| {
            length.checked_mul(10)?.checked_add(digit?)
        });
        self.facts.content_length = length.filter(|_| !value.is_empty());
        match self.facts.content_length {
            None => Err(HeadFault::BadLength),
            // RFC 9110 section 9.3.6.
            Some(1..) if self.facts.is_connect => Err(HeadFault::ContentInConnect),
            Some(_) => Ok(()),
        }
    }

    fn other(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        match name {
            // RFC 9113 section 8.2.2.
            b"keep-alive" | b"proxy-connection" => return Err(HeadFault::ConnectionField),
            b"priority" => self.facts.priority = self.facts.priority.updated(value),
            _ => {}
        }
        self.store.push(name, value, None);
        Ok(())
    }
}

/// HPACK said that a field is malformed; which rule of RFC 9113 section 8.2.1 it breaks is for the
/// log.
#[cold]
fn why_malformed(name: &[u8], value: &[u8]) -> HeadFault {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    if name.is_empty() {
        HeadFault::EmptyFieldName
    } else if name.iter().any(u8::is_ascii_uppercase) {
        HeadFault::UpperCaseFieldName
    } else if !is_token(name.strip_prefix(b":").unwrap_or(name)) {
        HeadFault::BadFieldName
    } else if value.first().is_some_and(is_blank) || value.last().is_some_and(is_blank) {
        HeadFault::SpaceAroundFieldValue
    } else {
        HeadFault::BadFieldValue
    }
}

#[cfg(test)]
mod tests;
