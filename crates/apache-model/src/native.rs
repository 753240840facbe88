//! `.htaccess` files in sites of saker.toml: the settings that lie below those of the files.
//!
//! Called by: the worker's rules (`saker_apache`), which walk the folders of such a site as they do
//! for a host of Apache's.
//! Caveat: saker.toml keeps the last word where a file could widen what a site serves: links,
//! hidden names, programs, and the limits of request bodies are narrowed by `.htaccess`, never
//! widened.
//! Out of scope: routes, which come first (`saker_native`).

use crate::{
    dir_config::DirConfig,
    host::{Apache, Host},
    load::load,
    modules::{cache, core::OptionsSaid, filters::Filters, negotiation::Force},
};
use saker_apache_syntax::{
    InMemory, Permission, Setup,
    options::{
        EXEC_CGI, FOLLOW_SYM_LINKS, INCLUDES, INCLUDES_EXEC, INDEXES, MULTI_VIEWS, OptionSet,
        SYM_LINKS_IF_OWNER_MATCH,
    },
};
use saker_config::{
    Diagnostic, Model,
    model::{ContentRules, Htaccess, Settings, SymlinkPolicy, Visitors},
};
use saker_content_filters::substitute::SubstituteRule;
use saker_http::media_type;
use std::sync::Arc;

/// Modules whose directives the files may use, by their identifiers without `_module`: what
/// distributions switch on and applications expect. Absent on purpose are those that run programs
/// or open connections for the author of a file (cgi, ext_filter, proxy).
const MODULES: &[&str] = &[
    "access_compat",
    "actions",
    "alias",
    "allowmethods",
    "auth_basic",
    "auth_digest",
    "authn_anon",
    "authn_core",
    "authn_dbm",
    "authn_file",
    "authz_core",
    "authz_dbm",
    "authz_groupfile",
    "authz_host",
    "authz_owner",
    "authz_user",
    "autoindex",
    "brotli",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "include",
    "mime",
    "mpm_event",
    "negotiation",
    "php",
    "php7",
    "rewrite",
    "setenvif",
    "speling",
    "ssl",
    "substitute",
    "unique_id",
];

/// Options that a file may not set.
const WITHHELD: OptionSet = EXEC_CGI.or(INCLUDES_EXEC);

/// The configuration that `.htaccess` files of native sites are read with. `body_bytes_max`: the
/// server's limit of request bodies; 0 is none.
pub fn configuration(body_bytes_max: u64) -> Apache {
    const FILE: &str = "/saker.toml";
    let text = "ServerName localhost\nListen 127.0.0.1:1\nTraceEnable off\n";
    let files = InMemory::default().with(FILE, text);
    let mut apache = load(&Setup::new("/", FILE), &files).apache;
    for name in MODULES {
        apache
            .environment
            .modules
            .load(format!("{name}_module").as_bytes());
    }
    let mut host = apache.hosts.pop().map(|host| Host::clone(&host));
    if let Some(host) = &mut host {
        (host.server_name, host.is_native) = (None, true);
        Arc::make_mut(&mut host.defaults)
            .core
            .request_body_bytes_max = Some(body_bytes_max);
        let known = media_type::by_extensions().map(|(name, kind)| (name.into(), kind.into()));
        host.types = Arc::new(known.collect());
    }
    apache.hosts.clear();
    apache.native = host.map(Arc::new);
    apache
}

impl Apache {
    /// The host for a site of the model; `is_under_rules`: the request is one that `.htaccess`
    /// rules answer, where the site is native.
    pub fn host_of(&self, site_index: usize, is_under_rules: bool) -> Option<&Arc<Host>> {
        self.hosts
            .get(site_index)
            .or_else(|| self.native.as_ref().filter(|_| is_under_rules))
    }
}

/// The settings in force at the root of a site, before its `.htaccess`: what its settings come to
/// in Apache's terms. `index`: names of index files.
pub fn dir_config<'n>(settings: &Settings, index: impl Iterator<Item = &'n str>) -> DirConfig {
    let listing = match settings.files.listing {
        true => INDEXES,
        false => OptionSet(0),
    };
    let mut local = DirConfig::default();
    local.core.options = OptionsSaid::only(FOLLOW_SYM_LINKS.or(listing), WITHHELD);
    if settings.htaccess != Htaccess::Off {
        local.core.allow_override = Some(Permission::all());
    }
    // As `Require all granted`, which every Apache has above its sites.
    local.auth.settings.authorization.is_open = true;
    local.dir.index = Some(index.map(Into::into).collect());
    for (name, kind) in &settings.files.types {
        Arc::make_mut(&mut local.mime.extensions)
            .entry(name.as_str().into())
            .or_default()
            .media_type = Some(Some(kind.as_str().into()));
    }
    if let Some(rules) = &settings.content {
        add_content_rules(&mut local, rules);
    }
    local
}

