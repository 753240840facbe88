//! `[[site.route]]`: conditions, at most one action, and settings that override the site's.
//!
//! Called by: `site`, after all other keys of the site have been read.
//! Caveat: the first route that matches wins; `check/routes` reports unreachable ones. Routes inside
//! of a route come before it.

use super::{
    map::{self, LocatedTemplate},
    matcher::{self, IDENTIFIER, MATCH_OR_NAME, MatchTree, NamedMatchers, REGEX},
    path_pattern::PATTERN,
    request_edits::{REQUEST_TABLE, RequestDraft},
    route_action,
    template::{CANDIDATE, CandidateText, REDIRECT_TO, REWRITE, TEXT},
    upstream,
};
use crate::{
    context::{Contexts, REDIRECT, ROUTE},
    kind::{Kind, Word},
    model::{Action, Matcher, PathPattern, Route, Settings},
    reader::{Reader, Table},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned, Value},
};
use std::{collections::BTreeMap, sync::Arc};

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

/// Routes inside of each other.
const DEPTH_MAX: usize = 8;

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
    pub is_internal: bool,
    pub settings: Settings,
}

impl Draft for RouteDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        self.settings.set(key, given)
    }
}

/// What a route takes over from the site, or from the route around it.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    pub settings: Arc<Settings>,
    pub vars: BTreeMap<String, LocatedTemplate>,
    patterns: Vec<PathPattern>,
    matcher: Option<Matcher>,
    is_internal: bool,
    depth: usize,
}

/// A route, and its texts that wait for the names of the whole configuration.
#[derive(Debug)]
pub struct ReadRoute {
    pub route: Route,
    pub templates: Arc<RouteTemplates>,
}

/// Locations of a route's texts with variables.
#[derive(Debug, Default)]
pub struct RouteTemplates {
    /// Of `redirect` or `respond`.
    pub action: Option<Location>,
    /// Of `rewrite`, or of each element of `try_files`.
    pub rewrite: Vec<Location>,
    pub vars: BTreeMap<String, LocatedTemplate>,
    pub request: Option<RequestDraft>,
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
        name: "path_regex",
        contexts: ROUTE,
        kind: Kind::Word(&REGEX),
        example: Some("'^/user/(?<id>[0-9]+)$'"),
        summary: "Regular expression (PCRE2) for decoded paths, instead of `path`. Its groups are \
                  `$1` to `$9` and `${name}`. If matching takes too many steps, the response is \
                  500.",
        apache: Some("<LocationMatch>"),
        since: "0.5",
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
        since: "0.5",
        aliases: &["matcher", "when", "conditions", "if"],
        set: |route, given| {
            let at = given.at.clone();
            route.matcher = matcher::tree(given).map(|tree| (tree, at));
        },
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.4",
        set: |route, given| route.is_internal = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "proxy",
        contexts: ROUTE,
        kind: Kind::Word(&upstream::PROXY),
        example: Some("\"http://127.0.0.1:3000\""),
        summary: "Forward requests to this upstream: the name of an [[upstream]], or the URL of \
                  one server (see `servers` there).",
        apache: Some("ProxyPass, ProxyPassMatch"),
        aliases: &["proxy_pass", "upstream", "fastcgi_pass", "reverse_proxy"],
        set: |route, given| route.proxy = Some(given.located_text()),
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
        since: "0.4",
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
        aliases: &["code"],
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

/// Reads one `[[site.route]]` and the routes inside of it, which come first. Returns nothing without
/// a valid pattern or action, which has been reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: Location,
    around: &Inherited,
    named: &NamedMatchers,
) -> Vec<ReadRoute> {
    let mut draft = RouteDraft::below(around);
    reader.fill(table, ROUTE, &header, &mut draft);
    check_path(reader, table, &draft, &header, ROUTE);
    let inner = reader.sections(table, "route", ROUTE);
    if inner.is_empty() {
        return finish(reader, draft, header, ROUTE, (around, named));
    }
    if around.depth + 1 >= DEPTH_MAX {
        let message = format!("routes are nested more than {DEPTH_MAX} deep");
        reader.error(&header, message, None);
        return Vec::new();
    }
    let inherited = Inherited {
        settings: Arc::new(draft.settings.clone()),
        vars: draft.vars_below(around),
        patterns: draft.patterns_below(around),
        matcher: draft.matcher_below(reader, around, named),
        is_internal: draft.is_internal || around.is_internal,
        depth: around.depth + 1,
    };
    // The conditions were resolved, and complaints about them made.
    draft.matcher = None;
    let mut routes = Vec::new();
    for (table, at) in inner {
        routes.extend(read(reader, table, at, &inherited, named));
    }
    let own = Inherited {
        matcher: inherited.matcher.clone(),
        ..around.clone()
    };
    routes.extend(finish(reader, draft, header, ROUTE, (&own, named)));
    routes
}

