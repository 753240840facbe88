//! `[[site]]`: names, root, listeners, redirects to HTTPS.
//!
//! Caveat: routes are read after all other keys of the site, in any order of the file: each starts
//! with a copy of the site's settings.

use super::{
    compression, listener,
    logs::ReadAccessLog,
    map::{self, LocatedTemplate},
    matcher::{self, IDENTIFIER, MATCH_TABLE, MatchTree},
    read_route::{self, Inherited, ReadRoute, RouteLogs, RouteTemplates},
    redirect, signed_urls,
    template::TEXT,
    tls::{self, SiteTlsDraft},
    user_directories::{self, UserDirectoriesDraft},
    when,
};
use crate::{
    context::{Contexts, REDIRECT, ROUTE, SITE},
    kind::{Kind, Word},
    model::{
        Action, Address, ByHost, CanonicalPort, HostPattern, HttpsRedirect, IsByAddress, Listener,
        LiveRedirects, PhpUse, Rewrite, Route, Settings, Site, SiteName, SiteTls,
    },
    preset,
    reader::{Reader, Table, table_in},
    row::{self, Draft, Row, Rows},
    source::{Location, Source},
    value::{Key, Spanned, Value, ValueError},
};
use saker_http::Status;
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

static NAME: Word = Word {
    expects: "a host name, such as \"example.org\" or \"*.example.org\", or \"*\" for all",
    pattern: "^[^/ :]+$|^\\[[0-9a-fA-F:.]+\\]$",
    read: |text| read_name(text).map(Value::parsed),
};

/// A site while it is read; items that are compared with other sites keep their locations.
#[derive(Debug)]
pub struct SiteDraft {
    pub names: Option<Vec<(SiteName, Location)>>,
    pub listeners: Vec<(Address, Location)>,
    pub root: Option<(PathBuf, Location)>,
    /// The database of `[dynamic_vhosts]` is queried.
    pub is_looked_up: bool,
    pub access_logs: Vec<ReadAccessLog>,
    pub tls: SiteTlsDraft,
    /// The settings made from `tls`.
    pub site_tls: SiteTls,
    pub https_redirect: Option<(Status, Location)>,
    pub user_directories: Option<(UserDirectoriesDraft, Location)>,
    pub settings: Settings,
    pub matchers: Vec<(String, MatchTree, Location)>,
    pub vars: Vec<(String, LocatedTemplate)>,
    pub routes: Vec<Route>,
    /// The texts of each route.
    pub route_templates: Vec<Arc<RouteTemplates>>,
    pub at: Location,
}

impl Draft for SiteDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let given = self.tls.set(key, given)?;
        let given = self.access_logs.set(key, given)?;
        self.settings.set(key, given)
    }

    fn note_unread(&mut self, key: Key) {
        self.settings.note_unread(key);
    }
}

