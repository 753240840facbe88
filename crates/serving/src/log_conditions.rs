//! Conditions of access logs (`when`, `unless`) on finished requests.
//!
//! Called by: access logs, for each request of a site with such a log.
//! Caveat: a condition that can't be evaluated logs the line: a client must not hide a request by
//! making a pattern slow. Nothing is recorded, because lines are not cached.
//! Out of scope: files below the root, which conditions of logs can't name.

use saker_ap_expr::{Facts, LocalTime, Variable, Work};
use saker_config::model::LogMatcher;
use saker_http::{
    HeadView, KnownField, Version, host,
    path::{self, EncodedSlashes, Slashes},
};
use saker_matchers::{Evaluation, FileKind, RequestFacts};
use saker_pipeline::{FinishedRequest, local_time, request_conditions};
use saker_telemetry::access_log::Record;
use std::{borrow::Cow, net::IpAddr};

/// Returns true if the request is logged.
pub fn holds(
    only: Option<&LogMatcher>,
    except: Option<&LogMatcher>,
    request: &FinishedRequest<'_>,
) -> bool {
    let Some(head) = request.record.head else {
        return only.is_none();
    };
    let facts = RecordFacts {
        request,
        head,
        host: host::canonical_host(asked_for(request.record)),
        path: requested_path(request.record),
        work: Work::default(),
    };
    let matches = |matcher: &LogMatcher| matcher.0.matches(&mut Evaluation::new(&facts));
    only.is_none_or(|only| matches(only).unwrap_or(true))
        && !except.is_some_and(|except| matches(except).unwrap_or(false))
}

/// A finished request as matchers see it.
struct RecordFacts<'r> {
    request: &'r FinishedRequest<'r>,
    head: HeadView<'r>,
    host: Vec<u8>,
    path: Vec<u8>,
    work: Work,
}

fn owned(text: impl ToString) -> Cow<'static, [u8]> {
    Cow::Owned(text.to_string().into_bytes())
}

impl Facts for RecordFacts<'_> {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        let (record, client) = (self.request.record, self.request.client);
        Some(match variable {
            Variable::RequestMethod => Cow::Borrowed(self.head.method_token()),
            Variable::RequestScheme if client.secure => Cow::Borrowed(b"https"),
            Variable::RequestScheme => Cow::Borrowed(b"http"),
            Variable::Https if client.secure => Cow::Borrowed(b"on"),
            Variable::Https => Cow::Borrowed(b"off"),
            Variable::RequestUri | Variable::DocumentUri => Cow::Borrowed(&self.path),
            Variable::ServerName => Cow::Borrowed(&self.host),
            Variable::RemoteAddr | Variable::RemoteHost => Cow::Borrowed(client.text().as_bytes()),
            Variable::ConnRemoteAddr => owned(client.connection_address().ip()),
            Variable::RemotePort => owned(client.address.port()),
            Variable::RemoteUser => Cow::Borrowed(record.user?.as_bytes()),
            Variable::ServerPort => owned(client.local.port()),
            Variable::ServerAddr => owned(client.local.ip().to_canonical()),
            Variable::ServerProtocol => Cow::Borrowed(self.head.version().as_str().as_bytes()),
            Variable::QueryString => Cow::Borrowed(self.query().unwrap_or_default()),
            Variable::TheRequest => Cow::Owned(request_conditions::request_line(self.head)),
            _ => return None,
        })
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        request_conditions::joined(self.head, std::str::from_utf8(name).ok()?)
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let value = self.request.record.environment?;
        value
            .value(std::str::from_utf8(name).ok()?)
            .map(Cow::Borrowed)
    }

    fn work(&self) -> Option<&Work> {
        Some(&self.work)
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(self.request.client.ip())
    }

    fn local_time(&self) -> LocalTime {
        local_time(self.request.record.start_s)
    }
}

impl RequestFacts for RecordFacts<'_> {
    fn host(&self) -> &[u8] {
        &self.host
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn target(&self) -> &[u8] {
        self.head.target()
    }

    fn query(&self) -> Option<&[u8]> {
        request_conditions::query(self.head.target())
    }

    fn is_secure(&self) -> bool {
        self.request.client.secure
    }

    fn request_id(&self) -> Cow<'_, [u8]> {
        self.environment(b"REQUEST_ID").unwrap_or_default()
    }

    /// Records of requests have none.
    fn claim(&self, _: &str) -> Cow<'_, [u8]> {
        Cow::Borrowed(b"")
    }

    fn forwarded_for(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.request.client.text().as_bytes())
    }

    fn version(&self) -> Version {
        self.head.version()
    }

    fn now_s(&self) -> i64 {
        self.request.record.start_s
    }

    fn file_kind(&self, _: &[u8]) -> Option<FileKind> {
        None
    }
}

/// The host, without its port, where dispatch has not set it.
pub(crate) fn asked_for<'r>(record: &Record<'r>) -> &'r [u8] {
    let field = || {
        record
            .head
            .and_then(|head| head.known(KnownField::Host))
            .unwrap_or_default()
    };
    let host = if record.host.is_empty() {
        field()
    } else {
        record.host
    };
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host.get(at) == Some(&b':') => host.get(..at).unwrap_or_default(),
        _ => host,
    }
}

/// The decoded path that the client requested, whatever internal redirects have made of it.
pub(crate) fn requested_path(record: &Record<'_>) -> Vec<u8> {
    let decoding = Slashes {
        encoded: EncodedSlashes::Decode,
        merge: true,
    };
    let mut decoded = Vec::new();
    let target = record.head.map(HeadView::target).unwrap_or_default();
    let end = target.iter().position(|byte| *byte == b'?');
    let raw = &target[..end.unwrap_or(target.len())];
    match path::normalize_with(raw, decoding, &mut decoded) {
        Ok(()) => decoded,
        Err(_) => record.path.to_vec(),
    }
}
