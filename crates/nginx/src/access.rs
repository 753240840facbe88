//! The access phase: `allow` and `deny`, `auth_basic`, `satisfy`, and `limit_except`.
//!
//! Called by: `rules`.
//! Caveat: a password file that cannot be read denies, and so does a rule that cannot be evaluated.
//! Out of scope: password forms (`saker-auth`).

use crate::{log_lines::shown, pages, request::Request, state::State};
use saker_ap_expr::base64_decode;
use saker_auth::{RecordFiles, check_password};
use saker_config::model::Address;
use saker_http::{Status, basic_credentials};
use saker_ipset::ClientNetwork;
use saker_net::blocking::{Answer, Pause, Turn};
use saker_nginx_model::{
    Location,
    modules::access::{AccessConf, AccessRule, Who},
};
use saker_pipeline::{Exchange, Response, Verdict};
use saker_telemetry::{
    error_log,
    message::{self, Level},
};
use sha1::{Digest, Sha1};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::Duration};

/// The outcome of the access rules.
pub enum Access {
    Decided(Verdict),
    /// Decide again when the future is ready.
    Wait(Pause),
    /// Decide again with the answer of this path.
    Ask(Vec<u8>),
}

/// One rule's decision.
enum Decision {
    /// There is no such rule.
    None,
    Granted,
    Refused(Response),
}

/// Gives the request the settings of `limit_except`, if its method is not excepted.
pub fn limit_methods(request: &mut Request<'_>) {
    let location = Arc::clone(&request.state.location);
    let Some((methods, inner)) = &location.limit_except else {
        return;
    };
    let method = request.method();
    let is_excepted = methods
        .iter()
        .any(|excepted| excepted.as_bytes() == method || **excepted == *"GET" && method == b"HEAD");
    if !is_excepted {
        request.state.location = Arc::clone(inner);
    }
}

/// Returns the time by which a refusal for want of a password is delayed (`auth_delay`).
pub fn delay(exchange: &Exchange, verdict: &Verdict) -> Option<Duration> {
    let Verdict::Answer(response) = verdict else {
        return None;
    };
    let state = exchange.extensions.get::<State>()?;
    let delay_ms = state.location.conf.core.auth_delay_ms?;
    (response.status == Status::UNAUTHORIZED && delay_ms > 0)
        .then(|| Duration::from_millis(delay_ms))
}

/// Decides about a request.
pub fn access(request: &mut Request<'_>, files: &mut RecordFiles) -> Access {
    if request.state.is_subrequest {
        // It asks about a request that access has been decided for.
        return Access::Decided(Verdict::Pass);
    }
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.access;
    let any = location.conf.core.satisfy_any == Some(true);
    let by_address = by_address(request, conf);
    if !any && let Decision::Refused(response) = by_address {
        return Access::Decided(Verdict::Answer(response));
    }
    if any && matches!(by_address, Decision::Granted) {
        return Access::Decided(Verdict::Pass);
    }
    let by_user = match by_user(request, &location, files) {
        Ok(decision) => decision,
        Err(pause) => return Access::Wait(pause),
    };
    if !any && let Decision::Refused(response) = by_user {
        return Access::Decided(Verdict::Answer(response));
    }
    if any && matches!(by_user, Decision::Granted) {
        return Access::Decided(Verdict::Pass);
    }
    let by_request = match by_request(request, conf) {
        Ok(decision) => decision,
        Err(path) => return Access::Ask(path),
    };
    let verdict = match (by_address, by_user, by_request) {
        // Of two refusals, the one that asks for a password counts: with it the client may come in.
        // An error of the subrequest is no refusal.
        (_, Decision::Refused(of_user), Decision::Refused(of_request))
            if of_request.status == Status::FORBIDDEN && of_user.status == Status::UNAUTHORIZED =>
        {
            Verdict::Answer(of_user)
        }
        (_, Decision::Refused(of_user), Decision::Refused(mut of_request)) => {
            add_challenge(&of_user, &mut of_request);
            Verdict::Answer(of_request)
        }
        (_, _, Decision::Refused(response)) => Verdict::Answer(response),
        (_, _, Decision::Granted) => Verdict::Pass,
        (_, Decision::Refused(response), _) => Verdict::Answer(response),
        (Decision::Refused(response), _, _) => Verdict::Answer(response),
        _ => Verdict::Pass,
    };
    Access::Decided(verdict)
}

/// Adds the challenge of one refusal to another, in front of its own: without it browsers ask for no
/// password.
fn add_challenge(of_user: &Response, of_request: &mut Response) {
    const NAME: &str = "WWW-Authenticate";
    let Some(challenge) = of_user.fields().first(NAME).map(<[u8]>::to_vec) else {
        return;
    };
    let own = of_request.fields().first(NAME).map(<[u8]>::to_vec);
    let fields = of_request.fields_mut();
    fields.set(NAME, challenge);
    if let Some(own) = own {
        fields.append(NAME, own);
    }
}

/// Lines that outcomes are kept by, one by one.
const RULES_MAX: usize = 256;

