//! `match` of routes and redirects, and `[site.matcher.NAME]`: conditions on requests.
//!
//! Called by: `route` and `site`.
//! Caveat: named matchers are resolved when the whole site has been read.
//! Out of scope: list files and databases of client addresses, which `resolve/addresses` attaches.

use super::{
    abuse::COUNTRY, listener::NETWORK, native_expression, path_pattern::PATTERN, template::REWRITE,
};
use crate::{
    context::MATCHER,
    diagnostic::quoted,
    kind::{KeyKind, Kind, TableKind, Word},
    model::{Matcher, PathPattern, Template},
    reader::Reader,
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    suggest,
    value::{Fields, Spanned, Value, ValueError},
};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_http::{Version, chars};
use saker_matchers::{
    ClientSet, FileTest, Names, PartTest, Source, TimeWindow, ValueTest, VariableTest, parse_days,
    parse_hours,
};
use saker_net::Network;
use std::{collections::BTreeMap, sync::Arc};

/// Names of matchers, maps, and variables.
pub static IDENTIFIER: KeyKind = KeyKind {
    expects: "names of letters, digits, and `_`",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    is_case_sensitive: true,
    read: read_name,
};

static MATCHER_NAME: Word = Word {
    expects: "the name of a [site.matcher.NAME]",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    read: |text| read_name(text).map(|name| Value::parsed(MatchTree::Name(name))),
};

/// One name, several (of which all must hold), or conditions.
pub static MATCH: Kind = Kind::OneOf(&[
    Kind::Word(&MATCHER_NAME),
    Kind::ListOf(&Kind::Word(&MATCHER_NAME)),
    MATCH_TABLE,
]);

pub const MATCH_TABLE: Kind = Kind::Table(&TableKind {
    context: MATCHER,
    read: read_table,
});

pub static REGEX: Word = Word {
    expects: "a regular expression (PCRE2), such as \"^/user/([0-9]+)$\"",
    pattern: "",
    read: |text| read_regex(text).map(|pattern| Value::parsed(PathPattern::Regex(pattern))),
};

pub static METHOD: Word = Word {
    expects: "a method, such as \"GET\"",
    pattern: "^[A-Z][A-Z-]*$",
    read: read_method,
};

static TEST_TEXT: Word = Word {
    expects: "a text, a text with `*`, or `~` and a regular expression",
    pattern: "",
    read: |text| read_test(text).map(Value::parsed),
};

/// A host that could never be met is refused: hosts have neither a scheme nor a port.
static HOST_TEXT: Word = Word {
    expects: TEST_TEXT.expects,
    pattern: "",
    read: |text| match bare_host(text) {
        Some(host) => Err(ValueError::with_help(
            "hosts are compared without scheme, port, and path",
            format!("write {}", quoted(host)),
        )),
        None => read_test(text).map(Value::parsed),
    },
};

/// The host of a text that is a URL, or has a port.
fn bare_host(text: &str) -> Option<&str> {
    if text.starts_with('~') {
        return None;
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let has_port = |(_, port): &(&str, &str)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    };
    let host = match host.rsplit_once(':').filter(has_port) {
        Some((name, _)) if !name.contains(':') || name.ends_with(']') => name,
        _ => host,
    };
    (host.len() < text.len() && !host.is_empty()).then_some(host)
}

/// A test of a value: present or absent, or one of several texts.
const TEST: Kind = Kind::OneOf(&[
    Kind::Boolean,
    Kind::Word(&TEST_TEXT),
    Kind::ListOf(&Kind::Word(&TEST_TEXT)),
]);

pub static FIELD: KeyKind = KeyKind {
    expects: "names of header fields",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    is_case_sensitive: false,
    read: |text| match chars::is_token(text.as_bytes()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(ValueError::plain(None)),
    },
};

/// Names of parameters and cookies.
pub static ANY_NAME: KeyKind = KeyKind {
    expects: "names",
    pattern: "",
    is_case_sensitive: true,
    read: |text| match text.is_empty() {
        true => Err(ValueError::plain(None)),
        false => Ok(text.to_owned()),
    },
};

static DAYS: Word = Word {
    expects: "a day or days, such as \"sat\" or \"mon-fri\"",
    pattern: "^[A-Za-z]+( *- *[A-Za-z]+)?$",
    read: |text| {
        parse_days(text)
            .map(|days| Value::Number(days.into()))
            .ok_or(ValueError::plain(None))
    },
};

