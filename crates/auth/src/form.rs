//! The scheme `Form` (mod_auth_form): users log in by an HTML form, and a session remembers them.
//!
//! Called by: `authenticate`; the handlers for log-in and log-out of a front end.
//! Caveat: as in Apache the session holds name and password (unless there is a passphrase of the
//! site), so it belongs into a sealed cookie. A form may say where the client is redirected, which
//! is an open redirect by design, and which request takes the form's place.
//! Out of scope: the log-in page, which is an error document or a page of the site. Sites of saker.toml
//! log in with OpenID Connect (`saker_identity`), whose sessions hold no passwords.

mod fields;

use crate::{
    context::AuthContext,
    credentials::Authenticated,
    providers::{self, PasswordCheck},
    request::Replay,
    session::SharedSession,
    settings::FormSettings,
};
use fields::FormContent;
use saker_ap_expr::{StringExpression, base64_encode, md5_hex};
use saker_http::Status;
use saker_net::blocking::{Answer, Pause};
use saker_telemetry::httpd_message;
use std::sync::Arc;

/// The answer of a handler of forms.
pub enum FormAnswer {
    Redirected(Status, Vec<u8>),
    Status(Status),
    /// Ask again when the future is ready; `None`: too many wait already.
    Wait(Option<Pause>),
}

/// The result of checking a name and a password.
enum LogIn {
    Granted,
    Refused(Status),
    /// Another module may know the user.
    Unknown,
    Wait(Option<Pause>),
}

/// Name, password and proof of a session.
#[derive(Default)]
struct Remembered {
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    proof: Option<Vec<u8>>,
}

/// Authenticates by the session, or by a form that was sent to the path itself.
pub fn authenticate(context: &mut AuthContext<'_>) -> Authenticated {
    let settings = settings(context);
    if context.request.is_forwarded() {
        let text = "form auth cannot be used for proxy requests due to XSS risk, access denied";
        context.log_httpd(
            &httpd_message::FORM_FORWARDED,
            format_args!("{text}: {}", context.path()),
        );
        return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
    }
    let Some(realm) = realm(context) else {
        return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
    };
    match by_session(context, &settings, &realm) {
        LogIn::Granted => Authenticated::Yes,
        LogIn::Wait(pause) => waiting(pause),
        LogIn::Unknown => Authenticated::Declined,
        LogIn::Refused(Status::UNAUTHORIZED) => by_form(context, &settings, &realm),
        LogIn::Refused(status) => Authenticated::Refused(status, None),
    }
}

/// The log-in handler: checks a form, and puts the user into the session.
pub fn log_in(context: &mut AuthContext<'_>) -> FormAnswer {
    let settings = settings(context);
    if context.request.method() != b"POST" {
        context.log_httpd(
            &httpd_message::FORM_METHOD,
            format_args!(
                "the form-login-handler only supports the POST method for {}",
                context.path()
            ),
        );
        return FormAnswer::Status(Status::METHOD_NOT_ALLOWED);
    }
    let Some(realm) = realm(context) else {
        return FormAnswer::Status(Status::INTERNAL_SERVER_ERROR);
    };
    let form = match read(context, &settings) {
        Ok(form) => form,
        Err(LogIn::Wait(pause)) => return FormAnswer::Wait(pause),
        Err(LogIn::Refused(status)) => return FormAnswer::Status(status),
        Err(_) => FormContent::default(),
    };
    match check_form(context, &settings, &realm, &form) {
        LogIn::Wait(pause) => FormAnswer::Wait(pause),
        LogIn::Granted => match location_after(context, &settings, &form) {
            Ok(Some(location)) => FormAnswer::Redirected(Status::FOUND, location),
            Ok(None) => FormAnswer::Status(Status::OK),
            Err(status) => FormAnswer::Status(status),
        },
        LogIn::Unknown => FormAnswer::Status(Status::NOT_FOUND),
        LogIn::Refused(status) => match location(context, settings.login_required.as_ref()) {
            Ok(Some(location)) if status == Status::UNAUTHORIZED => {
                FormAnswer::Redirected(Status::FOUND, location)
            }
            Err(failed) if status == Status::UNAUTHORIZED => FormAnswer::Status(failed),
            _ => FormAnswer::Status(status),
        },
    }
}

/// The log-out handler: takes the user out of the session.
pub fn log_out(context: &mut AuthContext<'_>) -> FormAnswer {
    let settings = settings(context);
    let realm = context.realm();
    if let Some(session) = context.request.session() {
        let mut session = session.borrow_mut();
        for kind in ["user", "pw", "site"] {
            session.set(&name(&realm, kind), None);
        }
    }
    context.request.forbid_storing();
    match location(context, settings.logout.as_ref()) {
        Ok(Some(location)) => FormAnswer::Redirected(Status::TEMPORARY_REDIRECT, location),
        Ok(None) => FormAnswer::Status(Status::OK),
        Err(status) => FormAnswer::Status(status),
    }
}

