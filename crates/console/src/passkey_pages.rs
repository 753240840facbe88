//! Logging in with a passkey, and the page on which users add and remove theirs.
//!
//! Called by: `actions`.
//! Caveat: browsers have passkeys over TLS or at `localhost` only, and for host names, not for IP
//! addresses; a passkey is one for the name in the address bar.
//! Out of scope: verification (`passkeys`), and where they are kept (`passkey_store`).

use crate::{
    Backend, audit,
    exchange::{Form, Request, Response},
    pages::{Notice, Shell, respond, time},
    passkey_store::{self, Passkey},
    passkeys::{self, Party},
    sessions::{By, Identity},
    users::Account,
};
use askama::Template;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use saker_net::clock::realtime_s;
use serde_json::json;

/// Purpose of challenges for logging in.
const LOG_IN: &str = "log-in";

fn purpose_of_adding(user: &str) -> String {
    format!("add {user}")
}

/// A challenge for the page of the log-in.
pub fn challenge(backend: &dyn Backend) -> String {
    let challenges = backend.state().challenges.borrow();
    challenges.make(LOG_IN, realtime_s()).unwrap_or_default()
}

/// The console by the name that the request has for it.
fn party(request: &Request) -> Option<Party> {
    let authority = request.only_field("host").ok()??;
    let host = saker_http::host::parse_authority(authority.as_bytes())?.host;
    let scheme = if request.is_secure { "https" } else { "http" };
    Some(Party {
        id: std::str::from_utf8(host).ok()?.to_ascii_lowercase(),
        origin: format!("{scheme}://{}", authority.to_ascii_lowercase()),
    })
}

fn response(form: &Form) -> Option<passkeys::Response> {
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(form.get(name)).ok();
    Some(passkeys::Response {
        id: bytes("id")?,
        client_data: bytes("client_data")?,
        authenticator_data: bytes("authenticator_data")?,
        signature: bytes("signature")?,
        public_key: bytes("public_key")?,
    })
}

/// The account that a passkey proves.
pub fn log_in(backend: &dyn Backend, request: &Request) -> Result<Account, String> {
    let form = request.form();
    let (response, party) = response(&form)
        .zip(party(request))
        .ok_or("invalid answer")?;
    let challenge = form.get("challenge");
    let mut challenges = backend.state().challenges.borrow_mut();
    if !challenges.answer(challenge, LOG_IN, realtime_s()) {
        return Err("the page is too old; load it again".to_owned());
    }
    drop(challenges);
    let state_dir = backend.state_dir();
    let all = passkey_store::load(&state_dir);
    let found = all.iter().find(|one| one.id == response.id);
    let passkey = found.ok_or("this passkey is not known here")?;
    let account = backend.state().users.borrow().user(&passkey.user).cloned();
    let account = account
        .filter(|account| passkey.is_of(account))
        .ok_or("the user of this passkey has changed; add it again")?;
    let known = (&passkey.key, passkey.counter);
    let counter = passkeys::verify_assertion(&response, &party, challenge, known)?;
    passkey_store::set_counter(&state_dir, &passkey.id, counter)?;
    Ok(account)
}

/// A passkey, as the page shows it.
struct Row {
    id: String,
    added: String,
    is_valid: bool,
}

#[derive(Template)]
#[template(path = "passkeys.html")]
struct PasskeysPage {
    shell: Shell,
    notice: Option<Notice>,
    rows: Vec<Row>,
    /// Empty: this session cannot add any.
    challenge: String,
}

/// The passkeys of the user.
pub fn page(
    backend: &dyn Backend,
    identity: &Identity,
    shell: Shell,
    notice: Option<Notice>,
) -> Response {
    let account = account(backend, identity);
    let all = passkey_store::load(&backend.state_dir()).into_iter();
    let rows = all.filter(|one| one.user == identity.name).map(|one| Row {
        id: URL_SAFE_NO_PAD.encode(&one.id),
        added: time(one.added_s),
        is_valid: account.as_ref().is_some_and(|account| one.is_of(account)),
    });
    let rows = if account.is_some() {
        rows.collect()
    } else {
        Vec::new()
    };
    let challenge = account.and_then(|account| {
        let challenges = backend.state().challenges.borrow();
        challenges.make(&purpose_of_adding(&account.name), realtime_s())
    });
    let page = PasskeysPage {
        shell,
        notice,
        rows,
        challenge: challenge.unwrap_or_default(),
    };
    respond(200, &page)
}

/// The account of a session that began with one: not of a link, whose user may have any name.
fn account(backend: &dyn Backend, identity: &Identity) -> Option<Account> {
    if identity.by != By::Session || !identity.is_account {
        return None;
    }
    backend.state().users.borrow().user(&identity.name).cloned()
}

/// Adds a passkey to the user, or removes one.
pub fn change(
    backend: &dyn Backend,
    shell: Shell,
    (request, identity): (&Request, &Identity),
    is_new: bool,
) -> Response {
    let done = match (account(backend, identity), is_new) {
        (None, _) => Err("only users of the users file have passkeys".to_owned()),
        (Some(account), true) => add(backend, (request, identity), &account),
        (Some(account), false) => remove(backend, (request, identity), &account),
    };
    let notice = match done {
        Ok(text) => Notice::good(text),
        Err(error) => Notice::wrong(&error),
    };
    page(backend, identity, shell, Some(notice))
}

fn add(
    backend: &dyn Backend,
    (request, identity): (&Request, &Identity),
    account: &Account,
) -> Result<&'static str, String> {
    let form = request.form();
    let (response, party) = response(&form)
        .zip(party(request))
        .ok_or("invalid answer")?;
    let (challenge, purpose) = (form.get("challenge"), purpose_of_adding(&account.name));
    let mut challenges = backend.state().challenges.borrow_mut();
    if !challenges.answer(challenge, &purpose, realtime_s()) {
        return Err("the page is too old; load it again".to_owned());
    }
    drop(challenges);
    let (key, counter) = passkeys::verify_new(&response, &party, challenge)?;
    let state_dir = backend.state_dir();
    let detail = json!({ "id": form.get("id") });
    audit::write(
        &state_dir,
        (identity, request.client),
        "add passkey",
        detail,
    )?;
    let passkey = Passkey {
        id: response.id,
        user: account.name.clone(),
        stamp: account.stamp,
        key,
        counter,
        added_s: realtime_s(),
    };
    passkey_store::add(&state_dir, passkey)?;
    Ok("The passkey is added.")
}

fn remove(
    backend: &dyn Backend,
    (request, identity): (&Request, &Identity),
    account: &Account,
) -> Result<&'static str, String> {
    let form = request.form();
    let id = URL_SAFE_NO_PAD.decode(form.get("id"));
    let id = id.map_err(|_| "there is no such passkey")?;
    let state_dir = backend.state_dir();
    let detail = json!({ "id": form.get("id") });
    audit::write(
        &state_dir,
        (identity, request.client),
        "remove passkey",
        detail,
    )?;
    passkey_store::remove(&state_dir, &account.name, &id)?;
    Ok("The passkey is removed.")
}
