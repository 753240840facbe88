//! Sessions in a database (mod_session_dbd): found by the key in a cookie or by the user's name.
//!
//! Called by: `session`, which loads and saves.
//! Caveat: a session that changes gets a new key, so a key that an attacker has planted in a client
//! is worth nothing after the log-in. Keys from cookies that are no UUIDs are not looked up, because
//! the rows of users may be in the same table.
//! Out of scope: removing old rows, which Apache does not do either.

use crate::{
    dbd::{self, Question},
    form_state::{LoadedSession, SessionPlace},
    state::peek,
};
use saker_apache_model::{dbd::Dbd, host::Host};
use saker_auth::settings::{SessionDatabase, SessionSettings};
use saker_identity::random_id;
use saker_net::blocking::{Answer, Pause};
use saker_pipeline::{Exchange, OutcomeLine};
use saker_telemetry::httpd_message::{self, HttpdMessage};
use std::{fmt, rc::Rc, sync::Arc};

/// The outcome of a look-up.
pub enum Found {
    /// Text of the session, if there is one, and its place.
    Session(Option<Vec<u8>>, Option<Rc<SessionPlace>>),
    /// The database can't be asked; it has been logged.
    Failed,
    Wait(Pause),
}

/// Looks a session up by the key of a client.
pub fn by_cookie(
    exchange: &Exchange,
    host: &Host,
    database: &SessionDatabase,
    value: Option<&[u8]>,
) -> Found {
    let key = value.and_then(uuid);
    find(exchange, host, database, key, None)
}

/// Looks up the session of a user.
pub fn by_user(exchange: &Exchange, host: &Host, database: &SessionDatabase, user: &str) -> Found {
    find(
        exchange,
        host,
        database,
        Some(user.into()),
        Some(user.into()),
    )
}

fn find(
    exchange: &Exchange,
    host: &Host,
    database: &SessionDatabase,
    key: Option<Box<str>>,
    user: Option<Box<str>>,
) -> Found {
    let Some(dbd) = &host.dbd else {
        let text = format_args!("failed to acquire database connection");
        log(exchange, &httpd_message::SESSION_DATABASE_MISSING, text);
        return Found::Failed;
    };
    let place = |key: Option<Box<str>>| {
        Some(Rc::new(SessionPlace {
            dbd: Arc::clone(dbd),
            key,
            user: user.clone(),
        }))
    };
    let Some(key) = key else {
        return Found::Session(None, place(None));
    };
    let Some(query) = statement(exchange, dbd, &database.select) else {
        return Found::Failed;
    };
    let now_us = exchange.now.saturating_mul(1_000_000).to_string();
    let question = Question::of(query, &[&key, &now_us], false);
    let asked = peek(exchange).and_then(|state| state.asked.clone());
    let answer = asked.map(|asked| asked.ask(dbd, question));
    let failed = |why: &dyn fmt::Display| {
        let text = format_args!(
            "query execution error loading a session by '{}': {why}",
            database.select
        );
        log(exchange, &httpd_message::SESSION_NOT_LOADED, text);
        Found::Failed
    };
    match answer {
        Some(Answer::Known(Ok(found))) => match found.rows.first().map(|row| row.first()) {
            None | Some(Ok(None)) => Found::Session(None, place(None)),
            Some(Ok(Some(text))) => Found::Session(Some(text.into()), place(Some(key))),
            Some(Err(why)) => failed(&format_args!("the first column {why}")),
        },
        Some(Answer::Known(Err(why))) => failed(&why),
        Some(Answer::Wait(pause)) => Found::Wait(pause),
        Some(Answer::Busy) => failed(&"too many questions wait for it"),
        None => failed(&"this request may not ask"),
    }
}

/// Saves the text of a session. The value of its cookie; `None` without one, or where it was not saved.
pub async fn save(
    exchange: &Exchange,
    loaded: &LoadedSession,
    place: &SessionPlace,
    text: &[u8],
) -> Option<String> {
    let database = loaded.settings.database()?;
    if let Some(user) = &place.user {
        store(exchange, loaded, place, (Some(user), user), text).await?;
        return None;
    }
    let (old, is_changed) = {
        let session = loaded.session.borrow();
        let known = place.key.as_deref().filter(|_| session.is_known());
        (known, session.is_changed())
    };
    let new = match old {
        Some(old) if !is_changed => old.to_owned(),
        _ => random_id()?,
    };
    match (text.is_empty(), old) {
        (false, _) => store(exchange, loaded, place, (old, &new), text).await?,
        (true, Some(old)) => {
            let values = [old];
            change(exchange, &place.dbd, &database.delete, &values).await?;
        }
        (true, None) => {}
    }
    Some(new)
}

/// Writes a session to its row, or to a new one.
async fn store(
    exchange: &Exchange,
    loaded: &LoadedSession,
    place: &SessionPlace,
    (old, new): (Option<&str>, &str),
    text: &[u8],
) -> Option<()> {
    let database = loaded.settings.database()?;
    let text = String::from_utf8_lossy(text);
    let end = loaded.session.borrow().expiry_us().to_string();
    if let Some(old) = old {
        let values = [&*text, &end, new, old];
        if change(exchange, &place.dbd, &database.update, &values).await? > 0 {
            return Some(());
        }
    }
    let values = [&*text, &end, new];
    if change(exchange, &place.dbd, &database.insert, &values).await? > 0 {
        return Some(());
    }
    let text = format_args!("the session insert query did not cause any rows to be added");
    log(exchange, &httpd_message::SESSION_NOT_INSERTED, text);
    None
}

async fn change(exchange: &Exchange, dbd: &Dbd, label: &str, values: &[&str]) -> Option<u64> {
    let query = statement(exchange, dbd, label)?;
    match dbd::change(dbd, query, values).await {
        Ok(changed) => Some(changed),
        Err(why) => {
            let text = format_args!("query execution error by '{label}': {why}");
            log(exchange, &httpd_message::SESSION_NOT_SAVED, text);
            None
        }
    }
}

fn statement<'a>(exchange: &Exchange, dbd: &'a Dbd, label: &str) -> Option<&'a str> {
    let found = dbd.statement(label);
    if found.is_none() {
        let text = format_args!("failed to find the prepared statement called '{label}'");
        log(exchange, &httpd_message::SESSION_STATEMENT_MISSING, text);
    }
    found
}

fn log(exchange: &Exchange, message: &'static HttpdMessage, text: fmt::Arguments<'_>) {
    exchange.log_outcome(OutcomeLine::Httpd(message, text.to_string().into()));
}

/// Returns true if sessions are found by the names of users.
pub fn is_by_user(settings: &SessionSettings) -> bool {
    settings
        .database()
        .is_some_and(|database| database.cookie.is_none() && database.is_per_user == Some(true))
}

/// A key in the form of a UUID, as keys are made.
fn uuid(text: &[u8]) -> Option<Box<str>> {
    let is_one = text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let text = std::str::from_utf8(text).ok().filter(|_| is_one)?;
    Some(text.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_uuids() {
        let own = random_id().unwrap();
        assert_eq!(uuid(own.as_bytes()).as_deref(), Some(own.as_str()));
        let upper = own.to_ascii_uppercase();
        assert_eq!(uuid(upper.as_bytes()).as_deref(), Some(own.as_str()));
        for other in ["ann", "", "1234", &own[1..], &format!("{own}0")] {
            assert_eq!(uuid(other.as_bytes()), None, "{other}");
        }
        assert_eq!(uuid(b"0123456789abcdef0123456789abcdef0123"), None);
    }
}
