//! Passwords and groups in the host's database (mod_authn_dbd, mod_authz_dbd).
//!
//! Called by: `providers` and `requirements`.
//! Caveat: a query has to be waited for and the decision is made again then; a `dbd-login` must
//! change the database once per request, which [`AuthRequest::query`] guarantees. If the database
//! does not answer, access is denied.
//!
//! [`AuthRequest::query`]: crate::AuthRequest::query

use crate::context::{AuthContext, Decision, LookupError};
use saker_database::{QueryResult, Row};
use saker_net::blocking::Answer;
use std::rc::Rc;

/// The password of a user. `None`: the user is unknown.
pub fn password(context: &mut AuthContext<'_>, user: &str) -> Result<Option<String>, LookupError> {
    let query = context.settings.sql().user.as_deref();
    first_column(context, "AuthDBDUserPWQuery", query, &[user])
}

/// The Digest hash of a user in a realm: MD5 of name, realm and password.
pub fn realm_hash(
    context: &mut AuthContext<'_>,
    user: &str,
    realm: &str,
) -> Result<Option<Vec<u8>>, LookupError> {
    let query = context.settings.sql().realm.as_deref();
    let hash = first_column(context, "AuthDBDUserRealmQuery", query, &[user, realm])?;
    Ok(hash.map(String::into_bytes))
}

/// Decides whether one of the words of `line` is a group that the database has for the user.
pub fn is_member(context: &mut AuthContext<'_>, user: &str, line: &[u8]) -> Decision {
    let Some(query) = context.settings.sql().groups.as_deref() else {
        context.log(format_args!("No query configured for dbd-group!"));
        return Decision::Error;
    };
    let found = match run(context, "AuthzDBDQuery", query, &[user], false) {
        Ok(found) => found,
        Err(error) => return context.undecided(error, Decision::Error),
    };
    let groups: Result<Vec<_>, _> = found
        .rows
        .iter()
        .map(|row| first_of(context, "AuthzDBDQuery", row))
        .collect();
    let Ok(groups) = groups else {
        return Decision::Error;
    };
    let mut wanted = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    Decision::of(wanted.any(|word| {
        groups
            .iter()
            .flatten()
            .any(|group| group.as_bytes() == word)
    }))
}

/// Records a login or logout in the database, and redirects the user if configured.
pub fn note_session(context: &mut AuthContext<'_>, user: &str, action: &str) -> Decision {
    let Some(query) = context.settings.sql().groups.as_deref() else {
        context.log(format_args!("No query configured for {action}!"));
        return Decision::Denied;
    };
    match run(context, "AuthzDBDQuery", query, &[user], true) {
        Ok(found) if found.changed == 1 => {}
        Ok(found) => context.log(format_args!(
            "authz_dbd: {action} of user {user} updated {} rows",
            found.changed
        )),
        Err(error) => return context.undecided(error, Decision::Denied),
    }
    match redirect_of(context, user) {
        Ok(location) => context.redirect = location,
        Err(error) => return context.undecided(error, Decision::Granted),
    }
    Decision::Granted
}

/// The page that the client came from, or the result of AuthzDBDRedirectQuery.
fn redirect_of(context: &mut AuthContext<'_>, user: &str) -> Result<Option<Vec<u8>>, LookupError> {
    let settings = context.settings;
    if settings.sql().to_referer == Some(true)
        && let Some(referer) = context.request.field("referer")
    {
        return Ok(Some(referer.to_vec()));
    }
    let Some(query) = settings.sql().redirect.as_deref() else {
        return Ok(None);
    };
    let found = run(context, "AuthzDBDRedirectQuery", query, &[user], false)?;
    let location = found
        .rows
        .first()
        .map(|row| first_of(context, "AuthzDBDRedirectQuery", row))
        .transpose()?
        .flatten();
    // A control character would end the field.
    Ok(location
        .map(String::into_bytes)
        .filter(|location| !location.iter().any(u8::is_ascii_control)))
}

/// The first column of the first row, whose other columns become variables.
fn first_column(
    context: &mut AuthContext<'_>,
    title: &str,
    query: Option<&str>,
    values: &[&str],
) -> Result<Option<String>, LookupError> {
    let Some(query) = query else {
        context.log(format_args!("No {title} has been specified"));
        return Err(LookupError::Failed);
    };
    let found = run(context, title, query, values, false)?;
    let Some(row) = found.rows.first() else {
        return Ok(None);
    };
    set_variables(context, row);
    first_of(context, title, row)
}

/// The text of the first column; a column of a type without text is an error.
fn first_of(
    context: &AuthContext<'_>,
    title: &str,
    row: &Row,
) -> Result<Option<String>, LookupError> {
    row.first()
        .map(|text| text.map(str::to_owned))
        .map_err(|why| {
            context.log(format_args!("{title}: the first column {why}"));
            LookupError::Failed
        })
}

/// Sets `AUTHENTICATE_` and the column's name in capitals, with underscores for all bytes but
/// letters and digits.
fn set_variables(context: &mut AuthContext<'_>, row: &Row) {
    for (name, value) in row.columns().skip(1) {
        // A column without text sets no variable.
        let Ok(Some(value)) = value else { continue };
        let plain = |byte: u8| {
            if byte.is_ascii_alphanumeric() {
                byte.to_ascii_uppercase()
            } else {
                b'_'
            }
        };
        let name: Vec<u8> = b"AUTHENTICATE_"
            .iter()
            .copied()
            .chain(name.bytes().map(plain))
            .collect();
        context.request.set_variable(&name, value.as_bytes());
    }
}

fn run(
    context: &mut AuthContext<'_>,
    title: &str,
    query: &str,
    values: &[&str],
    is_change: bool,
) -> Result<Rc<QueryResult>, LookupError> {
    match context.request.query(query, values, is_change) {
        None => {
            context.log(format_args!("{title}: no database configured (DBDriver)"));
            Err(LookupError::Failed)
        }
        Some(Answer::Known(Ok(found))) => Ok(found),
        Some(Answer::Known(Err(why))) => {
            context.log(format_args!(
                "{title}: the database can't be asked about '{}': {why}",
                values.first().unwrap_or(&"")
            ));
            Err(LookupError::Failed)
        }
        Some(Answer::Wait(pause)) => Err(LookupError::Wait(pause)),
        Some(Answer::Busy) => Err(LookupError::Busy),
    }
}
