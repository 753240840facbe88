//! A host of Apache's: the server itself, or a `<VirtualHost>`, with everything from both laid
//! together.

use crate::{
    dbd::Dbd,
    dir_config::{DirConfig, Section},
    info::Info,
    magic::Magic,
    proxy::{
        pass::Pass,
        remote::{Express, Remote},
        section::ProxySection,
        workers::Workers,
    },
    reading::ProviderNames,
    server_tokens::Tokens,
};
use saker_ap_expr::{Expression, PatternOptions};
use saker_config::{
    model::{Origin, ProgramUser},
    modsecurity::Rules,
};
use saker_content_filters::ext_filter::ExternalFilter;
use saker_http::path::Slashes;
use saker_pipeline::{Via, script_log::ScriptLog};
use saker_rewrite::Settings as RewriteSettings;
use saker_telemetry::{
    error_log::{LogContext, ProcessContext, SiteLog},
    forensic_log::ForensicLog,
};
use std::{collections::HashMap, path::PathBuf, sync::Arc};

#[derive(Clone, Debug, Default)]
pub struct ProcessWide {
    pub tokens: Option<Tokens>,
    pub extended_status: bool,
    /// mod_unique_id is loaded.
    pub names_requests: bool,
    /// mod_suexec is loaded.
    pub has_suexec: bool,
    pub request_workers_max: Option<u64>,
    /// RegisterHttpMethod.
    pub methods: Vec<Box<str>>,
    /// Filters that are programs (ExtFilterDefine).
    pub external_filters: Vec<ExternalFilter>,
    /// Timeout of programs, among others.
    pub timeout_s: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Host {
    /// ServerName, without scheme and port.
    pub server_name: Option<Box<str>>,
    /// The port of ServerName.
    pub server_port: Option<u16>,
    /// AllowEncodedSlashes and MergeSlashes.
    pub slashes: Slashes,
    pub server_admin: Option<Box<str>>,
    pub document_root: PathBuf,
    /// In force outside of all sections.
    pub defaults: Arc<DirConfig>,
    /// `<Directory>` by depth, then those by pattern as they were written.
    pub directories: Vec<Arc<Section>>,
    /// `<Location>` as they were written.
    pub locations: Vec<Arc<Section>>,
    /// Shared by hosts that have the server's.
    pub access_file_names: Arc<[Box<str>]>,
    /// Settings that are the same for all hosts.
    pub process: Arc<ProcessWide>,
    /// Variables that logs tell.
    pub logged_variables: Vec<Box<str>>,
    /// Expressions that logs depend on, by their numbers.
    pub log_conditions: Vec<Arc<Expression>>,
    /// DBDriver.
    pub dbd: Option<Arc<Dbd>>,
    /// Rules in server context.
    pub rewrite: Option<Arc<RewriteSettings>>,
    /// Types of TypesConfig, by extension in lower case.
    pub types: Arc<HashMap<Box<str>, Box<str>>>,
    /// MimeMagicFile.
    pub magic: Option<Arc<Magic>>,
    pub trace_enabled: bool,
    /// StrictHostCheck: names that the host does not have are refused.
    pub known_names_only: bool,
    /// HttpProtocolOptions RegisteredMethods.
    pub registered_methods_only: bool,
    /// LimitInternalRecursion.
    pub redirects_max: Option<u8>,
    pub nesting_max: Option<u8>,
    pub proxy: Arc<HostProxy>,
    /// SSLStrictSNIVHostCheck.
    pub strict_names: bool,
    /// SSLVHostSNIPolicy strict: the handshake was for the host that the request is for.
    pub same_host_only: bool,
    /// SSLVerifyDepth.
    pub client_depth_max: u32,
    /// Its own error log; `None`: the server's.
    pub error_log: Option<Arc<SiteLog>>,
    pub forensic_log: Option<Arc<ForensicLog>>,
    /// ScriptLog.
    pub script_log: Option<Arc<ScriptLog>>,
    /// LogMessage is somewhere outside of folders.
    pub has_log_messages: bool,
    /// A site of saker.toml with `.htaccess` files: its own settings lie below theirs.
    pub is_native: bool,
    pub origin: Origin,
}

impl Host {
    /// The context of log lines about the host, and about no request.
    pub fn about(&self) -> &dyn LogContext {
        self.error_log.as_deref().map_or(&ProcessContext, |log| log)
    }
}

/// mod_proxy's part of a host.
#[derive(Clone, Debug)]
pub struct HostProxy {
    /// In the order in which they are asked.
    pub passes: Vec<Pass>,
    /// `<Proxy>` as they were written.
    pub sections: Vec<Arc<ProxySection>>,
    pub workers: Workers,
    pub via: Via,
    /// For requests that don't say themselves how often they may be passed on.
    pub forwards_max: Option<u64>,
    /// Words in the names of servers that nothing is passed on to.
    pub blocked: Vec<Box<str>>,
    /// ProxyRemote, and who is reached without.
    pub remotes: Vec<Remote>,
    pub direct: Vec<Box<str>>,
    /// ProxyExpressEnable.
    pub express: Option<Express>,
    /// ProxyRequests.
    pub forwards_requests: bool,
    /// AllowCONNECT.
    pub connect_ports: Arc<[(u16, u16)]>,
}

impl HostProxy {
    /// `head`: a URL up to its path.
    pub fn blocks(&self, head: &str) -> bool {
        !self.blocked.is_empty() && {
            let lower = head.to_ascii_lowercase();
            self.blocked
                .iter()
                .any(|word| **word == *"*" || lower.contains(&**word))
        }
    }
}

/// An Apache configuration, with everything that `.htaccess` files are read with.
#[derive(Debug)]
pub struct Apache {
    /// In the order of the model's sites.
    pub hosts: Vec<Arc<Host>>,
    /// Stands for the sites of saker.toml that have `.htaccess` files; there are no other hosts
    /// then.
    pub native: Option<Arc<Host>>,
    pub environment: saker_apache_syntax::Environment,
    /// Names of providers that `.htaccess` files may use.
    pub aliases: ProviderNames,
    /// Set if mod_info is loaded.
    pub info: Option<Info>,
    /// RegexDefaultOptions, for patterns that are read later.
    pub pattern_options: PatternOptions,
    /// ModSecurity's, made when it was read, so that mistakes are met then.
    pub rules: Vec<Arc<Rules>>,
}

impl Apache {
    /// Folders in which programs of hosts that run as another user may lie; suEXEC has one built
    /// in.
    pub fn script_folders(&self) -> impl Iterator<Item = (&ProgramUser, PathBuf)> {
        self.hosts
            .iter()
            .filter_map(|host| Some((host.defaults.cgi.user.as_ref()?, host)))
            .flat_map(|(user, host)| {
                let of_sections = host
                    .locations
                    .iter()
                    .flat_map(|section| section.local.alias.folders());
                let aliased = host.defaults.alias.folders().chain(of_sections);
                std::iter::once(host.document_root.clone())
                    .chain(host.defaults.vhost_alias.folders())
                    .chain(aliased)
                    .map(move |root| (user, root))
            })
    }

    /// Folders of users' homes whose programs run as those users.
    pub fn home_folders(&self) -> impl Iterator<Item = PathBuf> {
        self.hosts
            .iter()
            .filter(|host| host.process.has_suexec)
            .flat_map(|host| host.defaults.userdir.home_folders())
    }
}
