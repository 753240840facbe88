//! Directories (LDAP, RFC 4511): one connection that searches share, made anew when it has ended, and
//! a few that check passwords.
//!
//! Called by: `Database`.
//! Caveat: a bind changes whose connection it is, so passwords are checked on connections of their
//! own. A bind without a password succeeds as an anonymous one (RFC 4513 section 5.1.2) and is never
//! sent. Referrals are not followed: they would send passwords to other servers.
//! Out of scope: SASL, paging, changes.

use crate::{Failure, LdapTerms, Row, Terms, ldap_tls::LdapTls, placeholders, tls};
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, SearchOptions,
    ldap_escape,
};
use std::{cell::RefCell, time::Duration};
use tokio::sync::{Mutex, Semaphore};

/// Result codes of a bind that mean "not with this password" (RFC 4511 appendix A.2): constraint
/// violation and unwilling to perform (locked accounts), no such object, inappropriate
/// authentication (no password is set), invalid credentials.
const REFUSED: [u32; 5] = [19, 32, 48, 49, 53];

/// A search for entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectorySearch {
    pub base: String,
    /// Entries directly below the base; else the base and all below it.
    pub one_level: bool,
    /// With `?` for each value.
    pub filter: String,
    pub attributes: Vec<String>,
}

/// An entry with the attributes that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub dn: String,
    pub attributes: Vec<(String, Vec<String>)>,
}

impl DirectoryEntry {
    /// The values of an attribute, whose name is compared without regard to case.
    pub fn values(&self, name: &str) -> &[String] {
        self.attributes
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, values)| values.as_slice())
            .unwrap_or_default()
    }
}

pub struct Directory {
    url: String,
    /// `None`: in the clear.
    tls: Option<LdapTls>,
    terms: LdapTerms,
    timeout: Duration,
    open: Mutex<Option<Ldap>>,
    binds: Semaphore,
    /// Connections that have checked passwords.
    idle: RefCell<Vec<Ldap>>,
}

impl Directory {
    pub fn new(terms: &Terms) -> Result<Directory, Failure> {
        let tls = LdapTls::of(&terms.url)?;
        Ok(Directory {
            url: terms.url.clone(),
            tls,
            terms: terms.ldap.clone(),
            timeout: terms.timeout,
            open: Mutex::new(None),
            binds: Semaphore::new(terms.ldap.binds_max.max(1) as usize),
            idle: RefCell::default(),
        })
    }

    pub async fn rows(
        &self,
        filter: &str,
        parameters: &[&str],
        rows_max: usize,
    ) -> Result<Vec<Row>, Failure> {
        let search = DirectorySearch {
            base: self.terms.base.clone(),
            filter: filter.to_owned(),
            attributes: vec!["*".to_owned()],
            ..DirectorySearch::default()
        };
        let found = self.found(&search, parameters, rows_max).await?;
        Ok(found.into_iter().map(row).collect())
    }

    /// At most `entries_max` entries.
    pub async fn entries(
        &self,
        search: &DirectorySearch,
        values: &[&str],
        entries_max: usize,
    ) -> Result<Vec<DirectoryEntry>, Failure> {
        let found = self.found(search, values, entries_max).await?;
        let entries = found.into_iter().map(|entry| DirectoryEntry {
            dn: entry.dn,
            attributes: entry.attrs.into_iter().collect(),
        });
        Ok(entries.collect())
    }

    async fn found(
        &self,
        search: &DirectorySearch,
        values: &[&str],
        entries_max: usize,
    ) -> Result<Vec<SearchEntry>, Failure> {
        let filter = filled_in(&search.filter, values);
        let is_fresh = self.open.lock().await.is_none();
        match self.search(search, &filter, entries_max).await {
            // A connection that was kept may have ended meanwhile.
            Err(_) if !is_fresh => self.search(search, &filter, entries_max).await,
            answer => answer,
        }
    }

    async fn search(
        &self,
        search: &DirectorySearch,
        filter: &str,
        entries_max: usize,
    ) -> Result<Vec<SearchEntry>, Failure> {
        let mut ldap = self.connection().await?;
        let limit = i32::try_from(entries_max).unwrap_or(i32::MAX);
        // Result code 4 (sizeLimitExceeded) comes with the entries that did fit (RFC 4511 section
        // 4.5.1.4), so one more is asked for.
        ldap.with_search_options(SearchOptions::new().sizelimit(limit.saturating_add(1)))
            .with_timeout(self.timeout);
        let scope = match search.one_level {
            true => Scope::OneLevel,
            false => Scope::Subtree,
        };
        let found = ldap
            .search(&search.base, scope, filter, search.attributes.clone())
            .await;
        if found.is_err() {
            *self.open.lock().await = None;
        }
        let found = found.map_err(failed)?;
        if !matches!(found.1.rc, 0 | 4 | 32) {
            found.1.success().map_err(failed)?;
            return Ok(Vec::new());
        }
        Ok(found
            .0
            .into_iter()
            .filter(|entry| !entry.is_ref() && !entry.is_intermediate())
            .take(entries_max)
            .map(SearchEntry::construct)
            .collect())
    }

