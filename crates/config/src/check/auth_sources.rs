//! Checks `[site.auth.ldap]`, `[site.auth.jwt]`, `[site.auth.oidc]`, and `[console.oidc]`, and reads
//! their key files.
//!
//! Called by: `whole`, before `auth`.
//! Caveat: a route's rules are the site's with its own keys over them, so each file is read once,
//! and a mistake reported once.
//! Out of scope: the directory and the provider themselves, which may be down while a configuration
//! is loaded.

use crate::{
    configuration::Configuration,
    diagnostic::Diagnostic,
    model::{
        AuthRules, ConsoleOidc, JwtRules, LdapRules, LocatedPath, OidcRules, Origin, Secret,
        Settings,
    },
};
use saker_identity::{KeySet, SealKeys};
use saker_net::privileged;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A message and its help.
type Complaint = (Origin, String, &'static str);

/// Contents of files, or why they can't be read.
#[derive(Default)]
struct Files(HashMap<PathBuf, Result<Vec<u8>, String>>);

impl Files {
    fn read(&mut self, path: &Path) -> Result<&[u8], String> {
        let known = self
            .0
            .entry(path.to_path_buf())
            .or_insert_with(|| privileged::read(path).map_err(|error| error.to_string()));
        known.as_deref().map_err(Clone::clone)
    }

    /// Reads a file into what it is for.
    fn take<T>(
        &mut self,
        key: &str,
        (path, origin): &LocatedPath,
        help: &'static str,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, Complaint> {
        let name = path.file_name().unwrap_or_default().display().to_string();
        self.read(path)
            .and_then(parse)
            .map_err(|why| (origin.clone(), format!("`{key}` {name}: {why}"), help))
    }
}

pub(super) fn complete(configuration: &mut Configuration) {
    let (mut files, mut found) = (Files::default(), Vec::<Complaint>::new());
    let console = configuration.console.as_mut();
    if let Some(oidc) = console.and_then(|(console, _)| console.oidc.as_mut()) {
        found.extend(of_console(oidc, &mut files).err());
    }
    for site in &mut configuration.sites {
        let mut note = |rules: &mut AuthRules, files: &mut Files| {
            if let Err(complaint) = one(rules, files)
                && !found.contains(&complaint)
            {
                found.push(complaint);
            }
        };
        rules_of(&mut site.settings)
            .into_iter()
            .for_each(|rules| note(rules, &mut files));
        for route in &mut site.routes {
            if has_sources(&route.settings) {
                let settings = Arc::make_mut(&mut route.settings);
                rules_of(settings)
                    .into_iter()
                    .for_each(|rules| note(rules, &mut files));
            }
        }
        for complaint in ways_back(site) {
            if !found.contains(&complaint) {
                found.push(complaint);
            }
        }
    }
    let diagnostics = found.into_iter().map(|(origin, message, help)| {
        let mut diagnostic = Diagnostic::without_source(origin, message);
        diagnostic.help = Some(help.into());
        diagnostic
    });
    configuration.diagnostics.extend(diagnostics);
}

fn has_sources(settings: &Settings) -> bool {
    settings.auth.as_ref().is_some_and(|rules| {
        rules.is_on
            && !rules.has_unread
            && (rules.ldap.is_some()
                || rules.jwt.is_some()
                || rules.oidc.is_some()
                || !rules.fields.is_empty()
                || !rules.variables.is_empty())
    })
}

fn rules_of(settings: &mut Settings) -> Option<&mut AuthRules> {
    match has_sources(settings) {
        true => settings.auth.as_mut().map(Arc::make_mut),
        false => None,
    }
}

fn one(rules: &mut AuthRules, files: &mut Files) -> Result<(), Complaint> {
    let has_passwords =
        rules.user_file.is_some() || rules.database.is_some() || rules.ldap.is_some();
    let has_tokens = rules.jwt.is_some() || rules.oidc.is_some();
    if has_passwords && has_tokens {
        return Err((
            rules.origin.clone(),
            "[site.auth.jwt] and [site.auth.oidc] exclude `user_file`, `database`, and [site.auth.ldap]".into(),
            "use a route of its own for the other kind of log-in",
        ));
    }
    if !has_tokens
        && rules.ldap.is_none()
        && !(rules.fields.is_empty() && rules.variables.is_empty())
    {
        return Err((
            rules.origin.clone(),
            "`fields` and `variables` in [site.auth] need attributes or claims".into(),
            "add [site.auth.ldap], [site.auth.jwt], or [site.auth.oidc]",
        ));
    }
    let origin = rules.origin.clone();
    let has_groups = !rules.groups.is_empty();
    let needs_directory_groups =
        has_groups && rules.group_file.is_none() && rules.group_query.is_none();
    if let Some(ldap) = rules.ldap.as_mut() {
        directory(Arc::make_mut(ldap), files)?;
        if needs_directory_groups && ldap.group_attribute.is_none() && ldap.group_filter.is_none() {
            return Err((
                origin,
                "`groups` without `group_attribute` or `group_filter` in [site.auth.ldap]".into(),
                "add group_filter = \"(&(objectClass=groupOfNames)(member=?))\"",
            ));
        }
    }
    if let Some(jwt) = rules.jwt.as_mut() {
        tokens(Arc::make_mut(jwt), files)?;
    }
    if let Some(oidc) = rules.oidc.as_mut() {
        provider(Arc::make_mut(oidc), files)?;
    }
    Ok(())
}

/// The text of the first line of a file.
fn first_line(bytes: &[u8]) -> Result<Secret, String> {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    match std::str::from_utf8(line.trim_ascii_end()) {
        Ok("") => Err("its first line is empty".into()),
        Ok(line) => Ok(Secret(line.into())),
        Err(_) => Err("its first line is not UTF-8".into()),
    }
}

fn directory(rules: &mut LdapRules, files: &mut Files) -> Result<(), Complaint> {
    let fail = |message: &str, help| Err((rules.origin.clone(), message.to_owned(), help));
    if rules.url.is_empty() {
        return fail(
            "missing `url` in [site.auth.ldap]",
            "add url = \"ldaps://ldap.example.org\"",
        );
    }
    if rules.base.is_empty() {
        return fail(
            "missing `base` in [site.auth.ldap]",
            "add base = \"ou=people,dc=example,dc=org\"",
        );
    }
    if rules.start_tls && !rules.url.starts_with("ldap:") {
        return fail(
            "`start_tls` is for `ldap:` URLs",
            "remove `start_tls`: ldaps: is encrypted anyway, and ldapi: never leaves the machine",
        );
    }
    if rules.ca_file.is_some() && !rules.start_tls && !rules.url.starts_with("ldaps:") {
        return fail(
            "`ca_file` in [site.auth.ldap] without TLS",
            "use an `ldaps:` URL, or add start_tls = true",
        );
    }
    filters(rules)?;
    match (&rules.bind_dn, &rules.password_file) {
        (_, Some(_)) if !rules.password.0.is_empty() => {
            return fail(
                "`password` and `password_file` in [site.auth.ldap] exclude each other",
                "remove one of them",
            );
        }
        (None, file) if file.is_some() || !rules.password.0.is_empty() => {
            return fail(
                "a password without `bind_dn` in [site.auth.ldap]",
                "add the entry that it belongs to, such as bind_dn = \"cn=saker,dc=example,dc=org\"",
            );
        }
        // A directory takes a bind without a password for an anonymous one (RFC 4513 section 5.1.2).
        (Some(_), None) if rules.password.0.is_empty() => {
            return fail(
                "`bind_dn` without a password in [site.auth.ldap]",
                "add `password` or `password_file`",
            );
        }
        _ => {}
    }
    if let Some(file) = &rules.password_file {
        let help = "write the password into its first line";
        rules.password = files.take("password_file", file, help, first_line)?;
    }
    Ok(())
}

fn filters(rules: &LdapRules) -> Result<(), Complaint> {
    let fail = |message: String, help| Err((rules.origin.clone(), message, help));
    let both = [
        ("filter", &rules.filter),
        ("group_filter", &rules.group_filter),
    ];
    for (key, filter) in both {
        let Some(filter) = filter else { continue };
        if !filter.contains('?') {
            return fail(
                format!("`{key}` in [site.auth.ldap] has no placeholder"),
                "write `?` where the name (`filter`) or the DN (`group_filter`) of the user belongs",
            );
        }
        if !is_filter(filter) {
            return fail(
                format!("`{key}` in [site.auth.ldap] is no filter (RFC 4515)"),
                "look at its brackets: \"(&(objectClass=person)(uid=?))\"",
            );
        }
    }
    Ok(())
}

/// True if the text is one bracket with others in it, all closed; the rest is the directory's to
/// judge.
fn is_filter(text: &str) -> bool {
    let mut depth = 0_usize;
    let ends = text.bytes().enumerate().filter_map(|(at, byte)| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            _ => return None,
        }
        (depth == 0).then_some(at + 1)
    });
    text.starts_with('(') && ends.collect::<Vec<_>>() == [text.len()] && depth == 0
}

