//! Sections: which requests they are for, and what they lay over the settings.
//!
//! Difficulty: the three kinds of names compare differently. A folder is compared prefix by prefix
//! while the path is walked; a location is a prefix of the path as asked for, whole components
//! only; a file is compared by its last component.

use crate::{
    matcher::Matcher,
    modules::{
        access::Auth,
        actions::Actions,
        alias::{Alias, prefix_length},
        allowmethods::AllowMethods,
        auth_token::AuthToken,
        autoindex::Autoindex,
        buffer::Buffer,
        cache::Cache,
        cgi::Cgi,
        core::Core,
        dav::Dav,
        deflate::Deflate,
        dir::Dir,
        env::Env,
        expires::Expires,
        ext_filter::ExtFilter,
        filters::Filters,
        geo::Geo,
        headers::Headers,
        http2::Http2,
        include::Include,
        limitipconn::LimitIpConn,
        log_debug::LogDebug,
        logio::LogIo,
        loglevel::LogLevel,
        mime::Mime,
        negotiation::Negotiation,
        php::Php,
        proxy::Proxy,
        proxy_html::ProxyHtml,
        reflector::Reflector,
        remoteip::RemoteIp,
        rewrite::Rewrite,
        security::Security,
        sed::Sed,
        setenvif::SetEnvIf,
        speling::Speling,
        ssl::Ssl,
        substitute::Substitute,
        userdir::UserDir,
        usertrack::UserTrack,
        vhost_alias::VhostAlias,
        wordpress_protect::WordPressProtect,
        xsendfile::XSendFile,
    },
    reading::{Reading, said},
};
use saker_ap_expr::{Expression, LimitReached};
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use std::sync::Arc;

macro_rules! modules {
    ($($field:ident: $type:ident,)*) => {
        /// Settings of all modules.
        #[derive(Clone, Debug, Default)]
        pub struct DirConfig {
            /// A rule about access that can't be honored: everybody is refused.
            pub denied: Option<Origin>,
            /// `<Files>` in it.
            pub files: Vec<Arc<Section>>,
            /// `<If>` and what follows it.
            pub conditions: Vec<Arc<Condition>>,
            /// A condition that holds or a `.htaccess` file is part of them: Apache makes such ones anew
            /// for each request.
            pub is_made_anew: bool,
            $(pub $field: $type,)*
        }

        impl DirConfig {
            /// These, with those of an inner section laid over.
            pub fn merge(&self, over: &DirConfig) -> DirConfig {
                DirConfig {
                    denied: said(&self.denied, &over.denied),
                    files: self.files.iter().chain(&over.files).cloned().collect(),
                    conditions: self.conditions.iter().chain(&over.conditions).cloned().collect(),
                    is_made_anew: self.is_made_anew || over.is_made_anew,
                    $($field: self.$field.merge(&over.$field),)*
                }
            }
        }

        /// Puts a directive into the settings of its module. `None`: no module has it.
        pub fn set(
            node: &Node,
            local: &mut DirConfig,
            reading: &mut Reading<'_>,
        ) -> Option<Result<(), String>> {
            let name = node.canonical_name();
            $(if let Some((_, set)) = $type::DIRECTIVES.iter().find(|(known, _)| *known == name) {
                return Some(set(node, &mut local.$field, reading));
            })*
            None
        }

        /// The directives of all modules, in the manual's spelling.
        pub fn directives() -> impl Iterator<Item = &'static str> {
            let modules = [$($type::DIRECTIVES.iter().map(|(name, _)| *name).collect::<Vec<_>>(),)*];
            modules.into_iter().flatten()
        }
    };
}

modules! {
    core: Core,
    actions: Actions,
    alias: Alias,
    auth_token: AuthToken,
    autoindex: Autoindex,
    buffer: Buffer,
    cache: Cache,
    cgi: Cgi,
    dav: Dav,
    deflate: Deflate,
    allowmethods: AllowMethods,
    auth: Auth,
    dir: Dir,
    env: Env,
    expires: Expires,
    ext_filter: ExtFilter,
    filters: Filters,
    geo: Geo,
    headers: Headers,
    http2: Http2,
    include: Include,
    limitipconn: LimitIpConn,
    log_debug: LogDebug,
    logio: LogIo,
    loglevel: LogLevel,
    mime: Mime,
    negotiation: Negotiation,
    php: Php,
    proxy: Proxy,
    proxy_html: ProxyHtml,
    reflector: Reflector,
    remoteip: RemoteIp,
    rewrite: Rewrite,
    security: Security,
    sed: Sed,
    setenvif: SetEnvIf,
    speling: Speling,
    ssl: Ssl,
    substitute: Substitute,
    userdir: UserDir,
    usertrack: UserTrack,
    vhost_alias: VhostAlias,
    wordpress_protect: WordPressProtect,
    xsendfile: XSendFile,
}

#[derive(Clone, Debug)]
pub struct Section {
    pub matcher: Matcher,
    pub local: Arc<DirConfig>,
    pub origin: Origin,
}

impl Section {
    /// The number of components of a `<Directory>`'s path, by which they are sorted.
    pub fn depth(&self) -> usize {
        match &self.matcher {
            Matcher::Exact(path) | Matcher::Wild(path) => path
                .split(|byte| *byte == b'/')
                .filter(|component| !component.is_empty())
                .count(),
            Matcher::Pattern(_) => usize::MAX,
        }
    }