static HOURS: Word = Word {
    expects: "hours, such as \"08:00-18:00\"",
    pattern: "^[0-9]{2}:[0-9]{2} *- *[0-9]{2}:[0-9]{2}$",
    read: |text| {
        parse_hours(text)
            .map(Value::parsed)
            .ok_or_else(|| ValueError::plain(Some("write \"08:00-18:00\"".into())))
    },
};

static EXPRESSION: Word = Word {
    expects: "an expression, such as \"$http_user_agent =~ /bot/ and $method == 'GET'\"",
    pattern: "",
    read: |text| {
        native_expression::compile(text).map(|expression| {
            Value::parsed(MatchTree::Is(Matcher::Expression(Arc::new(expression))))
        })
    },
};

const PROTOCOLS: Kind = Kind::Choice(&[
    "HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3", "HTTP/2.0", "HTTP/3.0",
]);

/// A matcher while names are unknown.
#[derive(Clone, Debug)]
pub enum MatchTree {
    Is(Matcher),
    All(Vec<(MatchTree, Location)>),
    Any(Vec<(MatchTree, Location)>),
    Not(Box<(MatchTree, Location)>),
    Name(String),
}

#[derive(Debug, Default)]
pub struct MatchDraft {
    all: Vec<(MatchTree, Location)>,
    client: ClientDraft,
    client_at: Option<Location>,
    days: u8,
    hours: Vec<(u16, u16)>,
    time_at: Option<Location>,
}

#[derive(Debug, Default)]
struct ClientDraft {
    networks: Vec<Network>,
    files: Vec<std::path::PathBuf>,
    countries: Vec<String>,
}

impl Draft for MatchDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

impl MatchDraft {
    fn is(&mut self, matcher: Matcher, at: Location) {
        self.all.push((MatchTree::Is(matcher), at));
    }

    fn parts(&mut self, given: Spanned, source: fn(Box<str>) -> Source) {
        for (name, one) in given.map() {
            let at = one.at.clone();
            let tests = tests(one);
            let part = match source(name.into()) {
                // The canonical host, whatever its spelling in the field.
                Source::Field(name) if &*name == "host" => {
                    Matcher::Host(tests.into_iter().map(lowercase).collect())
                }
                source => Matcher::Part(Arc::new(PartTest {
                    source,
                    tests: tests.into(),
                })),
            };
            self.is(part, at);
        }
    }
}

const SINCE: &str = "0.2";

