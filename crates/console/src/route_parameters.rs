//! Parameters of the API's routes.
//!
//! Called by: the table of routes; the OpenAPI document, which describes them.
//! Out of scope: reading and checking values (`api` and the pages).

/// A value that a client gives: in the query of GET, in the JSON object of POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// As in JSON Schema; `strings` is an array of strings.
    pub schema: &'static str,
    pub required: bool,
    pub summary: &'static str,
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

pub const RANGE: &[Parameter] = &[
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
pub const FILTER: &[Parameter] = &[
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
pub const QUESTION: &[Parameter] = &[
    value("url", "string", true, "URL, or path for the default site"),
    value("method", "string", false, "Method; default GET"),
    value(
        "header",
        "strings",
        false,
        "Request field, as `Name: value`",
    ),
];
pub const ENTRIES: &[Parameter] = &[
    value(
        "url",
        "string",
        false,
        "URL, or path of all sites; shows its variants",
    ),
    value("site", "string", false, "Without `url`: pages of this site"),
];
pub const ENTRY: &[Parameter] = &[value("entry", "string", true, "`entry` of the list")];
pub const ORDER: &[Parameter] = &[
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
pub const WARM: &[Parameter] = &[
    value("urls", "strings", false, "URLs of pages of this server"),
    value(
        "sitemaps",
        "strings",
        false,
        "URLs of sitemaps of this server",
    ),
    value(
        "concurrency",
        "integer",
        false,
        "Requests at a time, 1 to 256; default: 4",
    ),
    value(
        "rate",
        "integer",
        false,
        "Requests a second; default: no bound",
    ),
];
pub const WARM_LOOK: &[Parameter] = &[
    value("job", "integer", true, "Number of the job"),
    value("from", "integer", false, "Number of the first result"),
];
pub const WARM_STOP: &[Parameter] = &[value("job", "integer", true, "Number of the job")];
pub const FILE: &[Parameter] = &[value(
    "file",
    "string",
    false,
    "File of the configuration; default: the first",
)];
pub const PROPOSAL: &[Parameter] = &[
    value("file", "string", true, "File of the configuration"),
    value("text", "string", true, "Its new text"),
];
pub const UNFINISHED: &[Parameter] = &[
    value("file", "string", true, "File of the configuration"),
    value("before", "string", true, "Its text up to the cursor"),
];
pub const APPLICATION: &[Parameter] = &[
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
pub const TABLE: &[Parameter] = &[
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
pub const SETTINGS: &[Parameter] = &[
    value("file", "string", true, "File of the configuration"),
    value("table", "string", true, "Table, as `site.0.tls`"),
    value(
        "values",
        "object",
        true,
        "Values by key, as text; an empty one removes its key",
    ),
];
pub const SITE_VALUES: &[Parameter] = &[
    value("base", "string", true, "`base` of the settings"),
    value(
        "values",
        "object",
        true,
        "Values by key, as text; an empty one removes its key",
    ),
];
pub const BLOCKS: &[Parameter] = &[value(
    "addresses",
    "strings",
    true,
    "IP addresses and CIDR blocks",
)];
pub const BAN: &[Parameter] = &[
    value("addresses", "strings", true, "IP addresses and CIDR blocks"),
    value("seconds", "integer", false, "Duration; default: for good"),
    value("reason", "string", false, "Reason, for the list"),
];
pub const MEMBER: &[Parameter] = &[
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
pub const NEW_SERVER: &[Parameter] = &[
    value("upstream", "string", true, "Name of the upstream"),
    value(
        "url",
        "string",
        true,
        "URL of the server, with the protocol of the others",
    ),
];
pub const OLD_SERVER: &[Parameter] = &[
    value("upstream", "string", true, "Name of the upstream"),
    value("member", "string", true, "Address of the member"),
];
pub const REDIRECT: &[Parameter] = &[
    value("site", "string", true, "First name of the site"),
    value(
        "from",
        "string",
        true,
        "Path; with `/*` at its end, all paths below",
    ),
    value("to", "string", true, "Path or absolute URL"),
    value(
        "status",
        "integer",
        false,
        "301, 302, 303, 307, or 308; default: 302",
    ),
];
pub const OLD_REDIRECT: &[Parameter] = &[
    value("site", "string", true, "First name of the site"),
    value("from", "string", true, "Path of the redirect"),
];
pub const POOL: &[Parameter] = &[value("pool", "string", true, "Name of the PHP pool")];
pub const NAME: &[Parameter] = &[value("name", "string", true, "Host name")];
pub const LOG: &[Parameter] = &[value("file", "string", true, "Log file, by its path")];
pub const CHANGE: &[Parameter] = &[value("id", "string", true, "Id of the applied change")];
