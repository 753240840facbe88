//! Checks `[dynamic_vhosts]` against the sites that use it, and reads the database URL from its
//! file.
//!
//! Called by: `check::whole`.

use crate::{
    configuration::Configuration,
    diagnostic::Severity,
    model::{DatabaseKind, DatabaseUrl, Hosts},
};
use std::path::Path;

pub(crate) fn whole(configuration: &mut Configuration) {
    let wants = configuration
        .sites
        .iter()
        .find(|site| site.is_looked_up)
        .map(|site| site.at.clone());
    let Some((mut hosts, at)) = configuration.dynamic_vhosts.take() else {
        if let Some(at) = wants {
            let help = "add [dynamic_vhosts] with database = \"mysql://...\" and a query";
            configuration.report(
                Severity::Error,
                &at,
                "`lookup` without [dynamic_vhosts]".into(),
                Some(help.into()),
            );
        }
        return;
    };
    let complaints = match hosts.has_unread {
        true => Vec::new(),
        false => complaints(&mut hosts),
    };
    for (message, help) in complaints {
        configuration.report(Severity::Error, &at, message, help.map(Into::into));
    }
    if wants.is_none() {
        let help = "add lookup = true to a [[site]]";
        configuration.report(
            Severity::Warning,
            &at,
            "no site uses [dynamic_vhosts]".into(),
            Some(help.into()),
        );
    }
    configuration.dynamic_vhosts = Some((hosts, at));
}

type Complaint = (String, Option<&'static str>);

fn complaints(hosts: &mut Hosts) -> Vec<Complaint> {
    let mut all = Vec::new();
    match (&hosts.database, &hosts.database_file) {
        (Some(_), Some(_)) => all.push((
            "`database` and `database_file` exclude each other".into(),
            None,
        )),
        (None, Some(path)) => match url_in(path) {
            Ok(url) => hosts.database = Some(url),
            Err(why) => all.push((format!("`database_file` {}: {why}", path.display()), None)),
        },
        (None, None) => all.push((
            "missing `database`".into(),
            Some("write database = \"mysql://user:password@localhost/name\""),
        )),
        (Some(_), None) => {}
    }
    if hosts.query.is_empty() {
        let help = "write query = \"SELECT docroot AS root FROM hosts WHERE name = ?\"";
        all.push(("missing `query`".into(), Some(help)));
    } else if !hosts.query.contains('?') {
        all.push((
            "`query` has no placeholder for the host name".into(),
            Some("write `?` where the host name belongs"),
        ));
    }
    let is_ldap = hosts
        .database
        .as_ref()
        .is_some_and(|url| DatabaseKind::of(&url.0) == Some(DatabaseKind::Ldap));
    if is_ldap && hosts.ldap_base.is_empty() {
        all.push((
            "missing `ldap_base`".into(),
            Some("write ldap_base = \"ou=hosts,dc=example,dc=org\""),
        ));
    }
    if hosts.roots.is_empty() {
        let help = "add roots = [\"/srv/www\"]: document roots from the database must be inside of \
                    one of them";
        all.push(("missing `roots`".into(), Some(help)));
    }
    all
}

fn url_in(path: &Path) -> Result<DatabaseUrl, String> {
    let text = saker_net::privileged::read_to_string(path).map_err(|error| error.to_string())?;
    let url = text.lines().next().unwrap_or_default().trim();
    DatabaseKind::of(url)
        .map(|_| DatabaseUrl(url.into()))
        .ok_or_else(|| "its first line is not the URL of a supported database".into())
}
