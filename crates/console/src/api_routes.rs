//! The table of the API: routes with their parameters and their descriptions.
//!
//! Called by: `route_table`; the OpenAPI document, and the command line, which are made from it.
//! Out of scope: answers (`api`).

use crate::{
    route_parameters::*,
    routes::{
        ADMINISTRATOR, Action as A,
        Kind::{Api, Events},
        OPERATOR, Route, SITE_ADMINISTRATOR, SITE_OPERATOR, SITE_VIEWER, VIEWER, api, large, route,
    },
};

/// All routes of the API, by subject.
pub const API: &[Route] = &[
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
        route("GET", "/api/v1/cache/body", SITE_VIEWER, Api, A::CacheBody),
        "The beginning of an entry's content, as base64; of a private page for administrators.",
        ENTRY,
    ),
    api(
        route("POST", "/api/v1/cache/purge", SITE_OPERATOR, Api, A::Purge),
        "Purges pages, or counts those that a purge would concern.",
        ORDER,
    ),
    large(api(
        route("POST", "/api/v1/cache/warm", SITE_OPERATOR, Api, A::Warm),
        "Begins to fetch pages of this server into the cache; answers with the number of the job.",
        WARM,
    )),
    api(
        route(
            "GET",
            "/api/v1/cache/warm",
            SITE_OPERATOR,
            Api,
            A::WarmProgress,
        ),
        "Progress of a warm-up, and results.",
        WARM_LOOK,
    ),
    api(
        route(
            "POST",
            "/api/v1/cache/warm/stop",
            SITE_OPERATOR,
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
        route("GET", "/api/v1/cluster", VIEWER, Api, A::Cluster),
        "State of the server in its cluster, and the other servers with their lag.",
        &[],
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
            "/api/v1/upstreams/test",
            OPERATOR,
            Api,
            A::TestMember,
        ),
        "Connects to a member of an upstream, and sends it the request of its health check.",
        OLD_SERVER,
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
            "/api/v1/configuration/complete",
            ADMINISTRATOR,
            Api,
            A::Complete,
        ),
        "Words that may stand at the end of a text that is being typed.",
        UNFINISHED,
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
