//! Directories (LDAP, RFC 4511): one connection that questions share, made anew when it has ended.

use crate::{Failure, LdapTerms, Row, Terms, ldap_tls::LdapTls, placeholders, tls};
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, SearchOptions,
    ldap_escape,
};
use std::time::Duration;
use tokio::sync::Mutex;

pub struct Directory {
    url: String,
    /// `None`: in the clear.
    tls: Option<LdapTls>,
    terms: LdapTerms,
    timeout: Duration,
    open: Mutex<Option<Ldap>>,
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
        })
    }

    pub async fn rows(
        &self,
        filter: &str,
        parameters: &[&str],
        rows_max: usize,
    ) -> Result<Vec<Row>, Failure> {
        let filter = filled_in(filter, parameters);
        let is_fresh = self.open.lock().await.is_none();
        match self.search(&filter, rows_max).await {
            // A connection that was kept may have ended meanwhile.
            Err(_) if !is_fresh => self.search(&filter, rows_max).await,
            answer => answer,
        }
    }

    async fn search(&self, filter: &str, rows_max: usize) -> Result<Vec<Row>, Failure> {
        let mut ldap = self.connection().await?;
        let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
        // Result code 4 (sizeLimitExceeded) comes with the entries that did fit (RFC 4511 section
        // 4.5.1.4), so one more is asked for.
        ldap.with_search_options(SearchOptions::new().sizelimit(limit.saturating_add(1)))
            .with_timeout(self.timeout);
        let found = ldap
            .search(&self.terms.base, Scope::Subtree, filter, vec!["*"])
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
            .take(rows_max)
            .map(|entry| row(SearchEntry::construct(entry)))
            .collect())
    }

    async fn connection(&self) -> Result<Ldap, Failure> {
        let mut open = self.open.lock().await;
        if let Some(ldap) = open.as_mut()
            && !ldap.is_closed()
        {
            return Ok(ldap.clone());
        }
        let mut settings = LdapConnSettings::new().set_conn_timeout(self.timeout);
        if let Some(tls) = &self.tls {
            settings = settings
                .set_config(tls.config()?)
                .set_starttls(tls.starts_later);
        }
        let (connection, mut ldap) = LdapConnAsync::with_settings(settings, &self.url)
            .await
            .map_err(failed)?;
        tokio::spawn(async move { connection.drive().await });
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
