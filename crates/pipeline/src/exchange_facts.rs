//! Facts about an exchange for matchers, variables, and expressions, and the dependencies that
//! reading them leaves.
//!
//! Called by: the native rules and handlers that expand texts with variables.
//! Caveat: evaluation borrows the exchange, so dependencies are collected and noted afterwards
//! ([`Noted::note`]).
//! Out of scope: facts that only Apache configurations have (`saker-apache`).

use crate::{Exchange, request_conditions, template};
use saker_ap_expr::{
    Dependencies, Dependency, Facts, FileTest, LocalTime, RequestPart, Variable, Work,
};
use saker_config::model::SymlinkPolicy;
use saker_files::{ChangeToken, Kind, LinkPolicy, Metadata, Watcher, cached_stat};
use saker_http::Version;
use saker_matchers::{Captures, Evaluation, FileKind, Repeated, RequestFacts};
use saker_net::clock;
use saker_telemetry::local_time::{Civil, TimeZone};
use std::{borrow::Cow, cell::RefCell, net::IpAddr, path::Path};

/// An exchange as matchers and variables see it.
pub struct ExchangeFacts<'e> {
    exchange: &'e Exchange,
    /// `None`: no file is looked at.
    watcher: Option<&'e Watcher>,
    tokens: RefCell<Vec<ChangeToken>>,
}

/// Dependencies of an evaluation, to be noted in its exchange.
#[must_use]
pub struct Noted {
    dependencies: Dependencies,
    tokens: Vec<ChangeToken>,
    holds_until_s: Option<i64>,
}

impl<'e> ExchangeFacts<'e> {
    pub fn new(exchange: &'e Exchange, watcher: Option<&'e Watcher>) -> ExchangeFacts<'e> {
        ExchangeFacts {
            exchange,
            watcher,
            tokens: RefCell::default(),
        }
    }

    fn stat(&self, root: &Path, relative: &[u8], policy: LinkPolicy) -> Option<Metadata> {
        cached_stat(
            self.watcher?,
            root,
            relative,
            policy,
            &mut self.tokens.borrow_mut(),
        )
        .ok()
    }
}

impl Noted {
    /// Takes the dependencies of an evaluation over these facts.
    pub fn of(facts: &ExchangeFacts<'_>, evaluation: Evaluation<'_>) -> Noted {
        Noted {
            dependencies: evaluation.dependencies,
            holds_until_s: evaluation.holds_until_s,
            tokens: facts.tokens.take(),
        }
    }

    /// Notes them in the exchange.
    pub fn note(self, exchange: &mut Exchange) {
        exchange.cache.change_tokens.extend(self.tokens);
        if let Some(until_s) = self.holds_until_s {
            // The current second may be almost over.
            let left_s = until_s.saturating_sub(exchange.now).saturating_sub(1);
            let left_ms = u64::try_from(left_s).unwrap_or(0) * 1000;
            let token = ChangeToken::until(clock::turn_ms() + left_ms);
            exchange.cache.change_tokens.push(token);
        }
        exchange.depends_on_facts(&self.dependencies);
    }
}

impl Exchange {
    /// Records what an outcome depended on. The method counts for nothing where a test recorded it:
    /// only GET and HEAD are answered from cached routes.
    pub fn depends_on_facts(&mut self, dependencies: &Dependencies) {
        const KEPT: &[Dependency] = &[
            Dependency::Path,
            Dependency::Host,
            Dependency::Scheme,
            Dependency::Files,
            Dependency::Environment,
        ];
        self.depends_on_tests(dependencies.tests());
        if dependencies.has(Dependency::Scheme) {
            self.depends_on_secure();
        }
        if dependencies.has(Dependency::Environment) {
            self.depends_on_environment();
        }
        if !dependencies.is_within(KEPT) {
            self.depends_on_request();
        }
    }

    /// Returns the texts of the groups of the route's path pattern.
    pub fn captures(&self) -> Captures {
        if let Some(captures) = &self.routing.captures {
            return Captures::clone(captures);
        }
        let route = self
            .routing
            .route
            .and_then(|at| self.routing.site.routes.get(at));
        let texts = route
            .and_then(|route| route.pattern.captures(&self.path))
            .unwrap_or_default();
        Captures(texts.into_iter().map(<[u8]>::to_vec).collect())
    }
}

/// Returns the policy of the file system for a configured one.
pub fn link_policy(policy: SymlinkPolicy) -> LinkPolicy {
    match policy {
        SymlinkPolicy::Follow => LinkPolicy::Follow,
        SymlinkPolicy::OwnerMatch => LinkPolicy::OwnerMatch,
        SymlinkPolicy::Inside => LinkPolicy::Inside,
        SymlinkPolicy::Never => LinkPolicy::Never,
    }
}

/// Returns a time in the server's time zone.
pub fn local_time(unix_s: i64) -> LocalTime {
    let civil = Civil::at(unix_s, TimeZone::local().offset_s(unix_s));
    LocalTime {
        year: civil.year as i32,
        month: civil.month as u8,
        day: civil.day as u8,
        hour: civil.hour as u8,
        minute: civil.minute as u8,
        second: civil.second as u8,
        weekday: civil.weekday as u8,
    }
}

fn owned(text: impl ToString) -> Cow<'static, [u8]> {
    Cow::Owned(text.to_string().into_bytes())
}

