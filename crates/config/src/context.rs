//! The tables of the file format: which there are, and how each is written.
//!
//! Called by: rows (where a key may stand), the reader (messages), the JSON Schema and the
//! reference page.

/// The tables in which a key may stand, as a set.
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
pub const CHALLENGE: Contexts = Contexts(1 << 32);
pub const LOGINS: Contexts = Contexts(1 << 33);
pub const BOT_VERIFICATION: Contexts = Contexts(1 << 34);
pub const TRIGGER: Contexts = Contexts(1 << 27);
pub const DYNAMIC_VHOSTS: Contexts = Contexts(1 << 29);

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

    /// Where a key of a single context belongs, as in "unknown key `x` in [server]".
    pub fn location(self) -> String {
        let header = self.described().header;
        if self == FILE {
            format!("at {header}")
        } else {
            format!("in {header}")
        }
    }

    /// The single contexts in it, in the order of [`CONTEXTS`].
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

/// Order of the reference page.
pub const CONTEXTS: &[ContextRow] = &[
    context(
        FILE,
        "file",
        "the top of the file",
        "The file as a whole. Keys without a table come first, before any `[table]`.",
    ),
    context(
        SERVER,
        "server",
        "[server]",
        "What the process is and where it writes. At most once in all files together.",
    ),
    context(
        LIMITS,
        "limits",
        "[limits]",
        "What clients may cost. At most once in all files together.",
    ),
    context(
        TLS,
        "tls",
        "[tls]",
        "TLS of the whole process. At most once in all files together.",
    ),
    context(
        ACME,
        "acme",
        "[acme]",
        "Where automatic certificates come from, for sites with `automatic` in [site.tls]. At most once in all files together.",
    ),
    context(
        PHP,
        "php",
        "[php]",
        "PHP that the server runs itself, for sites with `php = \"auto\"`. At most once in all files together.",
    ),
    context(
        CACHE_STORE,
        "cache_store",
        "[cache]",
        "Where the page cache keeps its entries, for all sites. At most once in all files together.",
    ),
    context(
        ABUSE,
        "abuse",
        "[abuse]",
        "Who may connect at all, and what one client address may keep open. At most once in all files together.",
    ),
    context(
        DYNAMIC_VHOSTS,
        "dynamic_vhosts",
        "[dynamic_vhosts]",
        "Hosts that a database knows, for sites with `lookup = true`. At most once in all files together. Columns of a row that are known: `root` (or \
         `docroot`), `user`, `group`, `php`, `bandwidth`, `requests`, `redirect`, `suspended`; docs/hosts.md says what each does.",
    ),
    context(
        LISTENER,
        "listener",
        "[[listener]]",
        "Where connections come in. At least one.",
    ),
    context(
        SITE,
        "site",
        "[[site]]",
        "Hosts and what they serve. At least one; the first with `*` or else the first answers unknown hosts.",
    ),
    context(
        SITE_TLS,
        "site_tls",
        "[site.tls]",
        "Certificates of the site, and what its TLS sessions are like.",
    ),
    context(
        CERTIFICATE,
        "certificate",
        "[[site.tls.certificate]]",
        "One of several certificates of a site, with what belongs to it.",
    ),
    context(
        ROUTE,
        "route",
        "[[site.route]]",
        "Requests of a site by path; the first that matches wins. Settings are laid over the site's.",
    ),
    context(
        UPSTREAM,
        "upstream",
        "[[upstream]]",
        "Programs and servers that answer in our place; routes send requests to them by `proxy`.",
    ),
    context(
        UPSTREAM_SERVER,
        "upstream_server",
        "{ address = \"...\", ... }",
        "A server of an upstream with its details.",
    ),
    context(
        REDIRECT,
        "redirect",
        "[[site.redirect]]",
        "A route that redirects, in fewer words. Takes its place among the routes.",
    ),
    context(
        COMPRESSION,
        "compression",
        "[site.compression]",
        "Compression on the fly. In a route: `[site.route.compression]`.",
    ),
    context(
        CACHE,
        "cache",
        "[site.cache]",
        "The page cache of the site. In a route: `[site.route.cache]`, which is laid over the site's. `cache = true` is a table with nothing in it.",
    ),
    context(
        THROTTLE,
        "throttle",
        "[site.throttle]",
        "Bandwidth and request rates. In a route: `[site.route.throttle]`.",
    ),
    context(
        ACCESS,
        "access",
        "[site.access]",
        "Who is answered. In a route: `[site.route.access]`, which is laid over the site's.",
    ),
    context(
        HOTLINK,
        "hotlink",
        "[site.hotlink]",
        "Hot-link protection. In a route: `[site.route.hotlink]`, which takes the place of the site's.",
    ),
    context(
        SIGNED,
        "signed",
        "[site.signed]",
        "Signed URLs (`saker sign-url` makes them). In a route: `[site.route.signed]`.",
    ),
    context(
        CHALLENGE,
        "challenge",
        "[site.challenge]",
        "Proof of work. In a route: `[site.route.challenge]`, which takes the place of the site's.",
    ),
    context(
        LOGINS,
        "logins",
        "[site.logins]",
        "Guard of WordPress' logins. In a route: `[site.route.logins]`.",
    ),
    context(
        BOT_VERIFICATION,
        "bot_verification",
        "[site.bot_verification]",
        "Verified robots. In a route: `[site.route.bot_verification]`.",
    ),
    context(
        TRIGGER,
        "trigger",
        "[site.trigger]",
        "A page before its downloads. In a route: `[site.route.trigger]`.",
    ),
    context(
        ACCESS_LOG,
        "access_log",
        "{ path = \"...\", ... }",
        "An access log with a format.",
    ),
    context(
        ACME_DIRECTORY,
        "acme_directory",
        "{ url = \"...\", ... }",
        "A directory of `[acme]`, with an account that it knows already.",
    ),
    context(
        RATE,
        "rate",
        "{ rate = \"1MB/s\", ... }",
        "Bandwidth with its details.",
    ),
    context(
        REQUEST_RATE,
        "request_rate",
        "{ rate = \"30/m\", ... }",
        "A request rate with its details.",
    ),
    context(
        FIELD,
        "field",
        "{ set = \"...\", ... }",
        "An edit of a response field. Exactly one of `set`, `append`, `if_absent`, `remove`.",
    ),
];
