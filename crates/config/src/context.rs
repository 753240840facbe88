//! The tables of the file format and their headers.
//!
//! Called by: rows (where a key is allowed), the reader (messages), the JSON Schema and the
//! reference page.

/// A set of tables, in which a key is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts(pub u64);

pub const FILE: Contexts = Contexts(1);
pub const SERVER: Contexts = Contexts(1 << 1);
pub const LIMITS: Contexts = Contexts(1 << 2);
pub const LISTENER: Contexts = Contexts(1 << 3);
pub const SITE: Contexts = Contexts(1 << 4);
pub const ROUTE: Contexts = Contexts(1 << 5);
pub const REDIRECT: Contexts = Contexts(1 << 6);
pub const COMPRESSION: Contexts = Contexts(1 << 7);
pub const THROTTLE: Contexts = Contexts(1 << 8);
pub const ACCESS_LOG: Contexts = Contexts(1 << 9);
pub const RATE: Contexts = Contexts(1 << 10);
pub const REQUEST_RATE: Contexts = Contexts(1 << 11);
pub const FIELD: Contexts = Contexts(1 << 12);
pub const TLS: Contexts = Contexts(1 << 13);
pub const ACME: Contexts = Contexts(1 << 14);
pub const ACME_DIRECTORY: Contexts = Contexts(1 << 15);
pub const SITE_TLS: Contexts = Contexts(1 << 16);
pub const CERTIFICATE: Contexts = Contexts(1 << 17);
pub const UPSTREAM: Contexts = Contexts(1 << 18);
pub const UPSTREAM_SERVER: Contexts = Contexts(1 << 19);
pub const PHP: Contexts = Contexts(1 << 20);
pub const CACHE_STORE: Contexts = Contexts(1 << 21);
pub const CACHE: Contexts = Contexts(1 << 22);
pub const ABUSE: Contexts = Contexts(1 << 23);
pub const ACCESS: Contexts = Contexts(1 << 24);
pub const HOTLINK: Contexts = Contexts(1 << 25);
pub const SIGNED: Contexts = Contexts(1 << 26);
pub const CHALLENGE: Contexts = Contexts(1 << 27);
pub const LOGINS: Contexts = Contexts(1 << 28);
pub const BOT_VERIFICATION: Contexts = Contexts(1 << 29);
pub const TRIGGER: Contexts = Contexts(1 << 30);
pub const MATCHER: Contexts = Contexts(1 << 31);
pub const MAP: Contexts = Contexts(1 << 32);
pub const REQUEST: Contexts = Contexts(1 << 33);
pub const DYNAMIC_VHOSTS: Contexts = Contexts(1 << 34);
pub const AUTH: Contexts = Contexts(1 << 35);
pub const UPSTREAM_FIELD: Contexts = Contexts(1 << 36);
pub const AUTH_LDAP: Contexts = Contexts(1 << 37);
pub const AUTH_JWT: Contexts = Contexts(1 << 38);
pub const AUTH_OIDC: Contexts = Contexts(1 << 39);
pub const USER_DIRECTORIES: Contexts = Contexts(1 << 40);
pub const WHEN: Contexts = Contexts(1 << 41);
pub const MIRROR: Contexts = Contexts(1 << 42);
pub const METRICS: Contexts = Contexts(1 << 43);
pub const TRACING: Contexts = Contexts(1 << 44);
pub const ROTATE: Contexts = Contexts(1 << 45);
pub const CLUSTER: Contexts = Contexts(1 << 46);
pub const CONSOLE: Contexts = Contexts(1 << 47);
pub const STREAM: Contexts = Contexts(1 << 48);
pub const STREAM_TLS: Contexts = Contexts(1 << 49);
pub const STREAM_ACCESS: Contexts = Contexts(1 << 50);
pub const STREAM_ROUTE: Contexts = Contexts(1 << 51);
pub const STREAM_SERVER: Contexts = Contexts(1 << 52);
pub const STREAM_LOG: Contexts = Contexts(1 << 53);
pub const UPSTREAM_TLS: Contexts = Contexts(1 << 54);
pub const CLUSTER_PEERS: Contexts = Contexts(1 << 55);
pub const UPSTREAM_DISCOVER: Contexts = Contexts(1 << 56);
pub const CONSOLE_OIDC: Contexts = Contexts(1 << 60);

