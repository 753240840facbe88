//! Who it is: Basic authentication, and what all kinds of it have in common.
//!
//! Difficulty: a name that was sent is the user's name from then on, for logs too, whether or not
//! his password is right; so what decides is never the name but what this step returns.

use super::{
    authn::{Authn, Provider},
    decide::Inquiry,
    passwords,
    records::field,
};
use crate::modules::ssl::fake_basic_auth;
use saker_ap_expr::{Dependency, StringExpression, base64_decode, md5_hex};
use saker_http::Status;
use saker_net::blocking::{Answer, Pause};
use saker_telemetry::httpd_message;
use std::sync::Arc;

/// What came of asking for a name.
pub enum Identified {
    Yes,
    /// 401 and the like; of 401 with the challenge.
    Refused(Status, Option<String>),
    /// Nobody was asked: there is no kind of authentication.
    Declined,
    Wait(Pause),
}

/// What a provider says about a name and a password.
pub enum Found {
    Granted,
    Denied,
    Unknown,
    Error,
    Wait(Pause),
    Busy,
}

/// Why nothing could be looked up.
pub enum Trouble {
    Error,
    Wait(Pause),
    Busy,
}

impl From<Trouble> for Found {
    fn from(trouble: Trouble) -> Found {
        match trouble {
            Trouble::Error => Found::Error,
            Trouble::Wait(pause) => Found::Wait(pause),
            Trouble::Busy => Found::Busy,
        }
    }
}

