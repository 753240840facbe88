//! `[[site.route]]`: a path pattern, at most one action, and settings that override the site's.
//!
//! Called by: `site`, after all other keys of the site have been read.
//! Caveat: the first route that matches wins; `check/routes` reports unreachable ones.

use super::{path_pattern::PATTERN, proxy::ProxyDraft, upstream};
use crate::{
    context::{Contexts, REDIRECT, ROUTE},
    diagnostic::quoted,
    folder::without_parents,
    kind::{Kind, Word},
    model::{Action, PathPattern, Redirect, RedirectPiece, Route, RouteRoot, Settings},
    reader::{Reader, Table},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned, Value, ValueError},
};
use saker_http::Status;
use std::{os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

pub static REDIRECT_TO: Word = Word {
    expects: "a path (\"/new/$1\") or a URL (\"https://...\")",
    pattern: "^(/|[A-Za-z][A-Za-z0-9+.-]*:|\\$)",
    read: |text| read_redirect_to(text).map(Value::Text),
};

static MEDIA_TYPE: Word = Word {
    expects: "a media type, such as \"text/html; charset=utf-8\"",
    pattern: "^[^/ ]+/[^/ ]+( ?;.*)?$",
    read: |text| super::files::media_type(text).map(Value::Text),
};

pub const STATUS: Kind = Kind::Integer { min: 200, max: 599 };

const REDIRECT_STATUSES: &[u16] = &[301, 302, 303, 307, 308];

/// A route while it is read.
#[derive(Debug, Default)]
pub struct RouteDraft {
    pub pattern: Option<PathPattern>,
    pub redirect: Option<(String, Location)>,
    pub respond: Option<(String, Location)>,
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
    pub settings: Settings,
}

impl Draft for RouteDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let given = self.terms.set(key, given)?;
        self.settings.set(key, given)
    }
}

pub const ROWS: &[Row<RouteDraft>] = &[
    Row {
        name: "path",
        contexts: ROUTE,
        kind: Kind::Word(&PATTERN),
        example: Some("\"/img/*\""),
        required: true,
        summary: "Pattern of decoded paths. `*` matches anything, including slashes.",
        apache: Some("<Location>, <LocationMatch>"),
        aliases: &["match", "prefix", "pattern", "from"],
        set: |route, given| route.set_pattern(given),
        ..Row::BASE
    },
    Row {
        name: "redirect",
        contexts: ROUTE,
        kind: Kind::Word(&REDIRECT_TO),
        example: Some("\"https://example.org/new/$1\""),
        summary: "Redirect to this target. `$1` is what the first `*` matched; `$host`, `$path`, \
                  `$query` (with its `?`) come from the request; `$$` is a dollar sign.",
        apache: Some("Redirect, RedirectMatch"),
        aliases: &["to", "redir"],
        set: |route, given| route.redirect = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "respond",
        contexts: ROUTE,
        kind: Kind::Word(&RESPONSE),
        example: Some("\"pong\\n\""),
        summary: "Respond with this text.",
        aliases: &["return", "body"],
        set: |route, given| route.respond = Some(given.located_text()),
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
                  documents); requests from clients get 404.",
        since: "0.4",
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
        aliases: &["proxy_pass", "upstream", "fastcgi_pass"],
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
        since: "0.5",
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
        since: "0.5",
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

static RESPONSE: Word = Word {
    expects: "a string",
    pattern: "",
    read: |text| Ok(Value::Text(text.to_owned())),
};

/// Reads one `[[site.route]]`. Returns `None` without a valid pattern or action, which has been
/// reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: Location,
    site: &Arc<Settings>,
) -> Option<Route> {
    let mut draft = RouteDraft {
        settings: Settings::clone(site),
        ..RouteDraft::default()
    };
    reader.fill(table, ROUTE, &header, &mut draft);
    finish(reader, draft, header, ROUTE)
}