fn settings(context: &AuthContext<'_>) -> Arc<FormSettings> {
    let form = &context.settings.authentication.form;
    form.clone().unwrap_or_default()
}

/// The realm, which names of session values begin with. `None`: it is missing, which has been logged.
fn realm(context: &mut AuthContext<'_>) -> Option<String> {
    if context.settings.authentication.name.is_none() {
        context.log_httpd(
            &httpd_message::FORM_WITHOUT_NAME,
            format_args!("need AuthName: {}", context.path()),
        );
        return None;
    }
    Some(context.realm())
}

fn name(realm: &str, kind: &str) -> Vec<u8> {
    format!("{realm}-{kind}").into_bytes()
}

fn waiting(pause: Option<Pause>) -> Authenticated {
    match pause {
        Some(pause) => Authenticated::Wait(pause),
        None => Authenticated::Refused(Status::SERVICE_UNAVAILABLE, None),
    }
}

fn by_session(context: &mut AuthContext<'_>, settings: &FormSettings, realm: &str) -> LogIn {
    let Some(session) = context.request.session() else {
        return LogIn::Refused(Status::UNAUTHORIZED);
    };
    let Remembered {
        user,
        password,
        proof,
    } = remembered(&session, realm);
    let Some(user) = user else {
        return LogIn::Refused(Status::UNAUTHORIZED);
    };
    let user = String::from_utf8_lossy(&user).into_owned();
    context.request.set_user(&user);
    let Some(password) = password else {
        return LogIn::Refused(Status::UNAUTHORIZED);
    };
    let is_proven = match (&proof, proof_of(settings, &user)) {
        (Some(proof), Some(expected)) => crate::passwords::is_same(proof, &expected),
        _ => false,
    };
    let found = match is_proven {
        true => LogIn::Granted,
        false => check(context, settings, &user, &password),
    };
    if matches!(found, LogIn::Granted) {
        fake_basic(context, settings, &user, &password);
    }
    found
}

fn remembered(session: &SharedSession, realm: &str) -> Remembered {
    let session = session.borrow();
    let value = |kind: &str| session.get(&name(realm, kind)).map(<[u8]>::to_vec);
    Remembered {
        user: value("user"),
        password: value("pw"),
        proof: value("site"),
    }
}

/// Proof that stands for the password where the site has a passphrase, as Apache makes it.
fn proof_of(settings: &FormSettings, user: &str) -> Option<Vec<u8>> {
    let passphrase = settings.site_passphrase.as_ref()?;
    Some(md5_hex(format!("{user}:{passphrase}").as_bytes()))
}

/// Authenticates by a form that was sent to the path itself; challenges the client otherwise.
fn by_form(context: &mut AuthContext<'_>, settings: &FormSettings, realm: &str) -> Authenticated {
    let form = match read(context, settings) {
        Ok(form) => form,
        Err(LogIn::Wait(pause)) => return waiting(pause),
        Err(LogIn::Refused(status)) => return Authenticated::Refused(status, None),
        Err(LogIn::Granted | LogIn::Unknown) => return challenged(context, settings, None),
    };
    match check_form(context, settings, realm, &form) {
        LogIn::Wait(pause) => waiting(pause),
        LogIn::Unknown => Authenticated::Declined,
        LogIn::Refused(Status::UNAUTHORIZED) => challenged(context, settings, form.location),
        LogIn::Refused(status) => Authenticated::Refused(status, None),
        LogIn::Granted => match location_after(context, settings, &form) {
            Ok(Some(location)) => Authenticated::Redirected(location),
            Ok(None) => replayed(context, form),
            Err(status) => Authenticated::Refused(status, None),
        },
    }
}

/// The request that takes the form's place.
fn replayed(context: &mut AuthContext<'_>, form: FormContent) -> Authenticated {
    let method = form.method.filter(|method| method != b"POST");
    if method.is_some() && form.media_type.is_none() {
        return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
    }
    let content = match form.media_type {
        Some(_) => form.content.unwrap_or_default(),
        None => Vec::new(),
    };
    context.request.replay(Replay {
        method,
        media_type: form.media_type,
        content,
    });
    Authenticated::Yes
}

fn challenged(
    context: &mut AuthContext<'_>,
    settings: &FormSettings,
    of_form: Option<Vec<u8>>,
) -> Authenticated {
    match location(context, settings.login_required.as_ref()) {
        Ok(Some(location)) => return Authenticated::Redirected(location),
        Ok(None) => {}
        Err(status) => return Authenticated::Refused(status, None),
    }
    if let Some(location) = of_form {
        return Authenticated::Redirected(location);
    }
    if settings.may_be_stored != Some(true) {
        context.request.forbid_storing();
    }
    Authenticated::Refused(Status::UNAUTHORIZED, None)
}

