//! Pages that the server makes itself of errors and redirects: ours, with the administrator and the
//! signature that Apache's directives want.

use crate::{signature, state::peek};
use saker_apache_model::host::Host;
use saker_http::{Status, escape};
use saker_pipeline::{
    Exchange, Response,
    respond::{page, sentence},
};

pub fn own_page(exchange: &Exchange, host: &Host, mut response: Response) -> Response {
    if let Some(words) = reason(response.status).filter(|_| response.reason.is_none()) {
        response.reason = Some(Box::new((response.status, words.as_bytes().into())));
    }
    let local = peek(exchange)
        .and_then(|state| state.local.as_ref())
        .unwrap_or(&host.defaults);
    let footer = signature::footer(exchange, host, local);
    let text = match response.fields().first("Location") {
        Some(location) if !response.status.is_error() => note(location),
        _ => error(response.status, host),
    };
    page(response, &text, &footer)
}

/// Apache's reason phrases where they are not those of RFC 9110: scripts look for them.
fn reason(status: Status) -> Option<&'static str> {
    Some(match status.0 {
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        416 => "Requested Range Not Satisfiable",
        422 => "Unprocessable Entity",
        _ => return None,
    })
}

/// RFC 9110 section 15.4: a short note with a link to where it is now.
fn note(location: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(location.len());
    escape::html(location, &mut escaped);
    [
        b"It is at <a href=\"".as_slice(),
        &escaped,
        b"\">another address</a>.",
    ]
    .concat()
}

/// Our own errors, which the administrator wants to hear about.
fn error(status: Status, host: &Host) -> Vec<u8> {
    let mut text = sentence(status).as_bytes().to_vec();
    if let Some(admin) = host
        .server_admin
        .as_deref()
        .filter(|_| status == Status::INTERNAL_SERVER_ERROR)
    {
        let mut escaped = Vec::with_capacity(admin.len());
        escape::html(admin.as_bytes(), &mut escaped);
        text.extend_from_slice(b" If it stays so, tell ");
        text.extend_from_slice(&escaped);
        text.push(b'.');
    }
    text
}
