//! Directives of the server and its virtual hosts that no section may have: names, roots, logs, the
//! process. Those of TLS are in `tls`.

use crate::{
    connections::{self, HostConnections},
    dbd::{self, DbdDraft},
    error_logs::ErrorLogDraft,
    evasive,
    host::Tokens,
    limits::{self, LimitsDraft},
    local::Local,
    logs::{HostLogs, ScriptLogDraft},
    managed,
    modules::core::texts,
    modules::ext_filter::parse_definition,
    process::{Listen, Process},
    proxy::draft::{self, ProxyDraft},
    sections::Section,
    tls::{self, TlsDraft},
    upstream_tls::{self, UpstreamTlsDraft},
};
use saker_ap_expr::PatternOptions;
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use saker_http::path::EncodedSlashes;
use saker_pipeline::budget::NESTING_CEILING;
use saker_telemetry::error_log::ErrorLogTarget;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A host while it is read. `None`: not said.
#[derive(Clone, Debug)]
pub struct HostDraft {
    /// Of `<VirtualHost>`, as written; of the server none.
    pub addresses: Vec<String>,
    pub server_name: Option<Box<str>>,
    pub server_port: Option<u16>,
    pub server_admin: Option<Box<str>>,
    pub aliases: Vec<Box<str>>,
    /// ServerPath, without a slash at its end.
    pub server_path: Option<Box<str>>,
    pub document_root: Option<PathBuf>,
    pub access_file_names: Option<Vec<Box<str>>>,
    pub trace_enabled: Option<bool>,
    pub known_names_only: Option<bool>,
    pub registered_methods_only: Option<bool>,
    pub redirects_max: Option<u8>,
    /// Requests inside of each other.
    pub nesting_max: Option<u8>,
    pub encoded_slashes: Option<EncodedSlashes>,
    pub merge_slashes: Option<bool>,
    /// MimeMagicFile.
    pub magic_file: Option<PathBuf>,
    /// `None` as long as nothing was said outside of sections: most hosts among thousands are like
    /// that, and share the server's.
    pub local: Option<Box<Local>>,
    pub directories: Vec<Arc<Section>>,
    pub locations: Vec<Arc<Section>>,
    pub logs: HostLogs,
    pub error_log: ErrorLogDraft,
    pub script_log: ScriptLogDraft,
    pub tls: TlsDraft,
    pub upstream_tls: UpstreamTlsDraft,
    pub connections: HostConnections,
    pub limits: LimitsDraft,
    pub proxy: ProxyDraft,
    pub dbd: DbdDraft,
    pub origin: Origin,
}

impl HostDraft {
    pub fn main(server_root: &Path) -> HostDraft {
        let origin = Origin {
            file: "the server".into(),
            line: 0,
            column: 0,
        };
        HostDraft {
            document_root: Some(server_root.join("htdocs")),
            ..HostDraft::new(Vec::new(), origin)
        }
    }

    pub fn virtual_host(node: &Node) -> HostDraft {
        HostDraft::new(texts(node), node.origin.clone())
    }

    fn new(addresses: Vec<String>, origin: Origin) -> HostDraft {
        HostDraft {
            addresses,
            server_name: None,
            server_port: None,
            server_admin: None,
            aliases: Vec::new(),
            server_path: None,
            document_root: None,
            access_file_names: None,
            trace_enabled: None,
            known_names_only: None,
            registered_methods_only: None,
            redirects_max: None,
            nesting_max: None,
            encoded_slashes: None,
            merge_slashes: None,
            magic_file: None,
            local: None,
            directories: Vec::new(),
            locations: Vec::new(),
            logs: HostLogs::default(),
            error_log: ErrorLogDraft::default(),
            script_log: ScriptLogDraft::default(),
            tls: TlsDraft::default(),
            upstream_tls: UpstreamTlsDraft::default(),
            connections: HostConnections::default(),
            limits: LimitsDraft::default(),
            proxy: ProxyDraft::default(),
            dbd: DbdDraft::default(),
            origin,
        }
    }
}

