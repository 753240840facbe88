//! Log-in with a user name and a password (`auth`): Basic and Digest authentication.
//!
//! Called by: the phase `access`.
//! Caveat: a decision that needs a password hash waits for another thread, and is made again then.
//! Whatever was decided depends on the request's credentials, so its outcome is never cached.
//! Out of scope: schemes, password files, and the order of decisions (`saker_auth`).

use crate::{
    ambiguous_credentials::is_ambiguous,
    auth_database::{Asked, Databases},
    identity::Identities,
    trusted_fields::replace_fields,
};
use saker_ap_expr::{Dependency, EvaluationError, Expression, StringExpression, Subnet};
use saker_auth::{
    Access, AuthContext, AuthRequest, AuthSettings, Directories, DirectoryAnswer, DirectoryUser,
    Methods, QueryOutcome, RecordFiles, decide,
    settings::{DigestSettings, Group, LdapSettings, Logic, Provider, Require, Requirement, Rule},
};
use saker_config::model::{AuthRules, AuthScheme, LdapRules, LdapScope, Origin};
use saker_files::Watcher;
use saker_http::Status;
use saker_ipset::ClientNetwork;
use saker_net::{Network, blocking::Answer};
use saker_pipeline::{Exchange, Fetcher, Response, Step, UserClaims, Verdict};
use saker_telemetry::{error_log, httpd_message::HttpdMessage, message};
use std::{cell::RefCell, collections::HashMap, fmt, path::Path, rc::Rc, sync::Arc};

/// Rules that a worker keeps in the form that decisions need; rare enough to begin anew.
const KEPT_MAX: usize = 10_000;

/// Rules as written, which keep their address, and in the form that decisions need.
type Kept = (Arc<AuthRules>, Rc<AuthSettings>);

/// Decisions of one worker.
pub struct Auth {
    watcher: Watcher,
    /// Files of users and groups.
    files: RefCell<RecordFiles>,
    /// By the address of the rules.
    settings: RefCell<HashMap<usize, Kept>>,
    databases: Databases,
    directories: Directories,
    identities: Identities,
}

impl Auth {
    pub fn new(fetcher: Option<Rc<dyn Fetcher>>, state_dir: &Path, watcher: Watcher) -> Auth {
        Auth {
            watcher,
            files: RefCell::default(),
            settings: RefCell::default(),
            databases: Databases::default(),
            directories: Directories::default(),
            identities: Identities::new(fetcher, state_dir),
        }
    }

    /// Decides whether the request may pass. An error document of the configuration is shown whatever
    /// its route demands.
    pub fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let Some(rules) = in_force(exchange) else {
            return Step::PASS;
        };
        if rules.jwt.is_some() || rules.oidc.is_some() {
            return self.identities.access(exchange, rules);
        }
        exchange.depends_on_request();
        if is_ambiguous(exchange) {
            exchange.trace("access", None, || {
                "`Authorization` stands there twice".into()
            });
            return Verdict::Answer(Response::new(Status::BAD_REQUEST)).into();
        }
        let settings = self.settings(&rules);
        let pause = match self.decide(exchange, &rules, &settings) {
            Access::Wait(Some(pause)) => pause,
            decided => return verdict(exchange, &rules, decided).into(),
        };
        Step::Pending(Box::pin(async move {
            let mut pause = pause;
            loop {
                pause.await;
                match self.decide(exchange, &rules, &settings) {
                    Access::Wait(Some(next)) => pause = next,
                    decided => return verdict(exchange, &rules, decided),
                }
            }
        }))
    }

    fn decide(
        &self,
        exchange: &mut Exchange,
        rules: &AuthRules,
        settings: &AuthSettings,
    ) -> Access {
        // A name that was sent stays with the request while its password is checked: a decision that
        // is made again must not take it for a user who has logged in.
        (exchange.access.user, exchange.access.claims) = (None, None);
        let mut files = self.files.borrow_mut();
        let mut request = NativeRequest {
            exchange,
            rules,
            databases: &self.databases,
            directories: &self.directories,
        };
        let mut context = AuthContext::new(&mut request, settings, &mut files, &self.watcher);
        decide(&mut context, true)
    }

    fn settings(&self, rules: &Arc<AuthRules>) -> Rc<AuthSettings> {
        let key = Arc::as_ptr(rules) as usize;
        let mut all = self.settings.borrow_mut();
        if let Some((_, known)) = all.get(&key) {
            return Rc::clone(known);
        }
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        let made = Rc::new(settings(rules));
        all.insert(key, (Arc::clone(rules), Rc::clone(&made)));
        made
    }
}

