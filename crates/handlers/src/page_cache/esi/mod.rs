//! Pages with ESI: their template is kept, and put together for each visitor on its way out.
//!
//! Place in the walk: the filter that keeps calls [`take_in`] with the content of a response that
//! says it has ESI, and [`assemble`] with what is to go out; for a hit, the look-up leaves a
//! [`Waiting`] behind a head that is ready, and the same filter goes on from there. Difficulty:
//! what a page says for other addresses (`inline`) may be for this visitor alone, so it is taken
//! out of what is kept for all. Absent on purpose: pages in pieces. A template is whole when it is
//! kept.

mod allowance;
pub mod assembly;
mod bodies;
mod combined;
pub mod fragment;
mod source;

use super::{
    PageCache,
    page::{Manner, Page, Told},
    visit::Visit,
};
use allowance::{Allowance, Held};
use saker_cache_rules::{
    lscache::control::{CONTROL, Control},
    rules::{control::directives, targeted},
};
use saker_esi::{Inline, Template, Wanted};
use saker_http::{Fields, Method, Status, fields::known_name};
use saker_pipeline::{Body, Chunk, Exchange, ReadyHead, Response};
use saker_telemetry::{error_log, message};
use std::{cell::Cell, rc::Rc};

/// A larger page is sent as it is.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Pages inside one another.
const DEPTH_MAX: u8 = 5;
/// Includes of a page and of all that it includes.
const INCLUDES_MAX: usize = 256;
/// Held at a time of a page and of all that it includes.
const HELD_BYTES_MAX: usize = 32 << 20;
/// Faults of one page that are told.
const FAULTS_TOLD_MAX: usize = 3;

/// All of a body, for those who read it themselves.
pub async fn collect(body: Body, bytes_max: usize) -> Option<Vec<u8>> {
    bodies::collect(body, bytes_max, &Allowance::new(bytes_max))
        .await
        .ok()
        .map(|(chunk, _)| chunk.bytes().to_vec())
}

/// A template with its text.
pub struct Parsed {
    pub page: Chunk,
    pub template: Template,
    /// Of what one request may hold, where it is one request's.
    held: Option<Held>,
}

/// How far in a request is, and what the page around it may still ask for.
#[derive(Clone)]
pub struct Inside {
    pub depth: u8,
    pub left: Rc<Cell<usize>>,
    pub memory: Allowance,
    pub said: Rc<Said>,
}

/// What the include says of its part.
#[derive(Debug, Default)]
pub struct Said {
    /// Where the response does not say how long it lives.
    pub ttl_s: Option<u64>,
    /// Where the response has nothing to say to caches.
    pub cache_control: Option<Vec<u8>>,
    /// Beside the response's own.
    pub cache_tag: Option<Vec<u8>>,
}

impl Said {
    pub fn of(wanted: &Wanted) -> Rc<Said> {
        let Wanted {
            ttl_s,
            cache_control,
            cache_tag,
            ..
        } = wanted;
        Rc::new(Said {
            ttl_s: *ttl_s,
            cache_control: cache_control.clone(),
            cache_tag: cache_tag.clone(),
        })
    }

    /// In force for a response: what has no lifetime in it is a hint where to look (LSCache
    /// protocol 9.2), and what the response itself says to any cache goes before.
    pub fn control_for(&self, fields: &Fields) -> Option<Vec<u8>> {
        const WORDS: [&str; 5] = [
            CONTROL,
            "Cache-Control",
            "CDN-Cache-Control",
            "Surrogate-Control",
            "Expires",
        ];
        let list = self.cache_control.as_deref()?;
        let list = match self.ttl_s {
            // The first: a lifetime in the list is the nearer word.
            Some(ttl_s) => [format!("max-age={ttl_s},").as_bytes(), list].concat(),
            None => list.to_vec(),
        };
        let decides = directives(&list).any(|directive| {
            ["max-age", "s-maxage", "no-cache", "no-store"]
                .iter()
                .any(|name| directive.name.eq_ignore_ascii_case(name.as_bytes()))
        });
        (decides && !WORDS.iter().any(|name| fields.has(name))).then_some(list)
    }
}

/// What a hit leaves to the filter.
pub struct Waiting {
    pub parsed: Rc<Parsed>,
    pub inside: Inside,
}

/// A response that has been found to be a template.
pub struct TakenIn {
    pub parsed: Rc<Parsed>,
    /// What it says for other addresses, with the text that it came in.
    pub inlines: Vec<(Inline, Chunk)>,
}

impl Default for Inside {
    fn default() -> Inside {
        Inside {
            depth: 0,
            left: Rc::new(Cell::new(INCLUDES_MAX)),
            memory: Allowance::new(HELD_BYTES_MAX),
            said: Rc::default(),
        }
    }
}

