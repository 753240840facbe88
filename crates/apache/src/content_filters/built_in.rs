//! The built-in filters with the settings of `DirConfig`.
//!
//! Called by: `content_filters::find`.
//! Out of scope: what the filters do (`saker_content_filters`).

use crate::{
    content_filters::filter::{ContentFilter, Passage},
    facts::RequestFacts,
    modules::setenvif,
    state::{peek, state},
};
use saker_ap_expr::Dependencies;
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_content_filters::{
    Stage, buffer, catalog, data_url, inflate, proxy_html, rate_limit, sed, substitute,
};
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{Exchange, LocalFuture, RequestBody};
use std::future::ready;

/// mod_substitute.
pub struct Substitute;

impl ContentFilter for Substitute {
    fn name(&self) -> &str {
        catalog::SUBSTITUTE.name
    }

    fn stage(&self) -> Stage {
        catalog::SUBSTITUTE.stage
    }

    /// Those of a native site are as old as its configuration, which changes them without the file;
    /// Apache's keep the file's, as mod_substitute does.
    fn keeps_validators(&self, exchange: &mut Exchange, _: &Watcher, _: &DirConfig) -> bool {
        !is_native(exchange)
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        let settings = &passage.local.substitute;
        if is_native(passage.exchange) {
            let fields = passage.response.fields_mut();
            fields.remove("ETag");
            fields.remove("Last-Modified");
        }
        substitute::apply(
            passage.response,
            &settings.rules,
            settings.line_bytes_max(),
            passage.exchange.budget(),
        );
        Box::pin(ready(Ok(())))
    }
}

fn is_native(exchange: &Exchange) -> bool {
    peek(exchange).is_some_and(|state| state.base.is_some())
}

/// mod_sed.
pub struct Sed;

impl ContentFilter for Sed {
    fn name(&self) -> &str {
        catalog::SED.name
    }

    fn stage(&self) -> Stage {
        catalog::SED.stage
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        let outcome = match passage.local.sed.output() {
            Some(script) => {
                sed::filter_response(passage.response, script, passage.exchange.budget())
            }
            None => Ok(()),
        };
        Box::pin(ready(outcome))
    }

    fn input(
        &self,
        exchange: &mut Exchange,
        _: &Host,
        _: &Watcher,
        local: &DirConfig,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        match local.sed.input() {
            Some(script) => sed::filter_request(body, script, exchange.budget()),
            None => body,
        }
    }
}

/// mod_proxy_html.
pub struct ProxyHtml;

impl ContentFilter for ProxyHtml {
    fn name(&self) -> &str {
        catalog::PROXY_HTML.name
    }

    fn stage(&self) -> Stage {
        catalog::PROXY_HTML.stage
    }

    /// Pages of this server are left alone.
    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        let own = peek(passage.exchange).filter(|own| own.proxied.is_some());
        let html = &passage.local.proxy_html;
        let mut seen = Dependencies::new();
        let rules = own.and_then(|own| {
            let (host, watcher) = (passage.host, passage.watcher);
            let facts = RequestFacts::new(passage.exchange, own, host, watcher);
            html.rules(&facts, &mut seen)
        });
        let vary = seen.vary().map(str::to_owned);
        state(passage.exchange).vary.extend(vary);
        let Some(rules) = rules else {
            return Box::pin(ready(Ok(())));
        };
        let charsets = html.charsets();
        Box::pin(async move {
            let budget = passage.exchange.budget();
            proxy_html::apply(passage.response, rules, Some(&charsets), budget)
                .await
                .map_err(|_| Status::BAD_GATEWAY)
        })
    }
}

/// mod_data.
pub struct Data;

impl ContentFilter for Data {
    fn name(&self) -> &str {
        catalog::DATA.name
    }

    fn stage(&self) -> Stage {
        catalog::DATA.stage
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        let media_type = passage
            .response
            .fields()
            .first("Content-Type")
            .unwrap_or_default();
        let core = &passage.local.core;
        // Apache adds AddDefaultCharset's when everything else is done.
        let media_type = core
            .without_default_charset(&String::from_utf8_lossy(media_type))
            .to_owned();
        data_url::apply(passage.response, &media_type);
        let plain = core.with_default_charset("text/plain");
        passage
            .response
            .fields_mut()
            .set("Content-Type", plain.as_bytes().to_vec());
        Box::pin(ready(Ok(())))
    }
}