pub(super) fn finish(
    reader: &mut Reader<'_>,
    mut draft: RouteDraft,
    header: Location,
    context: Contexts,
) -> Option<Route> {
    one_action_only(reader, &draft);
    check_dependents(reader, &draft);
    if let (Some(pattern), Some((to, at))) = (&draft.pattern, &draft.redirect) {
        check_stars(reader, pattern, to, at);
    }
    let action = action(reader, &draft);
    if let Some(root) = route_root(reader, &draft) {
        draft.settings.root = Some(Arc::new(root));
    }
    super::signed_urls::apply_default_prefix(
        &mut draft.settings.links.signed,
        draft.pattern.as_ref(),
    );
    let settings = Arc::new(draft.settings);
    let missing = context == REDIRECT && action == Action::Files;
    draft.pattern.filter(|_| !missing).map(|pattern| Route {
        pattern,
        action,
        settings,
        is_internal: draft.is_internal,
        origin: header.origin(),
    })
}

fn one_action_only(reader: &mut Reader<'_>, draft: &RouteDraft) {
    let redirect = draft.redirect.as_ref().map(|(_, at)| ("redirect", at));
    let respond = draft.respond.as_ref().map(|(_, at)| ("respond", at));
    let deny = draft
        .deny
        .as_ref()
        .filter(|(deny, _)| *deny)
        .map(|(_, at)| ("deny", at));
    let proxy = draft.proxy.as_ref().map(|(_, at)| ("proxy", at));
    let mut given: Vec<(&str, &Location)> = [redirect, respond, deny, proxy]
        .into_iter()
        .flatten()
        .collect();
    given.sort_by_key(|(_, at)| at.span.start);
    if let [(first, _), (second, at), ..] = given.as_slice() {
        let help = "a route has one action: keep one of `redirect`, `respond`, `proxy`, `deny`";
        reader.error(
            at,
            format!("this route has both `{first}` and `{second}`"),
            Some(help.into()),
        );
    }
}

/// Reports keys that have no effect without an action.
fn check_dependents(reader: &mut Reader<'_>, draft: &RouteDraft) {
    if let Some((_, at)) = draft
        .status
        .as_ref()
        .filter(|_| draft.redirect.is_none() && draft.respond.is_none())
    {
        reader.error(
            at,
            "`status` without `redirect` or `respond`",
            Some("remove it: files have their own status".into()),
        );
    }
    for (name, given) in [
        ("preserve_host", &draft.preserve_host),
        ("forwarded_proto", &draft.forwarded_proto),
    ] {
        if let Some((_, at)) = given.as_ref().filter(|_| draft.proxy.is_none()) {
            reader.error(
                at,
                format!("`{name}` without `proxy`"),
                Some("remove it".into()),
            );
        }
    }
    if draft.proxy.is_none() {
        draft.terms.report_unused(reader);
    }
    if let Some((_, at)) = draft
        .content_type
        .as_ref()
        .filter(|_| draft.respond.is_none())
    {
        reader.error(
            at,
            "`type` without `respond`",
            Some("for files, see `types` and `default_type`".into()),
        );
    }
}

fn action(reader: &mut Reader<'_>, draft: &RouteDraft) -> Action {
    if let Some((to, _)) = &draft.redirect {
        return Action::Redirect(Redirect {
            status: redirect_status(reader, draft),
            to: to.clone(),
        });
    }
    if let Some((body, _)) = &draft.respond {
        let status = draft
            .status
            .as_ref()
            .map_or(Status::OK, |(status, _)| Status(*status));
        let content_type = draft
            .content_type
            .as_ref()
            .map_or("text/plain; charset=utf-8", |(text, _)| text);
        if let Some((_, at)) = draft
            .status
            .as_ref()
            .filter(|_| status.forbids_content() && !body.is_empty())
        {
            reader.error(
                at,
                format!("a {} response has no body", status.0),
                Some("write respond = \"\"".into()),
            );
        }
        return Action::Respond {
            status,
            content_type: content_type.into(),
            body: body.clone(),
        };
    }
    if let Some((said, _)) = &draft.proxy {
        let is_on =
            |given: &Option<(bool, Location)>| given.as_ref().is_none_or(|(is_on, _)| *is_on);
        return Action::Proxy(upstream::proxy(
            said.clone(),
            is_on(&draft.preserve_host),
            is_on(&draft.forwarded_proto),
            draft.terms.terms.clone(),
        ));
    }
    match draft.deny {
        Some((true, _)) => Action::Deny,
        _ => Action::Files,
    }
}