pub const ROWS: &[Row<SiteDraft>] = &[
    Row {
        name: "names",
        contexts: SITE,
        kind: Kind::ListOf(&Kind::Word(&NAME)),
        default: Some("[\"*\"]"),
        summary: "Host names of the site: exact, `*.example.org` (one or more labels), or `*` for \
                  all others.",
        apache: Some("ServerName, ServerAlias"),
        aliases: &["name", "host", "hosts", "server_name"],
        set: |site, given| site.names = Some(names(given)),
        ..Row::BASE
    },
    Row {
        name: "preset",
        contexts: SITE,
        kind: Kind::Choice(preset::NAMES),
        example: Some("\"wordpress\""),
        summary: "Settings and routes for an application; keys of the site override them. The \
                  denials of a preset come before the routes of the site, its other routes after \
                  them, and a route of the site with the same path takes the place of the \
                  preset's. `saker config --expanded` shows the result.",
        since: "0.2",
        aliases: &["application", "app", "template"],
        set: |_, _| {},
        ..Row::BASE
    },
    Row {
        name: "root",
        contexts: SITE,
        kind: Kind::Path,
        example: Some("\"/srv/www\""),
        summary: "Document root, relative to the configuration file. It may contain parts of the \
                  host name: `%0` is the whole name, `%2` its second label, `%-1` the last, `%2+` \
                  the second and all following, `%1.1` the first letter of the first; `_` where \
                  the name has no such part, `%%` a percent sign. Required unless the site's \
                  routes answer every request or `lookup` is on.",
        apache: Some("DocumentRoot, VirtualDocumentRoot"),
        aliases: &["document_root", "alias"],
        set: |site, given| {
            let at = given.at.clone();
            site.root = Some((crate::folder::without_parents(given.path()), at));
        },
        ..Row::BASE
    },
    Row {
        name: "lookup",
        contexts: SITE,
        kind: Kind::Boolean,
        default: Some("false"),
        since: "0.2",
        summary: "Look up the document root and other settings of each host name in the database \
                  of [dynamic_vhosts]?",
        aliases: &["from_database", "dynamic", "mass_vhost"],
        set: |site, given| site.is_looked_up = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "user_directories",
        contexts: SITE,
        kind: Kind::OneOf(&[Kind::Boolean, Kind::Table(&user_directories::TABLE)]),
        default: Some("false"),
        example: Some("true"),
        summary: "Pages of users of this machine: `/~ann/` is the directory `public_html` in ann's \
                  home. They come before the routes of the site, except for denials at its \
                  beginning. Symbolic links are followed within the \
                  home only.",
        apache: Some("UserDir"),
        since: "0.2",
        aliases: &["userdir", "user_dir", "home_directories"],
        set: |site, given| {
            let at = given.at.clone();
            site.user_directories = match given.parsed_as::<UserDirectoriesDraft>() {
                Some(draft) => Some((draft, at)),
                None => given
                    .boolean()
                    .then(|| (UserDirectoriesDraft::default(), at)),
            };
        },
        ..Row::BASE
    },
    Row {
        name: "listeners",
        contexts: SITE,
        kind: Kind::ListOf(&Kind::Word(&listener::ADDRESS)),
        default: Some("[]"),
        example: Some("[\"127.0.0.1:8080\"]"),
        summary: "Addresses of the listeners that serve the site. Empty: all.",
        aliases: &["listen"],
        set: |site, given| site.listeners = listeners(given),
        ..Row::BASE
    },
    Row {
        name: "route",
        contexts: SITE,
        kind: Kind::Sections(ROUTE),
        summary: "Different behavior for some paths.",
        apache: Some("<Location>"),
        aliases: &["location", "routes"],
        ..Row::BASE
    },
    Row {
        name: "redirect",
        contexts: SITE,
        kind: Kind::Sections(REDIRECT),
        summary: "Paths that have moved.",
        apache: Some("Redirect, RedirectMatch"),
        aliases: &["redirects"],
        ..Row::BASE
    },
    Row {
        name: "when",
        contexts: SITE,
        kind: when::SECTIONS,
        summary: "Settings for requests that meet conditions.",
        apache: Some("<If>"),
        since: "0.2",
        aliases: &["if", "headers_when"],
        ..Row::BASE
    },
    Row {
        name: "matcher",
        contexts: SITE,
        kind: Kind::MapOf(&IDENTIFIER, &MATCH_TABLE),
        default: Some("{}"),
        example: Some("{ office = { client = \"192.0.2.0/24\" } }"),
        summary: "Named conditions on requests, for `match` of routes, redirects, and `when`, and for \
                  access logs.",
        since: "0.2",
        aliases: &["matchers"],
        set: |site, given| {
            let each = given.map().into_iter();
            site.matchers = each
                .filter_map(|(name, one)| Some((name, one.parsed_as()?, one.at)))
                .collect();
        },
        ..Row::BASE
    },
    Row {
        name: "vars",
        contexts: SITE,
        kind: Kind::MapOf(&IDENTIFIER, &Kind::Word(&TEXT)),
        default: Some("{}"),
        example: Some("{ shop = \"https://shop.example.org\" }"),
        summary: "Variables: texts that other texts with variables use as `$name`.",
        apache: Some("Define"),
        since: "0.2",
        aliases: &["set", "variables"],
        set: |site, given| site.vars = map::entries(given),
        ..Row::BASE
    },
    Row {
        name: "https_redirect",
        contexts: SITE,
        kind: Kind::OneOf(&[Kind::Boolean, Kind::Integer { min: 301, max: 308 }]),
        default: Some("false"),
        example: Some("true"),
        summary: "Redirect plain HTTP requests to HTTPS, with the same host, path and query? \
                  `true` uses status 308; 301, 302, 303 or 307 may be given instead. ACME \
                  challenges (`/.well-known/acme-challenge/`) are still answered.",
        apache: Some("MDRequireHttps"),
        aliases: &[
            "redirect_https",
            "force_https",
            "https_only",
            "require_https",
        ],
        set: set_https_redirect,
        ..Row::BASE
    },
];