/// mod_buffer.
pub struct Buffer;

impl ContentFilter for Buffer {
    fn name(&self) -> &str {
        catalog::BUFFER.name
    }

    fn stage(&self) -> Stage {
        catalog::BUFFER.stage
    }

    fn changes_files(&self) -> bool {
        catalog::BUFFER.changes_files
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        buffer::filter_response(passage.response, passage.local.buffer.size_bytes());
        Box::pin(ready(Ok(())))
    }

    fn input(
        &self,
        _: &mut Exchange,
        _: &Host,
        _: &Watcher,
        local: &DirConfig,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        buffer::filter_request(body, local.buffer.size_bytes())
    }
}

/// mod_deflate, decoding responses.
pub struct Inflate;

impl ContentFilter for Inflate {
    fn name(&self) -> &str {
        catalog::INFLATE.name
    }

    fn stage(&self) -> Stage {
        catalog::INFLATE.stage
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        if take_response_coding(passage) {
            inflate::filter_response(passage.response, passage.local.deflate.of_responses());
            let tag = passage
                .response
                .fields()
                .first("ETag")
                .map(|tag| passage.local.filters.decoded_tag(tag));
            match tag {
                Some(Some(tag)) => passage.response.fields_mut().set("ETag", tag),
                Some(None) => drop(passage.response.fields_mut().remove("ETag")),
                None => {}
            }
        }
        Box::pin(ready(Ok(())))
    }
}

/// Removes gzip from the response's codings: those that its handler sets, or else those that the
/// file name implies.
fn take_response_coding(passage: &mut Passage<'_>) -> bool {
    if let Some(taken) = inflate::take_response_coding(passage.response) {
        return taken;
    }
    let is_named = |lines: &[(Box<str>, Box<[u8]>)]| {
        let codings = lines.iter().find(|(name, _)| &**name == "Content-Encoding");
        codings.and_then(|(_, codings)| inflate::without_gzip(codings))
    };
    let Some(own) = peek(passage.exchange) else {
        return false;
    };
    let Some(rest) = is_named(&own.negotiated).or_else(|| is_named(&own.content_lines)) else {
        return false;
    };
    let own = state(passage.exchange);
    for lines in [&mut own.negotiated, &mut own.content_lines] {
        lines
            .iter_mut()
            .filter(|(name, _)| &**name == "Content-Encoding")
            .for_each(|(_, codings)| *codings = rest.as_slice().into());
        lines.retain(|(name, codings)| &**name != "Content-Encoding" || !codings.is_empty());
    }
    true
}

/// mod_deflate, decoding request bodies.
pub struct Deflate;

impl ContentFilter for Deflate {
    fn name(&self) -> &str {
        catalog::DEFLATE.name
    }

    fn stage(&self) -> Stage {
        catalog::DEFLATE.stage
    }

    fn changes_files(&self) -> bool {
        catalog::DEFLATE.changes_files
    }

    fn input(
        &self,
        exchange: &mut Exchange,
        _: &Host,
        _: &Watcher,
        local: &DirConfig,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        let limits = local
            .deflate
            .of_requests(exchange.routing.settings.body_bytes_max);
        inflate::filter_request(exchange, body, limits)
    }
}

/// mod_brotli. `modules::filters` chooses the codings, handlers and `compress` encode.
pub struct BrotliCompress;

impl ContentFilter for BrotliCompress {
    fn name(&self) -> &str {
        catalog::BROTLI_COMPRESS.name
    }

    fn stage(&self) -> Stage {
        catalog::BROTLI_COMPRESS.stage
    }

    fn changes_files(&self) -> bool {
        catalog::BROTLI_COMPRESS.changes_files
    }
}

/// mod_ratelimit.
pub struct RateLimit;

impl ContentFilter for RateLimit {
    fn name(&self) -> &str {
        catalog::RATE_LIMIT.name
    }

    fn stage(&self) -> Stage {
        catalog::RATE_LIMIT.stage
    }

    fn changes_files(&self) -> bool {
        catalog::RATE_LIMIT.changes_files
    }

    fn prepare(&self, exchange: &mut Exchange, host: &Host, local: &DirConfig) {
        for name in rate_limit::VARIABLES {
            setenvif::depends_on_variable(exchange, host, local, Some(name.as_bytes()));
        }
        rate_limit::apply(exchange);
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        rate_limit::apply(passage.exchange);
        Box::pin(ready(Ok(())))
    }
}