/// Reports a route that says nothing about the requests it is for.
pub(super) fn check_path(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    draft: &RouteDraft,
    header: &Location,
    context: Contexts,
) {
    let (path, regex) = match context == REDIRECT {
        true => ("from", "from_regex"),
        false => ("path", "path_regex"),
    };
    let has = |name| reader.is_mentioned(table, name, context);
    if has(path) && has(regex) && draft.patterns.len() > 1 {
        let at = draft.patterns.last().map_or(header, |(_, at)| at).clone();
        let message = format!("both `{path}` and `{regex}`");
        reader.error(&at, message, Some("keep one of them".into()));
        return;
    }
    if has(path) || has(regex) || has("match") || (context == ROUTE && has("name")) {
        return;
    }
    let example = if context == REDIRECT {
        "/old/*"
    } else {
        "/img/*"
    };
    reader.error(
        header,
        format!("missing `{path}` {}", context.location()),
        Some(format!("add {path} = \"{example}\"")),
    );
}

pub(super) fn finish(
    reader: &mut Reader<'_>,
    mut draft: RouteDraft,
    header: Location,
    context: Contexts,
    (around, named): (&Inherited, &NamedMatchers),
) -> Vec<ReadRoute> {
    route_action::check(reader, &draft);
    let (action, rewrite) = (
        route_action::action(reader, &draft),
        route_action::rewrite(reader, &draft),
    );
    let only = match draft.patterns.as_slice() {
        [(pattern, _)] => Some(pattern.clone()),
        _ => None,
    };
    super::signed_urls::apply_default_prefix(&mut draft.settings.links.signed, only.as_ref());
    if context == REDIRECT && action == Action::Files {
        return Vec::new();
    }
    let is_named_only =
        draft.name.is_some() && draft.patterns.is_empty() && draft.matcher.is_none();
    let matcher = draft.matcher_below(reader, around, named);
    let mut patterns = draft.patterns_below(around);
    if patterns.is_empty() {
        if matcher.is_none() && !is_named_only {
            return Vec::new();
        }
        patterns.push(PathPattern::Prefix(String::new()));
    }
    let templates = Arc::new(RouteTemplates {
        action: draft
            .redirect
            .as_ref()
            .or(draft.respond.as_ref())
            .map(|(_, at)| at.clone()),
        rewrite: route_action::locations(&draft),
        vars: draft.vars_below(around),
        request: draft.request.take(),
    });
    let settings = Arc::new(draft.settings);
    let rewrite = rewrite.map(Arc::new);
    let route = |(at, pattern)| ReadRoute {
        route: Route {
            name: draft
                .name
                .as_ref()
                .filter(|_| at == 0)
                .map(|(name, _)| name.as_str().into()),
            is_named_only,
            matcher: matcher.clone(),
            rewrite: rewrite.clone(),
            is_internal: draft.is_internal || around.is_internal,
            ..Route::new(
                pattern,
                action.clone(),
                Arc::clone(&settings),
                header.origin(),
            )
        },
        templates: Arc::clone(&templates),
    };
    patterns.into_iter().enumerate().map(route).collect()
}

impl Inherited {
    /// What the routes of a site start with.
    pub fn of_site(
        settings: Arc<Settings>,
        vars: impl IntoIterator<Item = (String, LocatedTemplate)>,
    ) -> Inherited {
        Inherited {
            settings,
            vars: vars.into_iter().collect(),
            ..Inherited::default()
        }
    }
}

impl RouteDraft {
    pub(super) fn below(around: &Inherited) -> RouteDraft {
        RouteDraft {
            settings: Settings::clone(&around.settings),
            ..RouteDraft::default()
        }
    }

    pub(super) fn set_patterns(&mut self, given: Spanned) {
        for one in given.one_or_many() {
            let pattern = one.parsed_as();
            self.patterns
                .extend(pattern.map(|pattern| (pattern, one.at)));
        }
    }

    fn vars_below(&self, around: &Inherited) -> BTreeMap<String, LocatedTemplate> {
        let mut vars = around.vars.clone();
        vars.extend(self.vars.iter().cloned());
        vars
    }

    fn patterns_below(&self, around: &Inherited) -> Vec<PathPattern> {
        match self.patterns.is_empty() {
            true => around.patterns.clone(),
            false => self
                .patterns
                .iter()
                .map(|(pattern, _)| pattern.clone())
                .collect(),
        }
    }

    /// The own conditions and those around. A route with a path of its own must also match a path
    /// of the route around it.
    fn matcher_below(
        &self,
        reader: &mut Reader<'_>,
        around: &Inherited,
        named: &NamedMatchers,
    ) -> Option<Matcher> {
        let mut all: Vec<Matcher> = around.matcher.iter().cloned().collect();
        if !self.patterns.is_empty() && !around.patterns.is_empty() {
            all.push(Matcher::Path(around.patterns.clone().into()));
        }
        if let Some((tree, at)) = &self.matcher {
            all.push(matcher::resolve(reader, tree.clone(), at, named));
        }
        match all.len() {
            0 => None,
            1 => all.pop(),
            _ => Some(Matcher::All(all.into())),
        }
    }
}