/// Puts one directive into its host, or the process.
pub type ServerSet = fn(&Node, &mut HostDraft, &mut Process, &Path) -> Result<(), String>;

const SETTERS: &[(&str, ServerSet)] = &[
    ("ServerName", set_server_name),
    ("ServerAlias", |node, host, _, _| {
        host.aliases.extend(texts(node).into_iter().map(Into::into));
        Ok(())
    }),
    ("ServerAdmin", |node, host, _, _| {
        host.server_admin = first(node).map(Into::into);
        Ok(())
    }),
    ("DocumentRoot", |node, host, _, root| {
        host.document_root = first(node).map(|path| crate::load::absolute(&root.join(path)));
        Ok(())
    }),
    ("AccessFileName", |node, host, _, _| {
        host.access_file_names = Some(texts(node).into_iter().map(Into::into).collect());
        Ok(())
    }),
    ("TraceEnable", |node, host, _, _| {
        host.trace_enabled = first(node).map(|word| !word.eq_ignore_ascii_case("off"));
        Ok(())
    }),
    ("AllowEncodedSlashes", |node, host, _, _| {
        host.encoded_slashes = Some(
            match first(node)
                .unwrap_or_default()
                .to_ascii_lowercase()
                .as_str()
            {
                "on" => EncodedSlashes::Decode,
                "off" => EncodedSlashes::Refuse,
                "nodecode" => EncodedSlashes::Keep,
                _ => return Err("AllowEncodedSlashes must be On, Off, or NoDecode".into()),
            },
        );
        Ok(())
    }),
    ("MergeSlashes", |node, host, _, _| {
        crate::modules::dir::set_flag(node, &mut host.merge_slashes)
    }),
    ("CustomLog", |node, host, _, root| {
        host.logs.add(node, root, false)
    }),
    ("GlobalLog", |node, host, _, root| {
        host.logs.add(node, root, true)
    }),
    ("TransferLog", |node, host, _, root| {
        host.logs.add(node, root, false)
    }),
    ("ForensicLog", |node, host, process, root| {
        if let Some(path) = first(node).filter(|path| !path.starts_with('|')) {
            process.name_log("forensic log", &root.join(path), node);
        }
        host.logs.set_forensic(node, root)
    }),
    ("LogFormat", |node, host, _, _| host.logs.add_format(node)),
    ("ScriptLog", |node, host, process, root| {
        if let Some(path) = first(node) {
            process.name_log("script log", &root.join(path), node);
        }
        host.script_log.set_path(node, root)
    }),
    ("ScriptLogLength", |node, host, _, _| {
        host.script_log.set_length(node)
    }),
    ("ScriptLogBuffer", |node, host, _, _| {
        host.script_log.set_buffer(node)
    }),
    ("ServerTokens", |node, _, process, _| {
        process.tokens = Some(match first(node).unwrap_or_default().to_ascii_lowercase().as_str() {
            "os" => Tokens::Os,
            "min" | "minimal" => Tokens::Minimal,
            "major" => Tokens::Major,
            "minor" => Tokens::Minor,
            "prod" | "productonly" => Tokens::Product,
            "full" => Tokens::Full,
            _ => return Err("ServerTokens takes 1 argument: 'Full' or 'OS' or 'Minimal' or 'Minor' or 'Major' or 'Prod'".into()),
        });
        Ok(())
    }),
    ("ExtendedStatus", |node, _, process, _| {
        super::modules::dir::set_flag(node, &mut process.extended_status)
    }),
    ("SeeRequestTail", |node, _, process, _| {
        super::modules::dir::set_flag(node, &mut process.see_request_tail)
    }),
    ("AddModuleInfo", |node, _, process, _| {
        if let [name, text] = texts(node).as_slice() {
            process
                .module_remarks
                .push((name.as_str().into(), text.as_str().into()));
        }
        Ok(())
    }),
    ("Listen", |node, _, process, _| {
        process.listens.push(Listen::parse(&texts(node), node)?);
        Ok(())
    }),
    ("User", |node, _, process, _| {
        process.user = first(node).map(without_hash);
        process.identity_origins[0] = Some(node.origin.clone());
        Ok(())
    }),
    ("Group", |node, _, process, _| {
        process.group = first(node).map(without_hash);
        process.identity_origins[1] = Some(node.origin.clone());
        Ok(())
    }),
    ("PHPIniDir", |node, _, process, root| {
        process.php_ini = first(node).map(|path| root.join(path));
        Ok(())
    }),
    ("CacheRoot", set_cache_root),
    ("PidFile", |node, _, process, root| {
        process.pid_file = first(node).map(|path| root.join(path));
        Ok(())
    }),
    ("ErrorLog", |node, host, process, root| {
        host.error_log.set_target(node, root)?;
        if let Some(ErrorLogTarget::File(path)) = &host.error_log.target {
            process.name_log("error log", path, node);
        }
        Ok(())
    }),
    ("ErrorLogFormat", |node, host, _, _| {
        host.error_log.add_format(node)
    }),
    ("TypesConfig", |node, _, process, root| {
        process.types_config = first(node).map(|path| (root.join(path), node.origin.clone()));
        Ok(())
    }),
    ("Protocol", |node, host, _, _| {
        // mod_ssl as it behaves: it stands for SSLEngine, where that is not said.
        let is_https = first(node).is_some_and(|word| word.eq_ignore_ascii_case("https"));
        host.tls.engine = host.tls.engine.or(is_https.then_some(true));
        Ok(())
    }),
    ("MimeMagicFile", |node, host, _, root| {
        host.magic_file = first(node).map(|path| root.join(path));
        Ok(())
    }),
    ("ExtFilterDefine", |node, _, process, _| {
        let definition = parse_definition(node.argument_text())?;
        if process
            .external_filters
            .iter()
            .any(|known| known.name.eq_ignore_ascii_case(&definition.name))
        {
            return Err(format!("ExtFilter {} is already defined", definition.name));
        }
        process.external_filters.push(definition);
        Ok(())
    }),
    ("RegexDefaultOptions", |node, _, _, _| {
        PatternOptions::default()
            .changed_by(&String::from_utf8_lossy(node.argument_text()))?
            .set_default();
        Ok(())
    }),
    ("ServerPath", |node, host, _, _| {
        host.server_path = first(node).map(|path| path.trim_end_matches('/').into());
        Ok(())
    }),
    ("StrictHostCheck", |node, host, _, _| {
        crate::modules::dir::set_flag(node, &mut host.known_names_only)
    }),
    ("LimitInternalRecursion", set_recursion),
    ("HttpProtocolOptions", set_protocol_options),
    ("RegisterHttpMethod", |node, _, process, _| {
        process
            .methods
            .extend(texts(node).into_iter().map(Into::into));
        Ok(())
    }),
];

