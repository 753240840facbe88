//! Pages: templates and what they show.
//!
//! Called by: `actions`.
//! Caveat: templates escape every value. Text of requests is a client's, and hostile; a page has no
//! inline script, and its policy would not run one.
//! Out of scope: live parts, which `assets/console.js` fills in.

use crate::{
    Backend, Finding, Language, TraceLine,
    diff::DiffLine,
    editor::{self, OpenFile, Proposal},
    exchange::{Form, Response},
    history_files::{self, Version},
    pending_change::Pending,
    sessions::Identity,
    users::Role,
};
use askama::Template;
use saker_net::clock::realtime_s;
use serde_json::Value;

/// Versions that the page of the configuration lists.
const VERSIONS_SHOWN: usize = 20;

/// Parts that all pages have.
#[derive(Clone)]
pub struct Shell {
    pub user: String,
    pub role: &'static str,
    /// An owner of a site, and nothing else.
    pub is_owner: bool,
    pub is_operator: bool,
    pub is_administrator: bool,
    pub version: &'static str,
}

impl Shell {
    pub fn new(identity: &Identity) -> Shell {
        Shell {
            user: identity.name.clone(),
            role: identity.role.name(),
            is_owner: identity.role == Role::Owner,
            is_operator: identity.role >= Role::Operator,
            is_administrator: identity.role >= Role::Administrator,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The outcome of an action.
#[derive(Clone)]
pub struct Notice {
    pub text: String,
    pub is_good: bool,
}

impl Notice {
    pub fn good(text: &str) -> Notice {
        Notice {
            text: text.to_owned(),
            is_good: true,
        }
    }

    pub fn wrong(text: &str) -> Notice {
        Notice {
            text: text.to_owned(),
            is_good: false,
        }
    }
}

/// Renders a page.
pub fn respond(status: u16, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => Response::html(status, html),
        Err(error) => Response::error(500, &error.to_string()),
    }
}

#[derive(Template)]
#[template(path = "log_in.html")]
struct LogInPage<'p> {
    version: &'static str,
    error: Option<&'p str>,
    has_no_users: bool,
    challenge: &'p str,
    /// Host of the provider.
    provider: Option<&'p str>,
}

pub fn log_in(
    status: u16,
    error: Option<&str>,
    (has_no_users, challenge, provider): (bool, &str, Option<&str>),
) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    respond(
        status,
        &LogInPage {
            version,
            error,
            has_no_users,
            challenge,
            provider,
        },
    )
}

#[derive(Template)]
#[template(path = "logged_in.html")]
struct LoggedInPage<'p> {
    version: &'static str,
    first: &'p str,
}

/// A page that goes on to the first one.
pub fn logged_in(first: &str) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    respond(200, &LoggedInPage { version, first })
}

#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage<'p> {
    version: &'static str,
    token: &'p str,
    error: Option<&'p str>,
}

pub fn link(status: u16, token: &str, error: Option<&str>) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    respond(
        status,
        &LinkPage {
            version,
            token,
            error,
        },
    )
}

#[derive(Template)]
#[template(path = "now.html")]
struct NowPage {
    shell: Shell,
    facts: Vec<(&'static str, String)>,
}

pub fn now(shell: Shell, health: &Value) -> Response {
    let text = |name: &str| match &health[name] {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    };
    let facts = vec![
        ("Version", text("version")),
        ("Configuration", text("configuration")),
        ("Listeners", text("listeners")),
        ("Sites", text("sites")),
        ("Workers", text("workers")),
        ("Generation", text("generation")),
    ];
    respond(200, &NowPage { shell, facts })
}

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestsPage<'p> {
    shell: Shell,
    filter: Vec<(&'static str, &'static str, &'p str)>,
}

pub fn requests(shell: Shell, query: &Form) -> Response {
    let filter = [
        ("host", "Host"),
        ("path", "Path contains"),
        ("client", "Client"),
        ("status", "Status"),
        ("duration_ms", "At least ms"),
        ("cache", "Cache"),
    ];
    let filter = filter
        .map(|(name, label)| (name, label, query.get(name)))
        .to_vec();
    respond(200, &RequestsPage { shell, filter })
}

#[derive(Template)]
#[template(path = "why.html")]
struct WhyPage<'p> {
    shell: Shell,
    url: &'p str,
    method: &'p str,
    headers: Vec<&'p str>,
    error: Option<String>,
    steps: Vec<TraceLine>,
}