    /// Returns whether the password is the entry's.
    pub async fn is_password(&self, dn: &str, password: &str) -> Result<bool, Failure> {
        if dn.is_empty() || password.is_empty() {
            return Ok(false);
        }
        let ended = |_| Failure("no connection can be made any more".into());
        let _permit = self.binds.acquire().await.map_err(ended)?;
        loop {
            let kept = self.idle.borrow_mut().pop();
            let is_kept = kept.is_some();
            let mut ldap = match kept {
                Some(kept) => kept,
                None => self.connect().await?,
            };
            if is_kept && ldap.is_closed() {
                continue;
            }
            let bound = ldap
                .with_timeout(self.timeout)
                .simple_bind(dn, password)
                .await;
            let code = match bound {
                // It may have ended meanwhile.
                Err(_) if is_kept => continue,
                bound => bound.map_err(failed)?,
            };
            self.idle.borrow_mut().push(ldap);
            return match code.rc {
                0 => Ok(true),
                rc if REFUSED.contains(&rc) => Ok(false),
                _ => code.success().map(|_| false).map_err(failed),
            };
        }
    }

    async fn connection(&self) -> Result<Ldap, Failure> {
        let mut open = self.open.lock().await;
        if let Some(ldap) = open.as_mut()
            && !ldap.is_closed()
        {
            return Ok(ldap.clone());
        }
        let mut ldap = self.connect().await?;
        if !self.terms.user.is_empty() {
            let bound = ldap
                .with_timeout(self.timeout)
                .simple_bind(&self.terms.user, &self.terms.password)
                .await;
            bound.and_then(|bound| bound.success()).map_err(failed)?;
        }
        *open = Some(ldap.clone());
        Ok(ldap)
    }

    async fn connect(&self) -> Result<Ldap, Failure> {
        let mut settings = LdapConnSettings::new().set_conn_timeout(self.timeout);
        if let Some(tls) = &self.tls {
            settings = settings
                .set_config(tls.config()?)
                .set_starttls(tls.starts_later);
        }
        let (connection, ldap) = LdapConnAsync::with_settings(settings, &self.url)
            .await
            .map_err(failed)?;
        tokio::spawn(async move { connection.drive().await });
        Ok(ldap)
    }
}

fn failed(error: LdapError) -> Failure {
    let help = match &error {
        LdapError::Io { source } => tls::help(source),
        _ => None,
    };
    Failure(match help {
        Some(help) => format!("{error}: {help}"),
        None => error.to_string(),
    })
}

/// The filter with the parameters in the places of its question marks, escaped (RFC 4515 section
/// 3).
fn filled_in(filter: &str, parameters: &[&str]) -> String {
    let mut out = String::new();
    for (number, piece) in placeholders::pieces(filter).into_iter().enumerate() {
        if let Some(parameter) = number.checked_sub(1).and_then(|at| parameters.get(at)) {
            out.push_str(&ldap_escape(*parameter));
        }
        out.push_str(piece);
    }
    out
}

pub fn check_filter(filter: &str) -> Result<(), Failure> {
    let example = filled_in(filter, &vec!["a"; filter.matches('?').count()]);
    ldap3::parse_filter(&example)
        .map(drop)
        .map_err(|_| Failure("this is no filter of LDAP (RFC 4515): look at its brackets".into()))
}

/// Converts an entry; attributes with several values contribute the first.
fn row(entry: SearchEntry) -> Row {
    let mut row = Row::default();
    for (name, values) in entry.attrs {
        row.push(&name, values.into_iter().next());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_can_not_change_the_filter() {
        assert_eq!(
            filled_in("(&(objectClass=host)(cn=?))", &["a.example"]),
            "(&(objectClass=host)(cn=a.example))"
        );
        assert!(check_filter("(|(cn=?)(alias=?))").is_ok());
        assert!(check_filter("(&(objectClass=webHost)(cn=?)").is_err());
        assert_eq!(
            filled_in("(|(cn=?)(alias=?))", &["*)(x=", "b"]),
            "(|(cn=\\2a\\29\\28x=)(alias=b))"
        );
    }
}
