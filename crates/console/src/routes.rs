//! The table of routes: everything that the console answers.
//!
//! Called by: the gate, which finds a route before anything else happens; the OpenAPI document,
//! which is made from the table; tests, which try every row without credentials and with each role.
//! Caveat: a path is compared byte by byte; there are no patterns, and no decoding.
//! Out of scope: what an action does (`actions`, `api`).

use crate::{route_parameters::*, users::Role};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    LogInPage,
    LogIn,
    LogInByPasskey,
    BeginAtProvider,
    LogInByProvider,
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
    WarmPage,
    WarmForm,
    ConfigurationPage,
    ProposeForm,
    ApplyForm,
    ConfirmForm,
    RollBackForm,
    OwnerPage,
    OwnerPropose,
    OwnerApply,
    OwnerConfirm,
    OwnerRollBack,
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
    ServerForm,
    RedirectsPage,
    RedirectForm,
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
    Warm,
    WarmProgress,
    StopWarming,
    Bans,
    Ban,
    Unban,
    Upstreams,
    ChangeMember,
    AddServer,
    RemoveServer,
    Redirects,
    AddRedirect,
    RemoveRedirect,
    Tops,
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
    SiteSettings,
    ApplySite,
    ConfirmSite,
    RollBackSite,
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
const SITE_ADMINISTRATOR: Access = Access::Site(Role::Administrator);
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

use Action as A;
use Kind::{Api, Asset, Events, Page};

/// All routes.
pub const ROUTES: &[Route] = &[
    route("GET", "/login", PUBLIC, Page, A::LogInPage),
    route("POST", "/login", PUBLIC, Page, A::LogIn),
    route("POST", "/login/passkey", PUBLIC, Page, A::LogInByPasskey),
    route("GET", "/login/oidc", PUBLIC, Page, A::BeginAtProvider),
    route(
        "GET",
        "/login/oidc/callback",
        PUBLIC,
        Page,
        A::LogInByProvider,
    ),
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
    route("GET", "/site", SITE_ADMINISTRATOR, Page, A::OwnerPage),
    route(
        "POST",
        "/site/propose",
        SITE_ADMINISTRATOR,
        Page,
        A::OwnerPropose,
    ),
    route(
        "POST",
        "/site/apply",
        SITE_ADMINISTRATOR,
        Page,
        A::OwnerApply,
    ),
    route(
        "POST",
        "/site/confirm",
        SITE_ADMINISTRATOR,
        Page,
        A::OwnerConfirm,
    ),
    route(
        "POST",
        "/site/roll-back",
        SITE_ADMINISTRATOR,
        Page,
        A::OwnerRollBack,
    ),
    route("GET", "/cache/warm", OPERATOR, Page, A::WarmPage),
    large(route("POST", "/cache/warm", OPERATOR, Page, A::WarmForm)),
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
    route(
        "POST",
        "/upstreams/server",
        ADMINISTRATOR,
        Page,
        A::ServerForm,
    ),
    route("GET", "/redirects", SITE_VIEWER, Page, A::RedirectsPage),
    route(
        "POST",
        "/redirects/change",
        SITE_ADMINISTRATOR,
        Page,
        A::RedirectForm,
    ),
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
    large(api(
        route("POST", "/api/v1/cache/warm", OPERATOR, Api, A::Warm),
        "Begins to fetch pages of this server into the cache; answers with the number of the job.",
        WARM,
    )),
    api(
        route("GET", "/api/v1/cache/warm", OPERATOR, Api, A::WarmProgress),
        "Progress of a warm-up, and results.",
        WARM_LOOK,
    ),
    api(
        route(
            "POST",
            "/api/v1/cache/warm/stop",
            OPERATOR,
            Api,
            A::StopWarming,
        ),
        "Ends a warm-up.",
        WARM_STOP,
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
        route(
            "POST",
            "/api/v1/upstreams/servers/add",
            ADMINISTRATOR,
            Api,
            A::AddServer,
        ),
        "Adds a server to an upstream, or one of the configuration that was removed again.",
        NEW_SERVER,
    ),
    api(
        route(
            "POST",
            "/api/v1/upstreams/servers/remove",
            ADMINISTRATOR,
            Api,
            A::RemoveServer,
        ),
        "Removes a server from an upstream; requests that it has go on.",
        OLD_SERVER,
    ),
    api(
        route("GET", "/api/v1/redirects", SITE_VIEWER, Api, A::Redirects),
        "Redirects that were added to the running server.",
        &[],
    ),
    api(
        route(
            "POST",
            "/api/v1/redirects/add",
            SITE_ADMINISTRATOR,
            Api,
            A::AddRedirect,
        ),
        "Adds a redirect to a site, or changes the one for the path.",
        REDIRECT,
    ),
    api(
        route(
            "POST",
            "/api/v1/redirects/remove",
            SITE_ADMINISTRATOR,
            Api,
            A::RemoveRedirect,
        ),
        "Removes a redirect that was added to the running server.",
        OLD_REDIRECT,
    ),
    api(
        route("GET", "/api/v1/top", VIEWER, Api, A::Tops),
        "The most frequent URLs, clients, user agents, errors, and path prefixes. They are counted \
         while they are asked for: the first answer begins, and 15 seconds without another end.",
        &[],
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
        route(
            "GET",
            "/api/v1/site/settings",
            SITE_ADMINISTRATOR,
            Api,
            A::SiteSettings,
        ),
        "For owners: the settings of the site that they change, with their values.",
        &[],
    ),
    api(
        route(
            "POST",
            "/api/v1/site/apply",
            SITE_ADMINISTRATOR,
            Api,
            A::ApplySite,
        ),
        "For owners: changes settings of the site. It is undone unless it is confirmed in time.",
        SITE_VALUES,
    ),
    api(
        route(
            "POST",
            "/api/v1/site/confirm",
            SITE_ADMINISTRATOR,
            Api,
            A::ConfirmSite,
        ),
        "For owners: keeps their applied change.",
        CHANGE,
    ),
    api(
        route(
            "POST",
            "/api/v1/site/roll-back",
            SITE_ADMINISTRATOR,
            Api,
            A::RollBackSite,
        ),
        "For owners: undoes their applied change at once.",
        CHANGE,
    ),
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
