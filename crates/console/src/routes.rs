//! The table of routes: everything that the console answers.
//!
//! Called by: the gate, which finds a route before anything else happens; the OpenAPI document,
//! which is made from the table; tests, which try every row without credentials and with each role.
//! Caveat: a path is compared byte by byte; there are no patterns, and no decoding.
//! Out of scope: what an action does (`actions`, `api`).

use crate::users::Role;

/// Clients that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All that can connect.
    Public,
    /// Those with this role, or a higher one.
    Role(Role),
    /// These, and owners of a site: the answer is about their site alone.
    Site(Role),
}

/// Form of the answer, on which the checks against foreign sites depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page, which links may lead to.
    Page,
    /// A script or a style.
    Asset,
    /// JSON.
    Api,
    /// Server-sent events.
    Events,
}

/// A value that a client gives: in the query of GET, in the JSON object of POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// As in JSON Schema; `strings` is an array of strings.
    pub schema: &'static str,
    pub required: bool,
    pub summary: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    LogInPage,
    LogIn,
    LogInByPasskey,
    LinkPage,
    UseLink,
    LogOut,
    Style,
    Icon,
    Script,
    ChartScript,
    ChartStyle,
    NowPage,
    RequestsPage,
    WhyPage,
    CachePage,
    PurgeForm,
    ConfigurationPage,
    ProposeForm,
    ApplyForm,
    ConfirmForm,
    RollBackForm,
    SettingsPage,
    SettingsForm,
    WizardsPage,
    WizardPage,
    WizardForm,
    LogsPage,
    MessagesPage,
    BansPage,
    BanForm,
    UnbanForm,
    UpstreamsPage,
    MemberForm,
    PhpForm,
    RenewForm,
    PasskeysPage,
    AddPasskey,
    RemovePasskey,
    AuditPage,
    Status,
    Live,
    LiveEvents,
    RequestEvents,
    Explain,
    CacheStatistics,
    CacheEntries,
    Purge,
    Bans,
    Ban,
    Unban,
    Upstreams,
    ChangeMember,
    RestartPhp,
    RenewCertificate,
    Logs,
    LogText,
    Certificates,
    Configuration,
    Check,
    Apply,
    Confirm,
    RollBack,
    Settings,
    ChangeSettings,
    Reload,
    Audit,
    OpenApi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    pub kind: Kind,
    pub action: Action,
    /// Longest content of a request.
    pub body_bytes_max: u64,
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
}

/// Longest content of a log-in.
const SMALL: u64 = 8 << 10;
/// Longest content of a configuration file, in its longest encoding.
const LARGE: u64 = 4 << 20;

const PUBLIC: Access = Access::Public;
const VIEWER: Access = Access::Role(Role::Viewer);
const OPERATOR: Access = Access::Role(Role::Operator);
/// Owners, too, for what is of their site.
const SITE_VIEWER: Access = Access::Site(Role::Viewer);
const SITE_OPERATOR: Access = Access::Site(Role::Operator);
const ADMINISTRATOR: Access = Access::Role(Role::Administrator);

const fn route(
    method: &'static str,
    path: &'static str,
    access: Access,
    kind: Kind,
    action: Action,
) -> Route {
    Route {
        method,
        path,
        access,
        kind,
        action,
        body_bytes_max: SMALL,
        summary: "",
        parameters: &[],
    }
}

const fn api(route: Route, summary: &'static str, parameters: &'static [Parameter]) -> Route {
    Route {
        summary,
        parameters,
        ..route
    }
}

const fn large(route: Route) -> Route {
    Route {
        body_bytes_max: LARGE,
        ..route
    }
}

const fn value(
    name: &'static str,
    schema: &'static str,
    required: bool,
    summary: &'static str,
) -> Parameter {
    Parameter {
        name,
        schema,
        required,
        summary,
    }
}

