//! Sessions of clients (mod_session and its modules): loaded before access is decided, saved with
//! the response.
//!
//! Called by: the access phase, the fixups, and the filters of responses.
//! Caveat: a request and everything inside of it share one session. A cookie that can't be opened
//! (another key, Apache's own encryption) is no session; the client gets a new one.
//! Out of scope: rows of databases (`session_store`), the text of a session and its lifetime (`saker_auth::session`).

use crate::{
    form_state::LoadedSession,
    modules::session_store::{self, Found},
    state::{may_ask, peek, state},
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_auth::{
    session::Session,
    settings::{SessionCookie, SessionSettings},
};
use saker_http::{KnownField, Status, cookies::cookies};
use saker_net::blocking::Pause;
use saker_pipeline::{Exchange, Filter, LocalFuture, Response};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Loads the session where the settings in force want one; those of users once they are known.
/// `Some`: a database has to be waited for.
pub fn load(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Option<Pause> {
    let settings = local.auth.settings.session.as_ref();
    let Some(settings) = settings.filter(|settings| settings.includes(&exchange.path)) else {
        state(exchange).session = None;
        return None;
    };
    exchange.depends_on_request();
    let known = peek(exchange).and_then(|state| state.session.clone());
    let is_same = known
        .as_ref()
        .is_some_and(|known| is_same_place(&known.settings, settings));
    if let Some(known) = known.filter(|_| is_same) {
        hide(exchange, settings);
        state(exchange).session = Some(LoadedSession {
            settings: Arc::clone(settings),
            ..known
        });
        return None;
    }
    state(exchange).session = None;
    let found = match (&settings.cookie, settings.database()) {
        (Some(cookie), _) => {
            let text = value_of(exchange, &cookie.name);
            Found::Session(text.map(<[u8]>::to_vec), None)
        }
        (None, Some(database)) => match &database.cookie {
            Some(cookie) => {
                let key = value_of(exchange, &cookie.name);
                session_store::by_cookie(exchange, host, database, key)
            }
            None => return None,
        },
        (None, None) => Found::Session(None, None),
    };
    keep(exchange, settings, found)
}

/// Loads the session of the user, if users have sessions here.
pub fn load_of_user(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Option<Pause> {
    let settings = local.auth.settings.session.as_ref()?;
    let is_there = peek(exchange).is_some_and(|state| state.session.is_some());
    if is_there || !session_store::is_by_user(settings) || !settings.includes(&exchange.path) {
        return None;
    }
    let user = exchange.access.user.clone()?;
    let database = settings.database()?;
    may_ask(exchange, host);
    let found = session_store::by_user(exchange, host, database, &user);
    keep(exchange, settings, found)
}

fn is_same_place(one: &SessionSettings, other: &SessionSettings) -> bool {
    (&one.cookie, &one.database, &one.keys) == (&other.cookie, &other.database, &other.keys)
}

fn keep(exchange: &mut Exchange, settings: &Arc<SessionSettings>, found: Found) -> Option<Pause> {
    let (text, place) = match found {
        Found::Session(text, place) => (text, place),
        // As in Apache, the request goes on without a session. The one that can't be reached is not
        // replaced by a new one.
        Found::Failed => {
            hide(exchange, settings);
            return None;
        }
        Found::Wait(pause) => return Some(pause),
    };
    let text = match &settings.keys {
        Some(keys) => text.and_then(|text| keys.open(&context(settings), &text)),
        None => text,
    };
    let session = Session::load(text.as_deref(), exchange.now, settings.lifetime());
    hide(exchange, settings);
    state(exchange).session = Some(LoadedSession {
        settings: Arc::clone(settings),
        session: Rc::new(RefCell::new(session)),
        place,
    });
    None
}

/// The value of a cookie. None if the client says two.
fn value_of<'a>(exchange: &'a Exchange, name: &str) -> Option<&'a [u8]> {
    let view = exchange.head.view();
    let mut values = cookies(view.lines(KnownField::Cookie))
        .filter(|own| own.name == name.as_bytes())
        .filter_map(|own| own.value);
    let first = values.next()?;
    values.all(|other| other == first).then_some(first)
}

/// Context that sealed texts are bound to.
fn context(settings: &SessionSettings) -> Vec<u8> {
    match &settings.cookie {
        Some(cookie) => format!("mod_session {}", cookie.name).into_bytes(),
        None => b"mod_session_dbd".to_vec(),
    }
}

/// Takes the cookie from the request where programs don't get it.
fn hide(exchange: &mut Exchange, settings: &SessionSettings) {
    let (cookie, is_hidden) = match (&settings.cookie, settings.database()) {
        (None, Some(database)) => (&database.cookie, database.hides_cookie != Some(false)),
        (cookie, _) => (cookie, settings.hides_cookie == Some(true)),
    };
    if let Some(cookie) = cookie.as_ref().filter(|_| is_hidden) {
        hide_cookie(exchange, &cookie.name);
    }
}

fn hide_cookie(exchange: &mut Exchange, name: &str) {
    let view = exchange.head.view();
    let is_there = cookies(view.lines(KnownField::Cookie)).any(|own| own.name == name.as_bytes());
    if !is_there {
        return;
    }
    let others: Vec<&[u8]> = cookies(view.lines(KnownField::Cookie))
        .filter(|own| own.name != name.as_bytes())
        .map(|own| own.text)
        .collect();
    let line = others.join(&b"; "[..]);
    let more = (!line.is_empty()).then_some((&b"Cookie"[..], line.as_slice()));
    let head = exchange
        .head
        .edited(|field| !field.eq_ignore_ascii_case(b"cookie"), more);
    exchange.head = head;
    exchange.notes_edit_of("Cookie");
}

/// Gives programs the session. A field of the client's of that name would be taken for it.
pub fn describe(exchange: &mut Exchange) {
    let Some(loaded) = peek(exchange).and_then(|state| state.session.clone()) else {
        return;
    };
    if loaded.settings.is_in_environment != Some(true) {
        return;
    }
    if exchange.head.view().first("session").is_some() {
        let head = exchange
            .head
            .edited(|field| !field.eq_ignore_ascii_case(b"session"), None);
        exchange.head = head;
    }
    let text = loaded.session.borrow().text();
    exchange.environment.set(b"HTTP_SESSION", &text);
}

/// Saves sessions (filter, before the page cache's: pages with a session are not shared).
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveSession;

impl Filter for SaveSession {
    fn name(&self) -> &'static str {
        "session"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        peek(exchange).is_some_and(|state| state.session.is_some())
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        let Some(loaded) = peek(exchange).and_then(|state| state.session.clone()) else {
            return Box::pin(std::future::ready(()));
        };
        let text = text_to_save(exchange, response, &loaded);
        if loaded.place.is_none() {
            if let (Some(text), Some(cookie)) = (text, &loaded.settings.cookie) {
                set_cookie(exchange, sealed_line(&loaded.settings, cookie, &text));
            }
            return Box::pin(std::future::ready(()));
        }
        Box::pin(async move {
            if let (Some(text), Some(place)) = (text, &loaded.place) {
                let settings = &loaded.settings;
                let text = match &settings.keys {
                    Some(keys) if !text.is_empty() => {
                        keys.seal(&context(settings), &text).map(String::into_bytes)
                    }
                    _ => Some(text),
                };
                let saved = match &text {
                    Some(text) => session_store::save(exchange, &loaded, place, text).await,
                    None => None,
                };
                if place.user.is_some() {
                    // mod_session_dbd says so once more where it saves.
                    forbid_sharing(response);
                }
                let cookie = settings
                    .database()
                    .and_then(|database| database.cookie.as_ref());
                if let (Some(key), Some(cookie)) = (saved, cookie) {
                    set_cookie(exchange, Some(line(settings, cookie, key.as_bytes())));
                }
            }
        })
    }
}