impl Contexts {
    pub const fn or(self, other: Contexts) -> Contexts {
        Contexts(self.0 | other.0)
    }

    pub fn includes(self, one: Contexts) -> bool {
        self.0 & one.0 != 0
    }

    /// The row of a single context.
    pub fn described(self) -> &'static ContextRow {
        CONTEXTS
            .iter()
            .find(|row| row.context == self)
            .unwrap_or(&CONTEXTS[0])
    }

    /// The place of a key with a single context, as in "unknown key `x` in [server]".
    pub fn location(self) -> String {
        let header = self.described().header;
        if self == FILE {
            format!("at {header}")
        } else {
            format!("in {header}")
        }
    }

    /// Iterates over its single contexts, in the order of [`CONTEXTS`].
    pub fn each(self) -> impl Iterator<Item = &'static ContextRow> {
        CONTEXTS
            .iter()
            .filter(move |row| self.includes(row.context))
    }
}

/// A table of the file format.
#[derive(Debug)]
pub struct ContextRow {
    pub context: Contexts,
    /// Name of its definition in the JSON Schema.
    pub id: &'static str,
    /// As written in a file.
    pub header: &'static str,
    pub summary: &'static str,
}

const fn context(
    context: Contexts,
    id: &'static str,
    header: &'static str,
    summary: &'static str,
) -> ContextRow {
    ContextRow {
        context,
        id,
        header,
        summary,
    }
}

