//! Sessions of clients (mod_session and its modules): loaded before access is decided, saved with
//! the response.
//!
//! Called by: the access phase, the fixups, and the filters of responses.
//! Caveat: a request and everything inside of it share one session. A cookie that can't be opened
//! (another key, Apache's own encryption) is no session; the client gets a new one.
//! Out of scope: the text of a session and its lifetime (`saker_auth::session`).

use crate::{
    form_state::LoadedSession,
    state::{peek, state},
};
use saker_apache_model::dir_config::DirConfig;
use saker_auth::{
    session::Session,
    settings::{SessionCookie, SessionSettings},
};
use saker_http::{KnownField, Status, cookies::cookies};
use saker_pipeline::{Exchange, Filter, LocalFuture, Response};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Loads the session where the settings in force want one.
pub fn load(exchange: &mut Exchange, local: &DirConfig) {
    let Some(settings) = local.auth.settings.session.as_ref() else {
        state(exchange).session = None;
        return;
    };
    if !settings.includes(&exchange.path) {
        state(exchange).session = None;
        return;
    }
    exchange.depends_on_request();
    let known = peek(exchange).and_then(|state| state.session.clone());
    let is_same = known.as_ref().is_some_and(|known| {
        (&known.settings.cookie, &known.settings.keys) == (&settings.cookie, &settings.keys)
    });
    let session = match known.filter(|_| is_same) {
        Some(known) => known.session,
        None => {
            let text = settings
                .cookie
                .as_ref()
                .and_then(|cookie| opened(exchange, settings, cookie));
            let session = Session::load(text.as_deref(), exchange.now, settings.lifetime());
            Rc::new(RefCell::new(session))
        }
    };
    if settings.hides_cookie == Some(true)
        && let Some(cookie) = &settings.cookie
    {
        hide_cookie(exchange, &cookie.name);
    }
    state(exchange).session = Some(LoadedSession {
        settings: Arc::clone(settings),
        session,
    });
}

/// The text that the cookie keeps.
fn opened(
    exchange: &Exchange,
    settings: &SessionSettings,
    cookie: &SessionCookie,
) -> Option<Vec<u8>> {
    let view = exchange.head.view();
    let value = cookies(view.lines(KnownField::Cookie))
        .filter(|own| own.name == cookie.name.as_bytes())
        .find_map(|own| own.value)?;
    match &settings.keys {
        Some(keys) => keys.open(&context(cookie), value),
        None => Some(value.to_vec()),
    }
}

/// Context that sealed texts are bound to.
fn context(cookie: &SessionCookie) -> Vec<u8> {
    format!("mod_session {}", cookie.name).into_bytes()
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
        if let Some(loaded) = peek(exchange).and_then(|state| state.session.clone()) {
            save(exchange, response, &loaded);
        }
        Box::pin(std::future::ready(()))
    }
}

fn save(exchange: &mut Exchange, response: &mut Response, loaded: &LoadedSession) {
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
    let Some(cookie) = &settings.cookie else {
        return;
    };
    let went_well = response.status.0 < 300 || response.status == Status::NOT_MODIFIED;
    if went_well || exchange.upstream.is_answered_by_program {
        response
            .fields_mut()
            .append("Cache-Control", &b"no-cache, private"[..]);
    }
    if let Some(line) = text.and_then(|text| line(settings, cookie, &text)) {
        state(exchange)
            .cookies
            .push((cookie.name.as_bytes().to_vec(), line));
    }
}

/// The value of Set-Cookie. An empty text removes the cookie.
fn line(settings: &SessionSettings, cookie: &SessionCookie, text: &[u8]) -> Option<Vec<u8>> {
    let mut line = format!("{}=", cookie.name).into_bytes();
    let max_age_s = settings.lifetime().max_age_s;
    match &settings.keys {
        _ if text.is_empty() => line.extend_from_slice(b";Max-Age=0"),
        Some(keys) => line.extend_from_slice(keys.seal(&context(cookie), text)?.as_bytes()),
        None => line.extend_from_slice(text),
    }
    if max_age_s > 0 && !text.is_empty() {
        line.extend_from_slice(format!(";Max-Age={max_age_s}").as_bytes());
    }
    if !cookie.attributes.is_empty() {
        line.push(b';');
        line.extend_from_slice(cookie.attributes.as_bytes());
    }
    Some(line)
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
        let mut settings = SessionSettings::default();
        let text = |settings: &SessionSettings, text: &[u8]| {
            String::from_utf8(line(settings, &cookie, text).unwrap()).unwrap()
        };
        assert_eq!(text(&settings, b"a=1"), "s=a=1;path=/;httponly");
        assert_eq!(text(&settings, b""), "s=;Max-Age=0;path=/;httponly");
        settings.max_age_s = Some(60);
        assert_eq!(text(&settings, b"a=1"), "s=a=1;Max-Age=60;path=/;httponly");
        settings.keys = Some(SealKeys::of_passphrases(&["secret"]).unwrap());
        assert!(!text(&settings, b"user=ann").contains("ann"));
    }
}