fn tokens(rules: &mut JwtRules, files: &mut Files) -> Result<(), Complaint> {
    let fail = |message: &str, help| Err((rules.origin.clone(), message.to_owned(), help));
    if rules.algorithms.is_empty() {
        return fail(
            "missing `algorithms` in [site.auth.jwt]",
            "add those that the issuer uses, such as algorithms = [\"RS256\"]",
        );
    }
    let sources = [
        rules.keys_file.is_some(),
        rules.secret_file.is_some(),
        rules.keys_url.is_some(),
    ];
    if sources.iter().filter(|is_set| **is_set).count() != 1 {
        return fail(
            "[site.auth.jwt] needs exactly one of `keys_file`, `secret_file`, and `keys_url`",
            "such as keys_url = \"https://id.example.org/.well-known/jwks.json\"",
        );
    }
    if let Some(file) = &rules.keys_file {
        let help =
            "public keys are a JWK set ({\"keys\": [...]}) or PEM (-----BEGIN PUBLIC KEY-----)";
        rules.keys = Some(files.take("keys_file", file, help, KeySet::public)?);
    }
    if let Some(file) = &rules.secret_file {
        let help = "make one with `openssl rand -base64 48`, and give it to the issuer";
        rules.keys = Some(files.take("secret_file", file, help, KeySet::secret)?);
    }
    let fits = match &rules.keys {
        Some(keys) => rules.algorithms.iter().any(|one| keys.suits(*one)),
        // What is fetched is public.
        None => rules
            .algorithms
            .iter()
            .any(|one| !format!("{one:?}").starts_with("HS")),
    };
    match fits {
        true => Ok(()),
        false => Err((
            rules.origin.clone(),
            "no key of [site.auth.jwt] is for one of its `algorithms`".into(),
            "HS256 needs `secret_file`; RS256 an RSA key, ES256 one of P-256, EdDSA one of Ed25519",
        )),
    }
}