const RANGE: &[Parameter] = &[
    value(
        "range",
        "string",
        false,
        "`15m` (by the second) or `24h` (by the minute)",
    ),
    value(
        "seconds",
        "integer",
        false,
        "So many of the last seconds, instead of a range",
    ),
];
const FILTER: &[Parameter] = &[
    value(
        "host",
        "string",
        false,
        "Part of the requested host or of the site's name",
    ),
    value("path", "string", false, "Part of the path or query"),
    value("client", "string", false, "Beginning of the client address"),
    value("status", "integer", false, "Status, or its first digit"),
    value("duration_ms", "integer", false, "Shortest duration"),
    value(
        "cache",
        "string",
        false,
        "Part of what the response says about the cache",
    ),
];
const QUESTION: &[Parameter] = &[
    value("url", "string", true, "URL, or path for the default site"),
    value("method", "string", false, "Method; default GET"),
    value(
        "header",
        "strings",
        false,
        "Request field, as `Name: value`",
    ),
];
const ENTRIES: &[Parameter] = &[
    value(
        "url",
        "string",
        false,
        "URL, or path of all sites; shows its variants",
    ),
    value("site", "string", false, "Without `url`: pages of this site"),
];
const ORDER: &[Parameter] = &[
    value("urls", "strings", false, "URLs, or paths of all sites"),
    value("tags", "strings", false, "Tags"),
    value("bans", "strings", false, "Expressions, as Varnish's bans"),
    value("site", "string", false, "Host name of the site"),
    value("all", "boolean", false, "Everything"),
    value(
        "soft",
        "boolean",
        false,
        "Make pages stale instead of removing them",
    ),
    value("dry_run", "boolean", false, "Only count the pages"),
];
const FILE: &[Parameter] = &[value(
    "file",
    "string",
    false,
    "File of the configuration; default: the first",
)];
const PROPOSAL: &[Parameter] = &[
    value("file", "string", true, "File of the configuration"),
    value("text", "string", true, "Its new text"),
];
const APPLICATION: &[Parameter] = &[
    value("file", "string", true, "File of the configuration"),
    value("text", "string", true, "Its new text"),
    value(
        "base",
        "string",
        true,
        "`digest` of the text that was edited",
    ),
    value(
        "confirm_time_s",
        "integer",
        false,
        "Time for confirming, 10 to 3600; default: `confirm_time` in [console]",
    ),
];
const TABLE: &[Parameter] = &[
    value(
        "file",
        "string",
        false,
        "File of the configuration; default: the first",
    ),
    value(
        "table",
        "string",
        false,
        "Table, as `site.0.tls`; default: the top of the file",
    ),
];
const SETTINGS: &[Parameter] = &[
    value("file", "string", true, "File of the configuration"),
    value("table", "string", true, "Table, as `site.0.tls`"),
    value(
        "values",
        "object",
        true,
        "Values by key, as text; an empty one removes its key",
    ),
];
const BLOCKS: &[Parameter] = &[value(
    "addresses",
    "strings",
    true,
    "IP addresses and CIDR blocks",
)];
const BAN: &[Parameter] = &[
    value("addresses", "strings", true, "IP addresses and CIDR blocks"),
    value("seconds", "integer", false, "Duration; default: for good"),
    value("reason", "string", false, "Reason, for the list"),
];
const MEMBER: &[Parameter] = &[
    value("upstream", "string", true, "Name of the upstream"),
    value("member", "string", true, "Address of the member"),
    value(
        "action",
        "string",
        true,
        "`drain`, `resume`, `weight`, or `reconnect`",
    ),
    value(
        "weight",
        "integer",
        false,
        "For `weight`: 1 to 1000; default: the configuration's",
    ),
];
const POOL: &[Parameter] = &[value("pool", "string", true, "Name of the PHP pool")];
const NAME: &[Parameter] = &[value("name", "string", true, "Host name")];
const LOG: &[Parameter] = &[value("file", "string", true, "Log file, by its path")];
const CHANGE: &[Parameter] = &[value("id", "string", true, "Id of the applied change")];

use Action as A;
use Kind::{Api, Asset, Events, Page};

