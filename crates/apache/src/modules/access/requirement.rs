//! What follows `Require`: parsed once, asked per request.
//!
//! One variant per provider of Apache's modules. Difficulty: a provider that wants a user says so
//! before anybody was asked for a name, so "no" and "not without a user" are different answers.
//! What can't be found out here denies, and says so when it is read.

use super::{decide::Inquiry, hosts::in_domain};
use crate::reading::Reading;
use saker_ap_expr::words::words;
use saker_ap_expr::{Dependency, Expression, ExpressionOptions, StringExpression, Subnet};
use saker_apache_syntax::{METHODS, Node};
use saker_tls::ClientVerification;
use std::{fmt, os::unix::fs::MetadataExt, path::Path, sync::Arc};

/// Of a rule, or a whole container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Granted,
    Denied,
    /// A user could make a difference.
    DeniedWithoutUser,
    Neutral,
    /// Answered with 500.
    Error,
    /// Has to be asked again.
    Pending,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decision::Granted => "granted",
            Decision::Denied => "denied",
            Decision::DeniedWithoutUser => "denied (no authenticated user yet)",
            Decision::Neutral => "neutral",
            Decision::Error => "an error",
            Decision::Pending => "not known yet",
        })
    }
}

#[derive(Clone, Debug)]
pub enum Requirement {
    All(bool),
    Environment(Vec<Box<[u8]>>),
    Method(Vec<Box<[u8]>>),
    Expression {
        expression: Arc<Expression>,
        wants_user: bool,
    },
    Ip(Vec<Subnet>),
    Local,
    /// mod_ssl's `ssl`.
    Encrypted,
    /// mod_ssl's `ssl-verify-client`.
    Certified,
    Host(Words),
    ForwardName(Words),
    User(Words),
    ValidUser,
    Group(Words),
    FileOwner,
    FileGroup,
    DatabaseGroup(Words),
    DatabaseFileGroup,
    /// mod_authz_dbd's `dbd-group`.
    SqlGroup(Words),
    /// Its `dbd-login` and `dbd-logout`, by their names.
    SqlSession(&'static str),
    /// `<AuthzProviderAlias>`.
    Alias(Box<[u8]>),
    /// Denies.
    Impossible,
}

/// Words of a line that may contain variables.
type Words = Arc<StringExpression>;

impl Requirement {
    /// `rest`: the line behind the provider's name.
    pub fn parse(
        name: &[u8],
        rest: &[u8],
        node: &Node,
        reading: &mut Reading<'_>,
    ) -> Result<Requirement, String> {
        let shown = String::from_utf8_lossy(name);
        Ok(match &*name.to_ascii_lowercase() {
            b"all" if rest.eq_ignore_ascii_case(b"granted") => Requirement::All(true),
            b"all" if rest.eq_ignore_ascii_case(b"denied") => Requirement::All(false),
            b"all" => return Err("Argument for 'Require all' must be 'granted' or 'denied'".into()),
            b"env" => Requirement::Environment(boxed(rest)),
            b"method" => Requirement::Method(methods(rest)?),
            b"expr" => expression(rest, reading)?,
            b"ip" => Requirement::Ip(networks(rest)?),
            b"local" => Requirement::Local,
            b"ssl" if !rest.is_empty() => {
                return Err("'Require ssl' does not take arguments".into());
            }
            b"ssl" => Requirement::Encrypted,
            b"ssl-verify-client" if !rest.is_empty() => {
                return Err("'Require ssl-verify-client' does not take arguments".into());
            }
            b"ssl-verify-client" => Requirement::Certified,
            b"host" => Requirement::Host(line(rest, reading)?),
            b"forward-dns" => Requirement::ForwardName(line(rest, reading)?),
            b"user" => Requirement::User(line(rest, reading)?),
            b"valid-user" => Requirement::ValidUser,
            b"group" => Requirement::Group(line(rest, reading)?),
            b"file-owner" => Requirement::FileOwner,
            b"file-group" => Requirement::FileGroup,
            b"dbm-group" => Requirement::DatabaseGroup(line(rest, reading)?),
            b"dbm-file-group" => Requirement::DatabaseFileGroup,
            b"dbd-group" => Requirement::SqlGroup(line(rest, reading)?),
            b"dbd-login" => Requirement::SqlSession("login"),
            b"dbd-logout" => Requirement::SqlSession("logout"),
            lower if ELSEWHERE.iter().any(|known| known.as_bytes() == lower) => {
                reading.warn(
                    node,
                    format!("Require {shown} is not honoured: it grants nothing to anybody"),
                );
                Requirement::Impossible
            }
            _ if reading.aliases.authz.iter().any(|known| **known == *shown) => {
                Requirement::Alias(name.into())
            }
            _ => return Err(format!("Unknown Authz provider: {shown}")),
        })
    }

