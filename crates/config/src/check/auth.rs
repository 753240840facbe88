//! Finds log-in rules (`[site.auth]`) that would refuse every client, or miss a file.
//!
//! Called by: `whole`.
//! Caveat: a route's rules are the site's with its own keys over them, so a mistake of the site's is
//! found in each route too, and reported once.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    model::{AuthRules, AuthScheme, Settings},
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
    if rules.has_unread {
        return None;
    }
    let error = |message: String, help: &str| {
        let mut error = Diagnostic::without_source(rules.origin.clone(), message);
        error.help = Some(help.into());
        Some(error)
    };
    let has_tokens = has_tokens(rules);
    if (has_tokens || rules.ldap.is_some()) && rules.scheme == AuthScheme::Digest {
        return error(
            "`scheme = \"digest\"` in [site.auth] works with `user_file` and `database` alone"
                .into(),
            "remove `scheme`",
        );
    }
    if rules.user_file.is_none() && rules.database.is_none() && rules.ldap.is_none() && !has_tokens
    {
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
            "use [site.auth.ldap]",
        );
    }
    if rules.group_query.is_some() && rules.database.is_none() {
        return error(
            "`group_query` without `database` in [site.auth]".into(),
            "add the database, or use `group_file`",
        );
    }
    if let Some((message, help)) = groups_problem(rules) {
        return error(message.into(), help);
    }
    if rules.satisfies_any && rules.networks.is_empty() {
        return error(
            "`satisfy = \"any\"` without `networks` in [site.auth]".into(),
            "add the networks whose clients need no log-in, or remove `satisfy`",
        );
    }
    missing_file(rules)
}

/// A message about groups that can't be looked up, and its help.
fn groups_problem(rules: &AuthRules) -> Option<(&'static str, &'static str)> {
    let needs_group_file = !has_tokens(rules) && rules.ldap.is_none();
    if !rules.groups.is_empty()
        && needs_group_file
        && rules.group_file.is_none()
        && rules.group_query.is_none()
    {
        return Some((
            "`groups` without `group_file` in [site.auth]",
            "add group_file = \"FILE\", with lines such as `staff: ann bob`",
        ));
    }
    let has_lines = rules.group_file.is_some() || rules.group_query.is_some();
    if has_lines
        && rules
            .groups
            .iter()
            .any(|group| group.contains(char::is_whitespace))
    {
        return Some((
            "a name in `groups` of [site.auth] has spaces, which group files and queries can't have",
            "name each group as an element of its own: groups = [\"staff\", \"admins\"]",
        ));
    }
    None
}

fn has_tokens(rules: &AuthRules) -> bool {
    rules.jwt.is_some() || rules.oidc.is_some()
}

/// A warning about a file that may be made later.
fn missing_file(rules: &AuthRules) -> Option<Diagnostic> {
    let files = [rules.user_file.as_ref(), rules.group_file.as_ref()];
    let missing = files.into_iter().flatten().find(|file| {
        matches!(std::fs::metadata(file), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    })?;
    let name = missing.file_name().unwrap_or_default().display();
    let message =
        format!("the file {name} does not exist: requests are answered with 500 until it does");
    let mut warning = Diagnostic::without_source(rules.origin.clone(), message);
    warning.help = Some("create it with `htpasswd` or `htdigest`".into());
    warning.severity = Severity::Warning;
    Some(warning)
}
