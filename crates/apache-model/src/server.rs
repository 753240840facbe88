//! Directives of the server and its virtual hosts that no section may have: names, roots, logs, the
//! process. Those of TLS are in `tls`.

use crate::{
    arguments::{first, texts},
    connections, dbd, evasive,
    host_draft::HostDraft,
    limits,
    listen::Listen,
    managed,
    modules::ext_filter::parse_definition,
    process::Process,
    proxy::draft,
    reading::ServerSet,
    server_tokens::Tokens,
    tls::{self, stapling},
    upstream_tls,
};
use saker_ap_expr::PatternOptions;
use saker_apache_syntax::Node;
use saker_http::path::EncodedSlashes;
use saker_pipeline::budget::NESTING_CEILING;
use saker_telemetry::error_log::ErrorLogTarget;
use std::path::Path;

/// Puts one directive into its host, or the process.
type HostSet = fn(&Node, &mut HostDraft, &mut Process, &Path) -> Result<(), String>;

const SETTERS: &[(&str, HostSet)] = &[
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
        host.document_root = first(node).map(|path| crate::paths::absolute(&root.join(path)));
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
                "on" => EncodedSlashes::DecodeAfterDots,
                "off" => EncodedSlashes::Refuse,
                "nodecode" => EncodedSlashes::Keep,
                _ => return Err("AllowEncodedSlashes must be On, Off, or NoDecode".into()),
            },
        );
        Ok(())
    }),
    ("MergeSlashes", |node, host, _, _| {
        crate::arguments::set_flag(node, &mut host.merge_slashes)
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
        crate::arguments::set_flag(node, &mut process.extended_status)
    }),
    ("SeeRequestTail", |node, _, process, _| {
        crate::arguments::set_flag(node, &mut process.see_request_tail)
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
    ("SSLEngine", |node, host, process, _| {
        let word = first(node).unwrap_or_default();
        host.tls.engine = Some(word.eq_ignore_ascii_case("on"));
        if word.eq_ignore_ascii_case("optional") {
            process.remarks.push((
                node.origin.clone(),
                "'SSLEngine optional' is no longer supported: it is off".into(),
            ));
        } else if !word.eq_ignore_ascii_case("on") && !word.eq_ignore_ascii_case("off") {
            return Err("Argument must be On, Off, or Optional".into());
        }
        Ok(())
    }),
    ("SSLVHostSNIPolicy", |node, _, process, _| {
        let word = first(node).unwrap_or_default().to_ascii_lowercase();
        if !matches!(word.as_str(), "strict" | "secure" | "authonly" | "insecure") {
            return Err(format!("Invalid SSLVHostSNIPolicy '{word}'"));
        }
        // What is not strict is as safe here as the default.
        process.same_host_only = word == "strict";
        Ok(())
    }),
    ("SSLSessionTicketKeyFile", |node, _, process, root| {
        let path = first(node)
            .map(|path| root.join(path))
            .filter(|path| !process.ticket_keys.contains(path));
        process.ticket_keys.extend(path);
        Ok(())
    }),
    ("ServerPath", |node, host, _, _| {
        host.server_path = first(node).map(|path| path.trim_end_matches('/').into());
        Ok(())
    }),
    ("StrictHostCheck", |node, host, _, _| {
        crate::arguments::set_flag(node, &mut host.known_names_only)
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

/// Puts a directive where it belongs. `None`: it is none of the server's or of its hosts'.
pub fn set(
    node: &Node,
    host: &mut HostDraft,
    process: &mut Process,
    root: &Path,
) -> Option<Result<(), String>> {
    let name = node.canonical_name();
    if let Some((_, set)) = SETTERS.iter().find(|(known, _)| *known == name) {
        return Some(set(node, host, process, root));
    }
    of_host(node, host, root)
        .or_else(|| {
            apply(
                node,
                connections::PROCESS_SETTERS,
                &mut process.connections,
                root,
            )
        })
        .or_else(|| apply(node, evasive::SETTERS, &mut process.evasive, root))
        .or_else(|| apply(node, managed::SETTERS, &mut process.managed, root))
}

/// Directives of one part of a host each.
fn of_host(node: &Node, host: &mut HostDraft, root: &Path) -> Option<Result<(), String>> {
    apply(node, tls::setters(), &mut host.tls, root)
        .or_else(|| apply(node, stapling::SETTERS, &mut host.tls.stapling, root))
        .or_else(|| apply(node, connections::SETTERS, &mut host.connections, root))
        .or_else(|| apply(node, limits::SETTERS, &mut host.limits, root))
        .or_else(|| apply(node, dbd::SETTERS, &mut host.dbd, root))
        .or_else(|| apply(node, draft::SETTERS, &mut host.proxy, root))
        .or_else(|| upstream_tls::set(node, &mut host.upstream_tls, root))
}

fn apply<D: 'static>(
    node: &Node,
    setters: impl IntoIterator<Item = &'static (&'static str, ServerSet<D>)>,
    draft: &mut D,
    root: &Path,
) -> Option<Result<(), String>> {
    let name = node.canonical_name();
    let (_, set) = setters.into_iter().find(|(known, _)| *known == name)?;
    Some(set(node, draft, root))
}

/// The directives that have a setter here, in the manual's spelling.
pub fn directives() -> impl Iterator<Item = &'static str> {
    names(SETTERS)
        .chain(names(tls::setters()))
        .chain(names(stapling::SETTERS))
        .chain(names(connections::SETTERS))
        .chain(names(connections::PROCESS_SETTERS))
        .chain(names(limits::SETTERS))
        .chain(names(evasive::SETTERS))
        .chain(names(dbd::SETTERS))
        .chain(names(managed::SETTERS))
        .chain(names(draft::SETTERS))
        .chain(upstream_tls::names())
}

fn names<S: 'static>(
    setters: impl IntoIterator<Item = &'static (&'static str, S)>,
) -> impl Iterator<Item = &'static str> {
    setters.into_iter().map(|(name, _)| *name)
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

/// With `Unsafe`, heads that are not strict are rewritten as strict ones, or refused.
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
            "require1.0" => None,
            "strict" => {
                host.limits.is_unsafe = Some(false);
                None
            }
            "unsafe" => {
                host.limits.is_unsafe = Some(true);
                Some(
                    "HttpProtocolOptions Unsafe: heads that are not strict are repaired or refused; a repaired request has no content and ends its connection",
                )
            }
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

/// Limits of redirects, then of subrequests; a single number is for both.
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
        for name in directives() {
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