/// `ssi`, `substitute`, `negotiation` and `languages`.
fn add_content_rules(local: &mut DirConfig, rules: &ContentRules) {
    let mut options = local.core.options.in_force();
    let extensions = Arc::make_mut(&mut local.mime.extensions);
    for name in &rules.ssi {
        options = options.or(INCLUDES);
        let extension = extensions.entry(name.as_str().into()).or_default();
        extension.output_filters = Some(Some("INCLUDES".into()));
        if media_type::by_extension(name.as_bytes()).is_none() && extension.media_type.is_none() {
            extension.media_type = Some(Some("text/html".into()));
        }
    }
    for language in &rules.languages {
        let extension = extensions.entry(language.as_str().into()).or_default();
        extension.language = Some(Some(language.as_str().into()));
    }
    if rules.negotiation || !rules.languages.is_empty() {
        options = options.or(MULTI_VIEWS);
        let extension = extensions.entry("var".into()).or_default();
        extension.handler = Some(Some("type-map".into()));
    }
    if !rules.languages.is_empty() {
        let priority = rules.languages.iter().map(|name| name.as_str().into());
        local.negotiation.priority = Some(priority.collect());
        local.negotiation.force = Some(Force {
            prefer: true,
            fallback: true,
        });
    }
    local.core.options = OptionsSaid::only(options, WITHHELD);
    if !rules.substitute.is_empty() {
        let types = rules
            .substitute_types
            .iter()
            .map(|kind| kind.as_str().into());
        local.filters = Filters::by_types("SUBSTITUTE", types.collect());
        // `problems` has refused those that can't be compiled.
        let made = rules.substitute.iter();
        let made = made.filter_map(|text| SubstituteRule::parse(text.as_bytes()).ok());
        local.substitute.rules = made.map(Arc::new).collect();
    }
}

/// Content rules of a model that can't be put in force.
pub fn problems(model: &Model) -> Vec<Diagnostic> {
    let rules = model
        .all_settings()
        .filter_map(|(_, settings)| settings.content.as_ref());
    let mut found: Vec<Diagnostic> = Vec::new();
    for rules in rules {
        for text in &rules.substitute {
            if SubstituteRule::parse(text.as_bytes()).is_ok() {
                continue;
            }
            let message =
                format!("`substitute`: the pattern of \"{text}\" is no regular expression");
            if found.iter().any(|known| known.message == message) {
                continue;
            }
            let mut error = Diagnostic::without_source(rules.origin.clone(), message);
            error.help = Some("add the flag n to take it as a fixed text".into());
            found.push(error);
        }
    }
    found
}

/// Links that may be followed: those that both the site and the file follow.
pub fn symlinks(of_site: SymlinkPolicy, options: OptionSet) -> SymlinkPolicy {
    let follows = options.contains(FOLLOW_SYM_LINKS);
    let follows_owners = options.contains(SYM_LINKS_IF_OWNER_MATCH);
    match of_site {
        SymlinkPolicy::Never => SymlinkPolicy::Never,
        of_site if follows => of_site,
        _ if follows_owners => SymlinkPolicy::OwnerMatch,
        _ => SymlinkPolicy::Never,
    }
}