pub fn why(shell: Shell, query: &Form, steps: Result<Vec<TraceLine>, String>) -> Response {
    let (steps, error) = match steps {
        Ok(steps) => (steps, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let mut headers: Vec<&str> = query
        .all("header")
        .filter(|line| !line.is_empty())
        .collect();
    headers.push("");
    let method = if query.get("method").is_empty() {
        "GET"
    } else {
        query.get("method")
    };
    let status = if error.is_some() { 400 } else { 200 };
    let page = WhyPage {
        shell,
        url: query.get("url"),
        method,
        headers,
        error,
        steps,
    };
    respond(status, &page)
}

/// A site of the page cache.
struct SiteRow {
    name: String,
    entries: u64,
    bytes: String,
    hit_rate: String,
    reasons: Vec<(String, u64)>,
}

/// A cached variant of a page.
pub struct EntryCard {
    pub url: String,
    pub facts: Vec<(&'static str, String)>,
    tags: Vec<String>,
    fields: Vec<String>,
    /// Id for the page with the content, for those who may see that.
    id: Option<String>,
}

#[derive(Template)]
#[template(path = "cache.html")]
struct CachePage<'p> {
    shell: Shell,
    url: &'p str,
    tag: &'p str,
    site: &'p str,
    notice: Option<Notice>,
    error: Option<String>,
    total: Option<String>,
    sites: Vec<SiteRow>,
    is_looked_up: bool,
    entries: Vec<EntryCard>,
    counted: Option<u64>,
}

/// Results of the statistics, and of the look-up.
type CacheResults = (Result<Value, String>, Option<Result<Value, String>>);

pub fn cache(
    shell: Shell,
    query: &Form,
    (statistics, found): CacheResults,
    notice: Option<Notice>,
) -> Response {
    let is_looked_up = found.is_some();
    let (found, look_up_error) = match found {
        Some(Ok(found)) => (found, None),
        Some(Err(error)) => (Value::Null, Some(error)),
        None => (Value::Null, None),
    };
    let (statistics, error) = match statistics {
        Ok(statistics) => (Some(statistics), None),
        Err(error) => (None, Some(error)),
    };
    let sites = statistics
        .as_ref()
        .map_or_else(Vec::new, |all| list(&all["sites"]));
    let total = statistics.as_ref().map(|all| {
        all["bytes_max"].as_u64().map(|max| {
            let used = bytes(all["bytes"].as_u64());
            format!("Pages: {}, {used} of {}", all["entries"], bytes(Some(max)))
        })
    });
    let total = total.flatten();
    let page = CachePage {
        shell,
        url: query.get("url"),
        tag: query.get("tag"),
        site: query.get("site"),
        notice: notice.or(look_up_error.map(|error| Notice::wrong(&error))),
        error,
        total,
        sites: sites.iter().map(|site| site_row(site)).collect(),
        is_looked_up,
        entries: list(&found["entries"])
            .iter()
            .map(|entry| entry_card(entry))
            .collect(),
        counted: found["pages"].as_u64(),
    };
    respond(200, &page)
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().into_iter().flatten().collect()
}

fn texts(value: &Value) -> Vec<String> {
    let texts = list(value).into_iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn site_row(site: &Value) -> SiteRow {
    let count = |name: &str| site[name].as_u64().unwrap_or(0);
    let hits = count("hits") + count("stale_hits");
    let all = hits + count("misses") + count("passes");
    let reasons = site["pass_reasons"].as_object().into_iter().flatten();
    let mut reasons: Vec<(String, u64)> = reasons
        .filter_map(|(reason, count)| Some((reason.clone(), count.as_u64()?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    SiteRow {
        name: site["site"].as_str().unwrap_or_default().to_owned(),
        entries: count("entries"),
        bytes: bytes(site["bytes"].as_u64()),
        hit_rate: match all {
            0 => "–".to_owned(),
            all => format!("{:.0} %", hits as f64 * 100.0 / all as f64),
        },
        reasons,
    }
}

/// The card of an entry. One of a private page has no link, unless `fields` are shown, too.
pub fn entry_card(entry: &Value) -> EntryCard {
    let number = |name: &str| entry[name].as_i64();
    let duration = |name: &str| number(name).map_or_else(|| "–".into(), seconds);
    EntryCard {
        url: entry["url"].as_str().unwrap_or_default().to_owned(),
        facts: vec![
            ("Status", number("status").unwrap_or(0).to_string()),
            ("Size", bytes(entry["bytes"].as_u64())),
            ("Age", duration("age_s")),
            ("Fresh for", duration("fresh_for_s")),
            ("Kept for", duration("kept_for_s")),
            (
                "Private",
                if entry["is_private"] == true {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
            ),
            (
                "Purged",
                entry["standing"].as_str().unwrap_or_default().to_owned(),
            ),
            ("Codings", texts(&entry["codings"]).join(", ")),
            ("Key", texts(&entry["key"]).join(" · ")),
        ],
        tags: texts(&entry["tags"]),
        fields: texts(&entry["fields"]),
        id: match entry["is_private"] == false || entry["fields"].is_array() {
            true => entry["entry"].as_str().map(str::to_owned),
            false => None,
        },
    }
}

#[derive(Template)]
#[template(path = "cache_count.html")]
struct CountPage<'p> {
    shell: Shell,
    url: &'p str,
    tag: &'p str,
    expression: &'p str,
    site: &'p str,
    all: &'p str,
    soft: &'p str,
    pages: u64,
    /// There may be more.
    is_cut: bool,
}

/// Asks for a confirmation, with the number of pages.
pub fn cache_count(shell: Shell, form: &Form, counted: &Value) -> Response {
    let page = CountPage {
        shell,
        url: form.get("url"),
        tag: form.get("tag"),
        expression: form.get("expression"),
        site: form.get("site"),
        all: form.get("all"),
        soft: form.get("soft"),
        pages: counted["pages"].as_u64().unwrap_or(0),
        is_cut: counted["is_cut"] == true,
    };
    respond(200, &page)
}

/// The change that waits, as the page shows it.
struct Waiting {
    id: String,
    file: String,
    by: String,
    seconds_left: i64,
}

impl Waiting {
    fn new(pending: Pending) -> Waiting {
        Waiting {
            id: pending.version.id,
            file: pending.version.file.display().to_string(),
            by: pending.version.by,
            seconds_left: (pending.until_s - realtime_s()).max(0),
        }
    }
}

/// An earlier version, as the page shows it.
struct VersionRow {
    id: String,
    file: String,
    by: String,
    at: String,
}

impl VersionRow {
    fn new(version: Version) -> VersionRow {
        VersionRow {
            id: version.id,
            file: version.file.display().to_string(),
            by: version.by,
            at: time(version.at_s),
        }
    }
}

#[derive(Template)]
#[template(path = "configuration.html")]
struct ConfigurationPage<'p> {
    shell: Shell,
    files: &'p [String],
    open: Option<OpenFile>,
    base: String,
    notice: Option<Notice>,
    waiting: Option<Waiting>,
    versions: Vec<VersionRow>,
    proposal: Option<ProposalView>,
    /// Time for confirming that the form begins with.
    confirm_s: i64,
    has_forms: bool,
}

struct ProposalView {
    findings: Vec<Finding>,
    diff: Vec<DiffLine>,
    has_errors: bool,
}

/// Names of files, and the one that is open, or why none is.
type Opened<'o> = (&'o [String], Result<OpenFile, String>);

pub fn configuration(
    shell: Shell,
    backend: &dyn Backend,
    opened: Opened<'_>,
    notice: Option<Notice>,
) -> Response {
    configuration_page(shell, backend, opened, (notice, None, None))
}

pub fn proposal(
    shell: Shell,
    backend: &dyn Backend,
    opened: Opened<'_>,
    (base, proposal): (&str, Proposal),
) -> Response {
    let view = ProposalView {
        has_errors: proposal.checked.has_errors(),
        findings: proposal.checked.findings,
        diff: proposal.diff,
    };
    configuration_page(shell, backend, opened, (None, Some(base), Some(view)))
}

fn configuration_page(
    shell: Shell,
    backend: &dyn Backend,
    (files, open): Opened<'_>,
    (notice, base, proposal): (Option<Notice>, Option<&str>, Option<ProposalView>),
) -> Response {
    let (open, error) = match open {
        Ok(open) => (Some(open), None),
        Err(_) if files.is_empty() => (None, None),
        Err(error) => (None, Some(Notice::wrong(&error))),
    };
    let status = if error.is_some() { 404 } else { 200 };
    let versions = history_files::versions(&backend.state_dir());
    let own_digest = open
        .as_ref()
        .map_or_else(String::new, |open| open.digest.clone());
    let page = ConfigurationPage {
        shell,
        files,
        base: base.map_or(own_digest, str::to_owned),
        open,
        notice: notice.or(error),
        waiting: backend.state().editor.pending().map(Waiting::new),
        versions: versions
            .into_iter()
            .take(VERSIONS_SHOWN)
            .map(VersionRow::new)
            .collect(),
        proposal,
        confirm_s: editor::confirm_time_s(backend),
        has_forms: backend.language() == Language::Native,
    };
    respond(status, &page)
}

/// A line of the audit log, as the page shows it.
struct AuditRow {
    at: String,
    user: String,
    client: String,
    action: String,
    detail: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    shell: Shell,
    rows: Vec<AuditRow>,
}

pub fn audit(shell: Shell, entries: &[Value]) -> Response {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let rows = entries.iter().map(|entry| AuditRow {
        at: time(entry["at"].as_i64().unwrap_or(0)),
        user: format!("{} ({})", text(entry, "user"), text(entry, "role")),
        client: text(entry, "client"),
        action: text(entry, "action"),
        detail: match &entry["detail"] {
            Value::Null => String::new(),
            detail => format!("{detail:#}"),
        },
    });
    let rows = rows.collect();
    respond(200, &AuditPage { shell, rows })
}

/// A time in UTC, as in RFC 3339.
pub fn time(at_s: i64) -> String {
    let (days, second) = (at_s.div_euclid(86_400), at_s.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

fn seconds(seconds: i64) -> String {
    match seconds {
        ..=-1 => format!("over since {}", self::seconds(-seconds)),
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn bytes(bytes: Option<u64>) -> String {
    let bytes = bytes.unwrap_or(0) as f64;
    match bytes {
        ..1_000.0 => format!("{bytes:.0} B"),
        ..1_000_000.0 => format!("{:.1} kB", bytes / 1e3),
        ..1_000_000_000.0 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (at_s, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_790_000_000, "2026-09-21 14:13:20 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(time(at_s), expected);
        }
    }

    #[test]
    fn text_of_clients_is_escaped_everywhere() {
        let hostile = "\"><script>alert(1)</script>'&";
        let identity = Identity {
            name: hostile.into(),
            role: Role::Administrator,
            site: None,
            is_account: false,
            by: crate::sessions::By::Session,
        };
        let query = Form::parse(b"url=%22%3E%3Cscript%3E&method=%3Cscript%3E&header=%3Cscript%3E&tag=%3Cscript%3E&site=%27%3Cscript%3E&path=%3Cscript%3E&all=%3Cscript%3E&soft=%3Cscript%3E&host=%22%3Cscript%3E");
        let shell = || Shell::new(&identity);
        let line = TraceLine {
            phase: hostile.into(),
            text: hostile.into(),
            place: hostile.into(),
        };
        let entry = serde_json::json!({
            "entries": [{ "url": hostile, "tags": [hostile], "fields": [hostile], "key": [hostile], "standing": hostile }],
        });
        let statistics = serde_json::json!({
            "entries": 1, "bytes": 1, "bytes_max": 2,
            "sites": [{ "site": hostile, "pass_reasons": { hostile: 3 } }],
        });
        let audited = serde_json::json!({
            "at": 0, "user": hostile, "role": hostile, "client": hostile, "action": hostile, "detail": { hostile: hostile },
        });
        let pages = [
            log_in(200, Some(hostile), (true, hostile, Some(hostile))),
            link(200, hostile, Some(hostile)),
            now(
                shell(),
                &serde_json::json!({ "version": hostile, "configuration": hostile, "listeners": [hostile] }),
            ),
            requests(shell(), &query),
            why(shell(), &query, Ok(vec![line])),
            why(shell(), &query, Err(hostile.into())),
            cache(
                shell(),
                &query,
                (Ok(statistics), Some(Ok(entry))),
                Some(Notice::wrong(hostile)),
            ),
            cache(shell(), &query, (Err(hostile.into()), None), None),
            cache_count(
                shell(),
                &query,
                &serde_json::json!({ "pages": 3, "is_cut": true }),
            ),
            audit(shell(), &[audited]),
        ];
        for page in pages {
            let html = String::from_utf8(page.content).expect("text");
            assert!(html.contains("</html>"), "{html}");
            // The only scripts are the console's own files.
            let scripts = html.matches("<script").count();
            assert_eq!(
                scripts,
                html.matches("<script src=\"/assets/").count(),
                "{html}"
            );
            assert!(!html.contains("'&<") && !html.contains(" style="), "{html}");
        }
    }
}