impl Parsed {
    pub fn new(page: Chunk) -> Parsed {
        let template = Template::parse(page.bytes());
        Parsed {
            page,
            template,
            held: None,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.page.len() + self.template.memory_bytes()
    }
}

/// Whether a response asks for it (LSCache protocol 6.1, ESI 1.0 section 1.5), and the site does
/// it.
pub fn is_marked(visit: &Visit, response: &Response) -> bool {
    let (given, fields) = (&visit.terms.given, response.fields());
    let by_lscache = || {
        let mut control = Control::from_settings(&visit.terms.lscache);
        visit.said.apply_to(&mut control);
        control.apply_response(fields, &visit.terms.lscache);
        control.esi
    };
    let is_text = fields.first("Content-Type").is_none_or(|kind| {
        !["image/", "audio/", "video/", "font/"]
            .iter()
            .any(|prefix| kind.to_ascii_lowercase().starts_with(prefix.as_bytes()))
    });
    let has_text =
        is_text && !response.status.forbids_content() && response.status != Status::PARTIAL_CONTENT;
    let is_asked = given.obeys_lscache && by_lscache()
        || given.obeys_http && targeted::policy(fields, &visit.terms.http).esi;
    given.offer.esi && has_text && is_asked
}

/// The template that a response is, as its content from now on. `None`: it is sent as it is.
pub async fn take_in(
    exchange: &mut Exchange,
    response: &mut Response,
    inside: &Inside,
) -> Option<TakenIn> {
    let coding = response
        .fields()
        .first("Content-Encoding")
        .map(<[u8]>::to_vec);
    let (bytes, mut held) = match bodies::collect(
        std::mem::take(&mut response.body),
        PAGE_BYTES_MAX,
        &inside.memory,
    )
    .await
    {
        Ok(collected) => collected,
        Err(bodies::NotWhole::TooLarge(body)) => {
            error_log::log_about(
                &message::ESI_FAULT,
                &*exchange,
                format_args!(
                    "it is larger than {PAGE_BYTES_MAX} bytes, or than what the page around it leaves, and sent as it is"
                ),
            );
            response.body = body;
            return None;
        }
        Err(bodies::NotWhole::Broken) => {
            *response = Response::new(Status::BAD_GATEWAY);
            return None;
        }
    };
    let plain = match &coding {
        Some(coding) => crate::coding::decode(coding, bytes.bytes()).map(Chunk::from),
        None => Some(bytes.clone()),
    };
    let Some(plain) = plain.filter(|plain| held.grow_to(plain.len())) else {
        response.body = Body::Memory(bytes);
        return None;
    };
    Some(parsed(exchange, response, plain, held))
}

fn parsed(exchange: &mut Exchange, response: &mut Response, plain: Chunk, held: Held) -> TakenIn {
    let mut parsed = Parsed::new(plain);
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
        parsed = Parsed::new(parsed.template.without_inlines(parsed.page.bytes()).into());
    }
    if let Some(fixed) = parsed.template.fixed(parsed.page.bytes())
        && fixed != parsed.page.bytes()
    {
        // What is not marked any more is not looked at again.
        parsed = Parsed {
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
    TakenIn {
        parsed: Rc::new(parsed),
        inlines,
    }
}

/// The head of a hit, with the template behind it; the filter puts it together.
pub fn hit(
    exchange: &mut Exchange,
    page: &Page,
    parsed: Rc<Parsed>,
    inside: Inside,
    manner: &Manner,
    told: Told,
) -> Response {
    let fields = page.fields_of_template(manner, told, exchange.now);
    let body = Body::Memory(parsed.page.clone());
    exchange.extensions.insert(Waiting { parsed, inside });
    Response::ready(Rc::new(ReadyHead::new(page.status, fields)), body)
}

/// Puts a page together: its content and its fields.
pub async fn assemble(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    response: &mut Response,
    job: assembly::Job,
) {
    if exchange.head.view().method() == Method::Head {
        return without_content(response);
    }
    clean(response.fields_mut());
    let (body, cookies) = assembly::run(cache, exchange, job).await;
    for cookie in cookies {
        response.fields_mut().append("Set-Cookie", cookie);
    }
    response.body = body;
}

/// The answer to HEAD: nobody knows how long it would be.
pub fn without_content(response: &mut Response) {
    clean(response.fields_mut());
    response.body = Body::Stream(Box::new(bodies::Nothing));
}

/// What is said of the template is not true of what is made of it; and what is made for one visitor
/// is for no cache on the way to him: without a word, one of them might keep it for a time of its
/// own choice (RFC 9111 section 4.2.2).
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
