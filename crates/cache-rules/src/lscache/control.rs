//! `X-LiteSpeed-Cache-Control`, and what controls the same: configuration, rewrite rules, requests
//! (LSCache protocol 6.1 to 6.3).
//!
//! Called by: the page cache: a [`Control`] starts from the configuration, is changed layer by
//! layer, and is judged with the response.
//! Caveat: order counts within a list and between layers: a later age cancels an earlier no-cache,
//! a later `public` an earlier `private`.
//! Out of scope: min-fresh, must-revalidate and others that the protocol accepts without effect.

use super::settings::LscacheSettings;
use crate::rules::{
    Life,
    control::{Directive, directives},
    freshness::ms,
    judge::is_about_request,
    targeted::lines,
};
use saker_http::{Fields, Method, Status};

/// Field names of the protocol.
pub const CONTROL: &str = "X-LiteSpeed-Cache-Control";

/// The control in force for a request and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    no_cache: bool,
    public: bool,
    private: bool,
    shared: bool,
    max_age_s: Option<u64>,
    s_maxage_s: Option<u64>,
    max_stale_s: Option<u64>,
    pub no_vary: bool,
    pub esi: bool,
    pub set_blank: bool,
    pub no_autoflush: bool,
}

/// The clients that may share an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Public,
    /// One client; `shared`: clients with the same private tags may share, which may always be
    /// treated as one client.
    Private {
        shared: bool,
    },
}

/// Why a response is not stored, with the sentence for `saker explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    Off,
    NoCache,
    NoAge,
    Method,
    Status,
    SetCookie,
    Empty,
    TooLarge,
    Failed,
    StaticFile,
    Query,
    RequestCookie,
}

impl NotStored {
    /// The word for counters.
    pub fn name(self) -> &'static str {
        match self {
            NotStored::Off => "not-asked",
            NotStored::NoCache => "no-cache",
            NotStored::NoAge => "no-lifetime",
            NotStored::Method => "method",
            NotStored::Status => "status",
            NotStored::SetCookie => "set-cookie",
            NotStored::Empty => "empty",
            NotStored::TooLarge => "size",
            NotStored::Failed => "broken",
            NotStored::StaticFile => "file",
            NotStored::Query => "query",
            NotStored::RequestCookie => "request-cookie",
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            NotStored::Off => "nothing requests that this page is cached",
            NotStored::NoCache => "the cache control in force says no-cache or no-store",
            NotStored::NoAge => "the age in force is 0",
            NotStored::Method => "only responses to GET are stored",
            NotStored::Status => {
                "a status other than 200 is stored only with X-LiteSpeed-Cache-Control"
            }
            NotStored::SetCookie => "the response has Set-Cookie, and `with_set_cookie` is off",
            NotStored::Empty => "the response has no content",
            NotStored::TooLarge => "the content is larger than maxCacheObjSize",
            NotStored::Failed => "the response is incomplete",
            NotStored::StaticFile => "the content is an unmodified file",
            NotStored::Query => "the request has a query, and qsCache is off",
            NotStored::RequestCookie => "the request has cookies, and reqCookieCache is off",
        }
    }
}

/// Properties of a response, beside its control, that decide.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub method: Method,
    pub status: Status,
    /// The response had [`CONTROL`].
    pub explicit: bool,
    pub sets_cookie: bool,
    /// If known.
    pub content_bytes: Option<u64>,
    pub failed: bool,
    /// From a file, without a transformation.
    pub static_file: bool,
}

impl Control {
    /// The starting point (6.2).
    pub fn from_settings(settings: &LscacheSettings) -> Control {
        Control {
            public: settings.enable_public,
            private: settings.enable_private,
            no_vary: settings.no_vary,
            ..Control::default()
        }
    }

    /// Applies a list after all earlier ones.
    pub fn apply(&mut self, list: &[u8]) {
        directives(list).for_each(|directive| self.add(&directive));
    }

    /// Applies the response's own control (6.2); returns whether it had any. The ordinary
    /// Cache-Control is read only without it, and only where the age in force is 0.
    pub fn apply_response(&mut self, fields: &Fields, settings: &LscacheSettings) -> bool {
        let explicit = fields.has(CONTROL);
        if explicit {
            lines(fields, CONTROL).for_each(|line| self.apply(line));
        } else if !settings.ignore_response_control && self.age_s(settings) == 0 {
            lines(fields, "cache-control").for_each(|line| self.apply(line));
        }
        explicit
    }

    pub fn audience(&self) -> Option<Audience> {
        match (self.private, self.public) {
            // 6.1: private takes precedence when both end up set.
            (true, _) => Some(Audience::Private {
                shared: self.shared,
            }),
            (false, true) => Some(Audience::Public),
            (false, false) => None,
        }
    }

    pub fn is_off(&self) -> bool {
        self.no_cache || self.audience().is_none()
    }

