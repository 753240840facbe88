//! Logging in: by password, passkey, link, or provider; sessions begin here.
//!
//! Called by: `actions`, for the routes that need no credentials.
//! Caveat: each way counts as a failure before its outcome is known, so that attempts at the same
//! time gain nothing. A link has no limits: it is long, and the last way in.
//! Out of scope: the limits (`log_in`), the proofs (`password`, `totp`, `passkeys`, `oidc`).

use crate::{
    Backend, audit, cookie,
    exchange::{Form, Request, Response},
    log_in::monotonic_s,
    oidc, pages, passkey_pages, password,
    sessions::{By, Identity, Proof},
    totp,
    users::{Account, Role, Secret},
};
use saker_telemetry::{error_log, message};
use serde_json::Value;
use std::{fmt, rc::Rc, sync::Arc};

/// Name of those who come by a link.
const LOCAL: &str = "local";
/// Characters of a user name that the log shows.
const NAME_SHOWN: usize = 64;

/// The page of the log-in.
pub fn page(backend: &dyn Backend, status: u16, error: Option<&str>) -> Response {
    let challenge = passkey_pages::challenge(backend);
    let has_no_users = backend.state().users.borrow().is_empty();
    let settings = backend.settings();
    let provider = settings.oidc.as_ref().map(|oidc| oidc::shown(&oidc.issuer));
    pages::log_in(status, error, (has_no_users, &challenge, provider))
}

/// Logs in with a passkey.
pub fn by_passkey(backend: &dyn Backend, request: &Request) -> Response {
    if let Err(refused) = enter(backend, request) {
        return refused;
    }
    let account = match passkey_pages::log_in(backend, request) {
        Ok(account) => account,
        Err(error) => {
            note_refusal(
                backend,
                format_args!("passkey from {}: {error}", request.client),
            );
            return page(backend, 403, Some(&error));
        }
    };
    let state = backend.state();
    state.limits.borrow_mut().succeeded(request.client);
    begin_as(backend, request, account)
}

/// Begins a session of a user.
fn begin_as(backend: &dyn Backend, request: &Request, account: Account) -> Response {
    let identity = Identity {
        name: account.name,
        role: account.role,
        site: account.site,
        is_account: true,
        by: By::Session,
    };
    begin(backend, request, &identity, Proof::Account(account.stamp))
}

/// Logs in with a password.
pub async fn by_password(backend: &Rc<dyn Backend>, request: &Request) -> Response {
    let (form, state) = (request.form(), backend.state());
    let refused = |status, text: &str| page(&**backend, status, Some(text));
    if let Err(refused) = enter(&**backend, request) {
        return refused;
    }
    if let Err(error) = state.refresh_users(&backend.users_file()) {
        let facts = format_args!("the users file cannot be read: {error}");
        error_log::log(&message::CONSOLE_LOGIN_REFUSED, facts);
        return refused(
            500,
            "The users file cannot be read; the error log says why.",
        );
    }
    let name = form.get("name").to_owned();
    let account = state.users.borrow().user(&name).cloned();
    if !is_password_right(
        backend,
        form.get("password"),
        account.as_ref().map(|one| &one.secret),
    )
    .await
        || !account
            .as_ref()
            .is_some_and(|account| is_code_right(&**backend, account, &form))
    {
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        note_refusal(
            &**backend,
            format_args!("user {shown:?} from {}", request.client),
        );
        return refused(403, "The name, the password, or the code is wrong.");
    }
    state.limits.borrow_mut().succeeded(request.client);
    let Some(account) = account else {
        return refused(403, "The name, the password, or the code is wrong.");
    };
    begin_as(&**backend, request, account)
}

/// One at a time, on another thread: a verification takes memory and time.
async fn is_password_right(
    backend: &Rc<dyn Backend>,
    given: &str,
    secret: Option<&Secret>,
) -> bool {
    let hash = match secret {
        Some(Secret::Password { hash, .. }) => Some(hash.clone()),
        _ => None,
    };
    let given = given.to_owned();
    let verifications = Arc::clone(&backend.state().verifications);
    let Ok(_permit) = verifications.acquire_owned().await else {
        return false;
    };
    let verify = move || password::verify(&given, hash.as_deref());
    tokio::task::spawn_blocking(verify).await.unwrap_or(false)
}

/// Uses the code up; users without a secret need none.
fn is_code_right(backend: &dyn Backend, account: &Account, form: &Form) -> bool {
    let Secret::Password {
        totp: Some(secret), ..
    } = &account.secret
    else {
        return true;
    };
    let mut used = backend.state().used_codes.borrow_mut();
    let last = used.get(&account.name).copied();
    let now_s = saker_net::clock::realtime_s();
    let interval = totp::verify(secret, form.get("code"), now_s, last);
    if let Some(interval) = interval {
        used.insert(account.name.clone(), interval);
    }
    interval.is_some()
}