/// Reads one `[[site]]` with its routes.
pub fn read(reader: &mut Reader<'_>, table: &Table<'_>, header: Location) -> SiteDraft {
    let mut site = SiteDraft::new(header);
    let at = site.at.clone();
    let preset = preset::named_in(table).map(|preset| preset.source("", reader.source()));
    let of_preset = preset
        .as_ref()
        .map(|source| (source, preset::parsed(source, table)));
    if let Some((source, table)) = &of_preset {
        reader.within(source, |reader| reader.fill(table, SITE, &at, &mut site));
    }
    reader.fill(table, SITE, &at, &mut site);
    let all = routes(reader, table, of_preset.as_ref());
    signed_urls::apply_default_prefix(&mut site.settings.links.signed, None);
    let named = matcher::resolve_all(reader, std::mem::take(&mut site.matchers));
    site.settings.conditionals = when::read(reader, table, &named);
    when::check_count(reader, site.settings.conditionals.len(), &site.at);
    site.access_logs
        .iter_mut()
        .for_each(|log| log.resolve(reader, &named));
    let inherited = Inherited::of_site(Arc::new(site.settings.clone()), site.vars.clone());
    for (table, at, context) in all {
        let source = Arc::clone(&at.source);
        let routes = reader.within(&source, |reader| {
            if context == ROUTE {
                read_route::read(reader, table, at, &inherited, &named)
            } else {
                redirect::read(reader, table, at, &inherited, &named)
            }
        });
        site.add_routes(routes);
    }
    site.add_user_directories(&inherited);
    check(reader, table, &site);
    if site.names.is_none() && reader.is_mentioned(table, "names", SITE) {
        // Broken ones have been reported, and are not all names.
        site.names = Some(Vec::new());
    }
    compression::check(reader, table, &site.settings.compression);
    site.site_tls = tls::finish(reader, &site.tls, table_in(table, "tls"));
    site
}

/// The routes and redirects of a site in the order in which they are matched, those of its preset
/// around them.
fn routes<'n, 't: 'n>(
    reader: &mut Reader<'_>,
    table: &'n Table<'t>,
    of_preset: Option<&'n (&Arc<Source>, Table<'t>)>,
) -> Vec<(&'n Table<'t>, Location, Contexts)> {
    let mut all: Vec<_> = Vec::new();
    for (key, context) in [("route", ROUTE), ("redirect", REDIRECT)] {
        let tables = reader.sections(table, key, context).into_iter();
        all.extend(tables.map(|(table, at)| (table, at, context)));
    }
    all.sort_by_key(|(_, at, _)| at.span.start);
    let Some((source, preset)) = of_preset else {
        return all;
    };
    let of_preset = preset::routes(preset, source).into_iter();
    let of_preset = of_preset.map(|(table, at)| (table, at, ROUTE)).collect();
    preset::around(all, of_preset, |(table, ..)| table)
}

fn check(reader: &mut Reader<'_>, table: &Table<'_>, site: &SiteDraft) {
    match &site.root {
        Some((root, at))
            if pattern_of(root).is_none_or(|pattern| pattern.is_none()) && has_pattern(root) =>
        {
            let help = "use %0, %1, %-1, %2+, %1.1 and the like, %p for the port, or %% for a \
                        percent sign";
            reader.error(
                at,
                "invalid placeholder after `%` in `root`",
                Some(help.into()),
            );
        }
        Some((root, at)) if !root.is_dir() && !has_pattern(root) => {
            let written = reader.source().slice(at.span.clone()).to_owned();
            let help = match written.trim_matches(['"', '\'']).starts_with('~') {
                true => "write the whole path: \"~\" is a home directory in shells only",
                false => "until it exists, requests get 404",
            };
            reader.warning(
                at,
                format!("the root {written} is not a directory"),
                Some(help.into()),
            );
        }
        None if !reader.is_mentioned(table, "root", SITE)
            && !site.is_looked_up
            && needs_root(site) =>
        {
            let help = "add root = \"/srv/www\", or a route that answers path = \"*\"";
            reader.error(
                &site.at,
                "missing `root`, and the routes of the site don't answer every request",
                Some(help.into()),
            );
        }
        _ => {}
    }
    if site.names.as_ref().is_some_and(Vec::is_empty) {
        reader.error(
            &site.at,
            "`names` is empty",
            Some("write names = [\"*\"] for all hosts".into()),
        );
    }
    if let Some((status, at)) = site
        .https_redirect
        .as_ref()
        .filter(|(status, _)| !matches!(status.0, 301..=303 | 307 | 308))
    {
        let help = "301 and 308 are permanent, 302 and 307 temporary, 303 changes any method to \
                    GET; 307 and 308 keep the method";
        reader.error(
            at,
            format!("invalid redirect status {}", status.0),
            Some(help.into()),
        );
    }
}

fn has_pattern(root: &Path) -> bool {
    root.as_os_str().as_bytes().contains(&b'%')
}

