//! Words that directives take as arguments, for completion.
//!
//! Called by: `completion`.
//! Caveat: only words of a fixed set are here; paths, hosts, numbers, and expressions are not
//! offered.
//! Out of scope: whether an argument is right, which the model says.

use crate::row::{Row, Shape};

const METHODS: &[&str] = &[
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];
const HEADER_ACTIONS: &[&str] = &[
    "set",
    "setifempty",
    "append",
    "merge",
    "add",
    "unset",
    "edit",
    "edit*",
];
const REDIRECTS: &[&str] = &["permanent", "temp", "seeother", "gone"];
const FILTERS: &[&str] = &["DEFLATE", "BROTLI_COMPRESS", "INCLUDES", "SUBSTITUTE"];
const LEVELS: &[&str] = &[
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug", "trace1", "trace2",
    "trace3", "trace4", "trace5", "trace6", "trace7", "trace8",
];
const PROTOCOLS: &[&str] = &["all", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// Position of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Any,
    /// Counted from 0.
    Only(usize),
    /// Behind this first argument.
    Behind(&'static str),
}

use At::{Any, Behind, Only};

/// Directives, positions, and words.
const WORDS: &[(&str, At, &[&str])] = &[
    ("AcceptPathInfo", Only(0), &["On", "Off", "Default"]),
    ("AddDefaultCharset", Only(0), &["On", "Off", "utf-8"]),
    ("AddOutputFilterByType", Only(0), FILTERS),
    ("AllowEncodedSlashes", Only(0), &["On", "Off", "NoDecode"]),
    (
        "AllowOverride",
        Any,
        &[
            "All",
            "None",
            "AuthConfig",
            "FileInfo",
            "Indexes",
            "Limit",
            "Options",
        ],
    ),
    ("AuthBasicProvider", Any, &["file", "dbm", "dbd"]),
    ("AuthMerging", Only(0), &["Off", "And", "Or"]),
    ("AuthType", Only(0), &["Basic", "Digest", "Form", "None"]),
    (
        "FileETag",
        Any,
        &["All", "None", "Digest", "INode", "MTime", "Size"],
    ),
    ("Header", Only(0), HEADER_ACTIONS),
    ("Header", Only(0), &["always", "onsuccess", "echo", "note"]),
    ("Header", Behind("always"), HEADER_ACTIONS),
    ("Header", Behind("onsuccess"), HEADER_ACTIONS),
    ("HostnameLookups", Only(0), &["On", "Off", "Double"]),
    (
        "IndexOptions",
        Any,
        &[
            "None",
            "FancyIndexing",
            "FoldersFirst",
            "HTMLTable",
            "IconsAreLinks",
            "IgnoreCase",
            "IgnoreClient",
            "ScanHTMLTitles",
            "ShowForbidden",
            "SuppressColumnSorting",
            "SuppressDescription",
            "SuppressHTMLPreamble",
            "SuppressIcon",
            "SuppressLastModified",
            "SuppressRules",
            "SuppressSize",
            "TrackModified",
            "UseOldDateFormat",
            "VersionSort",
            "XHTML",
        ],
    ),
    ("IndexOrderDefault", Only(0), &["Ascending", "Descending"]),
    (
        "IndexOrderDefault",
        Only(1),
        &["Name", "Date", "Size", "Description"],
    ),
    ("<Limit", Any, METHODS),
    ("<LimitExcept", Any, METHODS),
    ("LogLevel", Any, LEVELS),
    (
        "Options",
        Any,
        &[
            "All",
            "None",
            "Indexes",
            "Includes",
            "IncludesNOEXEC",
            "FollowSymLinks",
            "SymLinksIfOwnerMatch",
            "ExecCGI",
            "MultiViews",
        ],
    ),
    ("order", Only(0), &["Allow,Deny", "Deny,Allow"]),
    ("allow", Only(0), &["from"]),
    ("allow", Only(1), &["all"]),
    ("deny", Only(0), &["from"]),
    ("deny", Only(1), &["all"]),
    ("Protocols", Any, &["h2", "h2c", "http/1.1"]),
    ("ProxyVia", Only(0), &["On", "Off", "Full", "Block"]),
    ("Redirect", Only(0), REDIRECTS),
    ("RedirectMatch", Only(0), REDIRECTS),
    ("RequestHeader", Only(0), HEADER_ACTIONS),
    (
        "Require",
        Only(0),
        &[
            "all",
            "not",
            "user",
            "group",
            "valid-user",
            "ip",
            "host",
            "local",
            "env",
            "method",
            "expr",
            "forward-dns",
        ],
    ),
    ("Require", Behind("all"), &["granted", "denied"]),
    ("Require", Behind("method"), METHODS),
    (
        "RewriteOptions",
        Any,
        &[
            "Inherit",
            "InheritBefore",
            "InheritDown",
            "InheritDownBefore",
            "IgnoreInherit",
            "AllowNoSlash",
            "AllowAnyURI",
            "MergeBase",
            "IgnoreContextInfo",
            "LegacyPrefixDocRoot",
        ],
    ),
    ("Satisfy", Only(0), &["All", "Any"]),
    ("ServerSignature", Only(0), &["On", "Off", "EMail"]),
    (
        "ServerTokens",
        Only(0),
        &["Full", "Prod", "Major", "Minor", "Min", "OS"],
    ),
    (
        "SetHandler",
        Only(0),
        &[
            "None",
            "cgi-script",
            "default-handler",
            "server-info",
            "server-status",
            "type-map",
        ],
    ),
    ("SetOutputFilter", Only(0), FILTERS),
    ("SSLEngine", Only(0), &["on", "off", "optional"]),
    (
        "SSLOptions",
        Any,
        &[
            "StdEnvVars",
            "ExportCertData",
            "FakeBasicAuth",
            "StrictRequire",
            "OptRenegotiate",
        ],
    ),
    ("SSLProtocol", Any, PROTOCOLS),
    (
        "SSLVerifyClient",
        Only(0),
        &["none", "optional", "require", "optional_no_ca"],
    ),
    ("TraceEnable", Only(0), &["on", "off", "extended"]),
    ("UseCanonicalName", Only(0), &["On", "Off", "DNS"]),
];

/// Directives whose words may have a sign.
const SIGNED: &[&str] = &[
    "Options",
    "IndexOptions",
    "SSLOptions",
    "SSLProtocol",
    "FileETag",
];

/// Words that may stand behind these arguments of a directive; `typed` is what there is of one.
pub fn words(row: &Row, given: &[&str], typed: &str) -> Vec<String> {
    if row.shape == Shape::Flag {
        return match given {
            [] => vec!["On".to_owned(), "Off".to_owned()],
            _ => Vec::new(),
        };
    }
    let fits = |at: At| match at {
        Any => true,
        Only(position) => position == given.len(),
        Behind(first) => {
            given
                .first()
                .is_some_and(|word| word.eq_ignore_ascii_case(first))
                && (given.len() == 1 || first == "method")
        }
    };
    let sign = typed.get(..1).filter(|sign| matches!(*sign, "+" | "-"));
    let sign = sign.filter(|_| SIGNED.contains(&row.name)).unwrap_or("");
    WORDS
        .iter()
        .filter(|(name, at, _)| *name == row.name && fits(*at))
        .flat_map(|(_, _, words)| words.iter())
        .filter(|word| given.iter().all(|have| have != *word))
        .map(|word| format!("{sign}{word}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::find_row;

    #[test]
    fn directives_are_known_and_take_as_many_arguments() {
        for (name, at, words) in WORDS {
            let row = find_row(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(row.name, *name);
            assert_ne!(row.shape, Shape::Flag, "{name}");
            let is_second = matches!(at, Only(1) | Behind(_));
            assert!(!(is_second && row.shape == Shape::One), "{name}");
            assert!(!words.is_empty());
        }
        assert!(
            SIGNED
                .iter()
                .all(|name| WORDS.iter().any(|row| row.0 == *name))
        );
    }
}
