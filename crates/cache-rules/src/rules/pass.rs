//! Why a response is not stored, each reason with the sentence that `saker explain` shows.
//!
//! Place in the walk: what [`super::judge`] answers in place of a life; counters go by
//! [`Pass::name`].

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The request's method.
    Method,
    /// `Cache-Control: no-store` of the request.
    RequestNoStore,
    /// An interim status, 304, or one that the response's must-understand asks us to know.
    Status(u16),
    /// A part, where parts are not stored.
    Partial,
    /// The field that says no-store.
    NoStore(String),
    /// The field that says private.
    Private(String),
    Authorization,
    SetCookie,
    /// The session cookie of the request.
    SessionCookie(String),
    VaryAll,
    /// Nothing says that it is for shared caches, and the settings want that.
    NotForAll,
    /// Neither the response nor the settings say how long.
    NoLifetime,
    /// The URL has a query, and the response does not say how long it is good for.
    Query,
    /// Stale on arrival, and nothing to validate it by. The field that decided.
    Stale(String),
    /// A list of fields to hide that is longer than can be kept.
    HidesTooMuch,
}

impl Pass {
    /// One word for counters and Cache-Status.
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

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pass::Method => f.write_str("only responses to GET are stored"),
            Pass::RequestNoStore => f.write_str("Cache-Control of the request says no-store"),
            Pass::Status(status) => write!(f, "responses with status {status} are not stored"),
            Pass::Partial => f.write_str("status 206 is a part, and parts are not stored here"),
            Pass::NoStore(field) => write!(f, "{field} of the response says no-store"),
            Pass::Private(field) => write!(f, "{field} of the response says private"),
            Pass::Authorization => {
                f.write_str("the client is authenticated (Authorization, a certificate), and Cache-Control says neither public nor s-maxage nor must-revalidate")
            }
            Pass::SetCookie => f.write_str("the response has Set-Cookie, and Cache-Control says neither public nor s-maxage"),
            Pass::SessionCookie(name) => {
                write!(f, "the request has the session cookie {name}, and Cache-Control says neither public nor s-maxage")
            }
            Pass::VaryAll => f.write_str("Vary of the response is `*`, or no list of field names that could be kept"),
            Pass::NotForAll => f.write_str("nothing says that the response is for shared caches (public, s-maxage, CDN-Cache-Control)"),
            Pass::Query => f.write_str("the URL has a query, and no Cache-Control or Expires says how long (CacheIgnoreQueryString)"),
            Pass::NoLifetime => f.write_str("no Cache-Control, Expires or Last-Modified says how long, and no default is set"),
            Pass::Stale(field) => {
                write!(f, "{field} makes the response stale on arrival, and it has no ETag or Last-Modified to validate it by")
            }
            Pass::HidesTooMuch => f.write_str("Cache-Control names more fields in no-cache or private than can be kept"),
        }
    }
}