pub const ROWS: &[Row<MatchDraft>] = &[
    Row {
        name: "path",
        contexts: MATCHER,
        kind: Kind::OneOf(&[Kind::Word(&PATTERN), Kind::ListOf(&Kind::Word(&PATTERN))]),
        example: Some("[\"/admin/*\", \"*.php\"]"),
        summary: "Patterns of the decoded path, of which one must match. `*` matches anything, \
                  including slashes.",
        since: SINCE,
        set: |draft, given| {
            let at = given.at.clone();
            let each = given.one_or_many();
            let patterns: Vec<PathPattern> = each.iter().filter_map(Spanned::parsed_as).collect();
            draft.is(Matcher::Path(patterns.into()), at);
        },
        ..Row::BASE
    },
    Row {
        name: "path_regex",
        contexts: MATCHER,
        kind: Kind::Word(&REGEX),
        example: Some("\"^/user/[0-9]+$\""),
        summary: "Regular expression (PCRE2) for the decoded path. Groups can be used only with \
                  `path_regex` of the route itself.",
        since: SINCE,
        aliases: &["path_regexp"],
        set: |draft, given| {
            let at = given.at.clone();
            let pattern = given.parsed_as::<PathPattern>();
            draft.is(Matcher::Path(pattern.into_iter().collect()), at);
        },
        ..Row::BASE
    },
    Row {
        name: "host",
        contexts: MATCHER,
        kind: Kind::OneOf(&[
            Kind::Word(&HOST_TEXT),
            Kind::ListOf(&Kind::Word(&HOST_TEXT)),
        ]),
        example: Some("\"*.example.org\""),
        summary: "Host names: exact, with `*`, or `~` and a regular expression. Compared with the \
                  effective host: lowercase, without port.",
        since: SINCE,
        aliases: &["server_name", "hosts"],
        set: |draft, given| {
            let at = given.at.clone();
            let tests = tests(given).into_iter().map(lowercase).collect();
            draft.is(Matcher::Host(tests), at);
        },
        ..Row::BASE
    },
    Row {
        name: "method",
        contexts: MATCHER,
        kind: Kind::OneOf(&[Kind::Word(&METHOD), Kind::ListOf(&Kind::Word(&METHOD))]),
        example: Some("[\"GET\", \"HEAD\"]"),
        summary: "Request methods.",
        apache: Some("<Limit>, <LimitExcept>"),
        since: SINCE,
        aliases: &["methods", "limit_except", "request_method"],
        set: |draft, given| {
            let at = given.at.clone();
            let methods = given.one_or_many().into_iter();
            let methods = methods.map(|one| one.text().into_boxed_str()).collect();
            draft.is(Matcher::Method(methods), at);
        },
        ..Row::BASE
    },
    Row {
        name: "header",
        contexts: MATCHER,
        kind: Kind::MapOf(&FIELD, &TEST),
        example: Some("{ X-Requested-With = \"XMLHttpRequest\", User-Agent = \"~*bot\" }"),
        summary: "Request fields: `true` (present), `false` (absent), a text, a text with `*`, `~` \
                  and a regular expression (`~*` ignores case), or a list of these. Repeated \
                  fields are one text, joined by `, `.",
        since: SINCE,
        aliases: &["headers", "header_regexp", "field"],
        set: |draft, given| draft.parts(given, Source::Field),
        ..Row::BASE
    },
    Row {
        name: "query",
        contexts: MATCHER,
        kind: Kind::MapOf(&ANY_NAME, &TEST),
        example: Some("{ debug = true, page = \"~^[0-9]+$\" }"),
        summary: "Query parameters, by decoded name and value, as in `header`. Of repeated \
                  parameters, one that matches is enough; names that PHP reads as this one \
                  (`user.id`, `user_id[]`) count, except for `false`.",
        since: SINCE,
        aliases: &["args", "parameter", "parameters"],
        set: |draft, given| draft.parts(given, Source::Parameter),
        ..Row::BASE
    },
    Row {
        name: "cookie",
        contexts: MATCHER,
        kind: Kind::MapOf(&ANY_NAME, &TEST),
        example: Some("{ session = true }"),
        summary: "Cookies, as in `query`.",
        since: SINCE,
        aliases: &["cookies"],
        set: |draft, given| draft.parts(given, Source::Cookie),
        ..Row::BASE
    },
    Row {
        name: "variable",
        contexts: MATCHER,
        kind: Kind::MapOf(&IDENTIFIER, &TEST),
        example: Some("{ args = true }"),
        summary: "Values of maps ([map.NAME]) and of variables of requests, by name without `$`, as \
                  in `header`; an empty value counts as absent.",
        since: SINCE,
        aliases: &["variables", "var", "map"],
        set: |draft, given| {
            for (name, one) in given.map() {
                let at = one.at.clone();
                let test = VariableTest::new(&name, tests(one));
                draft.is(Matcher::Variable(Arc::new(test)), at);
            }
        },
        ..Row::BASE
    },
    Row {
        name: "client",
        contexts: MATCHER,
        kind: Kind::OneOf(&[Kind::Word(&NETWORK), Kind::ListOf(&Kind::Word(&NETWORK))]),
        example: Some("[\"192.0.2.0/24\", \"2001:db8::/32\"]"),
        summary: "Client addresses and networks. Behind a trusted proxy: the address that the \
                  proxy names. With `client_files` or `country`, one of them is enough.",
        apache: Some("Require ip"),
        since: SINCE,
        aliases: &["remote_ip", "client_ip", "remote_addr", "address"],
        set: |draft, given| {
            draft.client_at = Some(given.at.clone());
            let each = given.one_or_many();
            draft.client.networks = each.iter().filter_map(Spanned::parsed_as).collect();
        },
        ..Row::BASE
    },
    Row {
        name: "client_files",
        contexts: MATCHER,
        kind: Kind::ListOf(&Kind::Path),
        example: Some("[\"lists/office.txt\"]"),
        summary: "Files with client addresses, as in [abuse]; changes take effect without a reload.",
        since: SINCE,
        set: |draft, given| {
            draft.client_at = Some(given.at.clone());
            draft.client.files = given.paths();
        },
        ..Row::BASE
    },
    Row {
        name: "country",
        contexts: MATCHER,
        kind: Kind::OneOf(&[Kind::Word(&COUNTRY), Kind::ListOf(&Kind::Word(&COUNTRY))]),
        example: Some("[\"XA\", \"XB\"]"),
        summary: "Countries of clients (two-letter codes); requires `geoip` in [abuse].",
        since: SINCE,
        aliases: &["countries"],
        set: |draft, given| {
            draft.client_at = Some(given.at.clone());
            let each = given.one_or_many().into_iter();
            draft.client.countries = each.map(Spanned::text).collect();
        },
        ..Row::BASE
    },
    Row {
        name: "scheme",
        contexts: MATCHER,
        kind: Kind::Choice(&["http", "https"]),
        example: Some("\"https\""),
        summary: "Scheme of the client's connection.",
        since: SINCE,
        set: |draft, given| {
            let at = given.at.clone();
            draft.is(Matcher::Secure(given.text() == "https"), at);
        },
        ..Row::BASE
    },
    Row {
        name: "protocol",
        contexts: MATCHER,
        kind: Kind::OneOf(&[PROTOCOLS, Kind::ListOf(&PROTOCOLS)]),
        example: Some("[\"HTTP/1.0\", \"HTTP/1.1\"]"),
        summary: "Protocol versions.",
        since: SINCE,
        set: |draft, given| {
            let at = given.at.clone();
            let each = given.one_or_many().into_iter();
            let versions = each.map(|one| version(&one.text())).collect();
            draft.is(Matcher::Version(versions), at);
        },
        ..Row::BASE
    },
    Row {
        name: "days",
        contexts: MATCHER,
        kind: Kind::OneOf(&[Kind::Word(&DAYS), Kind::ListOf(&Kind::Word(&DAYS))]),
        example: Some("\"mon-fri\""),
        summary: "Days of the week in the server's time zone.",
        since: SINCE,
        set: |draft, given| {
            draft.time_at = Some(given.at.clone());
            let each = given.one_or_many().into_iter();
            draft.days = each.fold(0, |days, one| days | one.number() as u8);
        },
        ..Row::BASE
    },
    Row {
        name: "hours",
        contexts: MATCHER,
        kind: Kind::OneOf(&[Kind::Word(&HOURS), Kind::ListOf(&Kind::Word(&HOURS))]),
        example: Some("\"08:00-18:00\""),
        summary: "Hours in the server's time zone; the end does not belong to them. Hours over \
                  midnight belong to the day on which they begin.",
        aliases: &["time", "times", "time_of_day"],
        since: SINCE,
        set: |draft, given| {
            draft.time_at = Some(given.at.clone());
            let each = given.one_or_many();
            draft.hours = each.iter().filter_map(Spanned::parsed_as).collect();
        },
        ..Row::BASE
    },
    Row {
        name: "file",
        contexts: MATCHER,
        kind: Kind::Word(&REWRITE),
        example: Some("\"$uri\""),
        summary: "A regular file exists at this path below the document root.",
        apache: Some("RewriteCond"),
        since: SINCE,
        aliases: &["file_exists", "exists"],
        set: |draft, given| set_file(draft, &given, false),
        ..Row::BASE
    },
    Row {
        name: "directory",
        contexts: MATCHER,
        kind: Kind::Word(&REWRITE),
        example: Some("\"$uri\""),
        summary: "A directory exists at this path below the document root.",
        since: SINCE,
        aliases: &["folder", "directory_exists"],
        set: |draft, given| set_file(draft, &given, true),
        ..Row::BASE
    },
    Row {
        name: "expression",
        contexts: MATCHER,
        kind: Kind::Word(&EXPRESSION),
        example: Some("\"$http_user_agent =~ /bot/ and not $method in {'GET', 'HEAD'}\""),
        summary: "An expression in the language of Apache's `<If>`, with variables as `$name` and \
                  `and`, `or`, `not`.",
        apache: Some("<If>, Require expr"),
        since: SINCE,
        aliases: &["if", "expr"],
        set: |draft, given| {
            if let Some(tree) = given.parsed_as::<MatchTree>() {
                draft.all.push((tree, given.at));
            }
        },
        ..Row::BASE
    },
    Row {
        name: "all",
        contexts: MATCHER,
        kind: Kind::ListOf(&MATCH),
        example: Some("[{ method = \"POST\" }, { scheme = \"http\" }]"),
        summary: "Conditions that must all hold.",
        apache: Some("<RequireAll>"),
        since: SINCE,
        aliases: &["and"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.all.push((MatchTree::All(trees(given)), at));
        },
        ..Row::BASE
    },
    Row {
        name: "any",
        contexts: MATCHER,
        kind: Kind::ListOf(&MATCH),
        example: Some("[{ scheme = \"http\" }, { cookie = { debug = true } }]"),
        summary: "Conditions of which one must hold.",
        apache: Some("<RequireAny>"),
        since: SINCE,
        aliases: &["or"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.all.push((MatchTree::Any(trees(given)), at));
        },
        ..Row::BASE
    },
    Row {
        name: "not",
        contexts: MATCHER,
        kind: MATCH_OR_NAME,
        example: Some("{ client = \"192.0.2.0/24\" }"),
        summary: "Conditions that must not all hold.",
        apache: Some("<RequireNone>"),
        since: SINCE,
        set: |draft, given| {
            let at = given.at.clone();
            if let Some(tree) = tree(given) {
                draft
                    .all
                    .push((MatchTree::Not(Box::new((tree, at.clone()))), at));
            }
        },
        ..Row::BASE
    },
];