/// Outer `None`: no pattern. Inner `None`: an invalid placeholder.
fn pattern_of(root: &Path) -> Option<Option<HostPattern>> {
    root.to_str()
        .filter(|_| has_pattern(root))
        .map(HostPattern::parse)
}

/// Returns whether some request may be served from files below the site's root: by a route without
/// a root of its own, or because no route before the end matches everything.
fn needs_root(site: &SiteDraft) -> bool {
    for route in &site.routes {
        let is_rewritten = matches!(route.rewrite.as_deref(), Some(Rewrite::To(_)));
        let is_users = route.settings.user_directories.is_some();
        let has_own_root = route.settings.root.is_some();
        if route.action == Action::Files && !is_rewritten && !is_users && !has_own_root {
            return true;
        }
        if route.pattern.is_everything() && route.matcher.is_none() && !route.is_named_only {
            return false;
        }
    }
    true
}

impl SiteDraft {
    fn new(at: Location) -> SiteDraft {
        SiteDraft {
            names: None,
            listeners: Vec::new(),
            root: None,
            is_looked_up: false,
            access_logs: Vec::new(),
            tls: SiteTlsDraft::default(),
            site_tls: SiteTls::default(),
            https_redirect: None,
            user_directories: None,
            settings: Settings::default(),
            matchers: Vec::new(),
            vars: Vec::new(),
            routes: Vec::new(),
            route_templates: Vec::new(),
            at,
        }
    }

    /// Adds routes and their access logs. Routes that share logs come one after the other.
    fn add_routes(&mut self, routes: Vec<ReadRoute>) {
        let mut last: Option<(RouteLogs, Arc<[usize]>)> = None;
        for mut read in routes {
            read.route.access_logs = read.access_logs.map(|logs| {
                if let Some((_, places)) =
                    last.as_ref().filter(|(same, _)| Arc::ptr_eq(same, &logs))
                {
                    return Arc::clone(places);
                }
                let first = self.access_logs.len();
                self.access_logs.extend(logs.iter().cloned());
                let places: Arc<[usize]> = (first..self.access_logs.len()).collect();
                last = Some((logs, Arc::clone(&places)));
                places
            });
            self.routes.push(read.route);
            self.route_templates.push(read.templates);
        }
    }

    /// Adds the route of users' pages, behind the denials at the beginning of the site's routes.
    fn add_user_directories(&mut self, inherited: &Inherited) {
        let Some((draft, at)) = &self.user_directories else {
            return;
        };
        let route = user_directories::route(draft, at, &self.settings);
        let position = self
            .routes
            .iter()
            .position(|route| route.action != Action::Deny);
        let position = position.unwrap_or(self.routes.len());
        self.routes.insert(position, route);
        let templates = RouteTemplates {
            vars: inherited.vars.clone(),
            ..RouteTemplates::default()
        };
        self.route_templates.insert(position, Arc::new(templates));
    }

    /// Returns whether the site is on this listener.
    pub fn is_on(&self, address: &Address) -> bool {
        self.listeners.is_empty() || self.listeners.iter().any(|(own, _)| own == address)
    }

    /// Builds the site. `all`: the listeners of the whole configuration.
    pub fn site(self, all: &[Listener]) -> Site {
        let https_redirect = self
            .https_redirect
            .as_ref()
            .map(|(status, _)| HttpsRedirect {
                status: *status,
                port: self.https_port(all),
            });
        let names = self.names.map_or_else(
            || vec![SiteName::Any],
            |names| names.into_iter().map(|(name, _)| name).collect(),
        );
        let root = self.root.map(|(root, _)| root);
        let root_by_host = root.as_deref().and_then(pattern_of).flatten();
        let settings = || {
            std::iter::once(&self.settings).chain(self.routes.iter().map(|route| &*route.settings))
        };
        let has_sockets = settings().any(|settings| matches!(settings.php, PhpUse::ByHost(_)));
        let by_host =
            (root_by_host.is_some() || self.is_looked_up || has_sockets).then_some(ByHost {
                root: root_by_host,
                is_looked_up: self.is_looked_up,
            });
        Site {
            patterns: Vec::new(),
            legacy_path: None,
            local_addresses: Vec::new(),
            is_by_address: IsByAddress::default(),
            names,
            listeners: self
                .listeners
                .into_iter()
                .map(|(address, _)| address)
                .collect(),
            root: root.as_ref().filter(|root| !has_pattern(root)).cloned(),
            by_host,
            access_logs: self.access_logs.into_iter().map(|log| log.log).collect(),
            error_log: None,
            inner_error_logs: None,
            forensic_log: None,
            canonical_name: None,
            canonical_port: CanonicalPort::Local,
            tls: Arc::new(self.site_tls),
            limits: None,
            https_redirect,
            is_for_peers: false,
            routes: self.routes.into(),
            settings: Arc::new(self.settings),
            live_redirects: LiveRedirects::default(),
            origin: self.at.origin(),
        }
    }