/// The rules that a request is under.
pub fn in_force(exchange: &Exchange) -> Option<Arc<AuthRules>> {
    let rules = exchange.routing.settings.auth.as_ref()?;
    (rules.is_on && !exchange.is_page_for_all()).then(|| Arc::clone(rules))
}

fn verdict(exchange: &mut Exchange, rules: &AuthRules, access: Access) -> Verdict {
    let (status, challenge) = match access {
        Access::Granted { .. } => {
            tell(exchange, rules);
            return Verdict::Pass;
        }
        Access::Refused { status, challenge } => (status, challenge),
        // No site of saker.toml has forms.
        Access::Redirected(_) => (Status::FORBIDDEN, None),
        // Too many wait for the same.
        Access::Wait(_) => (Status::SERVICE_UNAVAILABLE, None),
    };
    exchange.trace("access", None, || format!("`auth` answers {}", status.0));
    let mut response = Response::new(status);
    if let Some(challenge) = challenge {
        response
            .fields_mut()
            .set("WWW-Authenticate", challenge.into_bytes());
    }
    Verdict::Answer(response)
}

/// Sets the fields and variables that programs get about the user.
fn tell(exchange: &mut Exchange, rules: &AuthRules) {
    let user = exchange.extensions.remove::<LoggedIn>();
    let own = match user.filter(|_| exchange.access.user.is_some()) {
        Some(LoggedIn(user)) => {
            for (name, attribute) in &rules.variables {
                if let Some(value) = user.text(attribute) {
                    exchange.environment.set(name.as_bytes(), value.as_bytes());
                }
            }
            let fields = rules.fields.iter();
            let own = fields
                .filter_map(|(name, attribute)| {
                    Some((name.clone(), user.text(attribute)?.into_bytes()))
                })
                .collect();
            exchange.access.claims = Some(Rc::new(LoggedIn(user)));
            own
        }
        None => Vec::new(),
    };
    let names: Vec<Box<str>> = rules.fields.iter().map(|(name, _)| name.clone()).collect();
    replace_fields(exchange, &names, &own);
    exchange.access.has_identity_fields = true;
}

/// The rules in the form that decisions need.
fn settings(rules: &AuthRules) -> AuthSettings {
    let literal = |text: &str| Arc::new(StringExpression::literal(text));
    let mut settings = AuthSettings::default();
    let own = &mut settings.authentication;
    own.scheme = Some(literal(match rules.scheme {
        AuthScheme::Basic => "Basic",
        AuthScheme::Digest => "Digest",
    }));
    own.name = Some(literal(&rules.realm));
    let of_file = rules.user_file.is_some().then_some(Provider::File);
    let of_database = rules.database.is_some().then_some(Provider::Sql);
    let of_directory = rules.ldap.is_some().then_some(Provider::Ldap);
    let providers = of_file.into_iter().chain(of_database).chain(of_directory);
    let providers: Vec<Provider> = providers.collect();
    own.providers = Some(providers.clone());
    own.digest = Some(Arc::new(DigestSettings {
        providers,
        ..DigestSettings::default()
    }));
    own.user_file.clone_from(&rules.user_file);
    own.group_file.clone_from(&rules.group_file);
    if rules.database.is_some() {
        let shared = |query: &Option<String>| query.as_deref().map(Arc::from);
        let sql = settings.sql_mut();
        (sql.user, sql.realm) = (shared(&rules.query), shared(&rules.query));
        sql.groups = shared(&rules.group_query);
    }
    if let Some(ldap) = &rules.ldap {
        settings.ldap = Some(Arc::new(directory(rules, ldap)));
    }
    let mut whole = Group::new(match rules.satisfies_any {
        true => Logic::Any,
        false => Logic::All,
    });
    if !rules.networks.is_empty() {
        let networks = rules.networks.iter().filter_map(subnet).collect();
        whole
            .members
            .push(rule(rules, "networks", Requirement::Ip(networks)));
    }
    whole.members.push(Arc::new(Rule::Group(users(rules))));
    settings.authorization.group = Some(Arc::new(whole));
    settings
}