pub fn server_setter(name: &str) -> Option<ServerSet> {
    SETTERS
        .iter()
        .chain(tls::setters())
        .chain(connections::setters())
        .chain(limits::SETTERS)
        .chain(evasive::SETTERS)
        .chain(dbd::SETTERS)
        .chain(managed::SETTERS)
        .chain(draft::SETTERS)
        .find(|(known, _)| *known == name)
        .map(|(_, set)| *set)
        .or_else(|| upstream_tls::server_setter(name))
}

fn first(node: &Node) -> Option<String> {
    texts(node).into_iter().next()
}

/// `User #33` names a user by number (httpd 2.4, mod_unixd).
fn without_hash(name: String) -> String {
    name.strip_prefix('#').map(str::to_owned).unwrap_or(name)
}

/// One page cache serves all hosts.
fn set_cache_root(
    node: &Node,
    _: &mut HostDraft,
    process: &mut Process,
    root: &Path,
) -> Result<(), String> {
    let folder = first(node).map(|path| root.join(path));
    match &process.cache_root {
        Some(known) if folder.as_ref() != Some(known) => {
            process.remarks.push((
                node.origin.clone(),
                format!("the page cache of all hosts is in {}", known.display()),
            ));
        }
        _ => process.cache_root = folder,
    }
    Ok(())
}

