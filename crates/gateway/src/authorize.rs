//! Asks a server, or a FastCGI program in the role of authorizer (FastCGI 1.0 section 6.3), whether
//! a request may pass.
//!
//! Difficulty: what it may be asked with. It gets the fields that tell who asks, and none that
//! speak of content, of the connection or of what the client has already (a 304 would be no answer
//! to the question). What was asked for, where, and by whom stands in fields of our own, which the
//! client can't write: rules of such servers rest on them, so that a forged X-Forwarded-Host would
//! open another site's door.

use crate::{
    gateway::{Gateway, UpstreamResponse},
    native,
};
use saker_cgi::fastcgi::{Authorization, authorization};
use saker_config::model::{Authorize, Protocol, Upstream};
use saker_http::{
    KnownField, RequestHead, Status, Version,
    field_name::{is_alike, is_alike_any},
    path,
};
use saker_pipeline::{
    Authorizer, CallNames, Exchange, Granted, Handled, LocalFuture, NoBody, Permission,
    ProxyOptions, Response, Script, Upgrades, UpstreamRequest, UpstreamTarget,
};
use saker_rate_limits::Admission;
use saker_telemetry::{error_log, message};
use std::{rc::Rc, sync::Arc};

/// Fields omitted from the subrequest: those of the request alone (content, its connection,
/// conditions and ranges), and those that only proxies may set.
const LEFT_OUT: &[&str] = &[
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-real-ip",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "trailer",
    "expect",
    "connection",
    "upgrade",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
];

/// A worker's gateway, as the one who is asked for permission.
pub struct ForwardAuth(pub Rc<Gateway>);

impl Authorizer for ForwardAuth {
    fn ask(
        &self,
        exchange: &Exchange,
        wanted: &Arc<Authorize>,
    ) -> LocalFuture<'static, Permission> {
        let (gateway, inner, wanted) = (
            Rc::clone(&self.0),
            inner(exchange, wanted),
            Arc::clone(wanted),
        );
        Box::pin(async move { ask(&gateway, inner, &wanted).await })
    }
}

async fn ask(gateway: &Gateway, mut inner: Exchange, wanted: &Authorize) -> Permission {
    let Some(upstream) = &wanted.upstream else {
        return unavailable(&inner, "nobody is there to be asked");
    };
    let is_program = upstream
        .members
        .iter()
        .all(|member| member.backend.protocol == Protocol::FastCgi);
    let call = call(&inner, upstream, wanted, is_program);
    let group = gateway.group(upstream);
    let mut heard = match gateway.ask(&mut inner, &call, &group).await {
        Ok(heard) => heard,
        Err((failure, name)) => return unavailable(&inner, &format!("{name}: {failure}")),
    };
    let status = heard.head.status;
    if is_program && status == Status::OK {
        let Authorization::Allowed(variables) = authorization(heard.head) else {
            return unavailable(&inner, "it says nothing");
        };
        heard.upstream.drain().await;
        let variables = variables
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect();
        return Permission::Granted(Granted {
            variables,
            ..Granted::default()
        });
    }
    match status.0 {
        200..300 if !is_program => Permission::Granted(granted(heard, wanted).await),
        300..500 => {
            complain(&inner, status);
            refused(gateway, &mut inner, &call, heard).await
        }
        _ => unavailable(&inner, &format!("{}: it answers {}", heard.name, status.0)),
    }
}

async fn granted(mut heard: UpstreamResponse, wanted: &Authorize) -> Granted {
    let named = |name: &str| {
        wanted
            .fields
            .iter()
            .find(|field| field.eq_ignore_ascii_case(name))
    };
    let fields = heard
        .head
        .fields
        .iter()
        .filter_map(|(name, value)| Some((named(name)?.clone(), value.to_vec())))
        .collect();
    heard.upstream.drain().await;
    Granted {
        fields,
        ..Granted::default()
    }
}

/// Its answer is the client's: the way to the log-in, or why there is none.
async fn refused(
    gateway: &Gateway,
    inner: &mut Exchange,
    call: &UpstreamRequest,
    heard: UpstreamResponse,
) -> Permission {
    match gateway.answer(inner, call, heard).await {
        Handled::Answered(response) => Permission::Refused(response),
        Handled::Declined | Handled::Forward(_) | Handled::Restart => {
            Permission::Refused(Response::new(Status::FORBIDDEN))
        }
    }
}

