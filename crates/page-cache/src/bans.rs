//! Bans: purges by what is true of an entry (Varnish's expressions, beginnings of tags).
//!
//! In the store a ban is a text with the scope that it is about. Each worker reads it once; entries
//! older than it are held against it when they are next asked for. What can't be read bans: a page
//! too many is made anew, none too old is served.

use crate::{page::Page, tags::PRIVATE};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_cache_rules::{
    ban::{Ban, Subject},
    names,
};
use saker_cache_store::Purge;
use saker_http::HeadView;
use std::{cell::RefCell, collections::HashMap, rc::Rc};

/// What is to be purged, and how it is called; or why that can't be made sense of.
pub type PurgeRequest = Result<(Vec<Purge>, String), String>;

/// Between the parts of the text; in none of them.
const BETWEEN: u8 = 0;

const PREFIX: &[u8] = b"prefix";

const EXPRESSION: &[u8] = b"expression";

/// Read and kept; there are no more of them in the store either.
const READ_MAX: usize = 1_000;

/// Those that this worker has read.
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
    /// Not to be read.
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
        // A visitor's scope holds the byte itself; what follows the last one is the prefix.
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

/// Checked before it is written down.
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
    Ok((vec![ban], format!("what is true of: {expression}")))
}

/// A BAN request: an expression of its own, or patterns in fields as FOSHttpCache and others send
/// them. `None`: neither; it is about its address.
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

/// As a word of an expression.
pub fn quoted(text: &[u8]) -> String {
    format!("\"{}\"", String::from_utf8_lossy(text).replace('"', "\\\""))
}
