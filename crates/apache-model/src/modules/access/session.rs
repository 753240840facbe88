//! Setters of mod_session, mod_session_cookie, mod_session_dbd and mod_session_crypto.
//!
//! Called by: `directives`.
//! Caveat: cookies are sealed with AES-256-GCM under keys made of the passphrases. Cookies that Apache's mod_session_crypto has made can't be read: their clients have to
//! log in once again.
//! Out of scope: programs that print passphrases (`exec:`), which are refused.

use crate::{
    arguments::{first, set_flag, texts},
    modules::access::settings::Auth,
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_auth::settings::{SessionCookie, SessionDatabase, SessionSettings};
use saker_identity::SealKeys;
use saker_net::privileged;
use std::sync::Arc;

pub(super) fn session(auth: &mut Auth) -> &mut SessionSettings {
    Arc::make_mut(auth.settings.session.get_or_insert_default())
}

pub(super) fn set(
    node: &Node,
    auth: &mut Auth,
    flag: fn(&mut SessionSettings) -> &mut Option<bool>,
) -> Result<(), String> {
    set_flag(node, flag(session(auth)))
}

/// Seconds.
pub(super) fn set_seconds(
    node: &Node,
    auth: &mut Auth,
    slot: fn(&mut SessionSettings) -> &mut Option<i64>,
) -> Result<(), String> {
    let word = first(node).unwrap_or_default();
    let seconds: u32 = word.parse().map_err(|_| {
        format!(
            "{} must be a number of seconds, not '{word}'",
            node.canonical_name()
        )
    })?;
    *slot(session(auth)) = Some(seconds.into());
    Ok(())
}

pub(super) fn add_path(
    node: &Node,
    auth: &mut Auth,
    list: fn(&mut SessionSettings) -> &mut Vec<Box<[u8]>>,
) -> Result<(), String> {
    let path = node.arguments().into_iter().next().unwrap_or_default();
    list(session(auth)).push(path.into());
    Ok(())
}

pub(super) fn set_header(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    session(auth).header = first(node).map(Into::into);
    Ok(())
}

fn database(auth: &mut Auth) -> &mut SessionDatabase {
    session(auth).database.get_or_insert_default()
}

/// The label of a statement (DBDPrepareSQL).
pub(super) fn set_label(
    node: &Node,
    auth: &mut Auth,
    slot: fn(&mut SessionDatabase) -> &mut Box<str>,
) -> Result<(), String> {
    *slot(database(auth)) = first(node).unwrap_or_default().into();
    Ok(())
}

pub(super) fn set_of_database(
    node: &Node,
    auth: &mut Auth,
    flag: fn(&mut SessionDatabase) -> &mut Option<bool>,
) -> Result<(), String> {
    set_flag(node, flag(database(auth)))
}

pub(super) fn set_key_cookie(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    database(auth).cookie = Some(cookie(node)?);
    Ok(())
}

pub(super) fn set_cookie(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    session(auth).cookie = Some(cookie(node)?);
    Ok(())
}

/// A name, and attributes for Set-Cookie.
fn cookie(node: &Node) -> Result<SessionCookie, String> {
    let text = String::from_utf8_lossy(node.argument_text()).into_owned();
    let (name, attributes) = match text.split_once(char::is_whitespace) {
        Some((name, attributes)) => (name, attributes.trim()),
        None => (text.as_str(), ""),
    };
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte));
    if !is_name || attributes.contains(char::is_control) {
        return Err(format!("'{name}' is not a name of a cookie"));
    }
    let attributes = match attributes {
        // What mod_session_cookie sends (util_cookies.h).
        "" => "HttpOnly;Secure;Version=1",
        attributes => attributes,
    };
    Ok(SessionCookie {
        name: name.into(),
        attributes: attributes.into(),
    })
}

pub(super) fn set_passphrases(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let words = texts(node);
    if words.iter().any(|word| word.starts_with("exec:")) {
        return Err("SessionCryptoPassphrase: programs (exec:) are not supported".into());
    }
    session(auth).keys = Some(SealKeys::of_passphrases(&words)?);
    Ok(())
}

/// A file with a passphrase per line.
pub(super) fn set_passphrase_file(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let path = reading.server_path(first(node).unwrap_or_default().as_bytes());
    let text = privileged::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<&[u8]> = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
        .collect();
    session(auth).keys = Some(SealKeys::of_passphrases(&lines)?);
    Ok(())
}
