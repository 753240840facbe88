//! The server, as seen by the console.
//!
//! Called by: actions and event streams; the process supervisor implements it.
//! Caveat: everything runs on the main thread; what takes long returns a future that waits for
//! another thread.

use crate::{ConsoleState, LiveChange, LiveChanges};
use saker_config::{
    completion::Completion,
    model::{Console, MemberTest},
};
use saker_control::{CertificateReport, Control, EndpointSocket};
use saker_live::{history::History, tail::Tail};
use saker_pipeline::LocalFuture;
use saker_tls::Acceptor;
use serde_json::Value;
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A request to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub method: String,
    /// Absolute, or a path.
    pub url: String,
    pub headers: Vec<(String, String)>,
}

/// A step of dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    pub phase: String,
    pub text: String,
    /// File and line of the rule, or empty.
    pub place: String,
}

/// A diagnostic about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `error`, `warning`, or `note`.
    pub severity: &'static str,
    pub file: String,
    /// 0: no place in a file.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// Characters from there on.
    pub length: u32,
    pub message: String,
    pub help: String,
}

/// Everything that `saker check` has to say about a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedConfiguration {
    pub findings: Vec<Finding>,
}

impl CheckedConfiguration {
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|one| one.severity == "error")
    }
}

/// Language of the configuration in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `saker.toml`, whose settings have forms.
    Native,
    /// Apache's or nginx's, or none: there are texts at most.
    Other,
}

/// A document to fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    pub url: String,
    /// Authorities besides those of the system.
    pub ca_file: Option<PathBuf>,
    pub fields: Vec<(&'static str, String)>,
    /// A form, for a POST.
    pub form: Option<String>,
}

/// A log file that can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    pub path: PathBuf,
    /// Error log, or access log of these sites.
    pub summary: String,
}

/// The server, as seen by the console.
pub trait Backend {
    /// Capabilities that it has in common with the control socket.
    fn control(&self) -> &dyn Control;

    fn state(&self) -> &ConsoleState;

    fn socket(&self) -> &EndpointSocket;

    /// `[console]` of the configuration in force.
    fn settings(&self) -> Console;

    fn state_dir(&self) -> PathBuf;

    /// The file with users and tokens.
    fn users_file(&self) -> PathBuf {
        let users = self.settings().users;
        users.unwrap_or_else(|| self.state_dir().join("console-users"))
    }

    /// The acceptor for TLS; `None`: the console is plain.
    fn acceptor(&self) -> Option<Acceptor>;

    fn tail(&self) -> &Arc<Tail>;

    /// Tells the workers whether requests are watched, if that has changed.
    fn tell_watched(&self);

    fn history(&self) -> &RefCell<History>;

    /// All certificates, those in files too.
    fn certificates(&self) -> Vec<CertificateReport>;

    /// Changes the running server without a reload; later reloads and restarts keep that. Returns
    /// the number of members or redirects.
    fn change_live(&self, change: &LiveChange) -> Result<usize, String>;

    /// Connects to a member of an upstream, and sends it one request.
    fn test_member<'t>(
        &'t self,
        upstream: &'t str,
        address: &'t str,
    ) -> LocalFuture<'t, Result<MemberTest, String>>;

    /// The changes of the running server so far.
    fn live_changes(&self) -> LiveChanges;

    /// The most frequent URLs, clients, and so on; counting goes on for a few seconds after each
    /// call.
    fn tops(&self) -> Value;

    /// Renews the automatic certificate of a name.
    fn renew_certificate(&self, name: &str) -> Result<(), String>;

    /// Names of the PHP pools.
    fn php_pools(&self) -> Vec<String>;

    /// Starts new programs of a PHP pool in place of those that run.
    fn restart_php(&self, pool: &str) -> Result<(), String>;

    /// Counts a log-in.
    fn count_log_in(&self, is_ok: bool);

    /// Dispatches a request that is never sent.
    fn explain(&self, question: Question) -> LocalFuture<'_, Result<Vec<TraceLine>, String>>;

    /// Fetches a document from another server: its status and content.
    fn fetch(&self, fetch: Fetch) -> LocalFuture<'_, Result<(u16, Vec<u8>), String>>;

    fn language(&self) -> Language;

    /// Files that the server writes its logs to.
    fn log_files(&self) -> Vec<LogFile>;

    /// Files of the configuration in force, which can be edited.
    fn configuration_files(&self) -> Vec<PathBuf>;

    /// Completes the text of a file of the configuration, up to the cursor.
    fn complete(&self, file: &Path, before: &str) -> Completion;

    /// Checks the configuration with another text for one of its files.
    fn check(
        &self,
        changed: Option<(&Path, &str)>,
    ) -> LocalFuture<'_, Result<CheckedConfiguration, String>>;
}