    pub fn check(&self, inquiry: &mut Inquiry<'_>) -> Decision {
        let yes = match self {
            Requirement::All(granted) => *granted,
            Requirement::Environment(names) => {
                inquiry.asked(Dependency::Environment);
                names
                    .iter()
                    .any(|name| inquiry.exchange.environment.first(name).is_some())
            }
            Requirement::Method(names) => {
                // No reason not to keep what comes of it: only GET and HEAD are answered from what
                // is kept, and they are one here.
                let method = as_numbered(inquiry.method());
                names.iter().any(|name| **name == *method)
            }
            Requirement::Expression {
                expression,
                wants_user,
            } => return check_expression(inquiry, expression, *wants_user),
            Requirement::Ip(networks) => {
                inquiry.asked(Dependency::Client);
                networks
                    .iter()
                    .any(|network| network.contains(inquiry.exchange.client.ip()))
            }
            Requirement::Local => {
                inquiry.asked(Dependency::Client);
                let client = inquiry.exchange.client.ip();
                client.is_loopback() || client == inquiry.exchange.client.local.ip().to_canonical()
            }
            // The listener's, like the scheme.
            Requirement::Encrypted => inquiry.exchange.client.tls,
            Requirement::Certified => {
                inquiry.asked(Dependency::Transport);
                let session = inquiry.exchange.client.session.as_ref();
                session.is_some_and(|session| {
                    session.client_verification == ClientVerification::Success
                })
            }
            Requirement::Impossible => false,
            Requirement::Host(words) => return inquiry.client_is_in(words),
            Requirement::ForwardName(words) => return inquiry.client_is_one_of(words),
            Requirement::Alias(name) => return inquiry.check_alias(name),
            by_user => return inquiry.check_user(by_user),
        };
        if yes {
            Decision::Granted
        } else {
            Decision::Denied
        }
    }
}

/// Providers of modules that are not here.
const ELSEWHERE: &[&str] = &[
    "ldap-user",
    "ldap-group",
    "ldap-dn",
    "ldap-attribute",
    "ldap-filter",
    "ldap-search",
];

impl Inquiry<'_> {
    fn line(&mut self, words_of: &Words) -> Vec<Vec<u8>> {
        words(&self.line_text(words_of))
    }

    fn line_text(&mut self, words_of: &Words) -> Vec<u8> {
        match words_of.constant() {
            Some(text) => text.to_vec(),
            None => self.evaluate_text(words_of).unwrap_or_default(),
        }
    }

    fn client_is_in(&mut self, domains: &Words) -> Decision {
        let domains = self.line(domains);
        match self.client_name() {
            Err(later) => later,
            Ok(Some(name))
                if domains
                    .iter()
                    .any(|domain| in_domain(domain, name.as_bytes())) =>
            {
                Decision::Granted
            }
            Ok(_) => Decision::Denied,
        }
    }

    fn client_is_one_of(&mut self, names: &Words) -> Decision {
        self.asked(Dependency::Client);
        let client = self.exchange.client.ip();
        for name in self.line(names) {
            match self.addresses_of(&String::from_utf8_lossy(&name)) {
                Err(later) => return later,
                Ok(addresses) if addresses.contains(&client) => return Decision::Granted,
                Ok(_) => {}
            }
        }
        Decision::Denied
    }