impl Inquiry<'_> {
    /// AuthType in force; `None` or nothing: nobody is asked.
    pub fn auth_type(&mut self) -> Option<String> {
        let kind = self.local.authn.kind.clone()?;
        Some(self.text(&kind)).filter(|kind| !kind.is_empty() && !kind.eq_ignore_ascii_case("none"))
    }

    pub fn text(&mut self, expression: &StringExpression) -> String {
        let bytes = match expression.constant() {
            Some(text) => text.to_vec(),
            None => self.evaluate_text(expression).unwrap_or_default(),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn identify(&mut self) -> Identified {
        let Some(kind) = self.auth_type() else {
            return Identified::Declined;
        };
        self.asked(Dependency::RequestFields);
        if let Err(status) = fake_basic_auth(self.exchange, &self.local) {
            self.log(format_args!(
                "Encountered FakeBasicAuth spoof: {}",
                self.path()
            ));
            return Identified::Refused(status, None);
        }
        if kind.eq_ignore_ascii_case("basic") {
            return self.basic();
        }
        if kind.eq_ignore_ascii_case("digest") {
            return self.digest();
        }
        self.log(format_args!(
            "AuthType {kind} configured without corresponding module"
        ));
        Identified::Refused(Status::INTERNAL_SERVER_ERROR, None)
    }

    /// What a refused client is told, whatever the kind.
    pub fn challenge(&mut self) -> Option<String> {
        match self.auth_type()?.to_ascii_lowercase().as_str() {
            "basic" => Some(self.basic_challenge()),
            "digest" => Some(self.digest_challenge(false)),
            _ => None,
        }
    }

    fn basic_challenge(&mut self) -> String {
        let name = self
            .local
            .authn
            .name
            .clone()
            .map(|name| self.text(&name))
            .unwrap_or_default();
        format!("Basic realm=\"{}\"", quoted(&name))
    }

    fn basic(&mut self) -> Identified {
        if self.local.authn.name.is_none() {
            self.log_httpd(
                &httpd_message::BASIC_WITHOUT_NAME,
                format_args!("need AuthName: {}", self.path()),
            );
            return Identified::Refused(Status::INTERNAL_SERVER_ERROR, None);
        }
        let sent = self.exchange.head.view().first("authorization");
        let Some((user, password)) = sent.and_then(credentials) else {
            if sent.is_some() {
                let text = format_args!("client used wrong authentication scheme: {}", self.path());
                self.log_httpd(&httpd_message::BASIC_OTHER_SCHEME, text);
            }
            return Identified::Refused(Status::UNAUTHORIZED, Some(self.basic_challenge()));
        };
        let user = String::from_utf8_lossy(&user).into_owned();
        self.exchange.user = Some(user.as_str().into());
        let providers = self.local.authn.providers.clone().unwrap_or_default();
        let mut found = if providers.is_empty() {
            self.look_up(&Provider::File, &user, &password)
        } else {
            Found::Unknown
        };
        for provider in &providers {
            found = self.look_up(provider, &user, &password);
            if !matches!(found, Found::Unknown) {
                break;
            }
        }
        self.judge(&user, found)
    }

    fn judge(&mut self, user: &str, found: Found) -> Identified {
        let authoritative = self.local.authn.authoritative.unwrap_or(true);
        match found {
            Found::Granted => Identified::Yes,
            Found::Wait(pause) => Identified::Wait(pause),
            Found::Busy => Identified::Refused(Status::SERVICE_UNAVAILABLE, None),
            Found::Unknown | Found::Error if !authoritative => Identified::Declined,
            Found::Denied => {
                let text = format_args!(
                    "user {user}: authentication failure for \"{}\": Password Mismatch",
                    self.path()
                );
                self.log_httpd(&httpd_message::BASIC_PASSWORD_MISMATCH, text);
                Identified::Refused(Status::UNAUTHORIZED, Some(self.basic_challenge()))
            }
            Found::Unknown => {
                self.log_httpd(
                    &httpd_message::BASIC_USER_NOT_FOUND,
                    format_args!("user {user} not found: {}", self.path()),
                );
                Identified::Refused(Status::UNAUTHORIZED, Some(self.basic_challenge()))
            }
            Found::Error => Identified::Refused(Status::INTERNAL_SERVER_ERROR, None),
        }
    }

    fn look_up(&mut self, provider: &Provider, user: &str, password: &[u8]) -> Found {
        match provider {
            Provider::File | Provider::Database | Provider::Sql
                if self.local.authn.as_digest == Some(true) =>
            {
                self.look_up_as_digest(provider, user, password)
            }
            Provider::File => judged(self.exchange.site_index, self.user_lines(user), password),
            Provider::Database => judged(
                self.exchange.site_index,
                self.database_value(user.as_bytes()),
                password,
            ),
            Provider::Sql => match self.stored_password(user) {
                Ok(Some(stored)) => compared(self.exchange.site_index, &stored, password),
                Ok(None) => Found::Unknown,
                Err(trouble) => trouble.into(),
            },
            Provider::Cache => Found::Unknown,
            Provider::Anonymous => anonymous(&self.local.authn, user, password),
            Provider::Alias(name) => {
                let Some(alias) = self
                    .local
                    .authn
                    .aliases
                    .as_ref()
                    .and_then(|all| all.get(name))
                    .cloned()
                else {
                    return Found::Error;
                };
                self.with_settings(&alias.local, |inquiry| {
                    inquiry.look_up(&alias.provider, user, password)
                })
            }
            Provider::Missing(name) => {
                self.log(format_args!("the provider {name} is not to be had"));
                Found::Error
            }
        }
    }

    /// The file holds what Digest would be checked against.
    fn look_up_as_digest(&mut self, provider: &Provider, user: &str, password: &[u8]) -> Found {
        let realm = self
            .local
            .authn
            .name
            .clone()
            .map(|name| self.text(&name))
            .unwrap_or_default();
        match self.realm_hash(provider, user, &realm) {
            Err(trouble) => trouble.into(),
            Ok(None) => Found::Unknown,
            Ok(Some(hash)) => {
                let made =
                    md5_hex(&[user.as_bytes(), b":", realm.as_bytes(), b":", password].concat());
                if passwords::is_same(&made, &hash) {
                    Found::Granted
                } else {
                    Found::Denied
                }
            }
        }
    }

    /// MD5 of name, realm and password, as `htdigest` writes it.
    pub fn realm_hash(
        &mut self,
        provider: &Provider,
        user: &str,
        realm: &str,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        match provider {
            Provider::File => {
                let lines = self.user_lines(user).ok_or(Trouble::Error)?;
                let of_realm = |line: &[u8]| {
                    Some(field(line.strip_prefix(realm.as_bytes())?.strip_prefix(b":")?).to_vec())
                };
                Ok(lines.iter().find_map(|line| of_realm(line)))
            }
            Provider::Alias(name) => {
                let alias = self
                    .local
                    .authn
                    .aliases
                    .as_ref()
                    .and_then(|all| all.get(name))
                    .cloned()
                    .ok_or(Trouble::Error)?;
                self.with_settings(&alias.local, |inquiry| {
                    inquiry.realm_hash(&alias.provider, user, realm)
                })
            }
            Provider::Database => {
                let values = self
                    .database_value(&[user.as_bytes(), b":", realm.as_bytes()].concat())
                    .ok_or(Trouble::Error)?;
                Ok(values.first().map(|value| field(value).to_vec()))
            }
            Provider::Sql => self.stored_hash(user, realm),
            Provider::Cache => Ok(None),
            Provider::Anonymous | Provider::Missing(_) => Err(Trouble::Error),
        }
    }

    /// What AuthUserFile says about a name. `None`: there is none to be read, which has been
    /// logged.
    fn user_lines(&mut self, user: &str) -> Option<Vec<Box<[u8]>>> {
        let Some(path) = self.local.authn.user_file.clone() else {
            let text = format_args!("AuthUserFile not specified in the configuration");
            self.log_httpd(&httpd_message::PASSWORD_FILE_MISSING, text);
            return None;
        };
        match self.records.read(self.watcher, &path) {
            Ok(records) => Some(records.get(user.as_bytes()).cloned().unwrap_or_default()),
            Err(error) => {
                let text =
                    format_args!("Could not open password file: {}: {error}", path.display());
                self.log_httpd(&httpd_message::PASSWORD_FILE_UNREADABLE, text);
                None
            }
        }
    }

    /// What AuthDBMUserFile says about a key: one value or none. `None`: it can't be read, which
    /// has been logged.
    fn database_value(&mut self, key: &[u8]) -> Option<Vec<Box<[u8]>>> {
        let database = self.local.authn.user_database.clone().unwrap_or_default();
        let Some(path) = &database.file else {
            self.log(format_args!(
                "AuthDBMUserFile not specified in the configuration"
            ));
            return None;
        };
        match self
            .records
            .read_database(self.watcher, &database.kind, path)
        {
            Ok(records) => Some(records.get(key).cloned().unwrap_or_default()),
            Err(error) => {
                self.log(format_args!(
                    "could not open dbm (type {}) auth file: {}: {error}",
                    database.kind,
                    path.display()
                ));
                None
            }
        }
    }

    /// With an alias's settings laid over.
    pub fn with_settings<T>(
        &mut self,
        over: &crate::local::Local,
        ask: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let merged = Arc::new(self.local.under(over));
        let before = std::mem::replace(&mut self.local, merged);
        let answer = ask(self);
        self.local = before;
        answer
    }
}

/// What was found for the name, the first of it being the password; `None`: nothing could be looked
/// up.
fn judged(site: usize, lines: Option<Vec<Box<[u8]>>>, password: &[u8]) -> Found {
    let Some(lines) = lines else {
        return Found::Error;
    };
    let Some(stored) = lines.first().map(|line| field(line)) else {
        return Found::Unknown;
    };
    compared(site, &String::from_utf8_lossy(stored), password)
}

fn compared(site: usize, stored: &str, password: &[u8]) -> Found {
    match passwords::check(site, stored, password) {
        Answer::Known(true) => Found::Granted,
        Answer::Known(false) => Found::Denied,
        Answer::Wait(pause) => Found::Wait(pause),
        Answer::Busy => Found::Busy,
    }
}

/// Name and password of `Authorization: Basic …`.
fn credentials(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at(at);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let decoded = base64_decode(rest.trim_ascii_start());
    // Texts end at a zero byte, as C has them.
    let text = decoded.split(|byte| *byte == 0).next().unwrap_or_default();
    match text.iter().position(|byte| *byte == b':') {
        Some(at) => Some((text.get(..at)?.to_vec(), text.get(at + 1..)?.to_vec())),
        None => Some((text.to_vec(), Vec::new())),
    }
}

/// For a quoted string: quotes get their backslash unless they have one.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    let mut letters = text.chars().filter(|letter| !letter.is_control());
    while let Some(letter) = letters.next() {
        if letter == '"' {
            quoted.push('\\');
        }
        quoted.push(letter);
        if letter == '\\' {
            quoted.extend(letters.next());
        }
    }
    quoted
}