/// Logs in by a link, which is used up.
pub fn by_link(backend: &dyn Backend, request: &Request) -> Response {
    let (form, now_s) = (request.form(), saker_net::clock::realtime_s());
    let is_good = backend
        .state()
        .sessions
        .borrow_mut()
        .use_link(form.get("token"), now_s);
    if !is_good {
        note_refusal(backend, format_args!("link from {}", request.client));
        let text = "The link was used already, or is too old. Run `saker console` for another.";
        return pages::link(403, "", Some(text));
    }
    let identity = Identity {
        name: LOCAL.into(),
        role: Role::Administrator,
        site: None,
        is_account: false,
        by: By::Session,
    };
    begin(backend, request, &identity, Proof::Link)
}

/// Begins a session in place of the one that the browser had.
fn begin(backend: &dyn Backend, request: &Request, identity: &Identity, proof: Proof) -> Response {
    let state = backend.state();
    if let Some(before) = cookie::token(request) {
        state.sessions.borrow_mut().end(before);
    }
    let who = (identity, request.client);
    if let Err(error) = audit::write(&backend.state_dir(), who, "log-in", Value::Null) {
        return Response::error(500, &error);
    }
    let now_s = saker_net::clock::realtime_s();
    let begun = state
        .sessions
        .borrow_mut()
        .begin(&identity.name, identity.role, proof, now_s);
    let Some(token) = begun else {
        return Response::error(500, "the system gives no random bytes");
    };
    backend.count_log_in(true);
    let facts = format_args!(
        "{} ({}) from {}",
        identity.name,
        identity.role.name(),
        request.client
    );
    error_log::log(&message::CONSOLE_LOGIN, facts);
    let first = match identity.role {
        Role::Owner => "/requests",
        _ => "/",
    };
    Response::see_other(first).with("Set-Cookie", cookie::set(&token, request.is_secure))
}

/// Admits an attempt, and counts it as failed until it has succeeded.
fn enter(backend: &dyn Backend, request: &Request) -> Result<(), Response> {
    let (limits, now_s) = (&backend.state().limits, monotonic_s());
    let admitted = limits.borrow_mut().admit(request.client, now_s);
    if let Err(wait_s) = admitted {
        let text = format!("There were too many attempts. Try again in {wait_s} s.");
        let page = page(backend, 429, Some(&text));
        return Err(page.with("Retry-After", wait_s.to_string()));
    }
    limits.borrow_mut().failed(request.client, now_s);
    Ok(())
}

fn note_refusal(backend: &dyn Backend, facts: fmt::Arguments<'_>) {
    backend.count_log_in(false);
    error_log::log(&message::CONSOLE_LOGIN_REFUSED, facts);
}

/// Sends the browser to the provider.
pub async fn begin_at_provider(backend: &dyn Backend, request: &Request) -> Response {
    match oidc::begin(backend, request).await {
        Ok(response) => response,
        Err((status, text)) => page(backend, status, Some(&text)),
    }
}

/// Logs in the browser that comes back from the provider.
pub async fn by_provider(backend: &dyn Backend, request: &Request) -> Response {
    let refused = |(status, error): (u16, String)| {
        note_refusal(
            backend,
            format_args!("provider, from {}: {error}", request.client),
        );
        let text = "The log-in at the provider did not succeed; the error log says why.";
        page(backend, status, Some(text))
    };
    let attempt = match oidc::attempt(backend, request) {
        Ok(attempt) => attempt,
        Err(failed) => return refused(failed),
    };
    // What comes back is answered once, whatever comes of it.
    let removed = cookie::set_attempt("", request.is_secure, 0);
    if let Err(response) = enter(backend, request) {
        return response;
    }
    let proven = match oidc::prove(backend, request, &attempt).await {
        Ok(proven) => proven,
        Err(failed) => return refused(failed).with("Set-Cookie", removed),
    };
    let state = backend.state();
    state.limits.borrow_mut().succeeded(request.client);
    let identity = Identity {
        name: proven.name,
        role: proven.role,
        site: proven.site.clone(),
        is_account: false,
        by: By::Session,
    };
    let proof = Proof::Provider {
        stamp: proven.stamp,
        site: proven.site,
    };
    let begun = begin(backend, request, &identity, proof);
    // The session's cookie is not sent with a request that another site has caused, as a redirect
    // of this answer would be; the page asks anew.
    let response = match begun.location() {
        Some(first) => {
            let mut page = pages::logged_in(first);
            page.fields.extend(begun.fields_named("Set-Cookie"));
            page
        }
        None => begun,
    };
    response.with("Set-Cookie", removed)
}
