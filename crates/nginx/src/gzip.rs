//! Requests whose responses are compressed with gzip (`gzip_proxied` and its kin).
//!
//! Called by: `response`, before content is chosen and again with the head of a response.
//! Caveat: what the answer depends on is recorded, so that kept answers serve the same requests.
//! Out of scope: types, lengths, and `Accept-Encoding`.

use crate::request::Request;
use saker_config::model::{CompressionCoding, Settings};
use saker_http::{Fields, Version, date::parse_date};
use saker_nginx_model::modules::gzip_conditions::Proxied;
use std::sync::Arc;

/// Returns the fields that the location adds to its files.
pub type Added = fn(&mut Request<'_>) -> Fields;

/// Takes gzip from the settings of a request whose response may not be compressed with it.
/// `added`: returns the fields that the location adds.
pub fn apply(request: &mut Request<'_>, added: Added) {
    let settings = &request.exchange.routing.settings;
    let is_on = settings
        .compression
        .codings
        .contains(&CompressionCoding::Gzip)
        || settings.files.precompressed;
    if !is_on || is_for_request(request, added) {
        return;
    }
    switch_off(request);
}

fn switch_off(request: &mut Request<'_>) {
    request.state.lacks_gzip = true;
    let mut settings = Settings::clone(&request.exchange.routing.settings);
    let codings = &mut settings.compression.codings;
    codings.retain(|coding| *coding != CompressionCoding::Gzip);
    settings.files.precompressed = false;
    request.exchange.routing.settings = Arc::new(settings);
}

fn is_for_request(request: &mut Request<'_>, added: Added) -> bool {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.gzip;
    let version = request.exchange.head.view().version();
    let text = Some(version.as_str().as_bytes());
    request.depends_on_value(saker_ap_expr::RequestPart::Version, text);
    if version == Version::Http10 && conf.takes_http10 != Some(true) {
        return false;
    }
    for regex in conf.disabled.as_deref().unwrap_or_default() {
        let agent = request.field("user-agent").unwrap_or_default();
        if request.spans(regex, &agent).is_some() {
            return false;
        }
    }
    if request.field("via").is_none() || conf.proxies(Proxied::Any) {
        return true;
    }
    let is_off = conf.proxied.is_none() || conf.proxies(Proxied::Off);
    if is_off {
        return false;
    }
    // The head of the response decides.
    request.depends_on_request();
    if request.state.location.conf.upstreams.pass.is_some() {
        return true;
    }
    let mut fields = added(request);
    let core = &location.conf.core;
    if !fields.has("Last-Modified") {
        fields.set("Last-Modified", &b"-"[..]);
    }
    if core.etag != Some(false) {
        fields.set("ETag", &b"-"[..]);
    }
    suits(request, &fields)
}

/// Returns true if the head of an upstream's response decides.
pub fn asks_response(request: &mut Request<'_>) -> bool {
    let codings = &request.exchange.routing.settings.compression.codings;
    codings.contains(&CompressionCoding::Gzip) && request.field("via").is_some()
}

/// Takes gzip from the settings, if the head of an upstream's response says so.
pub fn apply_to_response(request: &mut Request<'_>, fields: &Fields) {
    let location = Arc::clone(&request.state.location);
    if !location.conf.gzip.proxies(Proxied::Any) && !suits(request, fields) {
        switch_off(request);
    }
}

/// Returns true if a response with these fields may be compressed for a proxy.
fn suits(request: &mut Request<'_>, fields: &Fields) -> bool {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.gzip;
    if conf.proxies(Proxied::Auth) && request.field("authorization").is_some() {
        return true;
    }
    let now = request.exchange.now;
    if let Some(expires) = fields.first("Expires") {
        let is_over = parse_date(expires, now).is_some_and(|until| until < now);
        return conf.proxies(Proxied::Expired) && is_over;
    }
    if let Some(control) = fields.first("Cache-Control") {
        let control = String::from_utf8_lossy(control).to_ascii_lowercase();
        let words = [
            ("no-cache", Proxied::NoCache),
            ("no-store", Proxied::NoStore),
            ("private", Proxied::Private),
        ];
        return words
            .iter()
            .any(|(name, word)| conf.proxies(*word) && control.contains(name));
    }
    let has = |word, name| conf.proxies(word) && fields.has(name);
    !has(Proxied::NoLastModified, "Last-Modified") && !has(Proxied::NoEtag, "ETag")
}