fn provider(rules: &mut OidcRules, files: &mut Files) -> Result<(), Complaint> {
    let client = ClientOf {
        table: "[site.auth.oidc]",
        origin: &rules.origin,
        issuer: &rules.issuer,
        id: &rules.client_id,
        has_secret: rules.client_secret.is_some(),
        secret_file: rules.client_secret_file.as_ref(),
    };
    if let Some(secret) = client.checked(files)? {
        (rules.client_secret, rules.client_secret_file) = (Some(secret), None);
    }
    if rules.callback == rules.logout {
        return Err((
            rules.origin.clone(),
            "`callback` and `logout` in [site.auth.oidc] are the same path".into(),
            "give them different ones",
        ));
    }
    if let Some(file) = &rules.key_file {
        let help = "make one with `openssl rand -base64 48`";
        rules.keys = Some(files.take("key_file", file, help, SealKeys::parse)?);
    }
    Ok(())
}

/// Completes the provider of the console.
fn of_console(rules: &mut ConsoleOidc, files: &mut Files) -> Result<(), Complaint> {
    let client = ClientOf {
        table: "[console.oidc]",
        origin: &rules.origin,
        issuer: &rules.issuer,
        id: &rules.client_id,
        has_secret: rules.client_secret.is_some(),
        secret_file: rules.client_secret_file.as_ref(),
    };
    let read = client.checked(files)?;
    rules.client_secret = read.or(rules.client_secret.take());
    match rules.roles.is_empty() {
        false => Ok(()),
        true => Err((
            rules.origin.clone(),
            "missing `roles` in [console.oidc]".into(),
            "add the groups with access, such as roles = { saker-admins = \"administrator\" }",
        )),
    }
}

