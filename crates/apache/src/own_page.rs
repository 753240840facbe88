//! Pages that the server makes itself of errors and redirects: ours, with the administrator and the
//! signature that Apache's directives want.

use crate::{signature, state::peek};
use saker_apache_model::host::Host;
use saker_http::{Status, escape};
use saker_pipeline::{
    Exchange, Response,
    respond::{page, sentence},
};

pub fn own_page(exchange: &Exchange, host: &Host, response: Response) -> Response {
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
