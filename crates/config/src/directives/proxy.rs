//! Keys of routes with `proxy`: the path that the upstream sees, and the URLs in its responses.
//!
//! Called by: `route`, whose draft contains this one.
//! Caveat: the keys have no effect without `proxy`, which is reported.
//! Out of scope: fields and variables for upstreams, which sites have too (`upstream_fields`).

use crate::{
    context::ROUTE,
    kind::{Kind, Word},
    model::ProxyTerms,
    reader::Reader,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Value, ValueError},
};

static PREFIX: Word = Word {
    expects: "the beginning of a path, such as \"/api\"",
    pattern: "^/[^?#]*$",
    read: |text| read_prefix(text).map(Value::Text),
};

const DURATION: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 86_400_000,
};

/// The options of a proxy route while it is read.
#[derive(Debug, Default)]
pub struct ProxyDraft {
    pub terms: ProxyTerms,
    /// Keys that need `proxy`.
    given: Vec<(&'static str, Location)>,
}

impl Draft for ProxyDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<ProxyDraft>] = &[
    Row {
        name: "strip_prefix",
        contexts: ROUTE,
        kind: Kind::Word(&PREFIX),
        example: Some("\"/api\""),
        summary: "With `proxy`: remove this from the beginning of the path, where it ends at a \
                  slash or at the end of the path. Upstreams get it in X-Forwarded-Prefix, \
                  applications behind uwsgi and SCGI in SCRIPT_NAME.",
        aliases: &["handle_path", "uri_strip_prefix", "stripprefix"],
        since: "0.2",
        set: |proxy, given| {
            proxy.note("strip_prefix", given.at.clone());
            proxy.terms.strip_prefix = Some(given.text().into());
        },
        ..Row::BASE
    },
    Row {
        name: "add_prefix",
        contexts: ROUTE,
        kind: Kind::Word(&PREFIX),
        example: Some("\"/v2\""),
        summary: "With `proxy`: put this in front of the path, after `strip_prefix`.",
        aliases: &["uri_add_prefix", "addprefix"],
        since: "0.2",
        set: |proxy, given| {
            proxy.note("add_prefix", given.at.clone());
            proxy.terms.add_prefix = given.text().into();
        },
        ..Row::BASE
    },
    Row {
        name: "rewrite_redirects",
        contexts: ROUTE,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "With `proxy`: change URLs of the upstream in Location, Content-Location and \
                  Refresh into those that clients use: the address of the upstream server \
                  disappears, and prefixes are put back.",
        apache: Some("ProxyPassReverse"),
        aliases: &["proxy_redirect"],
        since: "0.2",
        set: |proxy, given| {
            proxy.note("rewrite_redirects", given.at.clone());
            proxy.terms.rewrites_redirects = given.boolean();
        },
        ..Row::BASE
    },
    Row {
        name: "rewrite_cookies",
        contexts: ROUTE,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "With `proxy`: change the paths of cookies as `rewrite_redirects` changes URLs, \
                  and remove the domain of the upstream server.",
        apache: Some("ProxyPassReverseCookiePath, ProxyPassReverseCookieDomain"),
        aliases: &["proxy_cookie_path", "proxy_cookie_domain"],
        since: "0.2",
        set: |proxy, given| {
            proxy.note("rewrite_cookies", given.at.clone());
            proxy.terms.rewrites_cookies = given.boolean();
        },
        ..Row::BASE
    },
    Row {
        name: "proxy_timeout",
        contexts: ROUTE,
        kind: DURATION,
        example: Some("\"5m\""),
        unit: Some("milliseconds"),
        summary: "With `proxy`: maximum time without a byte in either direction, instead of \
                  `timeout` of the upstream.",
        apache: Some("timeout of ProxyPass"),
        since: "0.2",
        set: |proxy, given| {
            proxy.note("proxy_timeout", given.at.clone());
            proxy.terms.timeout_ms = Some(given.number());
        },
        ..Row::BASE
    },
    Row {
        name: "mirror",
        contexts: ROUTE,
        kind: super::mirror::MIRROR_KIND,
        example: Some("{ to = \"http://127.0.0.1:3001\", sample = 0.1 }"),
        summary: "With `proxy`: send a copy of each request to another upstream, and discard its \
                  response. A copy never delays the request. Requests that the page cache answers \
                  are not copied.",
        aliases: &["traffic_mirror", "shadow", "request_mirror"],
        since: "0.2",
        set: |proxy, given| {
            proxy.note("mirror", given.at.clone());
            proxy.terms.mirror = super::mirror::mirror(given);
        },
        ..Row::BASE
    },
];

impl ProxyDraft {
    fn note(&mut self, name: &'static str, at: Location) {
        self.given.push((name, at));
    }

    /// Reports the keys of a route that has no `proxy`.
    pub fn report_unused(&self, reader: &mut Reader<'_>) {
        for (name, at) in &self.given {
            reader.error(
                at,
                format!("`{name}` without `proxy`"),
                Some("remove it, or add proxy = \"http://127.0.0.1:3000\"".into()),
            );
        }
    }
}

/// A prefix without its trailing slashes, so that `/` is none.
fn read_prefix(text: &str) -> Result<String, ValueError> {
    if !text.starts_with('/') {
        return Err(ValueError::plain(Some(format!("write \"/{text}\""))));
    }
    if text.contains('*') {
        return Err(ValueError::with_help(
            "a prefix has no `*`",
            "it ends where the rest of the path begins",
        ));
    }
    let is_plain = |c: char| !c.is_control() && !matches!(c, '?' | '#' | '%' | ' ');
    if !text.chars().all(is_plain) {
        return Err(ValueError::with_help(
            "a prefix is compared with decoded paths",
            "write it without escapes, spaces, \"?\" and \"#\"",
        ));
    }
    if text.contains("//") || text.split('/').any(|part| part == "." || part == "..") {
        return Err(ValueError::new(
            "paths have no empty, \".\" and \"..\" segments when they are compared",
        ));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        for (text, expected) in [
            ("/api", Some("/api")),
            ("/api/", Some("/api")),
            ("/", Some("")),
            ("/é", Some("/é")),
            ("api", None),
            ("", None),
            ("/a*", None),
            ("/a%20b", None),
            ("/a b", None),
            ("/a//b", None),
            ("/a/../b", None),
            ("/a?b", None),
        ] {
            assert_eq!(read_prefix(text).ok().as_deref(), expected, "{text}");
        }
    }
}