/// The text to be kept. `None`: it stays as it is.
fn text_to_save(
    exchange: &Exchange,
    response: &mut Response,
    loaded: &LoadedSession,
) -> Option<Vec<u8>> {
    let settings = &loaded.settings;
    let text = {
        let mut session = loaded.session.borrow_mut();
        if let Some(name) = settings.header.as_deref()
            && let Some(text) = response.fields().first(name).map(<[u8]>::to_vec)
        {
            response.fields_mut().remove(name);
            session.replace_with(&text);
        }
        session.to_save(exchange.now, settings.lifetime())
    };
    if settings.cookie.is_none() && loaded.place.is_none() {
        return None;
    }
    let went_well = response.status.0 < 300 || response.status == Status::NOT_MODIFIED;
    if went_well || exchange.upstream.is_answered_by_program {
        forbid_sharing(response);
    }
    text
}

fn forbid_sharing(response: &mut Response) {
    response
        .fields_mut()
        .append("Cache-Control", &b"no-cache, private"[..]);
}

fn set_cookie(exchange: &mut Exchange, made: Option<(Vec<u8>, Vec<u8>)>) {
    state(exchange).cookies.extend(made);
}

/// Set-Cookie for a cookie that keeps the session itself. An empty text removes it.
fn sealed_line(
    settings: &SessionSettings,
    cookie: &SessionCookie,
    text: &[u8],
) -> Option<(Vec<u8>, Vec<u8>)> {
    match &settings.keys {
        Some(keys) if !text.is_empty() => {
            let sealed = keys.seal(&context(settings), text)?;
            Some(line(settings, cookie, sealed.as_bytes()))
        }
        _ => Some(line(settings, cookie, text)),
    }
}

/// Name of a cookie, and the value of Set-Cookie.
fn line(settings: &SessionSettings, cookie: &SessionCookie, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut line = format!("{}=", cookie.name).into_bytes();
    let max_age_s = settings.lifetime().max_age_s;
    line.extend_from_slice(value);
    if value.is_empty() {
        line.extend_from_slice(b";Max-Age=0");
    } else if max_age_s > 0 {
        line.extend_from_slice(format!(";Max-Age={max_age_s}").as_bytes());
    }
    if !cookie.attributes.is_empty() {
        line.push(b';');
        line.extend_from_slice(cookie.attributes.as_bytes());
    }
    (cookie.name.as_bytes().to_vec(), line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_identity::SealKeys;

    #[test]
    fn lines() {
        let cookie = SessionCookie {
            name: "s".into(),
            attributes: "path=/;httponly".into(),
        };
        let mut settings = SessionSettings {
            cookie: Some(cookie.clone()),
            ..SessionSettings::default()
        };
        let text = |settings: &SessionSettings, text: &[u8]| {
            String::from_utf8(sealed_line(settings, &cookie, text).unwrap().1).unwrap()
        };
        assert_eq!(text(&settings, b"a=1"), "s=a=1;path=/;httponly");
        assert_eq!(text(&settings, b""), "s=;Max-Age=0;path=/;httponly");
        settings.max_age_s = Some(60);
        assert_eq!(text(&settings, b"a=1"), "s=a=1;Max-Age=60;path=/;httponly");
        settings.keys = Some(SealKeys::of_passphrases(&["secret"]).unwrap());
        assert!(!text(&settings, b"user=ann").contains("ann"));
    }
}
