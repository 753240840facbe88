//! `[[site.route]]`: conditions, at most one action, and settings that override the site's.
//!
//! Called by: `read_route`, which makes routes of these keys.
//! Caveat: the first route that matches wins; `check/routes` reports unreachable ones.
//! Out of scope: keys that must fit together (`route_action`).

use super::{
    access,
    logs::ReadAccessLog,
    map::{self, LocatedTemplate},
    matcher::{self, IDENTIFIER, MATCH_OR_NAME, MatchTree, REGEX},
    path_pattern::PATTERN,
    proxy::ProxyDraft,
    request_edits::{REQUEST_TABLE, RequestDraft},
    template::{CANDIDATE, CandidateText, REDIRECT_TO, REWRITE, TEXT},
    upstream,
};
use crate::{
    context::{REDIRECT, ROUTE},
    kind::{Kind, Word},
    model::{PathPattern, Settings},
    preset,
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Fields, Key, Spanned, Value},
};
use std::path::PathBuf;

static MEDIA_TYPE: Word = Word {
    expects: "a media type, such as \"text/html; charset=utf-8\"",
    pattern: "^[^/ ]+/[^/ ]+( ?;.*)?$",
    read: |text| super::files::media_type(text).map(Value::Text),
};

static ROUTE_NAME: Word = Word {
    expects: "a name of letters, digits, and `_`",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    read: |text| (IDENTIFIER.read)(text).map(Value::Text),
};

pub const STATUS: Kind = Kind::Integer { min: 200, max: 599 };

/// A route while it is read.
#[derive(Debug, Default)]
pub struct RouteDraft {
    pub patterns: Vec<(PathPattern, Location)>,
    pub name: Option<(String, Location)>,
    pub matcher: Option<(MatchTree, Location)>,
    pub rewrite: Option<LocatedTemplate>,
    pub try_files: Option<(Vec<(CandidateText, Location)>, Location)>,
    pub vars: Vec<(String, LocatedTemplate)>,
    pub request: Option<RequestDraft>,
    pub redirect: Option<LocatedTemplate>,
    pub respond: Option<LocatedTemplate>,
    pub deny: Option<(bool, Location)>,
    pub status: Option<(u16, Location)>,
    pub content_type: Option<(String, Location)>,
    pub proxy: Option<(String, Location)>,
    pub preserve_host: Option<(bool, Location)>,
    pub forwarded_proto: Option<(bool, Location)>,
    pub terms: ProxyDraft,
    pub root: Option<(PathBuf, Location)>,
    pub alias: Option<(PathBuf, Location)>,
    pub is_internal: bool,
    pub access_logs: Option<Vec<ReadAccessLog>>,
    pub settings: Settings,
    /// Keys whose values are broken and reported; one that is unknown has no name.
    pub unread: Vec<&'static str>,
}

impl Draft for RouteDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let given = self.terms.set(key, given)?;
        let mut logs: Vec<ReadAccessLog> = Vec::new();
        let Some(given) = logs.set(key, given) else {
            self.access_logs = Some(logs);
            return None;
        };
        self.settings.set(key, given)
    }

    fn fill(&mut self, fields: &Fields) {
        let was_closed = access::is_closed(&self.settings);
        row::fill(self, fields);
        access::combine(&mut self.settings, fields, was_closed);
    }

    fn note_unread(&mut self, key: Key) {
        self.unread.push(key.name);
        self.settings.note_unread(key);
    }
}