/// Reads `root` or `alias`.
fn route_root(reader: &mut Reader<'_>, draft: &RouteDraft) -> Option<RouteRoot> {
    if let (Some(_), Some((_, at))) = (&draft.root, &draft.alias) {
        let help = "`root` looks for the whole path below it, `alias` for the rest of the path";
        reader.error(
            at,
            "this route has both `root` and `alias`",
            Some(help.into()),
        );
    }
    if let Some((folder, _)) = &draft.root {
        return Some(RouteRoot {
            folder: without_parents(folder.clone()).into(),
            prefix: "".into(),
            file: None,
        });
    }
    let (target, at) = draft.alias.as_ref()?;
    let target = without_parents(target.clone());
    match draft.pattern.as_ref()? {
        PathPattern::Prefix(prefix) if prefix.ends_with('/') => Some(RouteRoot {
            folder: target.into(),
            prefix: prefix.as_str().into(),
            file: None,
        }),
        PathPattern::Exact(path) => Some(RouteRoot {
            folder: target.parent()?.into(),
            prefix: path.as_str().into(),
            file: Some(target.file_name()?.as_bytes().into()),
        }),
        // `/img*` and `/img../x` would lead out of the directory.
        _ => {
            let help = "write a pattern such as \"/docs/*\", or a path without stars for one file";
            reader.error(
                at,
                "`alias` needs a pattern that ends in `/*` and has no other star",
                Some(help.into()),
            );
            None
        }
    }
}

fn redirect_status(reader: &mut Reader<'_>, draft: &RouteDraft) -> Status {
    let Some((status, at)) = &draft.status else {
        return Status::FOUND;
    };
    if !REDIRECT_STATUSES.contains(status) {
        let help = "301 and 308 are permanent, 302 and 307 temporary, 303 changes any method to \
                    GET; 307 and 308 keep the method";
        reader.error(
            at,
            format!("invalid redirect status {status}"),
            Some(help.into()),
        );
    }
    Status(*status)
}

fn check_stars(reader: &mut Reader<'_>, pattern: &PathPattern, to: &str, at: &Location) {
    let stars = pattern.stars();
    let used = Redirect::pieces(to)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|piece| match piece {
            RedirectPiece::Star(number) => Some(number),
            _ => None,
        });
    if let Some(number) = used.filter(|number| *number > stars).max() {
        let message = match stars {
            0 => format!("undefined ${number}: the pattern has no `*`"),
            1 => format!("undefined ${number}: the pattern has one `*`"),
            _ => format!("undefined ${number}: the pattern has {stars} `*`"),
        };
        reader.error(
            at,
            message,
            Some("`$path` is the whole path of the request".into()),
        );
    }
}

impl RouteDraft {
    pub(super) fn set_pattern(&mut self, given: Spanned) {
        self.pattern = given.parsed_as();
    }
}

fn read_redirect_to(text: &str) -> Result<String, ValueError> {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(ValueError::with_help(
            "spaces and control characters are not allowed in a URL",
            "write %20 for a space",
        ));
    }
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if !has_scheme && !text.starts_with(['/', '$']) {
        let help = || {
            format!(
                "write {} or {}",
                quoted(&format!("/{text}")),
                quoted(&format!("https://{text}"))
            )
        };
        return Err(ValueError::plain((!text.is_empty()).then(help)));
    }
    match Redirect::pieces(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(offset) => {
            let rest: String = text
                .get(offset..)
                .unwrap_or_default()
                .chars()
                .take(12)
                .collect();
            let help = "variables are $1 to $9, $host, $path and $query; $$ is a dollar sign";
            Err(ValueError::with_help(
                format!("unknown variable {}", quoted(&rest)),
                help,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_targets() {
        for good in [
            "/a",
            "/a/$1?x=$$",
            "https://$host$path$query",
            "mailto:a@b",
            "$path",
        ] {
            assert_eq!(read_redirect_to(good).as_deref(), Ok(good));
        }
        for bad in ["", "a", "/a b", "/$", "/$0", "/$foo", "//\n"] {
            assert!(read_redirect_to(bad).is_err(), "{bad}");
        }
    }
}
