//! mod_proxy_balancer's manager: balancers of the host and their members, which an administrator may
//! look at and change (handler `balancer-manager`).
//!
//! Called by: `content`, in the place of a file.
//! Caveat: another site must not make a visitor's browser change anything: a change is a POST with the
//! balancer's nonce from the page itself (`Referer`). Who may see the page, the configuration says.
//! Out of scope: keeping changes after the next reload; adding balancers.

mod change;
mod page;
mod view;
mod xml;

use crate::{
    balancer_manager::view::{Parameters, Selected, View},
    kept_content, methods, origin, signature,
    verdict::Verdict,
};
use saker_apache_model::{
    host::Host,
    proxy::balancers::{Nonce, url},
};
use saker_http::{Method, Status};
use saker_pipeline::{Body, Chunk, Exchange, Response};
use std::sync::Arc;

/// Size limit of a form.
const FORM_BYTES_MAX: u64 = 8 << 10;
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// The page for a GET or POST; for others, the methods that it takes.
pub fn answer(exchange: &mut Exchange, host: &Host) -> Verdict {
    exchange.depends_on_request();
    let parameters = match exchange.head.view().method() {
        Method::Get | Method::Head => {
            Parameters::read(exchange.query.as_deref().unwrap_or_default())
        }
        Method::Post if is_form(exchange) => match kept_content::read(exchange, FORM_BYTES_MAX) {
            Ok(content) => Parameters::read(&content),
            Err(verdict) => return *verdict,
        },
        Method::Post => Parameters(Vec::new()),
        Method::Options => return Verdict::Answer(methods::with_methods(Status::OK, host)),
        _ => {
            let response = methods::with_methods(Status::METHOD_NOT_ALLOWED, host);
            return Verdict::Answer(response);
        }
    };
    let parameters = match is_from_here(exchange, host) {
        true => parameters,
        false => Parameters(Vec::new()),
    };
    let selected = selected(host, &parameters);
    if let Some(selected) = &selected
        && exchange.head.view().method() == Method::Post
    {
        change::apply(host, selected, &parameters);
    }
    let view = View {
        software: signature::software(host),
        name: text(&origin::name(exchange, host)),
        path: text(&exchange.path),
        action: text(&own_url(exchange, host)),
        host,
        selected,
    };
    let (kind, content) = match parameters.get("xml") {
        Some(word) if !word.is_empty() && word != "0" => ("text/xml", xml::text(&view)),
        _ => ("text/html; charset=ISO-8859-1", page::html(&view)),
    };
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    fields.set("Content-Type", kind.as_bytes().to_vec());
    response.body = Body::Memory(Chunk::from(content.into_bytes()));
    Verdict::Answer(response)
}

fn is_form(exchange: &Exchange) -> bool {
    let view = exchange.head.view();
    let media_type = view.first("content-type").unwrap_or_default();
    media_type
        .get(..FORM.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(FORM))
}

fn own_url(exchange: &Exchange, host: &Host) -> Vec<u8> {
    [
        origin::origin(exchange, host).as_slice(),
        &saker_ap_expr::escape_uri(&exchange.path),
    ]
    .concat()
}

/// The page that a browser comes from is this one.
fn is_from_here(exchange: &Exchange, host: &Host) -> bool {
    let own = own_url(exchange, host);
    let referer = exchange.head.view().first("referer").unwrap_or_default();
    referer
        .strip_prefix(own.as_slice())
        .is_some_and(|rest| matches!(rest, [] | [b'?' | b'#', ..]))
}

/// `None`: no balancer is named, or its nonce is not.
fn selected(host: &Host, parameters: &Parameters) -> Option<Selected> {
    let name = format!("balancer://{}", parameters.get("b")?.to_ascii_lowercase());
    let balancer = host.proxy.workers.balancer(&name)?;
    let is_allowed = match &balancer.nonce {
        Nonce::Text(nonce) => parameters
            .get("nonce")
            .is_some_and(|sent| saker_auth::is_same_text(sent.as_bytes(), nonce.as_bytes())),
        Nonce::None => false,
        Nonce::Unwanted => true,
    };
    let member = parameters.get("w").and_then(|wanted| {
        let current = balancer.current();
        current.members.iter().map(url).find(|url| url == wanted)
    });
    is_allowed.then(|| Selected {
        balancer: Arc::clone(balancer),
        member,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
