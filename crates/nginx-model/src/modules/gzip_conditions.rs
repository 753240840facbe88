//! `gzip_http_version`, `gzip_disable`, and `gzip_proxied`: requests whose responses are compressed.
//!
//! Called by: `load`.
//! Caveat: they are about gzip; the third-party codings look at `Accept-Encoding` alone.
//! Out of scope: the decision (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::{Reading, Setters},
    values::{Regex, invalid},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// Responses to proxies that are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxied {
    Off,
    Expired,
    NoCache,
    NoStore,
    Private,
    NoLastModified,
    NoEtag,
    Auth,
    Any,
}

const WORDS: [(&str, Proxied); 9] = [
    ("off", Proxied::Off),
    ("expired", Proxied::Expired),
    ("no-cache", Proxied::NoCache),
    ("no-store", Proxied::NoStore),
    ("private", Proxied::Private),
    ("no_last_modified", Proxied::NoLastModified),
    ("no_etag", Proxied::NoEtag),
    ("auth", Proxied::Auth),
    ("any", Proxied::Any),
];

/// Settings of the directives.
#[derive(Clone, Debug, Default)]
pub struct GzipConditions {
    /// Clients of HTTP/1.0 get gzip, too.
    pub takes_http10: Option<bool>,
    /// User agents that do not.
    pub disabled: Option<Arc<[Regex]>>,
    pub proxied: Option<Arc<[Proxied]>>,
}

impl GzipConditions {
    pub fn inherit(&mut self, outer: &GzipConditions) {
        inherit!(self, outer: takes_http10 disabled proxied);
    }

    /// Returns true if one of the words is given.
    pub fn proxies(&self, word: Proxied) -> bool {
        self.proxied.as_deref().unwrap_or_default().contains(&word)
    }
}

pub const SETTERS: Setters<GzipConditions> = &[
    ("gzip_http_version", |d, conf, _| {
        conf.takes_http10 = Some(match d.argument(0) {
            "1.0" => true,
            "1.1" => false,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("gzip_disable", disable),
    ("gzip_proxied", |d, conf, _| {
        for word in d.texts() {
            let known = WORDS.iter().find(|(name, _)| *name == word);
            let (_, word) = known.ok_or_else(|| invalid(word))?;
            let before = conf.proxied.take().unwrap_or_default();
            conf.proxied = Some(before.iter().copied().chain([*word]).collect());
        }
        Ok(())
    }),
];

/// Internet Explorer 4 to 6, but for 6.0 in its last version.
const MSIE6: &str = "MSIE [4-5]\\.|MSIE 6\\.(?!.*SV1)";

fn disable(
    directive: &Directive,
    conf: &mut GzipConditions,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    for word in directive.texts() {
        let pattern = match word {
            "msie6" => MSIE6,
            // The server never runs short of memory for it.
            "degradation" => continue,
            other => other,
        };
        let regex = Regex::compile(pattern, true, &mut reading.variables)?;
        let before = conf.disabled.take().unwrap_or_default();
        conf.disabled = Some(before.iter().cloned().chain([regex]).collect());
    }
    Ok(())
}