/// The same as [`MATCH`], by value.
pub const MATCH_OR_NAME: Kind = Kind::OneOf(&[
    Kind::Word(&MATCHER_NAME),
    Kind::ListOf(&Kind::Word(&MATCHER_NAME)),
    MATCH_TABLE,
]);

/// The value of `match` and the like.
pub fn tree(given: Spanned) -> Option<MatchTree> {
    match given.value {
        Value::List(list) => Some(MatchTree::All(
            list.into_iter()
                .filter_map(|one| Some((one.parsed_as()?, one.at)))
                .collect(),
        )),
        value => value.parsed_as(),
    }
}

fn trees(given: Spanned) -> Vec<(MatchTree, Location)> {
    let each = given.list().into_iter();
    each.filter_map(|one| {
        let at = one.at.clone();
        Some((tree(one)?, at))
    })
    .collect()
}

fn read_table(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = MatchDraft::default();
    draft.fill(fields);
    if let Some(at) = draft.client_at.take() {
        draft.is(Matcher::Client(Arc::new(client_set(&draft.client))), at);
    }
    if let Some(at) = draft.time_at.take() {
        let window = TimeWindow {
            days: match draft.days {
                0 => TimeWindow::EVERY_DAY,
                days => days,
            },
            hours: draft.hours.clone().into(),
        };
        draft.is(Matcher::Time(Arc::new(window)), at);
    }
    if draft.all.is_empty() && fields.written.is_empty() {
        let help = "write for example match = { method = \"POST\" }";
        report.error(&fields.at, "no conditions", Some(help.into()));
    }
    Some(Value::parsed(MatchTree::All(draft.all)))
}

