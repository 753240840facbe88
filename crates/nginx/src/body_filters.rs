//! Filters that change content: `sub_filter`, `add_before_body` and `add_after_body`, `ssi`,
//! `gunzip`.
//!
//! Called by: the pipeline, as a filter behind the one that edits fields, and for the responses of
//! subrequests.
//! Caveat: the order is nginx's: `sub_filter`, then SSI; what is added comes from
//! other locations, with their filters. Filtered content has no
//! length, no ranges, and no validators unless `*_last_modified` keeps them.
//! Out of scope: the filters themselves (`saker-content-filters`, `ssi`).

use crate::{
    accept_gzip::takes_gzip,
    charset::{self, Converter},
    request::Request,
    slice, ssi,
    state::State,
    subrequest::{self, Filters},
};
use saker_content_filters::{
    as_stream, inflate,
    literals::{self, Literal},
    made::{Made, Out},
    transform_response,
};
use saker_http::Status;
use saker_nginx_model::{Text, conf::LocationConf, modules::filters::Types};
use saker_pipeline::{Body, BodyError, BodyStream, Exchange, Filter, LocalFuture, Response};
use std::sync::Arc;

/// Default of `subrequest_output_buffer_size`.
const SUBREQUEST_BYTES_MAX: u64 = 4096;

/// Content that decodes to more than this multiple of its size breaks off.
const INFLATE: inflate::InflateLimits = inflate::InflateLimits {
    bytes_max: None,
    ratio_max: 200,
    ratio_burst: 3,
};

/// The filter of content of nginx configurations.
pub struct BodyFilter(pub Filters);

impl Filter for BodyFilter {
    fn name(&self) -> &'static str {
        "nginx_content"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange.extensions.get::<State>().is_some_and(changes)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        apply(&self.0, exchange, response);
        saker_pipeline::done()
    }
}

fn changes(state: &State) -> bool {
    let conf = &state.location.conf.filters;
    conf.changes_content() || conf.gunzip == Some(true) || charset::is_set(&state.location.conf)
}

/// Returns true if filters of a location make other content of files of a type.
pub fn changes_type(conf: &LocationConf, content_type: &str) -> bool {
    let media_type = media_type(content_type.as_bytes());
    let filters = &conf.filters;
    filters.has_additions() && is_for(&filters.addition_types, &media_type)
        || filters.substitutions.is_some() && is_for(&filters.sub_types, &media_type)
        || filters.ssi == Some(true) && is_for(&filters.ssi_types, &media_type)
        || charset::converts(conf) && conf.compression.has_charset(&media_type)
}

/// The changes of a response.
struct Work {
    gunzip: bool,
    /// Other clients get the content with another coding.
    varies: bool,
    literals: Vec<Literal>,
    once: bool,
    before: Vec<u8>,
    after: Vec<u8>,
    charset: Option<Converter>,
    ssi: Option<ssi::Terms>,
    keeps_date: bool,
    /// The fields are those of changed content.
    is_described: bool,
}

/// Applies the filters of the location.
pub fn apply(filters: &Filters, exchange: &mut Exchange, response: &mut Response) {
    slice::apply(filters, exchange, response);
    let is_changed = exchange.extensions.get::<State>();
    let overriding = charset::overriding(exchange);
    let is_changed = is_changed.is_some_and(changes) || overriding.is_some();
    if !is_changed || response.tunnel.is_some() {
        return;
    }
    let planned = Request::run(exchange, &filters.nginx, &filters.watcher, |request| {
        let mut work = plan(request, response);
        if !response.status.forbids_content() {
            let is_upstreams = request.exchange.upstream.is_answered_by_program;
            let location = Arc::clone(&request.state.location);
            let conf = &location.conf.compression;
            let named = conf.charset_text.as_ref().and_then(Option::as_ref);
            let named = named.map(|text| request.text(text));
            let named = named.map(|name| String::from_utf8_lossy(&name).into_owned());
            let maps = &request.nginx.tables.charsets;
            let names = charset::Names {
                named: named.as_deref(),
                overriding: overriding.as_deref(),
            };
            work.charset = charset::plan(conf, names, maps, response, is_upstreams);
        }
        if response.fields().has("Content-Encoding") && !work.gunzip {
            work.charset = None;
        }
        work
    });
    if let Some(work) = planned {
        carry_out(filters, exchange, response, work);
    }
}

