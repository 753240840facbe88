//! The one list of protocols: which codec speaks for which.

use crate::{
    connect_dialogue::ConnectDialogue,
    failure::Failure,
    forward::{self, Address},
    http1_dialogue::{Http1Dialogue, RequestTerms},
};
use saker_cgi::{
    Ajp, Dialogue, FastCgi, Lsapi, Memcached, ProgramRequest, Scgi, Uwsgi, fastcgi::Role,
};
use saker_config::model::{Member, Protocol};
use saker_http::Method;
use saker_pipeline::{Exchange, Forwarding, UpstreamRequest, Via};

/// The codec of one request. The frequent ones need no memory of their own.
pub enum Codec {
    Http1(Http1Dialogue),
    FastCgi(FastCgi),
    Other(Box<dyn Dialogue>),
}

impl Codec {
    pub fn get(&self) -> &dyn Dialogue {
        match self {
            Codec::Http1(dialogue) => dialogue,
            Codec::FastCgi(dialogue) => dialogue,
            Codec::Other(dialogue) => &**dialogue,
        }
    }

    pub fn get_mut(&mut self) -> &mut dyn Dialogue {
        match self {
            Codec::Http1(dialogue) => dialogue,
            Codec::FastCgi(dialogue) => dialogue,
            Codec::Other(dialogue) => &mut **dialogue,
        }
    }
}

/// Makes the codec for one request; not where many share a connection (HTTP/2). `target`: path and
/// query at this member. A dialogue that has the request's head at hand appends it to `out`.
pub fn dialogue(
    exchange: &Exchange,
    call: &UpstreamRequest,
    member: &Member,
    (request, target): (&ProgramRequest<'_>, &[u8]),
    out: &mut Vec<u8>,
) -> Result<Codec, Failure> {
    let tuning = &member.tuning;
    let has_content = request.content_length != Some(0);
    Ok(match member.backend.protocol {
        Protocol::FastCgi => {
            // Whatever a program does with the rest of a record that it left unread.
            let leaves = || saker_cgi::may_leave_content(request.head, request.content_length);
            Codec::FastCgi(FastCgi::new(role(call), tuning.kept_max > 0 && !leaves()))
        }
        Protocol::Scgi => Codec::Other(Box::new(Scgi::new())),
        Protocol::Uwsgi => {
            let (first, second) = tuning.modifiers;
            Codec::Other(Box::new(Uwsgi::new(first, second)))
        }
        // No request is made for it.
        Protocol::Bytes | Protocol::Datagrams => return Err(Failure::Unspoken),
        Protocol::Memcached => Codec::Other(Box::new(Memcached::new())),
        Protocol::Lsapi => Codec::Other(Box::new(Lsapi::new())),
        Protocol::Ajp => Codec::Other(Box::new(Ajp::new(
            tuning.secret.as_ref().map(|secret| secret.as_bytes()),
        ))),
        Protocol::Http1 if exchange.upstream_head().view().method() == Method::Connect => {
            Codec::Other(Box::new(ConnectDialogue::default()))
        }
        Protocol::Http1 => {
            let upgrade = forward::upgrade(exchange, &call.manner, has_content);
            let address = Address {
                upgrade,
                ..address(exchange, call, member, target)
            };
            let terms = RequestTerms {
                asks_first: asks_first(exchange, member, has_content),
                is_http10: tuning.is_http10,
                closes: exchange.upstream.closes,
                reads_unknown_codings: !call.manner.is_like_nginx,
                passes_trailers: passes_trailers(exchange, call),
            };
            let begun = Http1Dialogue::begin(address, request, terms, out);
            Codec::Http1(begun.map_err(Failure::Refused)?)
        }
        Protocol::Http2 => return Err(Failure::Unspoken),
    })
}

fn role(call: &UpstreamRequest) -> Role {
    if call
        .script
        .as_ref()
        .is_some_and(|script| script.is_authorizer)
    {
        Role::Authorizer
    } else {
        Role::Responder
    }
}

/// Returns true if trailers of the request go on. Some programs take them for fields of the head, so
/// they don't where rules set or remove any of these, or a proxy names the client in one. Apache and
/// nginx pass none.
pub fn passes_trailers(exchange: &Exchange, call: &UpstreamRequest) -> bool {
    let is_native = call.manner.terms.is_some();
    is_native
        && exchange.client.forwarding == Forwarding::Unknown
        && !exchange.head.is_edited()
        && exchange.routing.settings.upstream_fields.is_empty()
}

/// True if the server has to say that it is ready before it is told content.
pub fn asks_first(exchange: &Exchange, member: &Member, has_content: bool) -> bool {
    let is_http1 = member.backend.protocol == Protocol::Http1
        && exchange.upstream_head().view().method() != Method::Connect;
    is_http1 && has_content && member.tuning.ping_ms.is_some()
}

/// Returns what a server is told in addition to the client's request.
pub fn address<'a>(
    exchange: &'a Exchange,
    call: &'a UpstreamRequest,
    member: &'a Member,
    target: &'a [u8],
) -> Address<'a> {
    let mut lines = forward::lines(exchange, call);
    // Of a proxy on the way that reads the request itself (RFC 9110 section 11.7.2).
    let proxy = member
        .backend
        .through
        .as_ref()
        .filter(|_| member.backend.tls.is_none());
    if let Some(credentials) = proxy.and_then(|proxy| proxy.authorization.as_ref()) {
        let head = exchange.head.view();
        let all: Vec<&[u8]> = head
            .all("proxy-authorization")
            .chain([credentials.as_bytes()])
            .collect();
        lines.push(forward::Line {
            name: "Proxy-Authorization",
            value: Some(all.join(&b", "[..]).into()),
        });
    }
    Address {
        target,
        host: forward::host(exchange, member, &call.manner),
        lines,
        blocks_via: call.manner.via == Via::Block,
        upgrade: None,
    }
}