pub const ROWS: &[Row<RouteDraft>] = &[
    Row {
        name: "path",
        contexts: ROUTE,
        kind: Kind::OneOf(&[Kind::Word(&PATTERN), Kind::ListOf(&Kind::Word(&PATTERN))]),
        example: Some("\"/img/*\""),
        summary: "Pattern of decoded paths, or a list of which one must match. `*` matches \
                  anything, including slashes. Required unless the route has `path_regex`, `match` \
                  or `name`.",
        apache: Some("<Location>, <LocationMatch>"),
        aliases: &[
            "prefix",
            "pattern",
            "from",
            "handle",
            "handle_path",
            "location",
        ],
        set: |route, given| route.set_patterns(given),
        ..Row::BASE
    },
    Row {
        name: "preset",
        contexts: ROUTE,
        kind: Kind::Choice(preset::NAMES),
        example: Some("\"wordpress\""),
        summary: "Settings and routes for an application below the path of this route, which ends \
                  in `/*`; as `preset` of a site.",
        since: "0.2",
        set: |_, _| {},
        ..Row::BASE
    },
    Row {
        name: "path_regex",
        contexts: ROUTE,
        kind: Kind::Word(&REGEX),
        example: Some("'^/user/(?<id>[0-9]+)$'"),
        summary: "Regular expression (PCRE2) for decoded paths, instead of `path`. Its groups are \
                  `$1` to `$9` and `${name}`. If matching takes too many steps, the response is \
                  500.",
        apache: Some("<LocationMatch>"),
        since: "0.2",
        aliases: &["path_regexp", "regex", "regexp"],
        set: |route, given| route.set_patterns(given),
        ..Row::BASE
    },
    Row {
        name: "match",
        contexts: ROUTE.or(REDIRECT),
        kind: MATCH_OR_NAME,
        example: Some("{ method = \"POST\" }"),
        summary: "Further conditions: a table, or the name of a [site.matcher.NAME], or a list of \
                  names of which all must match.",
        apache: Some("<If>, <Limit>"),
        since: "0.2",
        aliases: &["matcher", "conditions", "if"],
        set: |route, given| {
            let at = given.at.clone();
            route.matcher = matcher::tree(given).map(|tree| (tree, at));
        },
        ..Row::BASE
    },
    Row {
        name: "when",
        contexts: ROUTE,
        kind: super::when::SECTIONS,
        summary: "Settings for requests that meet further conditions.",
        apache: Some("<If>"),
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "name",
        contexts: ROUTE,
        kind: Kind::Word(&ROUTE_NAME),
        example: Some("\"app\""),
        summary: "Name, by which `try_files` and `error_pages` use the route: `@name`. A route \
                  with a name and without `path`, `path_regex` and `match` is found by its name \
                  only.",
        since: "0.2",
        aliases: &["id"],
        set: |route, given| route.name = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "try_files",
        contexts: ROUTE,
        kind: Kind::ListOf(&Kind::Word(&CANDIDATE)),
        example: Some("[\"$uri\", \"$uri/\", \"/index.php?$args\"]"),
        summary: "Serve the first of these files that exists below the document root; with a \
                  slash at its end, a directory. The last element is for all other requests: a \
                  path (routes are matched again), `=404`, or `@name` for the route of that name. \
                  Access rules of this route are checked before.",
        apache: Some("FallbackResource"),
        since: "0.2",
        aliases: &["try", "index_fallback", "front_controller", "fallback"],
        set: |route, given| {
            let at = given.at.clone();
            let each = given.list().into_iter();
            let list = each.filter_map(|one| Some((one.parsed_as()?, one.at)));
            route.try_files = Some((list.collect(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "rewrite",
        contexts: ROUTE,
        kind: Kind::Word(&REWRITE),
        example: Some("\"/index.php?page=$1\""),
        summary: "Change path and query inside of the server. Without `?`, the query stays as it \
                  is. Routes are matched again with the new path, at most ten times; with `proxy`, \
                  the new path goes to the upstream. Access rules of this route are checked \
                  before.",
        apache: Some("RewriteRule, Alias"),
        since: "0.2",
        aliases: &["uri", "rewrite_to", "rewrites"],
        set: |route, given| route.rewrite = map::located(&given),
        ..Row::BASE
    },
    Row {
        name: "vars",
        contexts: ROUTE,
        kind: Kind::MapOf(&IDENTIFIER, &Kind::Word(&TEXT)),
        default: Some("{}"),
        example: Some("{ backend = \"$host:8080\" }"),
        summary: "Variables, added to the site's.",
        since: "0.2",
        aliases: &["set", "variables"],
        set: |route, given| route.vars = map::entries(given),
        ..Row::BASE
    },
    Row {
        name: "request",
        contexts: ROUTE,
        kind: Kind::Table(&REQUEST_TABLE),
        example: Some("{ headers = { X-Tenant = \"$1\" }, query = { debug = false } }"),
        summary: "Edit the request before the action of the route.",
        since: "0.2",
        aliases: &[
            "request_header",
            "request_headers",
            "proxy_set_header",
            "header_up",
        ],
        set: |route, given| route.request = given.parsed_as(),
        ..Row::BASE
    },
    Row {
        name: "route",
        contexts: ROUTE,
        kind: Kind::Sections(ROUTE),
        summary: "Routes inside of this one: they match only what this one matches, start with \
                  its settings, and come before it.",
        since: "0.2",
        aliases: &["routes"],
        ..Row::BASE
    },
    Row {
        name: "redirect",
        contexts: ROUTE,
        kind: Kind::Word(&REDIRECT_TO),
        example: Some("\"https://example.org/new/$1\""),
        summary: "Redirect to this target. `$1` is what the first `*` or group matched; `$host`, \
                  `$path`, `$query` (with its `?`) come from the request; `$$` is a dollar sign. \
                  docs/routes.md lists all variables.",
        apache: Some("Redirect, RedirectMatch"),
        aliases: &["to", "redir"],
        set: |route, given| route.redirect = map::located(&given),
        ..Row::BASE
    },
    Row {
        name: "respond",
        contexts: ROUTE,
        kind: Kind::Word(&TEXT),
        example: Some("\"pong\\n\""),
        summary: "Respond with this text, which may have variables; `$$` is a dollar sign. In \
                  HTML, XML, and JSON, values are escaped.",
        aliases: &["return", "body"],
        set: |route, given| route.respond = map::located(&given),
        ..Row::BASE
    },
    Row {
        name: "deny",
        contexts: ROUTE,
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Respond with 403.",
        apache: Some("Require all denied, Require, Deny"),
        set: |route, given| {
            let at = given.at.clone();
            route.deny = Some((given.boolean(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "internal",
        contexts: ROUTE,
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Only for internal redirects (X-Accel-Redirect, X-LiteSpeed-Location, error \
                  documents, `rewrite`, `try_files`); requests from clients get 404.",
        since: "0.2",
        set: |route, given| route.is_internal = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "proxy",
        contexts: ROUTE,
        kind: Kind::Word(&upstream::PROXY),
        example: Some("\"http://127.0.0.1:3000\""),
        summary: "Forward requests, whatever their method, to this upstream: the name of an \
                  [[upstream]], or the URL of one server (see `servers` there). A URL without a \
                  path passes the path of the request on as it was sent; the path of a URL, even \
                  `/` alone, takes the place of the literal beginning of the route's `path`, before \
                  its first `*`, with one slash between the two.",
        apache: Some("ProxyPass, ProxyPassMatch"),
        aliases: &["proxy_pass", "upstream", "fastcgi_pass", "reverse_proxy"],
        set: |route, given| route.proxy = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "root",
        contexts: ROUTE,
        kind: Kind::Path,
        example: Some("\"/srv/other\""),
        summary: "Document root of the route, instead of the site's: the whole path of a request \
                  is looked for below it. Relative to the configuration file.",
        aliases: &["document_root"],
        since: "0.2",
        set: |route, given| route.root = Some(given.located_path()),
        ..Row::BASE
    },
    Row {
        name: "alias",
        contexts: ROUTE,
        kind: Kind::Path,
        example: Some("\"/srv/docs\""),
        summary: "Directory that the literal beginning of the route's `path` stands for: with \
                  path = \"/docs/*\" and alias = \"/srv/docs\", `/docs/a.txt` is \
                  `/srv/docs/a.txt`. The pattern has to end in `/*`; for a path without a star, \
                  the file.",
        apache: Some("Alias, AliasMatch"),
        since: "0.2",
        set: |route, given| route.alias = Some(given.located_path()),
        ..Row::BASE
    },
    Row {
        name: "preserve_host",
        contexts: ROUTE,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "With `proxy`: forward the client's Host. `false`: send the address of the \
                  upstream server instead.",
        apache: Some("ProxyPreserveHost"),
        set: |route, given| {
            let at = given.at.clone();
            route.preserve_host = Some((given.boolean(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "forwarded_proto",
        contexts: ROUTE,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "With `proxy` over HTTP: set X-Forwarded-Proto to `https` or `http`, by the \
                  client's connection, and drop the client's field of that name. `false`: forward \
                  the field as received, for use behind another proxy that sets it.",
        aliases: &["x_forwarded_proto"],
        since: "0.2",
        set: |route, given| {
            let at = given.at.clone();
            route.forwarded_proto = Some((given.boolean(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "status",
        contexts: ROUTE.or(REDIRECT),
        kind: STATUS,
        example: Some("301"),
        summary: "Status of a redirect (301, 302, 303, 307, 308; default 302) or of `respond` \
                  (default 200).",
        aliases: &["code", "permanent", "temporary"],
        set: |route, given| {
            let at = given.at.clone();
            route.status = Some((given.number() as u16, at));
        },
        ..Row::BASE
    },
    Row {
        name: "type",
        contexts: ROUTE,
        kind: Kind::Word(&MEDIA_TYPE),
        default: Some("\"text/plain; charset=utf-8\""),
        summary: "Media type of `respond`.",
        aliases: &["content_type", "media_type"],
        set: |route, given| route.content_type = Some(given.located_text()),
        ..Row::BASE
    },
];

impl RouteDraft {
    pub(super) fn set_patterns(&mut self, given: Spanned) {
        for one in given.one_or_many() {
            let pattern = one.parsed_as();
            self.patterns
                .extend(pattern.map(|pattern| (pattern, one.at)));
        }
    }
}