    fn check_alias(&mut self, name: &[u8]) -> Decision {
        let alias = self
            .local
            .authz
            .aliases
            .as_ref()
            .and_then(|all| all.get(name))
            .cloned();
        let Some(alias) = alias else {
            return Decision::Denied;
        };
        self.with_settings(&alias.local, |inquiry| alias.requirement.check(inquiry))
    }

    /// What depends on who it is.
    fn check_user(&mut self, requirement: &Requirement) -> Decision {
        self.asked(Dependency::User);
        let Some(user) = self.exchange.user.clone() else {
            return Decision::DeniedWithoutUser;
        };
        let granted = match requirement {
            Requirement::ValidUser => true,
            Requirement::User(words) => {
                self.line(words).iter().any(|word| *word == user.as_bytes())
            }
            Requirement::Group(words) => {
                let groups = self.line(words);
                self.is_in_group(&user, &groups)
            }
            Requirement::FileOwner => {
                self.owner_name(Path::new("/etc/passwd"), |metadata| metadata.uid())
                    == Some(user.as_bytes().into())
            }
            Requirement::FileGroup => {
                match self.owner_name(Path::new("/etc/group"), |metadata| metadata.gid()) {
                    Some(group) => self.is_in_group(&user, &[group]),
                    None => false,
                }
            }
            Requirement::DatabaseGroup(words) => {
                // Quotes mean nothing here (mod_authz_dbm as it behaves).
                let line = self.line_text(words);
                let groups: Vec<Vec<u8>> = line
                    .split(u8::is_ascii_whitespace)
                    .map(<[u8]>::to_vec)
                    .collect();
                return self
                    .check_database_groups(&user, &groups)
                    .unwrap_or(Decision::Error);
            }
            Requirement::DatabaseFileGroup => {
                let group = self.owner_name(Path::new("/etc/group"), |metadata| metadata.gid());
                return self
                    .check_database_groups(&user, group.as_slice())
                    .unwrap_or(Decision::Denied);
            }
            Requirement::SqlGroup(words) => {
                let line = self.line_text(words);
                return self.is_in_sql_group(&user, &line);
            }
            Requirement::SqlSession(action) => return self.note_session(&user, action),
            _ => false,
        };
        if granted {
            Decision::Granted
        } else {
            Decision::Denied
        }
    }

    /// mod_authz_dbm: groups are compared letter by letter. `None`: the database can't be read.
    fn check_database_groups(&mut self, user: &str, groups: &[Vec<u8>]) -> Option<Decision> {
        let database = self.local.authn.group_database.clone().unwrap_or_default();
        let Some(path) = &database.file else {
            self.log(format_args!(
                "No group file was specified in the configuration"
            ));
            return Some(Decision::Denied);
        };
        let records = match self
            .records
            .read_database(self.watcher, &database.kind, path)
        {
            Ok(records) => records,
            Err(error) => {
                self.log(format_args!(
                    "could not open dbm (type {}) group access file: {}: {error}",
                    database.kind,
                    path.display()
                ));
                return None;
            }
        };
        let realm = self
            .local
            .authn
            .name
            .clone()
            .map(|name| self.text(&name))
            .unwrap_or_default();
        let value = records
            .get(format!("{user}:{realm}").as_bytes())
            .or_else(|| records.get(user.as_bytes()));
        let of_user = value
            .and_then(|values| values.first())
            .map(|value| database_groups(value))
            .unwrap_or_default();
        let is_member = of_user.split(|byte| *byte == b',').any(|group| {
            groups
                .iter()
                .any(|wanted| !group.is_empty() && wanted == group)
        });
        Some(if is_member {
            Decision::Granted
        } else {
            Decision::Denied
        })
    }

    /// Names of groups are compared without regard to case, those of users are not.
    fn is_in_group(&mut self, user: &str, groups: &[Vec<u8>]) -> bool {
        let Some(path) = self.local.authn.group_file.clone() else {
            self.log(format_args!(
                "No group file was specified in the configuration"
            ));
            return false;
        };
        match self.records.read(self.watcher, &path) {
            Ok(records) => records
                .iter()
                .filter(|(name, _)| groups.iter().any(|group| group.eq_ignore_ascii_case(name)))
                .any(|(_, lines)| {
                    lines
                        .iter()
                        .any(|line| words(line).iter().any(|member| *member == user.as_bytes()))
                }),
            Err(error) => {
                self.log(format_args!(
                    "Could not open group file: {}: {error}",
                    path.display()
                ));
                false
            }
        }
    }