fn client_set(draft: &ClientDraft) -> ClientSet {
    let networks: Vec<String> = draft.networks.iter().map(ToString::to_string).collect();
    ClientSet::new(&networks, draft.files.clone(), draft.countries.clone())
}

fn set_file(draft: &mut MatchDraft, given: &Spanned, is_directory: bool) {
    if let Some(path) = given.parsed_as::<Template>() {
        let path = path.link(&Names::default()).unwrap_or(path);
        let test = FileTest { path, is_directory };
        draft.is(Matcher::File(Arc::new(test)), given.at.clone());
    }
}

fn tests(given: Spanned) -> Vec<ValueTest> {
    match given.value {
        Value::Boolean(true) => vec![ValueTest::Present],
        Value::Boolean(false) => vec![ValueTest::Absent],
        _ => {
            let each = given.one_or_many();
            each.iter().filter_map(Spanned::parsed_as).collect()
        }
    }
}

fn lowercase(test: ValueTest) -> ValueTest {
    match test {
        ValueTest::Equals(text) => ValueTest::Equals(text.to_ascii_lowercase().into()),
        ValueTest::Stars(stars) => {
            ValueTest::Stars(PathPattern::new(&stars.to_string().to_ascii_lowercase()))
        }
        test => test,
    }
}

fn version(text: &str) -> Version {
    match text {
        "HTTP/1.0" => Version::Http10,
        "HTTP/2" | "HTTP/2.0" => Version::Http2,
        "HTTP/3" | "HTTP/3.0" => Version::Http3,
        _ => Version::Http11,
    }
}

fn read_name(text: &str) -> Result<String, ValueError> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(ValueError::plain(None)),
    }
}