/// A site's settings with those of its `.htaccess` files over them.
pub fn settings(
    base: &Settings,
    local: &DirConfig,
    host: &Host,
    cache: cache::Verdict,
) -> Settings {
    let options = local.core.options.in_force();
    let mut made = base.clone();
    let files = &mut made.files;
    // Index files are tried by the rules, as requests of their own.
    files.index = Vec::new();
    files.listing = options.contains(INDEXES);
    files.symlinks = symlinks(base.files.symlinks, options);
    files.ranges_max = local.core.ranges_max.unwrap_or(files.ranges_max);
    if local.core.file_etag.is_said() {
        let etag = local.core.file_etag.in_force();
        let parts = &mut files.entity_tag;
        (parts.inode, parts.mtime, parts.size) = (etag.inode, etag.mtime, etag.size);
    }
    for (status, page) in &local.core.error_documents {
        match page {
            Some(page) => made.error_pages.insert(*status, page.clone()),
            None => made.error_pages.remove(status),
        };
    }
    if !local.core.error_documents.is_empty() {
        made.error_text_type = Some("text/html; charset=iso-8859-1".into());
    }
    if local.cache.is_said() {
        made.cache = local.cache.in_use(cache);
    }
    made.links.signed = local.auth_token.links().signed.or(made.links.signed);
    made.visitors = Visitors {
        logins: local.wordpress_protect.in_use().or(made.visitors.logins),
        ..made.visitors
    };
    // 0 is no limit.
    let said = local.core.request_body_bytes_max.filter(|bytes| *bytes > 0);
    let of_server = host.defaults.core.request_body_bytes_max;
    if let Some(said) = said {
        let outside = base.body_bytes_max.or(of_server).filter(|bytes| *bytes > 0);
        made.body_bytes_max = Some(outside.map_or(said, |bytes| bytes.min(said)));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_can_be_read() {
        let apache = configuration(50);
        assert!(apache.hosts.is_empty());
        let host = apache.native.as_ref().expect("a host");
        assert!(host.is_native && !host.trace_enabled && host.proxy.passes.is_empty());
        let modules = &apache.environment.modules;
        for name in MODULES {
            assert!(
                modules.has_any(&[&format!("{name}_module")]),
                "{name} is no module"
            );
        }
        assert!(modules.answers_to(b"mod_rewrite.c") && modules.answers_to(b"LiteSpeed"));
        assert!(!modules.answers_to(b"mod_proxy.c") && !modules.answers_to(b"mod_cgi.c"));
        assert!(apache.host_of(7, true).is_some() && apache.host_of(0, false).is_none());
    }

    #[test]
    fn links_are_narrowed_and_never_widened() {
        use SymlinkPolicy::{Follow, Inside, Never, OwnerMatch};
        let (none, owner) = (OptionSet(0), SYM_LINKS_IF_OWNER_MATCH);
        for (site, options, expected) in [
            (Inside, FOLLOW_SYM_LINKS, Inside),
            (Follow, FOLLOW_SYM_LINKS, Follow),
            (Never, FOLLOW_SYM_LINKS, Never),
            (OwnerMatch, FOLLOW_SYM_LINKS, OwnerMatch),
            (Inside, none, Never),
            (Follow, owner, OwnerMatch),
            (Never, owner, Never),
        ] {
            assert_eq!(symlinks(site, options), expected, "{site:?} {options:?}");
        }
    }

    #[test]
    fn limits_of_bodies_only_shrink() {
        let bytes = |base: Option<u64>, said: Option<u64>| {
            let base = Settings {
                body_bytes_max: base,
                ..Settings::default()
            };
            let mut local = DirConfig::default();
            local.core.request_body_bytes_max = said;
            let apache = configuration(50);
            let host = apache.native.expect("a host");
            settings(&base, &local, &host, cache::Verdict::default()).body_bytes_max
        };
        assert_eq!(bytes(Some(10), Some(100)), Some(10));
        assert_eq!(bytes(Some(100), Some(10)), Some(10));
        assert_eq!(
            bytes(Some(10), Some(0)),
            Some(10),
            "0 is no limit in Apache"
        );
        assert_eq!(bytes(None, Some(5)), Some(5));
        assert_eq!(bytes(None, Some(500)), Some(50));
        assert_eq!(bytes(Some(0), Some(500)), Some(500));
        assert_eq!(bytes(None, None), None);
    }

    #[test]
    fn programs_stay_off() {
        let outside = dir_config(&Settings::default(), ["a.html"].into_iter());
        assert_eq!(outside.dir.index_names().collect::<Vec<_>>(), ["a.html"]);
        let mut all = DirConfig::default();
        all.core.options = OptionsSaid::only(EXEC_CGI.or(INDEXES), OptionSet(0));
        let merged = outside.merge(&all).core.options.in_force();
        assert!(merged.contains(INDEXES) && !merged.contains(EXEC_CGI));
    }
}