    /// The name that the system's file has for a number (in its third column) of the request's
    /// file.
    fn owner_name(
        &mut self,
        names: &Path,
        number: fn(&std::fs::Metadata) -> u32,
    ) -> Option<Vec<u8>> {
        use std::os::unix::ffi::OsStrExt;
        let metadata = std::fs::metadata(std::ffi::OsStr::from_bytes(&self.state.filename)).ok()?;
        let number = number(&metadata).to_string();
        let records = self.records.read(self.watcher, names).ok()?;
        let has_number =
            |line: &[u8]| line.split(|byte| *byte == b':').nth(1) == Some(number.as_bytes());
        let found = records
            .iter()
            .find(|(_, lines)| lines.iter().any(|line| has_number(line)));
        found.map(|(name, _)| name.to_vec())
    }
}

/// `group,group`, or `password:group,group[:anything]`, so that one file may serve for both.
fn database_groups(value: &[u8]) -> &[u8] {
    value
        .split(|byte| *byte == b':')
        .take(2)
        .last()
        .unwrap_or_default()
}

fn line(text: &[u8], reading: &Reading<'_>) -> Result<Words, String> {
    let compiled = StringExpression::compile(
        text,
        ExpressionOptions {
            no_vary: true,
            ..reading.expression_options()
        },
    );
    compiled
        .map(Arc::new)
        .map_err(|error| format!("Cannot parse expression in require line: {}", error.message))
}

fn boxed(text: &[u8]) -> Vec<Box<[u8]>> {
    words(text).into_iter().map(Into::into).collect()
}

/// As Apache counts methods.
pub fn method_number(name: &[u8]) -> Option<usize> {
    METHODS
        .iter()
        .position(|known| known.as_bytes() == as_numbered(name))
}

/// HEAD has the number of GET.
fn as_numbered(method: &[u8]) -> &[u8] {
    if method == b"HEAD" { b"GET" } else { method }
}

fn methods(text: &[u8]) -> Result<Vec<Box<[u8]>>, String> {
    let known = |word: Vec<u8>| match method_number(&word) {
        Some(_) => Ok(as_numbered(&word).into()),
        None => Err(format!(
            "Invalid Method '{}'",
            String::from_utf8_lossy(&word)
        )),
    };
    words(text).into_iter().map(known).collect()
}

fn networks(text: &[u8]) -> Result<Vec<Subnet>, String> {
    let parse = |word: Vec<u8>| {
        Subnet::parse(&word).map_err(|_| {
            format!(
                "ip address '{}' appears to be invalid",
                String::from_utf8_lossy(&word)
            )
        })
    };
    let all: Vec<Subnet> = words(text)
        .into_iter()
        .map(parse)
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        Err("'require ip' requires an argument".into())
    } else {
        Ok(all)
    }
}

/// Quotes around the whole are not part of it.
fn expression(text: &[u8], reading: &Reading<'_>) -> Result<Requirement, String> {
    let text = text
        .strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(text);
    let expression = Expression::compile(text, reading.expression_options())
        .map_err(|error| format!("Cannot parse expression in require line: {}", error.message))?;
    let wants_user = text
        .to_ascii_uppercase()
        .windows(11)
        .any(|part| part == b"REMOTE_USER");
    Ok(Requirement::Expression {
        expression: Arc::new(expression),
        wants_user,
    })
}

fn check_expression(
    inquiry: &mut Inquiry<'_>,
    expression: &Expression,
    wants_user: bool,
) -> Decision {
    match inquiry.evaluate(expression) {
        Ok(true) => Decision::Granted,
        Ok(false) if wants_user => Decision::DeniedWithoutUser,
        Ok(false) => Decision::Denied,
        Err(error) => {
            inquiry.log(format_args!(
                "error evaluating expression in 'Require expr': {}",
                error.message
            ));
            Decision::Error
        }
    }
}
