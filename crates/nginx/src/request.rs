//! A request with its state, and the dependencies that evaluation leaves.
//!
//! Called by: the phases, which open one for each step, and everything that evaluates texts.
//! Caveat: what a value depends on is recorded as it is read, and noted in the exchange when the
//! step ends.

use crate::state::State;
use saker_ap_expr::{
    Dependencies, Dependency, Pattern, Predicate, RequestPart, RequestTest, SPANS, Spans, Subnet,
};
use saker_files::{LinkPolicy, Metadata, ResolveError, Watcher, cached_stat};
use saker_nginx_model::{Nginx, location::RegexMatcher, server::NameMatcher, values::Regex};
use saker_pipeline::{Exchange, link_policy};
use std::path::Path;

/// A request in a step of a phase.
pub struct Request<'e> {
    pub exchange: &'e mut Exchange,
    pub state: Box<State>,
    pub nginx: &'e Nginx,
    pub watcher: &'e Watcher,
    dependencies: Dependencies,
    depends_on_query: bool,
    depends_on_request: bool,
}

impl<'e> Request<'e> {
    /// Runs a step. Does nothing for a request without a state.
    pub fn run<R>(
        exchange: &'e mut Exchange,
        nginx: &'e Nginx,
        watcher: &'e Watcher,
        step: impl FnOnce(&mut Request<'_>) -> R,
    ) -> Option<R> {
        let state = exchange.extensions.remove_boxed::<State>()?;
        let mut request = Request {
            exchange,
            state,
            nginx,
            watcher,
            dependencies: Dependencies::new(),
            depends_on_query: false,
            depends_on_request: false,
        };
        let result = step(&mut request);
        request.close();
        Some(result)
    }

    fn close(self) {
        let exchange = self.exchange;
        exchange.extensions.insert_boxed(self.state);
        if self.depends_on_request && exchange.log.trace.is_none() {
            return exchange.depends_on_request();
        }
        exchange.depends_on_facts(&self.dependencies);
        if self.depends_on_query {
            exchange.depends_on_query();
        }
        if self.depends_on_request {
            exchange.depends_on_request();
        }
    }

    /// Returns true if further tests make no difference, and are not shown.
    pub fn is_settled(&self) -> bool {
        self.depends_on_request && self.exchange.log.trace.is_none()
    }

    /// Records that the outcome depends on more than tests can say.
    pub fn depends_on_request(&mut self) {
        self.depends_on_request = true;
    }

    pub fn depends_on_query(&mut self) {
        self.depends_on_query = true;
    }

    pub fn depends_on(&mut self, dependency: Dependency) {
        self.dependencies.add(dependency);
    }

    /// Records the value of a part of the request.
    pub fn depends_on_value(&mut self, part: RequestPart, value: Option<&[u8]>) {
        if self.is_settled() {
            return;
        }
        match self.exchange.head.is_edited() {
            true => self.depends_on_request = true,
            false => self.dependencies.add_value(part, value),
        }
    }

    /// Records a field of the request.
    pub fn depends_on_field(&mut self, name: &str, value: Option<&[u8]>) {
        if self.is_settled() {
            return;
        }
        // The host is part of what outcomes are kept by.
        if let Some(part) = RequestPart::of_field(name.as_bytes()) {
            self.depends_on_value(part, value);
        }
    }

    /// Records whether a pattern matched a field, instead of the field's value.
    pub fn depends_on_match(
        &mut self,
        name: &str,
        pattern: &Pattern,
        subject: &[u8],
        spans: Option<&Spans>,
    ) {
        let Some(part) = RequestPart::of_field(name.as_bytes()) else {
            return;
        };
        // A test does not compare the groups that spans have no room for.
        let has_more_groups = spans.is_some() && pattern.groups() >= SPANS;
        if self.exchange.head.is_edited() || has_more_groups {
            return self.depends_on_request();
        }
        let (predicate, result) = Predicate::of_match(pattern, subject, spans);
        self.dependencies.add_test(RequestTest {
            part,
            predicate,
            result,
        });
    }

    /// Returns true if the network contains the client, and records the test.
    pub fn is_client_within(&mut self, network: &Subnet) -> bool {
        let client = &self.exchange.client;
        let result = network.contains(client.ip());
        if self.is_settled() {
            return result;
        }
        match client.address.ip() == client.peer.ip() {
            // A trusted proxy names another client in each request.
            false => self.depends_on_request = true,
            true => self.dependencies.add_test(RequestTest {
                part: RequestPart::ClientAddress,
                predicate: Predicate::Within(*network),
                result,
            }),
        }
        result
    }

    /// Matches a regular expression; its groups and named variables are kept.
    pub fn regex(&mut self, regex: &Regex, subject: &[u8]) -> bool {
        let Some(spans) = self.spans(regex, subject) else {
            return false;
        };
        self.keep_captures(regex, subject, spans);
        true
    }

    /// Matches a regular expression of a script. Without a match there are no groups, as in nginx:
    /// those of an earlier match must not stand for what was not found. Values of named groups stay.
    pub fn script_spans(&mut self, regex: &Regex, subject: &[u8]) -> Option<Spans> {
        let spans = self.spans(regex, subject);
        if spans.is_none() {
            self.state.captures = None;
        }
        spans
    }

    /// Matches a regular expression.
    pub fn spans(&mut self, regex: &Regex, subject: &[u8]) -> Option<Spans> {
        match regex.pattern.captures(subject) {
            Ok(spans) => spans,
            Err(_) => {
                // A pattern that takes too long decides nothing: the request is refused.
                self.state.has_failed = true;
                self.depends_on_request();
                None
            }
        }
    }

    pub fn keep_captures(&mut self, regex: &Regex, subject: &[u8], spans: Spans) {
        for (group, number) in &regex.names {
            let text = regex.pattern.group_text(*group, subject, &spans);
            if text.is_err() {
                self.state.has_failed = true;
                self.depends_on_request();
            }
            let text = text.ok().flatten().unwrap_or_default();
            self.set_value(*number, text);
        }
        self.state.captures = Some((subject.into(), spans));
    }

    /// Sets a variable of the configuration.
    pub fn set_value(&mut self, number: usize, value: &[u8]) {
        if self.state.values.len() <= number {
            self.state
                .values
                .resize(self.nginx.variables.len().max(number + 1), None);
        }
        if let Some(slot) = self.state.values.get_mut(number) {
            *slot = Some(value.into());
        }
    }

    /// Returns the metadata of a file below a root, under the location's policy for links.
    ///
    /// # Errors
    /// Why there is none.
    pub fn stat(&mut self, root: &Path, relative: &[u8]) -> Result<Metadata, ResolveError> {
        let policy = link_policy(self.state.location.settings.files.symlinks);
        self.stat_with(root, relative, policy)
    }

    fn stat_with(
        &mut self,
        root: &Path,
        relative: &[u8],
        policy: LinkPolicy,
    ) -> Result<Metadata, ResolveError> {
        let relative = relative.strip_suffix(b"/").unwrap_or(relative);
        let tokens = &mut self.exchange.cache.change_tokens;
        cached_stat(self.watcher, root, relative, policy, tokens)
    }

    /// Returns the metadata of a file by its whole path.
    ///
    /// # Errors
    /// Why there is none.
    pub fn stat_path(&mut self, path: &[u8]) -> Result<Metadata, ResolveError> {
        let relative = path.strip_prefix(b"/").ok_or(ResolveError::NotFound)?;
        self.stat_with(Path::new("/"), relative, LinkPolicy::Follow)
    }
}

/// Matches locations against the path.
pub struct PathMatcher<'r, 'e>(pub &'r mut Request<'e>);

impl RegexMatcher for PathMatcher<'_, '_> {
    fn matches(&mut self, regex: &Regex) -> bool {
        let path = std::mem::take(&mut self.0.exchange.path);
        let is_match = self.0.regex(regex, &path);
        self.0.exchange.path = path;
        is_match
    }
}

/// Matches names of servers; groups are kept for later.
#[derive(Default)]
pub struct HostMatcher {
    pub matched: Option<(Regex, Box<[u8]>, Spans)>,
    /// A pattern was given up: it is not known whose request it is, and it is refused.
    pub has_failed: bool,
}

impl NameMatcher for HostMatcher {
    fn matches(&mut self, regex: &Regex, name: &str) -> bool {
        match regex.pattern.captures(name.as_bytes()) {
            Ok(Some(spans)) => {
                self.matched = Some((regex.clone(), name.as_bytes().into(), spans));
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.has_failed = true;
                false
            }
        }
    }
}
