//! Finds log-in rules (`[site.auth]`) that would refuse every client, or miss a file.
//!
//! Called by: `whole`.
//! Caveat: a route's rules are the site's with its own keys over them, so a mistake of the site's is
//! found in each route too, and reported once.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    model::{AuthRules, Settings},
};

pub(super) fn complete(configuration: &mut Configuration) {
    let mut found: Vec<Diagnostic> = Vec::new();
    for site in &configuration.sites {
        let routes = site.routes.iter().map(|route| &*route.settings);
        let all = std::iter::once(&site.settings).chain(routes);
        let rules = all.filter_map(|settings: &Settings| settings.auth.as_deref());
        for diagnostic in rules.filter(|rules| rules.is_on).filter_map(problem) {
            let is_known = found.iter().any(|known| {
                known.origin == diagnostic.origin && known.message == diagnostic.message
            });
            if !is_known {
                found.push(diagnostic);
            }
        }
    }
    configuration.diagnostics.extend(found);
}

fn problem(rules: &AuthRules) -> Option<Diagnostic> {
    let error = |message: String, help: &str| {
        let mut error = Diagnostic::without_source(rules.origin.clone(), message);
        error.help = Some(help.into());
        Some(error)
    };
    if rules.user_file.is_none() && rules.database.is_none() {
        return error(
            "missing `user_file` in [site.auth]: no client could log in".into(),
            "create a file with `htpasswd -c -B FILE NAME`, and add user_file = \"FILE\"",
        );
    }
    if rules.database.is_some() != rules.query.is_some() {
        return error(
            "`database` and `query` in [site.auth] need each other".into(),
            "such as query = \"SELECT password FROM users WHERE name = ?\"",
        );
    }
    if rules
        .database
        .as_ref()
        .is_some_and(|url| url.0.starts_with("ldap"))
    {
        return error(
            "`database` in [site.auth] can't be a directory (LDAP)".into(),
            "use `authorize` with a server that asks the directory",
        );
    }
    if rules.group_query.is_some() && rules.database.is_none() {
        return error(
            "`group_query` without `database` in [site.auth]".into(),
            "add the database, or use `group_file`",
        );
    }
    if !rules.groups.is_empty() && rules.group_file.is_none() && rules.group_query.is_none() {
        return error(
            "`groups` without `group_file` in [site.auth]".into(),
            "add group_file = \"FILE\", with lines such as `staff: ann bob`",
        );
    }
    if rules.satisfies_any && rules.networks.is_empty() {
        return error(
            "`satisfy = \"any\"` without `networks` in [site.auth]".into(),
            "add the networks whose clients need no log-in, or remove `satisfy`",
        );
    }
    let files = [rules.user_file.as_ref(), rules.group_file.as_ref()];
    let missing = files.into_iter().flatten().find(|file| {
        matches!(std::fs::metadata(file), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    })?;
    let name = missing.file_name().unwrap_or_default().display();
    let message =
        format!("the file {name} does not exist: requests are answered with 500 until it does");
    let mut warning = error(message, "create it with `htpasswd` or `htdigest`")?;
    warning.severity = Severity::Warning;
    Some(warning)
}