/// All routes.
pub const ROUTES: &[Route] = &[
    route("GET", "/login", PUBLIC, Page, A::LogInPage),
    route("POST", "/login", PUBLIC, Page, A::LogIn),
    route("POST", "/login/passkey", PUBLIC, Page, A::LogInByPasskey),
    route("GET", "/link", PUBLIC, Page, A::LinkPage),
    route("POST", "/link", PUBLIC, Page, A::UseLink),
    route("GET", "/assets/console.css", PUBLIC, Asset, A::Style),
    route("GET", "/assets/icon.svg", PUBLIC, Asset, A::Icon),
    route("GET", "/assets/console.js", PUBLIC, Asset, A::Script),
    route("GET", "/assets/uplot.js", PUBLIC, Asset, A::ChartScript),
    route("GET", "/assets/uplot.css", PUBLIC, Asset, A::ChartStyle),
    route("POST", "/logout", SITE_VIEWER, Page, A::LogOut),
    route("GET", "/passkeys", SITE_VIEWER, Page, A::PasskeysPage),
    route("POST", "/passkeys/add", SITE_VIEWER, Page, A::AddPasskey),
    route(
        "POST",
        "/passkeys/remove",
        SITE_VIEWER,
        Page,
        A::RemovePasskey,
    ),
    route("GET", "/", VIEWER, Page, A::NowPage),
    route("GET", "/requests", SITE_VIEWER, Page, A::RequestsPage),
    route("GET", "/requests/why", VIEWER, Page, A::WhyPage),
    route("GET", "/cache", SITE_VIEWER, Page, A::CachePage),
    route("POST", "/cache/purge", SITE_OPERATOR, Page, A::PurgeForm),
    route(
        "GET",
        "/configuration",
        ADMINISTRATOR,
        Page,
        A::ConfigurationPage,
    ),
    large(route(
        "POST",
        "/configuration/propose",
        ADMINISTRATOR,
        Page,
        A::ProposeForm,
    )),
    large(route(
        "POST",
        "/configuration/apply",
        ADMINISTRATOR,
        Page,
        A::ApplyForm,
    )),
    route(
        "POST",
        "/configuration/confirm",
        ADMINISTRATOR,
        Page,
        A::ConfirmForm,
    ),
    route(
        "POST",
        "/configuration/roll-back",
        ADMINISTRATOR,
        Page,
        A::RollBackForm,
    ),
    route(
        "GET",
        "/configuration/settings",
        ADMINISTRATOR,
        Page,
        A::SettingsPage,
    ),
    large(route(
        "POST",
        "/configuration/settings",
        ADMINISTRATOR,
        Page,
        A::SettingsForm,
    )),
    route(
        "GET",
        "/configuration/wizards",
        ADMINISTRATOR,
        Page,
        A::WizardsPage,
    ),
    route(
        "GET",
        "/configuration/wizard",
        ADMINISTRATOR,
        Page,
        A::WizardPage,
    ),
    route(
        "POST",
        "/configuration/wizard",
        ADMINISTRATOR,
        Page,
        A::WizardForm,
    ),
    route("GET", "/logs", OPERATOR, Page, A::LogsPage),
    route("GET", "/messages", VIEWER, Page, A::MessagesPage),
    route("GET", "/bans", VIEWER, Page, A::BansPage),
    route("POST", "/bans/ban", OPERATOR, Page, A::BanForm),
    route("POST", "/bans/unban", OPERATOR, Page, A::UnbanForm),
    route("GET", "/upstreams", VIEWER, Page, A::UpstreamsPage),
    route("POST", "/upstreams/member", OPERATOR, Page, A::MemberForm),
    route("POST", "/upstreams/php", OPERATOR, Page, A::PhpForm),
    route("POST", "/upstreams/renew", OPERATOR, Page, A::RenewForm),
    route("GET", "/audit", ADMINISTRATOR, Page, A::AuditPage),
    api(
        route("GET", "/api/v1/status", VIEWER, Api, A::Status),
        "The status report, as `saker status --json` prints it.",
        &[],
    ),
    api(
        route("GET", "/api/v1/live", VIEWER, Api, A::Live),
        "Figures of the last minutes or hours, in columns.",
        RANGE,
    ),
    api(
        route("GET", "/api/v1/live/events", VIEWER, Events, A::LiveEvents),
        "Figures of each second, as server-sent events.",
        &[],
    ),
    api(
        route(
            "GET",
            "/api/v1/requests/events",
            SITE_VIEWER,
            Events,
            A::RequestEvents,
        ),
        "Requests as they finish, as server-sent events.",
        FILTER,
    ),
    api(
        route("GET", "/api/v1/explain", VIEWER, Api, A::Explain),
        "The dispatch of a request that is not sent, step by step.",
        QUESTION,
    ),
    api(
        route("GET", "/api/v1/cache", SITE_VIEWER, Api, A::CacheStatistics),
        "Size and hit rates of the page cache, in total and by site.",
        &[],
    ),
    api(
        route(
            "GET",
            "/api/v1/cache/entries",
            SITE_VIEWER,
            Api,
            A::CacheEntries,
        ),
        "Entries of the page cache: the variants of a URL with all details, or a list.",
        ENTRIES,
    ),
    api(
        route("POST", "/api/v1/cache/purge", SITE_OPERATOR, Api, A::Purge),
        "Purges pages, or counts those that a purge would concern.",
        ORDER,
    ),
    api(
        route("GET", "/api/v1/bans", VIEWER, Api, A::Bans),
        "Banned clients, with reasons and remaining times.",
        &[],
    ),
    api(
        route("POST", "/api/v1/bans/ban", OPERATOR, Api, A::Ban),
        "Bans clients.",
        BAN,
    ),
    api(
        route("POST", "/api/v1/bans/unban", OPERATOR, Api, A::Unban),
        "Lifts bans.",
        BLOCKS,
    ),
    api(
        route("GET", "/api/v1/upstreams", VIEWER, Api, A::Upstreams),
        "Upstreams with the state of their members, and PHP pools.",
        &[],
    ),
    api(
        route(
            "POST",
            "/api/v1/upstreams/member",
            OPERATOR,
            Api,
            A::ChangeMember,
        ),
        "Drains a member of an upstream, uses it again, weights it, or connects to it anew.",
        MEMBER,
    ),
    api(
        route("POST", "/api/v1/php/restart", OPERATOR, Api, A::RestartPhp),
        "Starts new programs of a PHP pool; those that run finish their requests.",
        POOL,
    ),
    api(
        route(
            "POST",
            "/api/v1/certificates/renew",
            OPERATOR,
            Api,
            A::RenewCertificate,
        ),
        "Renews an automatic certificate now.",
        NAME,
    ),
    api(
        route("GET", "/api/v1/logs", OPERATOR, Api, A::Logs),
        "Log files of the server and its sites.",
        &[],
    ),
    api(
        route("GET", "/api/v1/logs/text", OPERATOR, Api, A::LogText),
        "The last lines of a log file.",
        LOG,
    ),
    api(
        route("GET", "/api/v1/certificates", VIEWER, Api, A::Certificates),
        "Certificates with their names and expiry.",
        &[],
    ),
    api(
        route(
            "GET",
            "/api/v1/configuration",
            ADMINISTRATOR,
            Api,
            A::Configuration,
        ),
        "Files of the configuration, and the text of one of them.",
        FILE,
    ),
    large(api(
        route(
            "POST",
            "/api/v1/configuration/check",
            ADMINISTRATOR,
            Api,
            A::Check,
        ),
        "Checks the configuration with another text for one of its files.",
        PROPOSAL,
    )),
    large(api(
        route(
            "POST",
            "/api/v1/configuration/apply",
            ADMINISTRATOR,
            Api,
            A::Apply,
        ),
        "Writes a file and reloads. The change is undone unless it is confirmed in time.",
        APPLICATION,
    )),
    api(
        route(
            "POST",
            "/api/v1/configuration/confirm",
            ADMINISTRATOR,
            Api,
            A::Confirm,
        ),
        "Keeps the applied change.",
        CHANGE,
    ),
    api(
        route(
            "POST",
            "/api/v1/configuration/roll-back",
            ADMINISTRATOR,
            Api,
            A::RollBack,
        ),
        "Undoes the applied change at once.",
        CHANGE,
    ),
    api(
        route(
            "GET",
            "/api/v1/configuration/settings",
            ADMINISTRATOR,
            Api,
            A::Settings,
        ),
        "The settings of a table, each with its description, default, value, and origin.",
        TABLE,
    ),
    large(api(
        route(
            "POST",
            "/api/v1/configuration/settings",
            ADMINISTRATOR,
            Api,
            A::ChangeSettings,
        ),
        "The text of a file with other values, and its diagnostics; nothing is written.",
        SETTINGS,
    )),
    api(
        route("POST", "/api/v1/reload", ADMINISTRATOR, Api, A::Reload),
        "Loads the configuration again.",
        &[],
    ),
    api(
        route("GET", "/api/v1/audit", ADMINISTRATOR, Api, A::Audit),
        "The last changes and log-ins, newest first.",
        &[],
    ),
    api(
        route("GET", "/api/v1/openapi.json", VIEWER, Api, A::OpenApi),
        "This description.",
        &[],
    ),
];