    /// Lifetime in force.
    pub fn age_s(&self, settings: &LscacheSettings) -> u64 {
        let default_s = if self.private {
            settings.private_expire_s
        } else {
            settings.expire_s
        };
        self.s_maxage_s.or(self.max_age_s).unwrap_or(default_s)
    }

    /// Returns how long past its lifetime a stale copy may be served while it is regenerated.
    pub fn max_stale_s(&self, settings: &LscacheSettings) -> u64 {
        self.max_stale_s.unwrap_or(settings.max_stale_s)
    }

    /// 6.3.
    pub fn judge(
        &self,
        outcome: Outcome,
        settings: &LscacheSettings,
    ) -> Result<Audience, NotStored> {
        if self.no_cache {
            return Err(NotStored::NoCache);
        }
        let audience = self.audience().ok_or(NotStored::Off)?;
        if outcome.method != Method::Get {
            return Err(NotStored::Method);
        }
        let status_fits =
            outcome.status == Status::OK || (outcome.explicit && is_storable(outcome.status));
        if !status_fits {
            return Err(NotStored::Status);
        }
        if outcome.sets_cookie && !settings.store_with_response_cookie {
            return Err(NotStored::SetCookie);
        }
        if self.age_s(settings) == 0 {
            return Err(NotStored::NoAge);
        }
        by_content(outcome, self.set_blank, settings).map(|()| audience)
    }

    /// The lifetime of an entry judged storable.
    pub fn life(&self, settings: &LscacheSettings, now_ms: i64) -> Life {
        let fresh_until_ms = now_ms.saturating_add(ms(self.age_s(settings)));
        let stale_until_ms = fresh_until_ms.saturating_add(ms(self.max_stale_s(settings)));
        Life {
            stored_ms: now_ms,
            born_ms: now_ms,
            fresh_until_ms,
            stale_while_revalidate_until_ms: stale_until_ms,
            stale_if_error_until_ms: stale_until_ms,
            keep_until_ms: stale_until_ms,
            // The application has chosen the audience, and the key contains the client where that
            // matters.
            for_sessions: true,
            for_authorized: true,
            ..Life::default()
        }
    }

    fn add(&mut self, directive: &Directive<'_>) {
        // An invalid number gives an age of 0.
        let seconds = || Some(directive.seconds().unwrap_or(0));
        match directive.name.to_ascii_lowercase().as_slice() {
            b"no-cache" | b"no-store" => self.no_cache = true,
            b"public" => (self.public, self.private) = (true, false),
            b"private" => self.private = true,
            b"shared" => self.shared = true,
            b"max-age" => self.add_age(seconds(), None),
            b"s-maxage" => self.add_age(None, seconds()),
            b"max-stale" => self.max_stale_s = seconds(),
            b"no-vary" => self.no_vary = true,
            b"esi" => {
                self.esi = directive
                    .argument
                    .as_deref()
                    .is_some_and(|text| text.eq_ignore_ascii_case(b"on"))
            }
            b"set-blank" => self.set_blank = true,
            b"no-autoflush" => self.no_autoflush = true,
            _ => {}
        }
    }

    /// An age implies public if nothing else is set, and cancels an earlier no-cache.
    fn add_age(&mut self, max_age_s: Option<u64>, s_maxage_s: Option<u64>) {
        self.max_age_s = max_age_s.or(self.max_age_s);
        self.s_maxage_s = s_maxage_s.or(self.s_maxage_s);
        self.no_cache = false;
        self.public |= !self.private;
    }
}

/// Judges whether a request may lead to an entry at all (3.3).
pub fn judge_request(
    has_query: bool,
    has_cookies: bool,
    settings: &LscacheSettings,
) -> Result<(), NotStored> {
    match (
        has_query && !settings.store_with_query,
        has_cookies && !settings.store_with_request_cookie,
    ) {
        (true, _) => Err(NotStored::Query),
        (_, true) => Err(NotStored::RequestCookie),
        _ => Ok(()),
    }
}

/// 7.5: true if a request invalidates its client's private entries.
pub fn flushes_private(method: Method, control: &Control) -> bool {
    method == Method::Post && !control.no_autoflush
}

/// Final, complete, and no answer to a condition.
fn is_storable(status: Status) -> bool {
    !matches!(status.0, ..200 | 206 | 304 | 600..) && !is_about_request(status)
}

fn by_content(
    outcome: Outcome,
    may_be_blank: bool,
    settings: &LscacheSettings,
) -> Result<(), NotStored> {
    if outcome.static_file {
        return Err(NotStored::StaticFile);
    }
    if outcome.failed {
        return Err(NotStored::Failed);
    }
    match outcome.content_bytes {
        // A redirect consists of its fields; a `blank` directive marks intended empty content.
        Some(0) if !may_be_blank && outcome.status.is_success() => Err(NotStored::Empty),
        Some(bytes) if settings.object_bytes_max != 0 && bytes > settings.object_bytes_max => {
            Err(NotStored::TooLarge)
        }
        _ => Ok(()),
    }
}
