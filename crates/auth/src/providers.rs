//! Looks up users with the providers: password files, DBM files, the database, anonymous users.
//!
//! Called by: `basic` (passwords) and `digest` (hashes).
//! Caveat: a file that can't be read is an error, never an empty file.

use crate::{
    context::{AuthContext, LookupError},
    directories::LogIn,
    fcgi, ldap, passwords,
    records::field,
    settings::{Authentication, Provider},
    sql,
};
use saker_ap_expr::md5_hex;
use saker_ipset::ClientNetwork;
use saker_net::blocking::{Answer, Pause, Turn};
use saker_telemetry::httpd_message;

/// The result of checking a user name and a password.
pub enum PasswordCheck {
    Granted,
    Denied,
    UnknownUser,
    Failed,
    Wait(Pause),
    Busy,
}

impl From<LookupError> for PasswordCheck {
    fn from(error: LookupError) -> PasswordCheck {
        match error {
            LookupError::Failed => PasswordCheck::Failed,
            LookupError::Wait(pause) => PasswordCheck::Wait(pause),
            LookupError::Busy => PasswordCheck::Busy,
        }
    }
}

/// Checks a password with all providers up to the first that knows the user; without one, with the
/// password file.
pub fn check_with_all(
    context: &mut AuthContext<'_>,
    providers: &[Provider],
    user: &str,
    password: &[u8],
) -> PasswordCheck {
    if providers.is_empty() {
        return check_password(context, &Provider::File, user, password);
    }
    for provider in providers {
        match check_password(context, provider, user, password) {
            PasswordCheck::UnknownUser => {}
            found => return found,
        }
    }
    PasswordCheck::UnknownUser
}

/// Checks a password with one provider.
pub fn check_password(
    context: &mut AuthContext<'_>,
    provider: &Provider,
    user: &str,
    password: &[u8],
) -> PasswordCheck {
    let turn = turn(context);
    match provider {
        Provider::File | Provider::Dbm | Provider::Sql
            if context.settings.authentication.as_digest == Some(true) =>
        {
            check_against_hash(context, provider, user, password)
        }
        Provider::File => check_lines(turn, file_lines(context, user), password),
        Provider::Dbm => check_lines(turn, dbm_values(context, user.as_bytes()), password),
        Provider::Sql => match sql::password(context, user) {
            Ok(Some(stored)) => compare(turn, &stored, password),
            Ok(None) => PasswordCheck::UnknownUser,
            Err(error) => error.into(),
        },
        Provider::Ldap => match ldap::log_in(context, user, password) {
            Ok(LogIn::Granted(_)) => PasswordCheck::Granted,
            Ok(LogIn::Denied) => PasswordCheck::Denied,
            Ok(LogIn::Unknown) => PasswordCheck::UnknownUser,
            Err(error) => error.into(),
        },
        Provider::Fcgi(authorizer) => match fcgi::lets_in(context, authorizer, user, password) {
            Ok(true) => PasswordCheck::Granted,
            Ok(false) => PasswordCheck::Denied,
            Err(error) => error.into(),
        },
        Provider::Cache => PasswordCheck::UnknownUser,
        Provider::Anonymous => anonymous(&context.settings.authentication, user, password),
        Provider::Alias(name) => {
            let aliases = context.settings.provider_aliases.as_ref();
            let Some(alias) = aliases.and_then(|all| all.get(name.as_bytes())) else {
                return PasswordCheck::Failed;
            };
            context.with_settings(&alias.settings, |inner| {
                check_password(inner, &alias.provider, user, password)
            })
        }
        Provider::Unsupported(name) => {
            context.log(format_args!(
                "authentication provider {name} is not supported"
            ));
            PasswordCheck::Failed
        }
    }
}

/// The turn of the request's site and client on the threads for slow work.
fn turn(context: &AuthContext<'_>) -> Turn {
    let client = ClientNetwork::of(context.request.client_address());
    Turn::of_client(context.request.site_index() as u64, client.number())
}

/// Checks a password of Basic against the hash of Digest.
fn check_against_hash(
    context: &mut AuthContext<'_>,
    provider: &Provider,
    user: &str,
    password: &[u8],
) -> PasswordCheck {
    let realm = context.realm();
    match realm_hash(context, provider, user, &realm) {
        Err(error) => error.into(),
        Ok(None) => PasswordCheck::UnknownUser,
        Ok(Some(hash)) => {
            let made = md5_hex(&[user.as_bytes(), b":", realm.as_bytes(), b":", password].concat());
            if passwords::is_same(&made, &hash) {
                PasswordCheck::Granted
            } else {
                PasswordCheck::Denied
            }
        }
    }
}

