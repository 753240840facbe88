//! Detects templates: responses that announce ESI and contain elements of it.
//!
//! Called by: `store_response`.
//! Caveat: inline content for other URLs may be personal, so it is taken out of what is stored.
//! Out of scope: pages larger than the limit, which are sent unchanged.

use crate::{
    esi::{bodies, context::IncludeContext, memory_budget::Reservation, template::ParsedTemplate},
    request::CacheRequest,
};
use saker_cache_rules::{lscache::control::Control, rules::targeted};
use saker_content::coding;
use saker_esi::{Inline, Template};
use saker_http::Status;
use saker_pipeline::{Body, Chunk, Exchange, Response};
use saker_telemetry::{error_log, message};
use std::rc::Rc;

/// Larger pages are sent unchanged.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Errors logged per page.
const FAULTS_TOLD_MAX: usize = 3;

/// A response that is a template.
pub struct DetectedTemplate {
    pub parsed: Rc<ParsedTemplate>,
    /// Inline content for other URLs, with the text that contains it.
    pub inlines: Vec<(Inline, Chunk)>,
}

/// True if a response announces ESI (LSCache protocol 6.1, ESI 1.0 section 1.5) and the site
/// supports it.
pub fn is_marked(request: &CacheRequest, response: &Response) -> bool {
    let (config, fields) = (&request.settings.config, response.fields());
    if !config.offer.esi {
        return false;
    }
    let by_lscache = || {
        let mut control = Control::from_settings(&request.settings.lscache);
        request.rewrite_env.apply_to(&mut control);
        control.apply_response(fields, &request.settings.lscache);
        control.esi
    };
    let is_text = fields.first("Content-Type").is_none_or(|kind| {
        !["image/", "audio/", "video/", "font/"]
            .iter()
            .any(|prefix| {
                kind.get(..prefix.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
            })
    });
    let has_text =
        is_text && !response.status.forbids_content() && response.status != Status::PARTIAL_CONTENT;
    let is_asked = || {
        config.obeys_http && targeted::is_esi(fields, &request.settings.http)
            || config.obeys_lscache && by_lscache()
    };
    has_text && is_asked()
}

/// Parses the content of a response, which is plain from then on. `None`: it is sent unchanged.
pub async fn take_in(
    exchange: &mut Exchange,
    response: &mut Response,
    include: &IncludeContext,
) -> Option<DetectedTemplate> {
    let coding = response
        .fields()
        .first("Content-Encoding")
        .map(<[u8]>::to_vec);
    let (bytes, mut held) = match bodies::collect(
        std::mem::take(&mut response.body),
        PAGE_BYTES_MAX,
        &include.memory,
    )
    .await
    {
        Ok(collected) => collected,
        Err(bodies::CollectError::TooLarge(body)) => {
            error_log::log_about(
                &message::ESI_FAULT,
                &*exchange,
                format_args!(
                    "larger than {PAGE_BYTES_MAX} bytes or than the memory left for the page; sent unchanged"
                ),
            );
            response.body = body;
            return None;
        }
        Err(bodies::CollectError::Broken) => {
            *response = Response::new(Status::BAD_GATEWAY);
            return None;
        }
    };
    let plain = match &coding {
        Some(coding) => coding::decode(coding, bytes.bytes()).map(Chunk::from),
        None => Some(bytes.clone()),
    };
    let Some(plain) = plain.filter(|plain| held.grow_to(plain.len())) else {
        response.body = Body::Memory(bytes);
        return None;
    };
    Some(parsed(exchange, response, plain, held))
}

fn parsed(
    exchange: &mut Exchange,
    response: &mut Response,
    plain: Chunk,
    held: Reservation,
) -> DetectedTemplate {
    let mut parsed = ParsedTemplate::new(plain);
    for fault in parsed.template.faults().iter().take(FAULTS_TOLD_MAX) {
        error_log::log_about(&message::ESI_FAULT, &*exchange, format_args!("{fault}"));
    }
    let inlines: Vec<(Inline, Chunk)> = parsed
        .template
        .inlines()
        .iter()
        .map(|inline| (inline.clone(), parsed.page.clone()))
        .collect();
    if !inlines.is_empty() {
        parsed = ParsedTemplate::new(parsed.template.without_inlines(parsed.page.bytes()).into());
    }
    if let Some(fixed) = parsed.template.fixed(parsed.page.bytes())
        && fixed != parsed.page.bytes()
    {
        // Content without elements is not parsed again.
        parsed = ParsedTemplate {
            page: fixed.into(),
            template: Template::default(),
            held: None,
        };
    }
    parsed.held = Some(held);
    for name in [
        "Content-Encoding",
        "Content-Length",
        "Content-MD5",
        "Content-Digest",
        "Repr-Digest",
        "Digest",
        "Accept-Ranges",
    ] {
        response.fields_mut().remove(name);
    }
    response.body = Body::Memory(parsed.page.clone());
    DetectedTemplate {
        parsed: Rc::new(parsed),
        inlines,
    }
}