impl Facts for ExchangeFacts<'_> {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        let (exchange, client) = (self.exchange, &self.exchange.client);
        let view = exchange.head.view();
        Some(match variable {
            Variable::ServerSoftware => Cow::Borrowed(b"Saker"),
            Variable::RequestMethod => Cow::Borrowed(view.method_token()),
            Variable::RequestScheme if client.secure => Cow::Borrowed(b"https"),
            Variable::RequestScheme => Cow::Borrowed(b"http"),
            Variable::Https if client.secure => Cow::Borrowed(b"on"),
            Variable::Https => Cow::Borrowed(b"off"),
            Variable::RequestUri | Variable::DocumentUri => Cow::Borrowed(&exchange.path),
            Variable::ServerName => Cow::Borrowed(&exchange.host),
            Variable::RemoteAddr | Variable::RemoteHost => Cow::Borrowed(client.text().as_bytes()),
            Variable::ConnRemoteAddr => owned(client.connection_address().ip()),
            Variable::RemotePort => owned(client.address.port()),
            Variable::ServerPort => owned(client.local.port()),
            Variable::ServerAddr => owned(client.local.ip().to_canonical()),
            Variable::ServerProtocol => Cow::Borrowed(view.version().as_str().as_bytes()),
            Variable::QueryString => Cow::Borrowed(exchange.query.as_deref().unwrap_or_default()),
            Variable::TheRequest => Cow::Owned(request_conditions::request_line(view)),
            Variable::RemoteUser => Cow::Borrowed(exchange.access.user.as_deref()?.as_bytes()),
            _ => return None,
        })
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let name = std::str::from_utf8(name).ok()?;
        request_conditions::joined(self.exchange.head.view(), name)
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.exchange.environment.first(name).map(Cow::Borrowed)
    }

    fn work(&self) -> Option<&Work> {
        Some(self.exchange.budget().work())
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(self.exchange.client.ip())
    }

    fn is_as_received(&self, part: &RequestPart) -> bool {
        let (head, client) = (&self.exchange.head, &self.exchange.client);
        if head.is_edited() {
            return false;
        }
        match part {
            RequestPart::Query => {
                let sent = request_conditions::query(head.view().target());
                self.exchange.query.as_deref() == sent
            }
            // A trusted proxy may name another client in each request of a connection, whose own
            // address cached routes are tested with.
            RequestPart::ClientAddress => client.address.ip() == client.peer.ip(),
            _ => true,
        }
    }

    fn local_time(&self) -> LocalTime {
        local_time(self.exchange.now)
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        let Some(relative) = path.strip_prefix(b"/") else {
            return false;
        };
        let Some(found) = self.stat(Path::new("/"), relative, LinkPolicy::Follow) else {
            return false;
        };
        match test {
            FileTest::Directory => found.kind == Kind::Directory,
            FileTest::Regular => found.kind == Kind::File,
            FileTest::NotEmpty => found.kind == Kind::File && found.size > 0,
            FileTest::Executable => found.mode & 0o111 != 0,
            FileTest::Exists => true,
            FileTest::Link => false,
        }
    }
}

impl RequestFacts for ExchangeFacts<'_> {
    fn one_request_field(&self, name: &[u8], repeated: Repeated) -> Option<Cow<'_, [u8]>> {
        let name = std::str::from_utf8(name).ok()?;
        let is_last = repeated == Repeated::Last;
        request_conditions::one_line(self.exchange.head.view(), name, is_last).map(Cow::Borrowed)
    }

    fn host(&self) -> &[u8] {
        &self.exchange.host
    }

    fn path(&self) -> &[u8] {
        &self.exchange.path
    }

    fn target(&self) -> &[u8] {
        self.exchange.head.view().target()
    }

    fn query(&self) -> Option<&[u8]> {
        self.exchange.query.as_deref()
    }

    fn is_secure(&self) -> bool {
        self.exchange.client.secure
    }

    fn request_id(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(template::request_id(self.exchange))
    }

    fn claim(&self, name: &str) -> Cow<'_, [u8]> {
        let claims = self.exchange.access.claims.as_ref();
        let text = claims.and_then(|claims| claims.text(name));
        Cow::Owned(text.unwrap_or_default().into_bytes())
    }

    fn forwarded_for(&self) -> Cow<'_, [u8]> {
        Cow::Owned(template::forwarded_for(self.exchange))
    }

    fn version(&self) -> Version {
        self.exchange.head.view().version()
    }

    fn now_s(&self) -> i64 {
        self.exchange.now
    }

    fn file_kind(&self, path: &[u8]) -> Option<FileKind> {
        let routing = &self.exchange.routing;
        // Below an `alias`, the rest of the path.
        let relative_to_route = || routing.settings.root.as_ref()?.relative(path);
        let (root, path) = match &routing.mapped {
            Some(mapped) => (&*mapped.root, relative_to_route().unwrap_or(path)),
            None => (routing.site.root.as_deref()?, path),
        };
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        let relative = relative.strip_suffix(b"/").unwrap_or(relative);
        let policy = link_policy(routing.settings.files.symlinks);
        let kind = self.stat(root, relative, policy)?.kind;
        Some(match kind {
            Kind::File => FileKind::Regular,
            Kind::Directory => FileKind::Directory,
            Kind::Other => FileKind::Other,
        })
    }
}
