//! The settings of the whole process while they are read.
//!
//! Called by: setters of the server's directives; `assemble`.

use crate::{
    connections::Connections, evasive::EvasiveDraft, listen::Listen, managed::Managed,
    server_tokens::Tokens,
};
use saker_apache_syntax::Node;
use saker_config::model::{NamedLog, Origin, PhpModule};
use saker_content_filters::ext_filter::ExternalFilter;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default)]
pub struct Process {
    pub evasive: EvasiveDraft,
    pub listens: Vec<Listen>,
    pub user: Option<String>,
    pub group: Option<String>,
    /// The places of those two directives.
    pub identity_origins: [Option<Origin>; 2],
    pub named_logs: Vec<NamedLog>,
    pub pid_file: Option<PathBuf>,
    pub php_ini: Option<PathBuf>,
    pub php_module: Option<PhpModule>,
    /// CacheRoot, the first one.
    pub cache_root: Option<PathBuf>,
    pub types_config: Option<(PathBuf, Origin)>,
    pub external_filters: Vec<ExternalFilter>,
    pub connections: Connections,
    pub managed: Managed,
    pub tokens: Option<Tokens>,
    /// ExtendedStatus; where it is not said, on with mod_status (httpd 2.4, core).
    pub extended_status: Option<bool>,
    pub names_requests: bool,
    pub has_suexec: bool,
    pub see_request_tail: Option<bool>,
    /// RegisterHttpMethod.
    pub methods: Vec<Box<str>>,
    /// Remarks about directives that are read otherwise than they were meant.
    pub remarks: Vec<(Origin, String)>,
    /// AddModuleInfo.
    pub module_remarks: Vec<(Box<str>, Box<str>)>,
    /// SSLVHostSNIPolicy strict.
    pub same_host_only: bool,
    pub ticket_keys: Vec<PathBuf>,
}

impl Process {
    pub fn name_log(&mut self, kind: &'static str, path: &Path, node: &Node) {
        self.named_logs.push(NamedLog {
            kind,
            path: path.to_owned(),
            origin: node.origin.clone(),
        });
    }
}