fn anonymous(settings: &Authn, user: &str, password: &[u8]) -> Found {
    let Some(own) = settings
        .anonymous
        .as_deref()
        .filter(|own| own.any_user || !own.users.is_empty())
    else {
        return Found::Unknown;
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
        false => Found::Unknown,
        true if (!own.must_give_email || !password.is_empty())
            && (!own.verify_email || looks_like_mail) =>
        {
            Found::Granted
        }
        true => Found::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_as_sent() {
        let pair = |text: &str| {
            let (user, password) = credentials(text.as_bytes())?;
            Some(format!(
                "{}|{}",
                String::from_utf8_lossy(&user),
                String::from_utf8_lossy(&password)
            ))
        };
        for (text, expected) in [
            ("Basic dTpwOjE=", Some("u|p:1")),
            ("bAsIc   dQ==", Some("u|")),
            ("Basic ", Some("|")),
            ("Basic", None),
            ("Digest dTpw", None),
            ("Basic OnA=", Some("|p")),
            ("Basic dTpwAHg=", Some("u|p")),
        ] {
            assert_eq!(pair(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn anonymous_users() {
        use super::super::authn::Anonymous;
        let with = |own: Anonymous| Authn {
            anonymous: Some(Arc::new(own)),
            ..Authn::default()
        };
        let kind = |found: Found| match found {
            Found::Granted => 'g',
            Found::Denied => 'd',
            Found::Unknown => 'u',
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
        assert_eq!(kind(anonymous(&Authn::default(), "guest", b"")), 'u');
    }

    #[test]
    fn realms_are_quoted() {
        assert_eq!(quoted("a \"b\" \\\"c\n"), "a \\\"b\\\" \\\"c");
    }
}