fn directory(rules: &AuthRules, ldap: &LdapRules) -> LdapSettings {
    let mut words = Vec::new();
    if ldap.start_tls {
        words.push("starttls=yes".to_owned());
    }
    if let Some(path) = &ldap.ca_file {
        let bytes = path.as_os_str().as_encoded_bytes();
        let escaped: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        words.push(format!("ssl-ca={escaped}"));
    }
    let mark = if words.is_empty() { "" } else { "?" };
    let by_name = || format!("({}=?)", ldap.user_attribute);
    let group_base = ldap.group_base.as_ref().unwrap_or(&ldap.base);
    let sources = rules.fields.iter().chain(&rules.variables);
    LdapSettings {
        url: format!("{}{mark}{}", ldap.url, words.join("&")),
        bind_dn: ldap.bind_dn.clone().unwrap_or_default(),
        bind_password: ldap.password.0.to_string(),
        base: ldap.base.clone(),
        one_level: ldap.scope == LdapScope::One,
        filter: ldap.filter.clone().unwrap_or_else(by_name),
        name_attribute: ldap.user_attribute.clone(),
        user_attribute: Some(ldap.user_attribute.clone()),
        user_is_dn: false,
        member_attributes: Vec::new(),
        members_are_names: false,
        attributes: sources.map(|(_, source)| source.to_string()).collect(),
        group_attribute: ldap.group_attribute.clone(),
        groups: ldap
            .group_filter
            .clone()
            .map(|filter| (filter, group_base.clone())),
        timeout_ms: ldap.timeout_ms,
        connections: ldap.connections,
        cache_ms: ldap.cache_ms,
    }
}

/// Any of the users and groups; any user of the file where none are named.
fn users(rules: &AuthRules) -> Group {
    let line = |names: &[String]| Arc::new(StringExpression::literal(names.join(" ")));
    let mut group = Group::new(Logic::Any);
    if !rules.users.is_empty() {
        let users = Requirement::User(line(&rules.users));
        group.members.push(rule(rules, "users", users));
    }
    if !rules.groups.is_empty() && rules.group_file.is_some() {
        let groups = Requirement::Group(line(&rules.groups));
        group.members.push(rule(rules, "groups", groups));
    }
    if !rules.groups.is_empty() && rules.group_query.is_some() {
        let groups = Requirement::SqlGroup(line(&rules.groups));
        group.members.push(rule(rules, "groups", groups));
    }
    if let Some(ldap) = rules.ldap.as_ref().filter(|_| !rules.groups.is_empty())
        && (ldap.group_attribute.is_some() || ldap.group_filter.is_some())
    {
        let names = rules
            .groups
            .iter()
            .map(|name| name.as_str().into())
            .collect();
        let groups = Requirement::LdapMember(names);
        group.members.push(rule(rules, "groups", groups));
    }
    // `check` has refused groups without a file or a query.
    if rules.users.is_empty() && rules.groups.is_empty() {
        group
            .members
            .push(rule(rules, "valid-user", Requirement::ValidUser));
    }
    group
}

fn rule(rules: &AuthRules, text: &str, requirement: Requirement) -> Arc<Rule> {
    Arc::new(Rule::Require(Require {
        negated: false,
        methods: Methods::All,
        requirement,
        text: text.into(),
        origin: rules.origin.clone(),
    }))
}

/// Every network of a configuration is one of these.
fn subnet(network: &Network) -> Option<Subnet> {
    Subnet::parse_block(&network.to_string())
}

/// A request of a native site, as `saker_auth` asks about it.
struct NativeRequest<'e> {
    exchange: &'e mut Exchange,
    rules: &'e AuthRules,
    databases: &'e Databases,
    directories: &'e Directories,
}

/// The entry of the user who has logged in.
struct LoggedIn(Rc<DirectoryUser>);