/// Requests are read strictly whatever is said: who reads them otherwise than a proxy before him
/// can be played off against it (RFC 9112 section 11.2).
fn set_protocol_options(
    node: &Node,
    host: &mut HostDraft,
    process: &mut Process,
    _: &Path,
) -> Result<(), String> {
    for word in texts(node) {
        let remark = match word.to_ascii_lowercase().as_str() {
            "registeredmethods" | "lenientmethods" => {
                host.registered_methods_only = Some(word.eq_ignore_ascii_case("registeredmethods"));
                None
            }
            "strict" | "require1.0" => None,
            "unsafe" => Some("HttpProtocolOptions Unsafe: requests are read strictly all the same"),
            "allow0.9" => Some("HttpProtocolOptions Allow0.9: HTTP/0.9 is not spoken"),
            _ => {
                return Err(format!(
                    "HttpProtocolOptions accepts 'Unsafe' or 'Strict', 'RegisteredMethods' or 'LenientMethods', and 'Require1.0' or 'Allow0.9', not {word}"
                ));
            }
        };
        process
            .remarks
            .extend(remark.map(|text| (node.origin.clone(), text.to_owned())));
    }
    Ok(())
}

/// Of redirects, then of subrequests; one number is for both.
fn set_recursion(
    node: &Node,
    host: &mut HostDraft,
    _: &mut Process,
    _: &Path,
) -> Result<(), String> {
    let wrong = || "LimitInternalRecursion: a number of 1 or more is expected".to_owned();
    let number = |word: &[u8]| {
        let number: Option<u64> = std::str::from_utf8(word)
            .ok()
            .and_then(|word| word.parse().ok());
        number
            .filter(|number| *number > 0)
            .map(|number| u8::try_from(number).unwrap_or(u8::MAX))
            .ok_or_else(wrong)
    };
    let words = node.arguments();
    let redirects = number(words.first().map(Vec::as_slice).unwrap_or_default())?;
    let nesting = words.get(1).map_or(Ok(redirects), |word| number(word))?;
    (host.redirects_max, host.nesting_max) = (Some(redirects), Some(nesting.min(NESTING_CEILING)));
    Ok(())
}

/// `[scheme://]name[:port]`
fn set_server_name(
    node: &Node,
    host: &mut HostDraft,
    _: &mut Process,
    _: &Path,
) -> Result<(), String> {
    let word = first(node).unwrap_or_default();
    let rest = word
        .split_once("://")
        .map_or(word.as_str(), |(_, rest)| rest);
    let (name, port) = match rest
        .rsplit_once(':')
        .filter(|(name, _)| !name.contains(':') || name.ends_with(']'))
    {
        Some((name, port)) => (
            name,
            Some(
                port.parse()
                    .map_err(|_| format!("ServerName: {port} is no port"))?,
            ),
        ),
        None => (rest, None),
    };
    host.server_name = Some(name.to_ascii_lowercase().trim_end_matches('.').into());
    host.server_port = port;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_has_one_setter_and_is_a_row() {
        let mut seen = std::collections::HashSet::new();
        let all = SETTERS
            .iter()
            .chain(tls::setters())
            .chain(connections::setters())
            .chain(managed::SETTERS)
            .chain(limits::SETTERS)
            .chain(evasive::SETTERS)
            .chain(dbd::SETTERS);
        for name in all
            .chain(draft::SETTERS)
            .map(|(name, _)| *name)
            .chain(upstream_tls::names())
        {
            assert!(seen.insert(name), "{name} twice");
            let row = saker_apache_syntax::find_row(name.as_bytes());
            assert_eq!(
                row.map(|row| row.name),
                Some(name),
                "{name} is no directive, or written otherwise"
            );
        }
    }
}