/// MD5 of name, realm and password, as `htdigest` writes it. `None`: the user is unknown.
pub fn realm_hash(
    context: &mut AuthContext<'_>,
    provider: &Provider,
    user: &str,
    realm: &str,
) -> Result<Option<Vec<u8>>, LookupError> {
    match provider {
        Provider::File => {
            let lines = file_lines(context, user).ok_or(LookupError::Failed)?;
            let of_realm = |line: &[u8]| {
                Some(field(line.strip_prefix(realm.as_bytes())?.strip_prefix(b":")?).to_vec())
            };
            Ok(lines.iter().find_map(|line| of_realm(line)))
        }
        Provider::Alias(name) => {
            let aliases = context.settings.provider_aliases.as_ref();
            let alias = aliases
                .and_then(|all| all.get(name.as_bytes()))
                .ok_or(LookupError::Failed)?;
            context.with_settings(&alias.settings, |inner| {
                realm_hash(inner, &alias.provider, user, realm)
            })
        }
        Provider::Dbm => {
            let key = [user.as_bytes(), b":", realm.as_bytes()].concat();
            let values = dbm_values(context, &key).ok_or(LookupError::Failed)?;
            Ok(values.first().map(|value| field(value).to_vec()))
        }
        Provider::Sql => sql::realm_hash(context, user, realm),
        Provider::Cache => Ok(None),
        Provider::Anonymous | Provider::Ldap | Provider::Fcgi(_) | Provider::Unsupported(_) => {
            Err(LookupError::Failed)
        }
    }
}

/// The lines of the password file for a user. `None`: it can't be read, which has been logged.
fn file_lines(context: &mut AuthContext<'_>, user: &str) -> Option<Vec<Box<[u8]>>> {
    let Some(path) = &context.settings.authentication.user_file else {
        context.log_httpd(
            &httpd_message::PASSWORD_FILE_MISSING,
            format_args!("AuthUserFile not specified in the configuration"),
        );
        return None;
    };
    match context.files.read(context.watcher, path) {
        Ok(records) => Some(records.get(user.as_bytes()).cloned().unwrap_or_default()),
        Err(error) => {
            context.log_httpd(
                &httpd_message::PASSWORD_FILE_UNREADABLE,
                format_args!("Could not open password file: {}: {error}", path.display()),
            );
            None
        }
    }
}

/// The value of the DBM file for a key, or none. `None`: it can't be read, which has been logged.
fn dbm_values(context: &mut AuthContext<'_>, key: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let settings = context.settings;
    let dbm = settings.authentication.user_dbm.clone().unwrap_or_default();
    let Some(path) = &dbm.file else {
        context.log(format_args!(
            "AuthDBMUserFile not specified in the configuration"
        ));
        return None;
    };
    match context.files.read_dbm(context.watcher, &dbm.kind, path) {
        Ok(records) => Some(records.get(key).cloned().unwrap_or_default()),
        Err(error) => {
            context.log(format_args!(
                "could not open dbm (type {}) auth file: {}: {error}",
                dbm.kind,
                path.display()
            ));
            None
        }
    }
}

/// Checks the password at the beginning of the user's first line. `None`: the look-up failed.
fn check_lines(turn: Turn, lines: Option<Vec<Box<[u8]>>>, password: &[u8]) -> PasswordCheck {
    let Some(lines) = lines else {
        return PasswordCheck::Failed;
    };
    let Some(stored) = lines.first().map(|line| field(line)) else {
        return PasswordCheck::UnknownUser;
    };
    compare(turn, &String::from_utf8_lossy(stored), password)
}

fn compare(turn: Turn, stored: &str, password: &[u8]) -> PasswordCheck {
    match passwords::check(turn, stored, password) {
        Answer::Known(true) => PasswordCheck::Granted,
        Answer::Known(false) => PasswordCheck::Denied,
        Answer::Wait(pause) => PasswordCheck::Wait(pause),
        Answer::Busy => PasswordCheck::Busy,
    }
}

fn anonymous(settings: &Authentication, user: &str, password: &[u8]) -> PasswordCheck {
    let Some(own) = settings
        .anonymous
        .as_deref()
        .filter(|own| own.any_user || !own.users.is_empty())
    else {
        return PasswordCheck::UnknownUser;
    };
    let known = match user.is_empty() {
        true => own.without_user,
        false => {
            own.any_user
                || own
                    .users
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(user))
        }
    };
    let looks_like_mail = password.contains(&b'@') && password.contains(&b'.');
    match known {
        false => PasswordCheck::UnknownUser,
        true if (!own.must_give_email || !password.is_empty())
            && (!own.verify_email || looks_like_mail) =>
        {
            PasswordCheck::Granted
        }
        true => PasswordCheck::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Anonymous;
    use std::sync::Arc;

    #[test]
    fn anonymous_users() {
        let with = |own: Anonymous| Authentication {
            anonymous: Some(Arc::new(own)),
            ..Authentication::default()
        };
        let kind = |found: PasswordCheck| match found {
            PasswordCheck::Granted => 'g',
            PasswordCheck::Denied => 'd',
            PasswordCheck::UnknownUser => 'u',
            _ => '?',
        };
        let users = Anonymous {
            users: vec!["guest".into()],
            ..Anonymous::default()
        };
        let any = Anonymous {
            any_user: true,
            verify_email: true,
            ..Anonymous::default()
        };
        let nobody = Anonymous {
            without_user: true,
            must_give_email: false,
            users: vec!["x".into()],
            ..Anonymous::default()
        };
        for (own, user, password, expected) in [
            (&users, "Guest", "x", 'g'),
            (&users, "guest", "", 'd'),
            (&users, "other", "x", 'u'),
            (&any, "other", "a@b.c", 'g'),
            (&any, "other", "a", 'd'),
            (&nobody, "", "", 'g'),
            (&nobody, "y", "", 'u'),
        ] {
            assert_eq!(
                kind(anonymous(&with(own.clone()), user, password.as_bytes())),
                expected,
                "{user} {password}"
            );
        }
        assert_eq!(
            kind(anonymous(&Authentication::default(), "guest", b"")),
            'u'
        );
    }
}
