//! Sessions of clients: lifetime, cookie, encryption (mod_session and its modules).
//!
//! Called by: `AuthSettings`; read by front ends, which load and save sessions.
//! Caveat: prefixes of paths that have a session, or have none, add up over sections.

use super::merge::either;
use crate::session::Lifetime;
use saker_identity::SealKeys;

/// The cookie that keeps a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCookie {
    pub name: Box<str>,
    /// Attributes, as they stand in Set-Cookie.
    pub attributes: Box<str>,
}

/// The database that keeps sessions, by the names of its statements (mod_session_dbd).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDatabase {
    /// The cookie with the key of a session.
    pub cookie: Option<SessionCookie>,
    /// Without a cookie the name of the user is the key.
    pub is_per_user: Option<bool>,
    /// Programs don't get the cookie; they do not unless this is false.
    pub hides_cookie: Option<bool>,
    /// Parameters: key, time in microseconds; gives the values.
    pub select: Box<str>,
    /// Parameters: values, end, key.
    pub insert: Box<str>,
    /// Parameters: values, end, new key, key.
    pub update: Box<str>,
    /// Parameter: key.
    pub delete: Box<str>,
}

impl Default for SessionDatabase {
    fn default() -> SessionDatabase {
        SessionDatabase {
            cookie: None,
            is_per_user: None,
            hides_cookie: None,
            select: "selectsession".into(),
            insert: "insertsession".into(),
            update: "updatesession".into(),
            delete: "deletesession".into(),
        }
    }
}

impl SessionDatabase {
    /// Names of statements are not inherited, as in Apache: a section that says anything about the
    /// database has the usual ones unless it names others.
    fn merge(&self, over: &SessionDatabase) -> SessionDatabase {
        SessionDatabase {
            cookie: either(&self.cookie, &over.cookie),
            is_per_user: over.is_per_user.or(self.is_per_user),
            hides_cookie: over.hides_cookie.or(self.hides_cookie),
            ..over.clone()
        }
    }
}

/// Settings of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    pub is_on: Option<bool>,
    pub max_age_s: Option<i64>,
    pub update_interval_s: Option<i64>,
    /// Field of a response by which programs set values.
    pub header: Option<Box<str>>,
    /// Programs get the session as `HTTP_SESSION`.
    pub is_in_environment: Option<bool>,
    /// Beginnings of paths that have a session; empty: all.
    pub included: Vec<Box<[u8]>>,
    pub excluded: Vec<Box<[u8]>>,
    pub cookie: Option<SessionCookie>,
    /// Programs don't get the cookie.
    pub hides_cookie: Option<bool>,
    /// Keeps sessions where no cookie does.
    pub database: Option<SessionDatabase>,
    /// The cookie is sealed with the first of these keys.
    pub keys: Option<SealKeys>,
}

impl SessionSettings {
    pub(super) fn merge(&self, over: &SessionSettings) -> SessionSettings {
        let both = |outer: &Vec<Box<[u8]>>, inner: &Vec<Box<[u8]>>| {
            outer.iter().chain(inner).cloned().collect()
        };
        SessionSettings {
            is_on: over.is_on.or(self.is_on),
            max_age_s: over.max_age_s.or(self.max_age_s),
            update_interval_s: over.update_interval_s.or(self.update_interval_s),
            header: either(&self.header, &over.header),
            is_in_environment: over.is_in_environment.or(self.is_in_environment),
            included: both(&self.included, &over.included),
            excluded: both(&self.excluded, &over.excluded),
            cookie: either(&self.cookie, &over.cookie),
            hides_cookie: over.hides_cookie.or(self.hides_cookie),
            database: match (&self.database, &over.database) {
                (Some(outer), Some(inner)) => Some(outer.merge(inner)),
                (outer, inner) => inner.clone().or_else(|| outer.clone()),
            },
            keys: either(&self.keys, &over.keys),
        }
    }

    /// Returns true if requests for the path have a session.
    pub fn includes(&self, path: &[u8]) -> bool {
        let begins = |all: &[Box<[u8]>]| all.iter().any(|start| path.starts_with(start));
        self.is_on == Some(true)
            && (self.included.is_empty() || begins(&self.included))
            && !begins(&self.excluded)
    }

    /// The database, unless a cookie keeps the session itself.
    pub fn database(&self) -> Option<&SessionDatabase> {
        self.database.as_ref().filter(|_| self.cookie.is_none())
    }

    pub fn lifetime(&self) -> Lifetime {
        Lifetime {
            max_age_s: self.max_age_s.unwrap_or_default(),
            update_interval_s: self.update_interval_s.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_sessions() {
        let settings = SessionSettings {
            is_on: Some(true),
            included: vec![b"/a".as_slice().into()],
            ..SessionSettings::default()
        };
        let inner = SessionSettings {
            included: vec![b"/b".as_slice().into()],
            excluded: vec![b"/a/no".as_slice().into()],
            ..SessionSettings::default()
        };
        let merged = settings.merge(&inner);
        let has =
            ["/a", "/ab", "/b/c", "/a/no/x", "/c"].map(|path| merged.includes(path.as_bytes()));
        assert_eq!(has, [true, true, true, false, false]);
        let off = SessionSettings {
            is_on: Some(false),
            ..SessionSettings::default()
        };
        assert!(!merged.merge(&off).includes(b"/a"));
    }

    #[test]
    fn statements_are_not_inherited() {
        let of = |select: Option<&str>, is_per_user| SessionSettings {
            database: Some(SessionDatabase {
                select: select.unwrap_or("selectsession").into(),
                is_per_user,
                ..SessionDatabase::default()
            }),
            ..SessionSettings::default()
        };
        let outer = of(Some("mine"), Some(true));
        let merged = outer.merge(&of(None, None)).database.unwrap();
        assert_eq!(
            (&*merged.select, merged.is_per_user),
            ("selectsession", Some(true))
        );
        let kept = outer.merge(&SessionSettings::default()).database.unwrap();
        assert_eq!(&*kept.select, "mine");
    }
}