/// Logs invalid credentials and denied access. A client that hasn't sent credentials yet isn't
/// logged.
fn complain(inner: &Exchange, status: Status) {
    let view = inner.head.view();
    let is_refusal = status == Status::FORBIDDEN
        || status == Status::UNAUTHORIZED && view.first("authorization").is_some();
    if is_refusal {
        let asked_for = shown(view.first("x-original-uri").unwrap_or_default());
        let facts = format_args!(
            "address={} status={} path={asked_for}",
            inner.client.address.ip(),
            status.0
        );
        error_log::log_about(&message::AUTHORIZATION_REFUSED, inner, facts);
    }
}

fn unavailable(inner: &Exchange, why: &str) -> Permission {
    error_log::log_about(&message::AUTHORIZER_FAILED, inner, format_args!("{why}"));
    Permission::Refused(Response::new(Status::SERVICE_UNAVAILABLE))
}

/// The question, as a request of the client's own.
fn inner(exchange: &Exchange, wanted: &Authorize) -> Exchange {
    let (view, site) = (exchange.head.view(), Arc::clone(&exchange.routing.site));
    let target = wanted
        .target
        .as_deref()
        .map_or_else(|| shown(view.target()), str::to_owned);
    let head = RequestHead::build("GET", &target, view.version().min(Version::Http11), &[]);
    let scheme: &[u8] = if exchange.client.secure {
        b"https"
    } else {
        b"http"
    };
    let authority = view
        .known(KnownField::Host)
        .filter(|host| !host.is_empty())
        .unwrap_or(&exchange.host);
    let url = [scheme, b"://", authority, view.target()].concat();
    let own: [(&[u8], &[u8]); 6] = [
        (b"X-Original-URL", &url),
        (b"X-Original-Method", view.method_token()),
        (b"X-Original-URI", view.target()),
        (b"X-Forwarded-Method", view.method_token()),
        (b"X-Forwarded-URI", view.target()),
        (b"X-Forwarded-Proto", scheme),
    ];
    let is_own = |name: &[u8]| own.iter().any(|(own, _)| is_alike(own, name));
    let is_left_out = |name: &[u8]| is_alike_any(name, LEFT_OUT);
    let head = head.with_fields(
        view.fields()
            .filter(|(name, _)| !is_own(name) && !is_left_out(name))
            .chain(own),
    );
    let mut inner = Exchange::new(
        Rc::clone(&exchange.client),
        head,
        Box::new(NoBody),
        site,
        exchange.now,
    );
    (inner.routing.site_index, inner.host) = (exchange.routing.site_index, exchange.host.clone());
    (inner.path, inner.query) = asked_for(exchange, wanted);
    inner.routing.settings = Arc::clone(&exchange.routing.settings);
    inner.log.id = Rc::clone(&exchange.log.id);
    inner
        .log
        .request_trace
        .clone_from(&exchange.log.request_trace);
    inner.limits.admission = Some(Admission::Pass);
    inner
}

fn shown(target: &[u8]) -> String {
    String::from_utf8_lossy(target).into_owned()
}

fn asked_for(exchange: &Exchange, wanted: &Authorize) -> (Vec<u8>, Option<Vec<u8>>) {
    let Some(target) = wanted.target.as_deref() else {
        return (exchange.path.clone(), exchange.query.clone());
    };
    let (escaped, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let mut read = Vec::new();
    if path::normalize(escaped.as_bytes(), &mut read).is_err() {
        read = escaped.as_bytes().to_vec();
    }
    (read, query.map(|query| query.as_bytes().to_vec()))
}

fn call(
    inner: &Exchange,
    upstream: &Arc<Upstream>,
    wanted: &Authorize,
    is_program: bool,
) -> UpstreamRequest {
    let takes_variables = upstream
        .members
        .first()
        .is_some_and(|member| member.backend.protocol.takes_variables());
    let script = takes_variables.then(|| {
        Box::new(Script {
            is_authorizer: is_program,
            ..native::told(inner, upstream)
        })
    });
    let target = match wanted.target.as_deref() {
        Some(target) => target.as_bytes().to_vec(),
        None => native::own_target(inner),
    };
    let manner = ProxyOptions {
        preserves_host: true,
        follows_locations: false,
        upgrades: Upgrades::None,
        server_name: native::server_name(inner).into(),
        ..ProxyOptions::default()
    };
    UpstreamRequest {
        to: UpstreamTarget::Upstream(Arc::clone(upstream)),
        target,
        script,
        manner: Arc::new(manner),
        names: CallNames::default(),
    }
}