/// All tables, in the order of the reference page.
pub const CONTEXTS: &[ContextRow] = &[
    context(
        FILE,
        "file",
        "the top of the file",
        "Keys of the file itself. They come first, before any `[table]`.",
    ),
    context(
        SERVER,
        "server",
        "[server]",
        "Settings of the server process. At most once in all files together.",
    ),
    context(
        LIMITS,
        "limits",
        "[limits]",
        "Limits on clients. At most once in all files together.",
    ),
    context(
        TLS,
        "tls",
        "[tls]",
        "TLS settings of the whole process. At most once in all files together.",
    ),
    context(
        ACME,
        "acme",
        "[acme]",
        "Automatic certificates (ACME), for sites with `automatic` in [site.tls]. At most once in \
         all files together.",
    ),
    context(
        PHP,
        "php",
        "[php]",
        "PHP processes managed by the server, for sites with `php = \"auto\"`. At most once in all \
         files together.",
    ),
    context(
        CACHE_STORE,
        "cache_store",
        "[cache]",
        "Storage of the page cache, for all sites. At most once in all files together.",
    ),
    context(
        CLUSTER,
        "cluster",
        "[cluster]",
        "Servers that share purges, bans, limits, and certificates, over Redis, Valkey, PostgreSQL, or NATS \
         (docs/cluster.md). At most once in all files together.",
    ),
    context(
        CLUSTER_PEERS,
        "cluster_peers",
        "[cluster.peers]",
        "Pages that the servers of a cluster hand each other, so that each is made once. The keys \
         of [cluster] must share purges.",
    ),
    context(
        ABUSE,
        "abuse",
        "[abuse]",
        "Limits on connections, bans, and addresses that may not connect. At most once in all \
         files together.",
    ),
    context(
        DYNAMIC_VHOSTS,
        "dynamic_vhosts",
        "[dynamic_vhosts]",
        "Dynamic virtual hosts: hosts looked up in a database, for sites with `lookup = true`. At \
         most once in all files together. Columns of a row: `root` (or `docroot`), `user`, \
         `group`, `php`, `bandwidth`, `requests`, `redirect`, `suspended`; they are described in \
         docs/dynamic-virtual-hosts.md.",
    ),
    context(
        METRICS,
        "metrics",
        "[metrics]",
        "Metrics over TCP, for Prometheus and other collectors. At most once in all files together.",
    ),
    context(
        CONSOLE,
        "console",
        "[console]",
        "The console: pages and an API for operators. At most once in all files together; without \
         it, `saker console` opens one on this machine.",
    ),
    context(
        CONSOLE_OIDC,
        "console_oidc",
        "[console.oidc]",
        "Log-in to the console at an OpenID Connect provider, beside passwords and passkeys.",
    ),
    context(
        TRACING,
        "tracing",
        "[tracing]",
        "OpenTelemetry traces of requests. At most once in all files together.",
    ),
    context(
        LISTENER,
        "listener",
        "[[listener]]",
        "Addresses to listen on. At least one is required.",
    ),
    context(
        SITE,
        "site",
        "[[site]]",
        "Host names and what they serve. At least one is required; unknown hosts get the first \
         site with `*`, or else the first site.",
    ),
    context(
        SITE_TLS,
        "site_tls",
        "[site.tls]",
        "Certificates and TLS settings of the site.",
    ),
    context(
        CERTIFICATE,
        "certificate",
        "[[site.tls.certificate]]",
        "One of several certificates of a site.",
    ),
    context(
        ROUTE,
        "route",
        "[[site.route]]",
        "Requests of a site by path and other conditions; the first route that matches wins. Its \
         settings override the site's.",
    ),
    context(
        WHEN,
        "when",
        "[[site.when]]",
        "Settings for requests that meet conditions: response fields, caching rules, and limits. \
         All tables whose conditions hold apply, in the order of the file, over the settings of \
         the site and the route. In a route: `[[site.route.when]]`, after those of the site.",
    ),
    context(
        MATCHER,
        "matcher",
        "[site.route.match]",
        "Conditions on requests, of which all must hold. `[site.matcher.NAME]` gives conditions a \
         name, by which `match` uses them: `match = \"NAME\"`.",
    ),
    context(
        REQUEST,
        "request",
        "[site.route.request]",
        "Edits of the request before the action of the route: for programs, upstreams, and files.",
    ),
    context(
        MAP,
        "map",
        "[map.NAME]",
        "A map from a text to a value, which texts with variables use as `$NAME`. The order is: \
         exact text, longest prefix, longest suffix, first regular expression, default.",
    ),
    context(
        UPSTREAM,
        "upstream",
        "[[upstream]]",
        "Application servers and backends, which routes forward requests to with `proxy`.",
    ),
    context(
        UPSTREAM_SERVER,
        "upstream_server",
        "{ address = \"...\", ... }",
        "A server of an upstream with its settings.",
    ),
    context(
        UPSTREAM_TLS,
        "upstream_tls",
        "[upstream.tls]",
        "TLS to the servers of an upstream. Without it, their certificates are verified with the \
         authorities that the system trusts.",
    ),
    context(
        UPSTREAM_DISCOVER,
        "upstream_discover",
        "[upstream.discover]",
        "Servers of an upstream that DNS, Consul, Kubernetes or Docker names while the server runs. \
         Needs exactly one of `dns_srv`, `consul`, `kubernetes` and `docker` \
         (docs/proxying.md).",
    ),
    context(
        STREAM,
        "stream",
        "[[stream]]",
        "TCP connections and UDP datagrams that are passed on as they come: databases, mail, DNS, \
         TLS that ends elsewhere (docs/streams.md).",
    ),
    context(
        STREAM_ROUTE,
        "stream_route",
        "[[stream.route]]",
        "A way of the sessions of a stream that meet all its conditions; the first such route \
         decides.",
    ),
    context(
        STREAM_TLS,
        "stream_tls",
        "[stream.tls]",
        "TLS of a stream ends here, and servers get what is inside. Without this table, TLS is \
         passed on as it comes.",
    ),
    context(
        STREAM_ACCESS,
        "stream_access",
        "[stream.access]",
        "Access control by client address: refused clients are disconnected.",
    ),
    context(
        STREAM_SERVER,
        "stream_server",
        "{ address = \"10.0.0.2:6379\", ... }",
        "A server of a stream, with its weight and role.",
    ),
    context(
        STREAM_LOG,
        "stream_log",
        "{ path = \"stream.log\", ... }",
        "An access log of a stream with its format.",
    ),
    context(
        REDIRECT,
        "redirect",
        "[[site.redirect]]",
        "Short form of a route that redirects. It is matched in the order of the file, like a \
         route.",
    ),
    context(
        COMPRESSION,
        "compression",
        "[site.compression]",
        "Dynamic compression. In a route: `[site.route.compression]`.",
    ),
    context(
        CACHE,
        "cache",
        "[site.cache]",
        "The page cache of the site. In a route: `[site.route.cache]`, whose keys override the \
         site's. `cache = true` is the same as an empty table.",
    ),
    context(
        THROTTLE,
        "throttle",
        "[site.throttle]",
        "Bandwidth limits and request rate limits. In a route: `[site.route.throttle]`.",
    ),
    context(
        USER_DIRECTORIES,
        "user_directories",
        "[site.user_directories]",
        "Pages of users of this machine, at `/~user/`. `user_directories = true` is the same as an \
         empty table.",
    ),
    context(
        ACCESS,
        "access",
        "[site.access]",
        "Access control by client address. In a route: `[site.route.access]`, whose keys override \
         the site's.",
    ),
    context(
        AUTH,
        "auth",
        "[site.auth]",
        "Log-in with a user name and a password. In a route: `[site.route.auth]`, whose keys \
         override the site's.",
    ),
    context(
        AUTH_LDAP,
        "auth_ldap",
        "[site.auth.ldap]",
        "Users of a directory (LDAP), for Basic authentication. In a route: \
         `[site.route.auth.ldap]`.",
    ),
    context(
        AUTH_JWT,
        "auth_jwt",
        "[site.auth.jwt]",
        "Access with a JSON Web Token, which clients send in `Authorization: Bearer`. In a route: \
         `[site.route.auth.jwt]`.",
    ),
    context(
        AUTH_OIDC,
        "auth_oidc",
        "[site.auth.oidc]",
        "Log-in at an OpenID Connect provider, for browsers. With [site.auth.jwt] beside it, \
         requests with a token are judged by the token. In a route: `[site.route.auth.oidc]`.",
    ),
    context(
        HOTLINK,
        "hotlink",
        "[site.hotlink]",
        "Hotlink protection. In a route: `[site.route.hotlink]`, which replaces the site's.",
    ),
    context(
        SIGNED,
        "signed",
        "[site.signed]",
        "Signed URLs (created with `saker sign-url`). In a route: `[site.route.signed]`, which \
         replaces the site's.",
    ),
    context(
        CHALLENGE,
        "challenge",
        "[site.challenge]",
        "Challenge page with proof of work. In a route: `[site.route.challenge]`, which replaces \
         the site's.",
    ),
    context(
        LOGINS,
        "logins",
        "[site.logins]",
        "Protection of WordPress logins. In a route: `[site.route.logins]`.",
    ),
    context(
        BOT_VERIFICATION,
        "bot_verification",
        "[site.bot_verification]",
        "Verification of search engine bots. In a route: `[site.route.bot_verification]`.",
    ),
    context(
        TRIGGER,
        "trigger",
        "[site.trigger]",
        "Downloads that require a page first. In a route: `[site.route.trigger]`.",
    ),
    context(
        ACCESS_LOG,
        "access_log",
        "{ path = \"...\", ... }",
        "An access log with its format.",
    ),
    context(
        ACME_DIRECTORY,
        "acme_directory",
        "{ url = \"...\", ... }",
        "An ACME directory with an existing account.",
    ),
    context(
        MIRROR,
        "mirror",
        "{ to = \"http://...\", ... }",
        "A copy of the requests of a route for another upstream.",
    ),
    context(
        ROTATE,
        "rotate",
        "{ size = \"100MiB\", ... }",
        "Rotation of a log file.",
    ),
    context(
        RATE,
        "rate",
        "{ rate = \"1MB/s\", ... }",
        "A bandwidth limit with its settings.",
    ),
    context(
        REQUEST_RATE,
        "request_rate",
        "{ rate = \"30/m\", ... }",
        "A request rate with its settings.",
    ),
    context(
        FIELD,
        "field",
        "{ set = \"...\", ... }",
        "An edit of a response field: exactly one of `set`, `append`, `if_absent`, `remove`.",
    ),
    context(
        UPSTREAM_FIELD,
        "upstream_field",
        "{ set = \"...\", ... } of `upstream_headers`",
        "An edit of a request field: exactly one of `set`, `append`, `if_absent`, `remove`.",
    ),
];