fn read_method(text: &str) -> Result<Value, ValueError> {
    if !chars::is_token(text.as_bytes()) {
        let each = text.split([',', ' ', '|']).filter(|part| !part.is_empty());
        let each: Vec<String> = each
            .map(|part| quoted(&part.to_ascii_uppercase()))
            .collect();
        let help = (each.len() > 1).then(|| format!("write [{}]", each.join(", ")));
        return Err(ValueError::plain(help));
    }
    match text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => Err(ValueError::with_help(
            "methods are case-sensitive",
            format!("write {}", quoted(&text.to_ascii_uppercase())),
        )),
        false => Ok(Value::Text(text.to_owned())),
    }
}

pub fn read_regex(text: &str) -> Result<Pattern, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("it must not be empty"));
    }
    Pattern::compile(text, PatternOptions::HTTPD).map_err(|error| {
        ValueError::with_help(
            format!("invalid regular expression: {}", error.message),
            "in a TOML string, '...' needs no escapes: '^/a\\.b$'",
        )
    })
}

fn read_test(text: &str) -> Result<ValueTest, ValueError> {
    ValueTest::parse(text).map_err(|error| {
        ValueError::with_help(
            format!("invalid regular expression: {}", error.message),
            "a text that begins with `~` is a regular expression",
        )
    })
}

/// Named matchers of a site while they are resolved.
pub type NamedMatchers = BTreeMap<String, Matcher>;

/// Resolves `[site.matcher.NAME]`, which may use each other.
pub fn resolve_all(
    reader: &mut Reader<'_>,
    named: Vec<(String, MatchTree, Location)>,
) -> NamedMatchers {
    let mut resolved = NamedMatchers::new();
    let mut open = named;
    // Each round resolves those that use only what is known; a circle is left over.
    while !open.is_empty() {
        let names: Vec<String> = open.iter().map(|(name, ..)| name.clone()).collect();
        let is_ready = |(_, tree, _): &(String, MatchTree, Location)| {
            !names.iter().any(|name| uses(tree, name))
        };
        let (ready, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(is_ready);
        let is_circle = ready.is_empty();
        for (name, tree, at) in if is_circle { rest.clone() } else { ready } {
            if is_circle {
                reader.error(&at, format!("matcher `{name}` uses itself"), None);
                // Further errors about the name would follow from this one.
                resolved.insert(name, Matcher::Any(Arc::from([])));
                continue;
            }
            let matcher = resolve(reader, tree, &at, &resolved);
            resolved.insert(name, matcher);
        }
        open = if is_circle { Vec::new() } else { rest };
    }
    resolved
}

fn uses(tree: &MatchTree, name: &str) -> bool {
    match tree {
        MatchTree::Is(_) => false,
        MatchTree::All(all) | MatchTree::Any(all) => all.iter().any(|(one, _)| uses(one, name)),
        MatchTree::Not(inner) => uses(&inner.0, name),
        MatchTree::Name(used) => used == name,
    }
}

/// Resolves names. One that is unknown is reported, and matches nothing.
pub fn resolve(
    reader: &mut Reader<'_>,
    tree: MatchTree,
    at: &Location,
    named: &NamedMatchers,
) -> Matcher {
    let mut each = |list: Vec<(MatchTree, Location)>| -> Vec<Matcher> {
        list.into_iter()
            .map(|(one, at)| resolve(reader, one, &at, named))
            .collect()
    };
    match tree {
        MatchTree::Is(matcher) => matcher,
        MatchTree::All(list) => match <[Matcher; 1]>::try_from(each(list)) {
            Ok([only]) => only,
            Err(all) => Matcher::All(all.into()),
        },
        MatchTree::Any(list) => Matcher::Any(each(list).into()),
        MatchTree::Not(inner) => {
            let (tree, at) = *inner;
            Matcher::Not(Arc::new(resolve(reader, tree, &at, named)))
        }
        MatchTree::Name(name) => match named.get(&name) {
            Some(matcher) => Matcher::Named(name.into(), Arc::new(matcher.clone())),
            None => {
                let near = suggest::nearest(&name, named.keys().map(String::as_str));
                let is_method = name.len() > 2 && name.bytes().all(|c| c.is_ascii_uppercase());
                let help = near.map_or_else(
                    || match is_method {
                        true => format!("write match = {{ method = {} }}", quoted(&name)),
                        false => format!("add [site.matcher.{name}]"),
                    },
                    |near| format!("did you mean {}?", quoted(near)),
                );
                reader.error(at, format!("unknown matcher {}", quoted(&name)), Some(help));
                Matcher::Any(Arc::from([]))
            }
        },
    }
}