fn plan(request: &mut Request<'_>, response: &Response) -> Work {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.filters;
    let fields = response.fields();
    let media_type = media_type(fields.first("Content-Type").unwrap_or_default());
    let is_main = !request.state.is_subrequest;
    let coding = fields.first("Content-Encoding");
    let accepted = request.exchange.head.view().first("accept-encoding");
    let may_gunzip = conf.gunzip == Some(true)
        && coding.is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"));
    let gunzip = may_gunzip && !accepted.is_some_and(takes_gzip);
    let has_content =
        !response.status.forbids_content() && response.status != Status::PARTIAL_CONTENT;
    // What is encoded passes unchanged; its fields change all the same.
    let is_readable = coding.is_none() || gunzip;
    let mut work = Work {
        gunzip,
        varies: may_gunzip && location.conf.clients.varies == Some(true),
        literals: Vec::new(),
        once: conf.sub_once != Some(false),
        before: Vec::new(),
        after: Vec::new(),
        charset: None,
        ssi: None,
        keeps_date: true,
        is_described: false,
    };
    if !has_content {
        return work;
    }
    if is_main && response.status == Status::OK && is_for(&conf.addition_types, &media_type) {
        let mut uri = |text: &Option<Text>| text.as_ref().map(|text| path(&request.text(text)));
        work.before = uri(&conf.before).unwrap_or_default();
        work.after = uri(&conf.after).unwrap_or_default();
    }
    if let Some(substitutions) = &conf.substitutions
        && is_for(&conf.sub_types, &media_type)
    {
        work.literals = substitutions
            .iter()
            .map(|own| Literal {
                text: request.text(&own.text),
                replacement: request.text(&own.replacement),
            })
            .filter(|literal| !literal.text.is_empty())
            .collect();
        work.is_described |= !work.literals.is_empty();
        work.keeps_date &= work.literals.is_empty() || conf.sub_keeps_date == Some(true);
    }
    let is_empty = response.body.length() == Some(0);
    if conf.ssi == Some(true) && is_for(&conf.ssi_types, &media_type) && !is_empty {
        work.ssi = Some(ssi::Terms {
            silent: conf.ssi_silent == Some(true),
            value_bytes_max: conf.ssi_value_bytes.unwrap_or(256),
            subrequest_bytes_max: location
                .conf
                .clients
                .subrequest_bytes
                .unwrap_or(SUBREQUEST_BYTES_MAX),
        });
        work.is_described = true;
        work.keeps_date &= conf.ssi_keeps_date == Some(true);
    }
    if !is_readable {
        work.literals.clear();
        work.ssi = None;
    }
    work
}

fn media_type(value: &[u8]) -> String {
    let bare = value.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(bare.trim_ascii()).to_ascii_lowercase()
}

fn is_for(types: &Types, media_type: &str) -> bool {
    let own = types.as_deref().unwrap_or_default();
    media_type == "text/html"
        || own
            .iter()
            .any(|known| **known == *"*" || known.eq_ignore_ascii_case(media_type))
}

fn carry_out(filters: &Filters, exchange: &mut Exchange, response: &mut Response, work: Work) {
    if work.varies {
        response.fields_mut().add_token("Vary", "Accept-Encoding");
    }
    if work.gunzip {
        response.fields_mut().remove("Content-Encoding");
        inflate::filter_response(response, INFLATE);
    }
    let has_additions = !work.before.is_empty() || !work.after.is_empty();
    if !has_additions && work.literals.is_empty() && work.charset.is_none() && work.ssi.is_none() {
        if work.gunzip || work.is_described {
            describe(response, work.keeps_date);
        }
        return;
    }
    if !work.literals.is_empty() {
        let budget = exchange.budget();
        literals::apply(response, work.literals, work.once, budget);
    }
    if let Some(converter) = work.charset {
        transform_response(response, converter);
    }
    if let Some(terms) = work.ssi {
        let source = as_stream(std::mem::take(&mut response.body));
        let page = ssi::Page::new(
            filters.clone(),
            subrequest::of_content(exchange),
            terms,
            |filters, origin, uri| Box::pin(included(filters, origin, uri)),
        );
        let made = Made::by(|out| page.run(source, out));
        response.body = Body::Stream(Box::new(made));
    }
    if has_additions {
        let source = as_stream(std::mem::take(&mut response.body));
        let origin = subrequest::of_content(exchange);
        let (filters, uris) = (filters.clone(), (work.before, work.after));
        let made = Made::by(|out| add(filters, origin, source, uris, out));
        response.body = Body::Stream(Box::new(made));
    }
    describe(response, work.keeps_date);
}

/// Fields of content that has been changed.
fn describe(response: &mut Response, keeps_date: bool) {
    let fields = response.fields_mut();
    fields.remove("Content-Length");
    fields.remove("Accept-Ranges");
    if !keeps_date {
        fields.remove("Last-Modified");
        fields.remove("ETag");
        return;
    }
    if let Some(tag) = fields.first("ETag").map(<[u8]>::to_vec)
        && !tag.starts_with(b"W/")
    {
        fields.set("ETag", [b"W/", tag.as_slice()].concat());
    }
}

/// Sends content between what other locations answer.
async fn add(
    filters: Filters,
    origin: Exchange,
    mut source: Box<dyn BodyStream>,
    (before, after): (Vec<u8>, Vec<u8>),
    out: Out,
) -> Result<(), BodyError> {
    include(&filters, &origin, &before, &out).await?;
    out.pass_on(source.as_mut()).await?;
    include(&filters, &origin, &after, &out).await
}

/// Sends the response of a subrequest, filtered as its location says.
///
/// # Errors
/// It broke off.
pub async fn include(
    filters: &Filters,
    origin: &Exchange,
    uri: &[u8],
    out: &Out,
) -> Result<(), BodyError> {
    if uri.is_empty() {
        return Ok(());
    }
    match included(filters, origin, uri).await {
        Some(response) => out.pass_on(as_stream(response.body).as_mut()).await,
        None => Ok(()),
    }
}

/// Returns a path with its question marks escaped: as in nginx, there is no query.
fn path(text: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'?').collect();
    parts.join(&b"%3F"[..])
}

/// Returns the response of a subrequest, filtered as its location says.
pub async fn included(filters: &Filters, origin: &Exchange, uri: &[u8]) -> Option<Response> {
    let services = filters.inside.upgrade()?;
    let (path, query) = subrequest::split(uri)?;
    let mut inner = subrequest::subrequest(origin, path, query)?;
    let is_left = |name: &[u8]| !name.eq_ignore_ascii_case(b"accept-encoding");
    inner.head = inner.head.edited(is_left, []);
    let mut response = Box::pin(subrequest::answer(&mut inner, &services)).await;
    apply(filters, &mut inner, &mut response);
    Some(response)
}
