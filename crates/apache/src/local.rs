//! What is in force at one place: the settings of every module, as the sections for it have laid
//! them over each other.
//!
//! A module is a file in `modules/`: a type, its merge (`under`), the directives that fill it, and
//! what it does to requests. The table below is the one list of them. Difficulty: "not said" and
//! "said to be the default" are different things until everything has been laid over everything
//! else, so settings that can be left out are options.

use crate::{
    modules::{
        access::Auth, actions::Actions, alias::Alias, allowmethods::AllowMethods,
        auth_token::AuthToken, autoindex::Autoindex, buffer::Buffer, cache::Cache, cgi::Cgi,
        core::Core, deflate::Deflate, dir::Dir, env::Env, expires::Expires, ext_filter::ExtFilter,
        filters::Filters, geo::Geo, headers::Headers, include::Include, limitipconn::LimitIpConn,
        log_debug::LogDebug, logio::LogIo, loglevel::LogLevel, mime::Mime,
        negotiation::Negotiation, php::Php, proxy::Proxy, remoteip::RemoteIp, rewrite::Rewrite,
        security::Security, sed::Sed, setenvif::SetEnvIf, speling::Speling, ssl::Ssl,
        substitute::Substitute, userdir::UserDir, usertrack::UserTrack, vhost_alias::VhostAlias,
        wordpress_protect::WordPressProtect, xsendfile::XSendFile,
    },
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_config::model::Origin;

/// Puts one directive into the settings of the place where it stands. The error is the message, in
/// Apache's words.
pub type Set = fn(&Node, &mut Local, &mut Reading<'_>) -> Result<(), String>;

macro_rules! modules {
    ($($field:ident: $type:ident,)*) => {
        /// Settings of all modules.
        #[derive(Clone, Debug, Default)]
        pub struct Local {
            /// A rule about access that can't be honoured: everybody is refused.
            pub denied: Option<Origin>,
            $(pub $field: $type,)*
        }

        impl Local {
            /// These, with those of an inner section laid over.
            pub fn under(&self, over: &Local) -> Local {
                Local { denied: said(&self.denied, &over.denied), $($field: self.$field.under(&over.$field),)* }
            }
        }

        const SETTERS: &[&[(&str, Set)]] = &[$($type::DIRECTIVES,)*];
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
    include: Include,
    limitipconn: LimitIpConn,
    log_debug: LogDebug,
    logio: LogIo,
    loglevel: LogLevel,
    mime: Mime,
    negotiation: Negotiation,
    php: Php,
    proxy: Proxy,
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

/// The setter of a directive, by the manual's spelling.
pub fn setter(name: &str) -> Option<Set> {
    SETTERS
        .iter()
        .flat_map(|module| module.iter())
        .find(|(known, _)| *known == name)
        .map(|(_, set)| *set)
}

/// `over` where something was said, else what was said outside.
pub fn said<T: Clone>(outside: &Option<T>, over: &Option<T>) -> Option<T> {
    over.as_ref().or(outside.as_ref()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_directive_has_one_setter_and_is_a_row() {
        let mut seen = HashSet::new();
        for (name, _) in SETTERS.iter().flat_map(|module| module.iter()) {
            assert!(seen.insert(*name), "{name} twice");
            let row = saker_apache_syntax::find_row(name.as_bytes());
            assert_eq!(
                row.map(|row| row.name),
                Some(*name),
                "{name} is no directive, or written otherwise"
            );
        }
    }

    /// What the reader of trees takes itself, in `load.rs`.
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
    ];

    /// What the reader of a `<MDomainSet>` takes.
    const OF_DOMAINS: &[&str] = &[
        "<MDomainSet",
        "<MDomain",
        "MDMember",
        "MDCertificateFile",
        "MDCertificateKeyFile",
    ];

    /// What `config-apache` sees to while it reads.
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

    /// What has a setter, and nothing or too little that follows from it: it stays pending, and
    /// users are told so.
    const TOO_LITTLE: &[&str] = &["ProxyHCTemplate", "SSLUseStapling"];

    #[test]
    fn what_is_honoured_has_a_setter_and_the_other_way_round() {
        use saker_apache_syntax::Treatment;
        let mut wrong = Vec::new();
        for row in saker_apache_syntax::rows() {
            let has_setter = setter(row.name).is_some()
                || crate::server::server_setter(row.name).is_some()
                || SECTIONS.contains(&row.name)
                || OF_DOMAINS.contains(&row.name)
                || LANGUAGE.contains(&row.name);
            let is_told = row.treatment != Treatment::Honoured && TOO_LITTLE.contains(&row.name);
            if !is_told && (row.treatment == Treatment::Honoured) != has_setter {
                wrong.push(format!(
                    "{} {:?} setter {has_setter}",
                    row.name, row.treatment
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