impl UserClaims for LoggedIn {
    fn text(&self, name: &str) -> Option<String> {
        self.0.text(name)
    }
}

impl AuthRequest for NativeRequest<'_> {
    fn exchange(&self) -> &Exchange {
        self.exchange
    }

    fn exchange_mut(&mut self) -> &mut Exchange {
        self.exchange
    }

    /// The field is optional (RFC 7616 section 3.5) and not sent: clients of native sites take the
    /// next nonce from the next challenge.
    fn set_authentication_info(&mut self, _: String) {}

    /// The outcome is not cached at all.
    fn depends_on(&mut self, _: Dependency) {}

    fn depends_on_network(&mut self, _: &Subnet, _: bool) {}

    fn evaluate(&mut self, _: &Expression) -> Result<bool, EvaluationError> {
        Err(no_expressions())
    }

    fn evaluate_text(&mut self, _: &StringExpression) -> Result<Vec<u8>, EvaluationError> {
        Err(no_expressions())
    }

    /// Rules of saker.toml change nothing in a database.
    fn query(
        &mut self,
        query: &str,
        values: &[&str],
        _is_change: bool,
    ) -> Option<Answer<QueryOutcome>> {
        let url = self.rules.database.as_ref()?;
        let client = ClientNetwork::of(self.exchange.client.ip());
        let asked = self.exchange.extensions.get_or_default::<Asked>();
        Some(self.databases.ask((asked, client), url, query, values))
    }

    fn directory(
        &mut self,
        settings: &Arc<LdapSettings>,
        user: &str,
        password: &str,
    ) -> Option<Answer<DirectoryAnswer>> {
        let client = ClientNetwork::of(self.exchange.client.ip());
        let asked = self.exchange.extensions.get_or_default();
        Some(
            self.directories
                .log_in((asked, client), settings, user, password),
        )
    }

    fn set_directory_user(&mut self, user: &Rc<DirectoryUser>) {
        self.exchange.extensions.insert(LoggedIn(Rc::clone(user)));
    }

    fn log(&self, facts: fmt::Arguments<'_>) {
        error_log::log_about(&message::ACCESS_REFUSED, self.exchange, facts);
    }

    fn log_httpd(&self, message: &'static HttpdMessage, text: fmt::Arguments<'_>) {
        error_log::log_httpd(message, None, self.exchange, text);
    }

    fn trace(&mut self, _: Option<&Origin>, text: &dyn Fn() -> String) {
        let origin = self.rules.origin.clone();
        self.exchange.trace("access", Some(&origin), text);
    }
}

/// The rules of saker.toml have no expressions, so none is ever evaluated.
fn no_expressions() -> EvaluationError {
    EvaluationError {
        message: "log-in rules have no expressions".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(group: &Group) -> String {
        let members = group.members.iter().map(|rule| match &**rule {
            Rule::Group(group) => shown(group),
            Rule::Require(require) => require.text.to_string(),
        });
        format!(
            "{:?}({})",
            group.logic,
            members.collect::<Vec<_>>().join(" ")
        )
    }

    #[test]
    fn keys_become_rules() {
        let made = |rules: &AuthRules| {
            let settings = settings(rules);
            shown(settings.authorization.group.as_ref().expect("rules"))
        };
        let mut rules = AuthRules::default();
        assert_eq!(made(&rules), "All(Any(valid-user))");
        rules.users = vec!["ann".into()];
        rules.groups = vec!["staff".into()];
        assert_eq!(made(&rules), "All(Any(users))", "no file and no query");
        rules.group_file = Some("groups".into());
        assert_eq!(made(&rules), "All(Any(users groups))");
        rules.networks = vec!["192.0.2.0/24".parse().expect("a network")];
        assert_eq!(made(&rules), "All(networks Any(users groups))");
        rules.satisfies_any = true;
        assert_eq!(made(&rules), "Any(networks Any(users groups))");
        let realm = AuthRules {
            realm: "100%{REMOTE_USER}".into(),
            ..AuthRules::default()
        };
        let name = settings(&realm).authentication.name.expect("a realm");
        assert_eq!(name.constant(), Some(&b"100%{REMOTE_USER}"[..]));
    }
}