    /// Returns whether this `<Directory>` of one folder is the other's or in it.
    pub fn is_below(&self, other: &Section) -> bool {
        let (Matcher::Exact(own), Matcher::Exact(outer)) = (&self.matcher, &other.matcher) else {
            return false;
        };
        let outer = outer.strip_suffix(b"/").unwrap_or(outer);
        own.strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Returns whether a `<Directory>` is for a folder. `folder` begins and ends with a slash.
    ///
    /// # Errors
    /// The pattern was given up.
    pub fn is_for_folder(&self, folder: &[u8]) -> Result<bool, LimitReached> {
        let bare = folder.strip_suffix(b"/").unwrap_or(folder);
        match &self.matcher {
            Matcher::Exact(path) | Matcher::Wild(path) if path.ends_with(b"/") => {
                self.matcher.is(folder)
            }
            Matcher::Exact(_) | Matcher::Wild(_) => self.matcher.is(bare),
            Matcher::Pattern(_) => self.matcher.is(folder),
        }
    }

    /// Returns whether a `<Location>` is for a decoded path.
    ///
    /// # Errors
    /// The pattern was given up.
    pub fn is_for_path(&self, path: &[u8]) -> Result<bool, LimitReached> {
        match &self.matcher {
            Matcher::Exact(prefix) => Ok(prefix_length(path, prefix).is_some()),
            Matcher::Wild(_) | Matcher::Pattern(_) => self.matcher.is(path),
        }
    }

    /// Returns whether a `<Files>` is for the last component of a path.
    ///
    /// # Errors
    /// The pattern was given up.
    pub fn is_for_name(&self, name: &[u8]) -> Result<bool, LimitReached> {
        self.matcher.is(name)
    }

    /// The named groups that a pattern caught, for the environment (`MATCH_NAME`).
    pub fn named_captures(&self, subject: &[u8]) -> Vec<(String, Vec<u8>)> {
        let Matcher::Pattern(pattern) = &self.matcher else {
            return Vec::new();
        };
        let captures = pattern.captures(subject).ok().flatten();
        let name = |(group, name): (usize, &str)| {
            let text = captures
                .as_ref()?
                .get(group)
                .and_then(|range| subject.get(range))?;
            Some((
                format!("MATCH_{}", name.to_ascii_uppercase()),
                text.to_vec(),
            ))
        };
        pattern.names().filter_map(name).collect()
    }
}

/// `<If>` and what follows it.
#[derive(Clone, Debug)]
pub struct Condition {
    pub kind: ConditionKind,
    pub local: Arc<DirConfig>,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub enum ConditionKind {
    If(Arc<Expression>),
    ElseIf(Arc<Expression>),
    Else,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_directive_has_one_setter_and_is_a_row() {
        let mut seen = HashSet::new();
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

    /// Sections that `load` and `read_section` read themselves.
    const SECTIONS: &[&str] = &[
        "<VirtualHost",
        "<Directory",
        "<DirectoryMatch",
        "<Location",
        "<LocationMatch",
        "<Proxy",
        "<ProxyMatch",
        "<Files",
        "<FilesMatch",
        "<If",
        "<ElseIf",
        "<Else",
        "<Limit",
        "<LimitExcept",
        "<RequireAll",
        "<RequireAny",
        "<RequireNone",
        "<AuthnProviderAlias",
        "<AuthzProviderAlias",
    ];

    /// Directives that the reader of a `<MDomainSet>` takes.
    const OF_DOMAINS: &[&str] = &[
        "<MDomainSet",
        "<MDomain",
        "MDMember",
        "MDCertificateFile",
        "MDCertificateKeyFile",
    ];

    /// Directives that `saker_apache_syntax` carries out while it reads.
    const LANGUAGE: &[&str] = &[
        "LoadModule",
        "<IfVersion",
        "<Macro",
        "Use",
        "UndefMacro",
        "MacroIgnoreEmptyArgs",
        "MacroIgnoreBadNesting",
        "<IfModule",
        "<IfDefine",
        "<IfFile",
        "<IfDirective",
        "<IfSection",
        "Define",
        "UnDefine",
        "Error",
        "ServerRoot",
        "Include",
        "IncludeOptional",
    ];

    /// Directives with a setter and too little effect: they stay pending, and users are told so.
    const TOO_LITTLE: &[&str] = &["ProxyHCTemplate", "SSLUseStapling"];

    #[test]
    fn what_is_honored_has_a_setter_and_the_other_way_round() {
        use saker_apache_syntax::Treatment;
        let mut wrong = Vec::new();
        for row in saker_apache_syntax::rows() {
            let has_setter = directives().any(|name| name == row.name)
                || crate::server::directives().any(|name| name == row.name)
                || SECTIONS.contains(&row.name)
                || OF_DOMAINS.contains(&row.name)
                || LANGUAGE.contains(&row.name);
            let is_told = row.treatment != Treatment::Honored && TOO_LITTLE.contains(&row.name);
            if !is_told && (row.treatment == Treatment::Honored) != has_setter {
                wrong.push(format!(
                    "{} {:?} setter {has_setter}",
                    row.name, row.treatment
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