/// A route, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Route(&'static Route),
    WrongMethod,
    Nothing,
}

pub fn find(method: &[u8], path: &str) -> Found {
    let method = if method == b"HEAD" { b"GET" } else { method };
    let mut of_path = ROUTES.iter().filter(|route| route.path == path).peekable();
    if of_path.peek().is_none() {
        return Found::Nothing;
    }
    let route = of_path.find(|route| route.method.as_bytes() == method);
    route.map_or(Found::WrongMethod, Found::Route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rows_are_unique_and_described() {
        let mut seen = HashSet::new();
        for route in ROUTES {
            assert!(seen.insert((route.method, route.path)), "{}", route.path);
            let is_api = route.path.starts_with("/api/");
            assert_eq!(is_api, matches!(route.kind, Api | Events), "{}", route.path);
            assert_eq!(is_api, !route.summary.is_empty(), "{}", route.path);
            assert!(
                route.method == "GET" || route.kind != Asset,
                "{} changes something",
                route.path
            );
        }
    }

    #[test]
    fn paths_have_one_spelling() {
        let is_found = |method: &[u8], path| matches!(find(method, path), Found::Route(_));
        assert!(is_found(b"GET", "/") && is_found(b"HEAD", "/") && is_found(b"GET", "/login"));
        for path in [
            "",
            "//",
            "/login/",
            "/LOGIN",
            "/%6Cogin",
            "/./login",
            "/assets/../login",
        ] {
            assert_eq!(find(b"GET", path), Found::Nothing, "{path}");
        }
        assert_eq!(find(b"POST", "/"), Found::WrongMethod);
        assert_eq!(find(b"get", "/"), Found::WrongMethod);
    }
}
