//! Bans: purges by a condition on entries (Varnish's ban expressions, prefixes of tags).
//!
//! Called by: `purge`, which makes bans, and `cache`, which checks older entries against them.
//! Caveat: the store keeps a ban as text with its scope; each worker parses it once. Text that
//! can't be parsed bans: refetching a page too many is harmless, serving a stale one is not.
//! Out of scope: the grammar of expressions (`saker_cache_rules::ban`).

use crate::{page::Page, tags::PRIVATE};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_cache_rules::{
    ban::{Ban, Subject},
    names,
};
use saker_cache_store::Purge;
use saker_http::HeadView;
use std::{cell::RefCell, collections::HashMap, rc::Rc};

/// The purges and their description for the response; or why the request can't be understood.
pub type PurgeRequest = Result<(Vec<Purge>, String), String>;

/// Separates the parts of the text; occurs in none of them.
const BETWEEN: u8 = 0;

const PREFIX: &[u8] = b"prefix";

const EXPRESSION: &[u8] = b"expression";

/// Limit on parsed bans kept by a worker; the store has no more either.
const READ_MAX: usize = 1_000;

/// Bans parsed by this worker.
#[derive(Default)]
pub struct Bans(RefCell<HashMap<u64, Rc<CompiledBan>>>);

enum CompiledBan {
    Prefix {
        scope: Vec<u8>,
        prefix: Vec<u8>,
    },
    Expression {
        scope: Vec<u8>,
        ban: Ban<Pattern>,
    },
    /// Could not be parsed.
    Unknown,
}

impl Bans {
    pub fn is_about(&self, ban: &saker_cache_store::Ban, page: &Page) -> bool {
        let read = {
            let mut known = self.0.borrow_mut();
            if known.len() > READ_MAX {
                known.clear();
            }
            Rc::clone(
                known
                    .entry(ban.number)
                    .or_insert_with(|| Rc::new(read(&ban.text))),
            )
        };
        match &*read {
            CompiledBan::Prefix { scope, prefix } => has_tag(page, scope, prefix),
            CompiledBan::Expression { scope, ban } => {
                *page.site == **scope
                    && ban.matches(subject(page), |pattern, text| pattern.is_match(text).ok())
            }
            CompiledBan::Unknown => true,
        }
    }
}

fn read(text: &[u8]) -> CompiledBan {
    let mut parts = text.splitn(3, |byte| *byte == BETWEEN);
    let (Some(kind), Some(scope), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return CompiledBan::Unknown;
    };
    let scope = scope.to_vec();
    match kind {
        // A private scope contains the byte itself; the prefix follows the last one.
        PREFIX => {
            let whole = &text[PREFIX.len() + 1..];
            let at = memchr::memrchr(BETWEEN, whole).unwrap_or(whole.len());
            CompiledBan::Prefix {
                scope: whole[..at].to_vec(),
                prefix: whole.get(at + 1..).unwrap_or_default().to_vec(),
            }
        }
        EXPRESSION => match parse(&String::from_utf8_lossy(rest)) {
            Ok(ban) => CompiledBan::Expression { scope, ban },
            Err(_) => CompiledBan::Unknown,
        },
        _ => CompiledBan::Unknown,
    }
}

fn parse(text: &str) -> Result<Ban<Pattern>, String> {
    let compile = |text: &str| {
        Pattern::compile(text, PatternOptions::default()).map_err(|error| error.to_string())
    };
    Ban::parse(text, compile).map_err(|error| error.to_string())
}

fn has_tag(page: &Page, scope: &[u8], prefix: &[u8]) -> bool {
    let private = page.private_scope();
    page.tags.iter().any(|tag| {
        let (of, tag) = match (tag.split_first(), &private) {
            (Some((&PRIVATE, tag)), Some(private)) => (private.as_slice(), tag),
            _ => (&*page.site, tag.as_slice()),
        };
        of == scope && matches!(names::shown(tag), Some(names::Shown::Tag(name)) if name.starts_with(prefix))
    })
}

/// Keys begin with the URL: `scheme://host:port/path?query`.
fn subject(page: &Page) -> Subject<'_> {
    let end = memchr::memchr(BETWEEN, &page.key).unwrap_or(page.key.len());
    let url = &page.key[..end];
    let from = memchr::memmem::find(url, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &url[from..]).map_or(url.len(), |at| from + at);
    let authority = &url[from..path];
    let host = memchr::memrchr(b':', authority).map_or(authority, |at| &authority[..at]);
    Subject {
        url: &url[path..],
        host,
        status: page.status.0,
        fields: &page.fields,
    }
}

pub fn by_prefix(scope: &[u8], prefix: &[u8]) -> Purge {
    Purge::Ban(
        [PREFIX, &[BETWEEN], scope, &[BETWEEN], prefix]
            .concat()
            .into(),
    )
}

/// The ban for an expression, which is checked before it is written down.
pub fn by_expression(scope: &[u8], expression: &str) -> PurgeRequest {
    parse(expression)?;
    let ban = Purge::Ban(
        [
            EXPRESSION,
            &[BETWEEN],
            scope,
            &[BETWEEN],
            expression.as_bytes(),
        ]
        .concat()
        .into(),
    );
    Ok((vec![ban], format!("entries that match: {expression}")))
}

/// A BAN request: an expression, or patterns in fields as FOSHttpCache and others send them.
/// `None`: neither; the request is about its URL.
pub fn of_request(scope: &[u8], view: HeadView<'_>) -> Option<PurgeRequest> {
    if let Some(expression) = ["x-ban", "x-ban-expression", "ban-expression"]
        .iter()
        .find_map(|name| view.first(name))
    {
        return Some(by_expression(scope, &String::from_utf8_lossy(expression)));
    }
    let fields = [
        ("x-host", "req.http.host"),
        ("x-url", "req.url"),
        ("x-ban-url", "req.url"),
        ("x-content-type", "obj.http.content-type"),
        ("x-cache-tags", "obj.http.x-cache-tags"),
    ];
    let tests = fields
        .iter()
        .filter_map(|(name, what)| Some(format!("{what} ~ {}", quoted(view.first(name)?))));
    let tests: Vec<String> = tests.collect();
    (!tests.is_empty()).then(|| by_expression(scope, &tests.join(" && ")))
}

/// Quotes text as a word of an expression.
pub fn quoted(text: &[u8]) -> String {
    format!("\"{}\"", String::from_utf8_lossy(text).replace('"', "\\\""))
}
