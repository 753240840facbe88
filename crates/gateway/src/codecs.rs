//! The one list of protocols: which codec speaks for which.

use crate::{
    connect_dialogue::ConnectDialogue,
    forward::{self, Address},
    http1_dialogue::Http1Dialogue,
};
use saker_cgi::{Ajp, Dialogue, FastCgi, Lsapi, Scgi, Uwsgi, fastcgi::Role};
use saker_config::model::{Member, Protocol};
use saker_http::Method;
use saker_pipeline::{Call, Exchange, Via};

/// Makes the codec for one request; `None`: many share a connection (HTTP/2). `target`: path and
/// query at this member.
pub fn dialogue(
    exchange: &Exchange,
    call: &Call,
    member: &Member,
    target: Vec<u8>,
    has_content: bool,
) -> Option<Box<dyn Dialogue>> {
    let tuning = &member.tuning;
    Some(match member.backend.protocol {
        Protocol::FastCgi => Box::new(FastCgi::new(role(call), tuning.kept_max > 0)),
        Protocol::Scgi => Box::new(Scgi::new()),
        Protocol::Uwsgi => Box::new(Uwsgi::new(0, 0)),
        Protocol::Lsapi => Box::new(Lsapi::new()),
        Protocol::Ajp => Box::new(Ajp::new(
            tuning.secret.as_ref().map(|secret| secret.as_bytes()),
        )),
        Protocol::Http1 if exchange.head.view().method() == Method::Connect => {
            Box::new(ConnectDialogue::default())
        }
        Protocol::Http1 => {
            let upgrade = forward::upgrade(exchange, &call.manner, has_content);
            let address = Address {
                upgrade,
                ..address(exchange, call, member, target)
            };
            Box::new(match asks_first(exchange, member, has_content) {
                true => Http1Dialogue::asking_first(address),
                false => Http1Dialogue::new(address),
            })
        }
        Protocol::Http2 => return None,
    })
}

fn role(call: &Call) -> Role {
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

/// True if the server has to say that it is ready before it is told content.
pub fn asks_first(exchange: &Exchange, member: &Member, has_content: bool) -> bool {
    let is_http1 = member.backend.protocol == Protocol::Http1
        && exchange.head.view().method() != Method::Connect;
    is_http1 && has_content && member.tuning.ping_ms.is_some()
}

/// Returns what a server is told in addition to the client's request.
pub fn address(exchange: &Exchange, call: &Call, member: &Member, target: Vec<u8>) -> Address {
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
            value: all.join(&b", "[..]),
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
