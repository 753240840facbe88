//! Responses made from templates: the ready head of a hit, and the assembled page.
//!
//! Called by: the look-up, `store_response` and `error_fallback`.
//! Caveat: fields that describe the template don't describe the page, and the page is personal.
//! Out of scope: the assembly itself (`assemble`).

use crate::{
    cache::PageCache,
    esi::{
        assemble::{self, AssemblyJob},
        bodies,
        context::IncludeContext,
        template::ParsedTemplate,
    },
    page::{Page, ResponseOptions},
    result_fields::HitStatus,
};
use saker_http::{Fields, Method, fields::known_name};
use saker_pipeline::{Body, Exchange, ReadyHead, Response};
use std::rc::Rc;

/// Left in the exchange by a hit, for the filter to assemble.
pub struct PendingAssembly {
    pub parsed: Rc<ParsedTemplate>,
    pub include: IncludeContext,
}

/// The head of a hit with the template as its body; the filter assembles the page.
pub fn template_hit(
    exchange: &mut Exchange,
    page: &Page,
    parsed: Rc<ParsedTemplate>,
    include: IncludeContext,
    options: &ResponseOptions,
    hit: HitStatus,
) -> Response {
    let fields = page.fields_of_template(options, hit, exchange.now);
    let body = Body::Memory(parsed.page.clone());
    exchange
        .extensions
        .insert(PendingAssembly { parsed, include });
    Response::ready(Rc::new(ReadyHead::new(page.status, fields)), body)
}

/// Assembles a page: its content and its fields.
pub async fn assemble(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    response: &mut Response,
    job: AssemblyJob,
) {
    if exchange.head.view().method() == Method::Head {
        return without_content(response);
    }
    clean(response.fields_mut());
    let (body, cookies) = assemble::run(cache, exchange, job).await;
    for cookie in cookies {
        response.fields_mut().append("Set-Cookie", cookie);
    }
    response.body = body;
}

/// The response to HEAD, whose length is unknown.
pub fn without_content(response: &mut Response) {
    clean(response.fields_mut());
    response.body = Body::Stream(Box::new(bodies::UnknownLength));
}

/// Removes fields that describe the template only, and marks the page private: without
/// Cache-Control a shared cache might store it for a time of its own choice (RFC 9111 section
/// 4.2.2).
fn clean(fields: &mut Fields) {
    for name in [
        "ETag",
        "Last-Modified",
        "Content-Length",
        "Accept-Ranges",
        "Surrogate-Control",
        "CDN-Cache-Control",
        "Expires",
    ] {
        fields.remove(name);
    }
    let lines = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("Cache-Control"));
    let words: Vec<Vec<u8>> = lines
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|word| word.trim_ascii().to_vec())
        .collect();
    let is_for_shared = |word: &[u8]| {
        let name = word
            .split(|byte| *byte == b'=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        matches!(
            name.as_slice(),
            b"public" | b"s-maxage" | b"proxy-revalidate" | b"private" | b""
        )
    };
    let kept: Vec<Vec<u8>> = [b"private".to_vec()]
        .into_iter()
        .chain(words.into_iter().filter(|word| !is_for_shared(word)))
        .collect();
    fields.set(known_name("Cache-Control"), kept.join(&b", "[..]));
}