    /// The port for HTTPS redirects: 443 if the site has it, else another TLS port.
    fn https_port(&self, all: &[Listener]) -> u16 {
        let found_on = all
            .iter()
            .filter(|listener| listener.tls.is_some() && self.is_on(&listener.address));
        let ports = found_on.filter_map(|listener| match listener.address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        });
        ports
            .reduce(|first, port| if port == 443 { port } else { first })
            .unwrap_or(443)
    }
}

fn set_https_redirect(site: &mut SiteDraft, given: Spanned) {
    let status = match given.value {
        Value::Number(status) => Some(Status(status as u16)),
        Value::Boolean(true) => Some(Status::PERMANENT_REDIRECT),
        _ => None,
    };
    site.https_redirect = status.map(|status| (status, given.at));
}

fn names(given: Spanned) -> Vec<(SiteName, Location)> {
    let name = |one: Spanned| Some((one.parsed_as()?, one.at));
    given.list().into_iter().filter_map(name).collect()
}

fn listeners(given: Spanned) -> Vec<(Address, Location)> {
    let each = |one: Spanned| {
        let at = one.at.clone();
        one.parsed::<Vec<Address>>()
            .into_iter()
            .map(move |address| (address, at.clone()))
    };
    given.list().into_iter().flat_map(each).collect()
}

/// Host names as in requests: letters, digits, `-`, `_` (in use, though not in RFC 1123) and dots.
pub(super) fn read_name(text: &str) -> Result<SiteName, ValueError> {
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    if name == "*" {
        return Ok(SiteName::Any);
    }
    if let Some(address) = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let address: std::net::Ipv6Addr = address
            .parse()
            .map_err(|_| ValueError::new("invalid IPv6 address in brackets"))?;
        return Ok(SiteName::Exact(format!("[{address}]")));
    }
    match name.strip_prefix("*.") {
        Some(rest) => host(rest).map(|()| SiteName::Wildcard(rest.to_owned())),
        None => host(name).map(|()| SiteName::Exact(name.to_owned())),
    }
}

fn host(name: &str) -> Result<(), ValueError> {
    let help = "write \"*\" for all names";
    match name {
        "" => return Err(ValueError::plain(Some(help.into()))),
        // nginx's name of a site for all others.
        "_" => return Err(ValueError::with_help("no client asks for it", help)),
        _ => {}
    }
    if !name.is_ascii() {
        return Err(ValueError::with_help(
            "non-ASCII letters are not allowed",
            "write the name in its DNS form: \"xn--...\"",
        ));
    }
    if name.contains('*') {
        return Err(ValueError::with_help(
            "`*` stands for whole labels at the start only",
            "write \"*.example.org\", or \"*\" for all hosts",
        ));
    }
    if let Some((host, port)) = name
        .split_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
    {
        return Err(ValueError::with_help(
            "a name has no port",
            format!(
                "write {}, and the port in `address` of [[listener]] (here: \":{port}\")",
                crate::diagnostic::quoted(host)
            ),
        ));
    }
    if let Some((_, rest)) = name.split_once("://") {
        let host = rest.split('/').next().unwrap_or_default();
        let help = format!("write {}", crate::diagnostic::quoted(host));
        return Err(ValueError::with_help("a name is no URL", help));
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    match name.len() <= 253 && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err(ValueError::plain(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn site_names() {
        assert_eq!(
            read_name("Example.ORG."),
            Ok(SiteName::Exact("example.org".into()))
        );
        assert_eq!(
            read_name("*.Example.org"),
            Ok(SiteName::Wildcard("example.org".into()))
        );
        assert_eq!(read_name("*"), Ok(SiteName::Any));
        assert_eq!(
            read_name("[2001:DB8::0:1]"),
            Ok(SiteName::Exact("[2001:db8::1]".into()))
        );
        assert_eq!(
            read_name("127.0.0.1"),
            Ok(SiteName::Exact("127.0.0.1".into()))
        );
        for bad in [
            "",
            ".",
            "a..b",
            "a b",
            "a/b",
            "a:80",
            "*a.b",
            "a.*",
            "münchen.de",
            "[::",
            "[x]",
        ] {
            assert!(read_name(bad).is_err(), "{bad}");
        }
    }
}