fn by_address(request: &mut Request<'_>, conf: &AccessConf) -> Decision {
    let Some(rules) = conf.rules.as_deref().filter(|rules| !rules.is_empty()) else {
        return Decision::None;
    };
    if rules.len() > RULES_MAX {
        request.depends_on_request();
    }
    let client = &request.exchange.client;
    // A trusted proxy may name any address, also that of no address.
    let is_unix = matches!(*client.listener, Address::Unix(_)) && client.address == client.peer;
    let matches = |request: &mut Request<'_>, rule: &AccessRule| match &rule.who {
        Who::All => true,
        Who::UnixSockets => is_unix,
        Who::Network(network) => !is_unix && request.is_client_within(network),
    };
    for rule in rules {
        if !matches(request, rule) {
            continue;
        }
        if rule.allows {
            return Decision::Granted;
        }
        if request.state.error_status.is_none() {
            request.exchange.keep_answer();
        }
        // Another way in may be open.
        if request.state.location.conf.core.satisfy_any != Some(true) {
            let text = "access forbidden by rule".to_owned();
            request.log(&message::NGINX_ACCESS_REFUSED, Level::Error, text);
        }
        return Decision::Refused(Response::new(Status::FORBIDDEN));
    }
    Decision::None
}

/// Decides by the answer to `auth_request`; the error is the path that is to be asked.
fn by_request(request: &mut Request<'_>, conf: &AccessConf) -> Result<Decision, Vec<u8>> {
    let Some(Some(path)) = &conf.auth_request else {
        return Ok(Decision::None);
    };
    request.depends_on_request();
    let Some(answer) = request.state.auth_answer.clone() else {
        return Err(request.text(path));
    };
    let mut response = match answer.status {
        200..=299 => return Ok(Decision::Granted),
        401 => Response::new(Status::UNAUTHORIZED),
        403 => Response::new(Status::FORBIDDEN),
        other => {
            let text = format!("auth request unexpected status: {other}");
            request.log(&message::NGINX_ACCESS_REFUSED, Level::Error, text);
            Response::new(Status::INTERNAL_SERVER_ERROR)
        }
    };
    if let Some(challenge) = answer.challenge.filter(|_| answer.status == 401) {
        response.fields_mut().set("WWW-Authenticate", challenge);
    }
    Ok(Decision::Refused(response))
}

fn by_user(
    request: &mut Request<'_>,
    location: &Location,
    files: &mut RecordFiles,
) -> Result<Decision, Pause> {
    let conf = &location.conf.access;
    let (Some(Some(realm)), Some(file)) = (&conf.realm, &conf.user_file) else {
        return Ok(Decision::None);
    };
    request.depends_on_request();
    let realm = request.text(realm);
    if realm == b"off" {
        return Ok(Decision::None);
    }
    let file = request.text(file);
    let refused = |request: &mut Request<'_>| {
        request.exchange.access.user = None;
        let mut response = Response::new(Status::UNAUTHORIZED);
        let challenge = [b"Basic realm=\"", realm.as_slice(), b"\""].concat();
        response
            .fields_mut()
            .set("WWW-Authenticate", pages::field_value(&challenge));
        Ok(Decision::Refused(response))
    };
    let Some((user, password)) = credentials(request) else {
        let text = "no user/password was provided for basic authentication".to_owned();
        request.log(&message::NGINX_ACCESS_REFUSED, Level::Info, text);
        return refused(request);
    };
    let path = Path::new(OsStr::from_bytes(&file));
    let records = match files.read(request.watcher, path) {
        Ok(records) => records,
        Err(error) => {
            let facts = format_args!("{}: {error}", path.display());
            error_log::log_about(
                &message::NGINX_PASSWORDS_UNREADABLE,
                &*request.exchange,
                facts,
            );
            return Ok(Decision::Refused(Response::new(Status::FORBIDDEN)));
        }
    };
    let stored = records.get(user.as_slice()).and_then(|lines| lines.first());
    let shown = shown(&user);
    let Some(stored) = stored else {
        let text = format!("user \"{shown}\" was not found in \"{}\"", path.display());
        request.log(&message::NGINX_ACCESS_REFUSED, Level::Error, text);
        return refused(request);
    };
    let stored = stored
        .split(|byte| *byte == b':')
        .next()
        .unwrap_or_default();
    let turn = turn(request.exchange);
    match is_password(turn, &String::from_utf8_lossy(stored), &password) {
        Answer::Known(true) => {
            request.exchange.access.user = Some(String::from_utf8_lossy(&user).into());
            Ok(Decision::Granted)
        }
        Answer::Known(false) => {
            let text = format!("user \"{shown}\": password mismatch");
            request.log(&message::NGINX_ACCESS_REFUSED, Level::Error, text);
            refused(request)
        }
        Answer::Wait(pause) => Err(pause),
        Answer::Busy => Ok(Decision::Refused(Response::new(
            Status::SERVICE_UNAVAILABLE,
        ))),
    }
}

/// The turn of the site and the client on the threads for passwords.
fn turn(exchange: &Exchange) -> Turn {
    let client = ClientNetwork::of(exchange.client.ip()).number();
    Turn::of_client(exchange.routing.site_index as u64, client)
}

/// Name and password of the request.
fn credentials(request: &Request<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let view = request.exchange.head.view();
    basic_credentials::parse(view.first("authorization")?)
}

/// Forms that only nginx has, and those of crypt(3).
fn is_password(turn: Turn, stored: &str, password: &[u8]) -> Answer<bool> {
    if let Some(plain) = stored.strip_prefix("{PLAIN}") {
        return Answer::Known(is_same(plain.as_bytes(), password));
    }
    if let Some(text) = stored.strip_prefix("{SSHA}") {
        let decoded = base64_decode(text.as_bytes());
        let Some((hash, salt)) = decoded.split_at_checked(20) else {
            return Answer::Known(false);
        };
        let made = Sha1::digest([password, salt].concat());
        return Answer::Known(is_same(&made, hash));
    }
    check_password(turn, stored, password)
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let differing = pairs.fold(0, |so_far, (left, right)| so_far | (left ^ right));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}
