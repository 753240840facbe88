//! Reasons why a response is not stored, each with the sentence that `saker explain` shows.
//!
//! Called by: [`super::judge`], which returns them; counters use [`Pass::name`].
//! Caveat: names are documented; don't change them.
//! Out of scope: LSCache's reasons (`lscache::control`).

use std::{borrow::Cow, fmt};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The request's method.
    Method,
    /// `Cache-Control: no-store` of the request.
    RequestNoStore,
    /// An interim status, 304, or one that must-understand requires to know.
    Status(u16),
    /// A 206, where partial content is not stored.
    Partial,
    /// The field with no-store.
    NoStore(Cow<'static, str>),
    /// The field with private.
    Private(Cow<'static, str>),
    Authorization,
    SetCookie,
    /// The session cookie of the request.
    SessionCookie(String),
    VaryAll,
    /// Nothing makes it explicitly public, and the settings require that.
    NotForAll,
    /// Neither the response nor the settings have a lifetime.
    NoLifetime,
    /// The URL has a query, and the response has no explicit lifetime.
    Query,
    /// Stale on arrival, and without a validator. The deciding field.
    Stale(Cow<'static, str>),
    /// The list of hidden fields is too long.
    HidesTooMuch,
}

impl Pass {
    /// The word for counters and Cache-Status.
    pub fn name(&self) -> &'static str {
        match self {
            Pass::Method => "method",
            Pass::RequestNoStore => "request-no-store",
            Pass::Status(_) => "status",
            Pass::Partial => "partial",
            Pass::NoStore(_) => "no-store",
            Pass::Private(_) => "private",
            Pass::Authorization => "authorization",
            Pass::SetCookie => "set-cookie",
            Pass::SessionCookie(_) => "session-cookie",
            Pass::VaryAll => "vary-all",
            Pass::NotForAll => "not-for-all",
            Pass::NoLifetime => "no-lifetime",
            Pass::Query => "query-without-expiry",
            Pass::Stale(_) => "stale",
            Pass::HidesTooMuch => "hides-too-much",
        }
    }
}

impl Pass {
    /// The sentence for people; the frequent ones need no memory.
    pub fn sentence(&self) -> Cow<'static, str> {
        let is_usual = |field: &str| field == "Cache-Control";
        Cow::Borrowed(match self {
            Pass::NoStore(field) if is_usual(field) => {
                "Cache-Control of the response says no-store"
            }
            Pass::Private(field) if is_usual(field) => "Cache-Control of the response says private",
            _ => return Cow::Owned(self.to_string()),
        })
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pass::Method => f.write_str("only responses to GET are stored, and those to `methods`"),
            Pass::RequestNoStore => f.write_str("Cache-Control of the request says no-store"),
            Pass::Status(status) => write!(f, "responses with status {status} are not stored"),
            Pass::Partial => f.write_str("partial content (206) is not stored here"),
            Pass::NoStore(field) => write!(f, "{field} of the response says no-store"),
            Pass::Private(field) => write!(f, "{field} of the response says private"),
            Pass::Authorization => {
                f.write_str("the client is authenticated (Authorization, a certificate), and Cache-Control says neither public nor s-maxage nor must-revalidate")
            }
            Pass::SetCookie => f.write_str("the response has Set-Cookie, and Cache-Control says neither public nor s-maxage (or `with_set_cookie` is off)"),
            Pass::SessionCookie(name) => {
                write!(f, "the request has the session cookie {name}, and Cache-Control says neither public nor s-maxage")
            }
            Pass::VaryAll => f.write_str("Vary of the response is `*` or malformed"),
            Pass::NotForAll => f.write_str("nothing makes the response public for shared caches (public, s-maxage, CDN-Cache-Control)"),
            Pass::Query => f.write_str("the URL has a query, and neither Cache-Control nor Expires sets a lifetime (CacheIgnoreQueryString)"),
            Pass::NoLifetime => f.write_str("neither Cache-Control, Expires nor Last-Modified sets a lifetime, and there is no default"),
            Pass::Stale(field) => {
                write!(f, "{field} makes the response stale on arrival, and it has no ETag or Last-Modified to validate it by")
            }
            Pass::HidesTooMuch => f.write_str("Cache-Control names more fields in no-cache or private than can be stored"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_those_that_are_shown() {
        for field in ["Cache-Control", "CDN-Cache-Control"] {
            for pass in [Pass::NoStore(field.into()), Pass::Private(field.into())] {
                assert_eq!(pass.sentence(), pass.to_string());
            }
        }
        assert_eq!(Pass::VaryAll.sentence(), Pass::VaryAll.to_string());
    }
}