/// Reads the form. [`LogIn::Unknown`]: the request has none.
fn read(context: &mut AuthContext<'_>, settings: &FormSettings) -> Result<FormContent, LogIn> {
    let answer = context.request.form(settings.form_bytes_max());
    let content = match answer.ok_or(LogIn::Unknown)? {
        Answer::Known(Ok(content)) => content,
        Answer::Known(Err(status)) => return Err(LogIn::Refused(status)),
        Answer::Wait(pause) => return Err(LogIn::Wait(Some(pause))),
        Answer::Busy => return Err(LogIn::Wait(None)),
    };
    Ok(FormContent::read(&content, &settings.fields))
}

/// Checks name and password of a form, and puts them into the session.
fn check_form(
    context: &mut AuthContext<'_>,
    settings: &FormSettings,
    realm: &str,
    form: &FormContent,
) -> LogIn {
    if let Some(user) = &form.user {
        context.request.set_user(&String::from_utf8_lossy(user));
    }
    let (Some(user), Some(password)) = (&form.user, &form.password) else {
        return LogIn::Refused(Status::UNAUTHORIZED);
    };
    let user = String::from_utf8_lossy(user).into_owned();
    let found = check(context, settings, &user, password);
    if matches!(found, LogIn::Granted) {
        fake_basic(context, settings, &user, password);
        remember(context, settings, realm, (&user, password));
    }
    found
}

fn remember(
    context: &mut AuthContext<'_>,
    settings: &FormSettings,
    realm: &str,
    (user, password): (&str, &[u8]),
) {
    let Some(session) = context.request.session() else {
        return;
    };
    let mut session = session.borrow_mut();
    session.set(&name(realm, "user"), Some(user.as_bytes()));
    session.set(&name(realm, "pw"), Some(password));
    session.set(&name(realm, "site"), proof_of(settings, user).as_deref());
}

fn check(
    context: &mut AuthContext<'_>,
    settings: &FormSettings,
    user: &str,
    password: &[u8],
) -> LogIn {
    let providers = settings.providers.as_deref().unwrap_or_default();
    let found = providers::check_with_all(context, providers, user, password);
    let may_decline = settings.authoritative == Some(false);
    match found {
        PasswordCheck::Granted => LogIn::Granted,
        PasswordCheck::Wait(pause) => LogIn::Wait(Some(pause)),
        PasswordCheck::Busy => LogIn::Wait(None),
        PasswordCheck::UnknownUser | PasswordCheck::Failed if may_decline => LogIn::Unknown,
        PasswordCheck::Denied => {
            let text = format_args!(
                "user '{user}': authentication failure for \"{}\": password Mismatch",
                context.path()
            );
            context.log_httpd(&httpd_message::FORM_PASSWORD_MISMATCH, text);
            LogIn::Refused(Status::UNAUTHORIZED)
        }
        PasswordCheck::UnknownUser => {
            context.log_httpd(
                &httpd_message::FORM_USER_NOT_FOUND,
                format_args!("user '{user}' not found: {}", context.path()),
            );
            LogIn::Refused(Status::UNAUTHORIZED)
        }
        PasswordCheck::Failed => LogIn::Refused(Status::INTERNAL_SERVER_ERROR),
    }
}

fn fake_basic(context: &mut AuthContext<'_>, settings: &FormSettings, user: &str, password: &[u8]) {
    if settings.fakes_basic == Some(true) {
        let pair = [user.as_bytes(), b":", password].concat();
        let value = [b"Basic ".as_slice(), &base64_encode(&pair)].concat();
        context.request.set_authorization(&value);
    }
}

/// The location after a log-in: that of the form, or that of the configuration.
fn location_after(
    context: &mut AuthContext<'_>,
    settings: &FormSettings,
    form: &FormContent,
) -> Result<Option<Vec<u8>>, Status> {
    match &form.location {
        Some(location) => Ok(Some(location.clone())),
        None => location(context, settings.login_success.as_ref()),
    }
}

fn location(
    context: &mut AuthContext<'_>,
    text: Option<&Arc<StringExpression>>,
) -> Result<Option<Vec<u8>>, Status> {
    let Some(text) = text else {
        return Ok(None);
    };
    let location = context.request.evaluate_text(text);
    match location {
        Ok(location) if fields::is_location(&location) => Ok(Some(location)),
        _ => Err(Status::INTERNAL_SERVER_ERROR),
    }
}
