//! Heads of requests and responses, between what clients say and HTTP/2.

use crate::forward::Address;
use saker_cgi::ResponseHead;
use saker_http::{Fields, HeadView, Method, Status, fields::known_name};
use saker_http1::is_forbidden_trailer;
use saker_http2::{HeadEncoder, Indexing};

/// RFC 9113 section 8.3.1. `content_length`: as far as it is known.
pub fn encode(
    head: HeadView<'_>,
    address: &Address<'_>,
    is_secure: bool,
    content_length: Option<u64>,
    to: &mut HeadEncoder<'_>,
) {
    to.pseudo(b":method", head.method_token());
    to.pseudo(b":scheme", if is_secure { b"https" } else { b"http" });
    to.pseudo(b":authority", &address.host);
    to.pseudo(b":path", address.target);
    for (name, value) in address.fields(head).filter(|(name, _)| is_passed(name)) {
        to.field(name, value, indexing(name));
    }
    // RFC 9110 section 10.1.4: of TE only this goes through HTTP/2. gRPC wants to see it.
    let wants_trailers = |member: &[u8]| member.trim_ascii().eq_ignore_ascii_case(b"trailers");
    if head
        .all("te")
        .flat_map(|list| list.split(|byte| *byte == b','))
        .any(wants_trailers)
    {
        to.field(b"te", b"trailers", Indexing::Add);
    }
    // RFC 9110 section 8.6: methods that mean content say so even where there is none.
    if let Some(length) = content_length
        .filter(|length| *length > 0 || matches!(head.method(), Method::Post | Method::Put))
    {
        to.field(
            b"content-length",
            length.to_string().as_bytes(),
            Indexing::Without,
        );
    }
    head.all("trailer")
        .for_each(|names| to.field(b"trailer", names, Indexing::Without));
}

/// `Expect` is answered by us, and the settings are those of another connection (RFC 7540 section
/// 3.2.1).
fn is_passed(name: &[u8]) -> bool {
    ![
        &b"host"[..],
        b"content-length",
        b"expect",
        b"http2-settings",
    ]
    .iter()
    .any(|own| own.eq_ignore_ascii_case(name))
}

/// Requests of many clients share a table, which none of them is to probe (RFC 7541 section 7.1).
fn indexing(name: &[u8]) -> Indexing {
    let is_secret = [&b"authorization"[..], b"cookie"]
        .iter()
        .any(|secret| secret.eq_ignore_ascii_case(name));
    if is_secret {
        Indexing::Never
    } else {
        Indexing::Without
    }
}

pub fn response(status: Status, view: HeadView<'_>) -> ResponseHead {
    let (mut fields, mut length) = (Fields::new(), None);
    for (name, value) in lines(view) {
        match name.eq_ignore_ascii_case("content-length") {
            true => {
                length = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse().ok())
            }
            false => fields.append(known_name(name), value.to_vec()),
        }
    }
    ResponseHead {
        status,
        reason: None,
        fields,
        length,
        is_status_said: true,
        first_status: None,
        is_status_invalid: false,
        is_local_redirect: false,
    }
}

pub fn trailers(view: HeadView<'_>) -> Fields {
    let mut fields = Fields::new();
    lines(view)
        .filter(|line| !is_forbidden_trailer(line.0))
        .for_each(|(name, value)| fields.append(known_name(name), value.to_vec()));
    fields
}

/// The machine lets names through that are tokens, which are ASCII.
fn lines(view: HeadView<'_>) -> impl Iterator<Item = (&str, &[u8])> {
    view.fields()
        .map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value))
}

pub fn encode_trailers(fields: &Fields, to: &mut HeadEncoder<'_>) {
    fields
        .iter()
        .for_each(|(name, value)| to.field(name.as_bytes(), value, Indexing::Without));
}