/// A client of a provider, as a table has it.
struct ClientOf<'r> {
    table: &'static str,
    origin: &'r Origin,
    issuer: &'r str,
    id: &'r str,
    has_secret: bool,
    secret_file: Option<&'r LocatedPath>,
}

impl ClientOf<'_> {
    /// Checks it, and reads the file of its secret.
    fn checked(&self, files: &mut Files) -> Result<Option<Secret>, Complaint> {
        let table = self.table;
        let fail = |message: String, help| Err((self.origin.clone(), message, help));
        if self.issuer.is_empty() {
            return fail(
                format!("missing `issuer` in {table}"),
                "add the URL of the provider, such as issuer = \"https://id.example.org\"",
            );
        }
        if self.id.is_empty() {
            return fail(
                format!("missing `client_id` in {table}"),
                "register this client at the provider, and add the id that it gives",
            );
        }
        let Some(file) = self.secret_file else {
            return Ok(None);
        };
        if self.has_secret {
            return fail(
                "`client_secret` and `client_secret_file` exclude each other".into(),
                "remove one of them",
            );
        }
        let help = "write the secret into its first line";
        files
            .take("client_secret_file", file, help, first_line)
            .map(Some)
    }
}

/// Providers whose callback or logout path is not under the rules that name it: clients would never
/// get in.
fn ways_back(site: &crate::directives::site::SiteDraft) -> Vec<Complaint> {
    let of_routes = site.routes.iter().map(|route| &*route.settings);
    let all = std::iter::once(&site.settings).chain(of_routes);
    let rules = all
        .filter_map(|settings| settings.auth.as_deref())
        .filter(|rules| rules.is_on);
    let mut found = Vec::new();
    for oidc in rules.filter_map(|rules| rules.oidc.as_deref()) {
        for (key, path) in [("callback", &oidc.callback), ("logout", &oidc.logout)] {
            let route = site.routes.iter().find(|route| {
                !route.is_named_only
                    && route.matcher.is_none()
                    && route.pattern.captures(path.as_bytes()).is_some()
            });
            let settings = route.map_or(&site.settings, |route| &*route.settings);
            let there = settings.auth.as_deref().filter(|rules| rules.is_on);
            let is_same = there
                .and_then(|rules| rules.oidc.as_deref())
                .is_some_and(|there| {
                    (&there.issuer, &there.client_id) == (&oidc.issuer, &oidc.client_id)
                        && (&there.callback, &there.logout) == (&oidc.callback, &oidc.logout)
                });
            if !is_same {
                found.push((
                    oidc.origin.clone(),
                    format!("the path {path} (`{key}` in [site.auth.oidc]) is not under this log-in"),
                    "choose a path of the same route, such as callback = \"/admin/oidc/callback\" for /admin/*",
                ));
            }
        }
    }
    found
}
