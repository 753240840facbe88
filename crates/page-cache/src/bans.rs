//! Bans: purges by a condition on entries (Varnish's ban expressions, prefixes of tags).
//!
//! Called by: `purge`, which makes bans; `cache`, which checks older entries against them; the
//! server's cache commands, which count entries.
//! Caveat: the store keeps a ban as text with its scope; each worker parses it once. Text that
//! can't be parsed bans: refetching a page too many is harmless, serving a stale one is not.
//! Out of scope: the grammar of expressions (`saker_cache_rules::ban`).

use crate::{
    page::Page,
    record::{self, Record},
    tags::{self, PRIVATE},
};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_cache_rules::{
    ban::{Ban, Subject},
    names,
};
use saker_cache_store::{EntryHead, Purge};
use saker_http::{Fields, HeadView};
use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
};

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

/// The parts of a page that bans can test.
struct Tested<'e> {
    key: &'e [u8],
    site: &'e [u8],
    tags: &'e [Vec<u8>],
    status: u16,
    /// Set if one client owns it.
    private_scope: Option<Vec<u8>>,
}

impl Bans {
    pub fn is_about(&self, ban: &saker_cache_store::Ban, page: &Page) -> bool {
        let tested = Tested {
            key: &page.key,
            site: &page.site,
            tags: &page.tags,
            status: page.status.0,
            private_scope: page.private_scope(),
        };
        self.read(ban).is_about(&tested, || &page.fields)
    }

    /// Judges an entry that is in no worker's memory.
    pub fn is_about_head(&self, ban: &saker_cache_store::Ban, head: &HeadToTest<'_>) -> bool {
        self.read(ban).is_about(&head.tested, || head.fields())
    }

    fn read(&self, ban: &saker_cache_store::Ban) -> Rc<CompiledBan> {
        let mut known = self.0.borrow_mut();
        if known.len() > READ_MAX {
            known.clear();
        }
        let own = known
            .entry(ban.number)
            .or_insert_with(|| Rc::new(CompiledBan::new(&ban.text)));
        Rc::clone(own)
    }
}

/// The head of an entry, as bans judge it.
pub struct HeadToTest<'e> {
    head: &'e EntryHead,
    tested: Tested<'e>,
    fields: OnceCell<Fields>,
}

impl<'e> HeadToTest<'e> {
    /// `None`: the entry is no page.
    pub fn new(head: &'e EntryHead) -> Option<HeadToTest<'e>> {
        let Record::Page { is_private, .. } = Record::decode(&head.rules)? else {
            return None;
        };
        let private_scope = match is_private {
            true => tags::private_scope(&head.site, &head.key),
            false => None,
        };
        Some(HeadToTest {
            head,
            tested: Tested {
                key: &head.key,
                site: &head.site,
                tags: &head.tags,
                status: head.status,
                private_scope,
            },
            fields: OnceCell::new(),
        })
    }

    fn fields(&self) -> &Fields {
        self.fields.get_or_init(|| record::fields(self.head))
    }
}

/// Bans that are not in force: an order whose entries are counted first.
pub struct ProposedBans(Vec<CompiledBan>);

impl ProposedBans {
    pub fn new(purges: &[Purge]) -> ProposedBans {
        let bans = purges.iter().filter_map(|purge| match purge {
            Purge::Ban(text) => Some(CompiledBan::new(text)),
            Purge::Tag { .. } | Purge::Remote(_) => None,
        });
        ProposedBans(bans.collect())
    }

    pub fn are_about(&self, head: &HeadToTest<'_>) -> bool {
        let mut bans = self.0.iter();
        bans.any(|ban| ban.is_about(&head.tested, || head.fields()))
    }
}

impl CompiledBan {
    fn is_about<'f>(&self, tested: &Tested<'_>, fields: impl FnOnce() -> &'f Fields) -> bool {
        match self {
            CompiledBan::Prefix { scope, prefix } => has_tag(tested, scope, prefix),
            CompiledBan::Expression { scope, ban } => {
                tested.site == scope.as_slice()
                    && ban.matches(subject(tested, fields()), |pattern, text| {
                        pattern.is_match(text).ok()
                    })
            }
            CompiledBan::Unknown => true,
        }
    }

    fn new(text: &[u8]) -> CompiledBan {
        let mut parts = text.splitn(3, |byte| *byte == BETWEEN);
        let (Some(kind), Some(scope), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
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
}

fn parse(text: &str) -> Result<Ban<Pattern>, String> {
    let compile = |text: &str| {
        Pattern::compile(text, PatternOptions::default()).map_err(|error| error.to_string())
    };
    Ban::parse(text, compile).map_err(|error| error.to_string())
}

fn has_tag(tested: &Tested<'_>, scope: &[u8], prefix: &[u8]) -> bool {
    tested.tags.iter().any(|tag| {
        let (of, tag) = match (tag.split_first(), &tested.private_scope) {
            (Some((&PRIVATE, tag)), Some(private)) => (private.as_slice(), tag),
            _ => (tested.site, tag.as_slice()),
        };
        of == scope && matches!(names::shown(tag), Some(names::Shown::Tag(name)) if name.starts_with(prefix))
    })
}

/// Keys begin with the URL: `scheme://host:port/path?query`.
fn subject<'s>(tested: &Tested<'s>, fields: &'s Fields) -> Subject<'s> {
    let end = memchr::memchr(BETWEEN, tested.key).unwrap_or(tested.key.len());
    let url = &tested.key[..end];
    let from = memchr::memmem::find(url, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &url[from..]).map_or(url.len(), |at| from + at);
    let authority = &url[from..path];
    let host = memchr::memrchr(b':', authority).map_or(authority, |at| &authority[..at]);
    Subject {
        url: &url[path..],
        host,
        status: tested.status,
        fields,
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
