//! Listings of directories without an index file (mod_autoindex).
//!
//! Place in the walk: the end of fixups, in the place of the files handler. Every entry is tried as
//! a request of its own, so that what could not be fetched is not shown. Difficulty: a folder may
//! hold anything. So the folder is read, titles are looked for and rows are written as jobs
//! (`work`); entries, which the worker's rules have to try, are tried some at a time. Entries and
//! bytes are bounded, and the outcome is never kept, since it depends on the query and on the
//! client.

pub mod entry;
pub mod form;
pub mod matching;
pub mod order;
pub mod page;
pub mod work;

pub use work::Work;

use crate::{
    listing::{
        entry::Entry,
        form::form,
        matching::{description, is_ignored, item, special},
        page::{Form, PAGE_BYTES_MAX},
        work::{Folder, Page, Stage, Trying},
    },
    magic, signature,
    state::{peek, state},
    subrequest::{nested, run_phases, subrequest},
    verdict::Verdict,
    walk::link_policy,
    worker::ApacheRules,
};
use saker_ap_expr::{GlobOptions, glob_matches};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::{
        autoindex::{
            Autoindex, FANCY, FOLDERS_FIRST, Item, NO_PREAMBLE, SCAN_TITLES, SHOW_FORBIDDEN, TABLE,
            TRACK_MODIFIED,
        },
        mime::Facts,
    },
};
use saker_files::{Kind, Resolved, Watcher, resolve};
use saker_http::{Status, date::format_date, escape};
use saker_net::jobs::JobError;
use saker_pipeline::{Body, Chunk, Exchange, Inner, Response};
use saker_telemetry::{error_log, httpd_message, message};
use std::{
    os::unix::fs::FileExt,
    path::Path,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// For so long a worker tries entries before others have their turn.
const TURN: Duration = Duration::from_millis(1);

/// Bytes of a header, a readme, or a page whose title is wanted.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Begins the listing of the folder that the exchange has come to. The step is asked again
/// ([`go_on`]) until the page is there.
pub fn begin(exchange: &mut Exchange, watcher: &Watcher, local: &Arc<DirConfig>) -> Verdict {
    exchange.depends_on_request();
    exchange.trace("content", None, || {
        "a folder without an index file: listed".into()
    });
    let filename = peek(exchange)
        .map(|state| state.filename.clone())
        .unwrap_or_default();
    let policy = link_policy(local.core.options.in_force());
    let relative = filename.strip_prefix(b"/").unwrap_or(&filename);
    let found = resolve(
        watcher,
        Path::new("/"),
        relative,
        policy,
        &mut exchange.cache.change_tokens,
    )
    .ok();
    let Some(folder) = found.filter(|found| found.metadata.kind == Kind::Directory) else {
        complain(exchange, &filename);
        return Verdict::Answer(Response::new(Status::FORBIDDEN));
    };
    let folder = Folder {
        local: Arc::clone(local),
        filename,
        query: exchange.query.clone().unwrap_or_default(),
        policy,
        watcher: watcher.clone(),
        folder,
    };
    let work = Rc::new(Work::new(folder));
    state(exchange).listing = Some(Rc::clone(&work));
    Verdict::Wait(work.read(exchange.routing.site_index))
}

/// The next step of a listing that was begun.
pub fn go_on(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    work: &Rc<Work>,
) -> Verdict {
    match work.take() {
        Stage::Found(mut trying) => {
            match try_some(rules, exchange, host, &work.folder, &mut trying) {
                Progress::Late => late(exchange, &work.folder, JobError::Late),
                Progress::Some => {
                    work.put(Stage::Found(trying));
                    Verdict::Wait(Box::pin(tokio::task::yield_now()))
                }
                Progress::All => Verdict::Wait(work.write(*trying)),
            }
        }
        Stage::Written(rows) => Verdict::Answer(answer(rules, exchange, host, &work.folder, &rows)),
        Stage::Refused(status) => {
            complain(exchange, &work.folder.filename);
            Verdict::Answer(Response::new(status))
        }
        Stage::Failed(error) => late(exchange, &work.folder, error),
        Stage::Begun => Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR)),
    }
}

fn complain(exchange: &Exchange, folder: &[u8]) {
    let text = format_args!(
        "Can't open directory for index: {}/",
        String::from_utf8_lossy(folder)
    );
    error_log::log_httpd(&httpd_message::DIRECTORY_UNREADABLE, None, exchange, text);
}

fn late(exchange: &Exchange, folder: &Folder, error: JobError) -> Verdict {
    let name = String::from_utf8_lossy(&folder.filename);
    error_log::log_about(
        &message::LISTING_GIVEN_UP,
        exchange,
        format_args!("{name}: {error}"),
    );
    let status = if error == JobError::Failed {
        Status::INTERNAL_SERVER_ERROR
    } else {
        Status::SERVICE_UNAVAILABLE
    };
    Verdict::Answer(Response::new(status))
}

enum Progress {
    Some,
    All,
    Late,
}

/// Tries entries for as long as one turn of a worker may take.
fn try_some(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    folder: &Folder,
    trying: &mut Trying,
) -> Progress {
    let settings = &folder.local.autoindex;
    let (form, pattern) = form(settings, &folder.query);
    if trying.is_first {
        trying.is_first = false;
        trying.add(parent(exchange, settings, &form, &folder.filename).map(|entry| (entry, None)));
    }
    let until = Instant::now() + TURN;
    while trying.bytes < PAGE_BYTES_MAX {
        let Some(found) = trying.left.pop() else {
            return Progress::All;
        };
        if pattern
            .as_deref()
            .is_none_or(|pattern| glob_matches(pattern, &found.name, GlobOptions::default()))
        {
            let of = Found {
                settings,
                form: &form,
                folder: &folder.filename,
                found: &found,
            };
            trying.add(entry(rules, exchange, host, &of));
        }
        if Instant::now() >= until {
            return if trying.place.is_late() {
                Progress::Late
            } else {
                Progress::Some
            };
        }
    }
    Progress::All
}

fn answer(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    folder: &Folder,
    rows: &[u8],
) -> Response {
    let mut response = Response::new(Status::OK);
    let settings = &folder.local.autoindex;
    describe(settings, &folder.folder, &mut response);
    let (form, _) = form(settings, &folder.query);
    let body = body(
        rules,
        exchange,
        host,
        &folder.watcher,
        &folder.local,
        &form,
        rows,
    );
    response
        .fields_mut()
        .append("Content-Length", body.len().to_string().into_bytes());
    response.body = Body::Memory(Chunk::from(body));
    response
}

fn describe(settings: &Autoindex, folder: &Resolved, response: &mut Response) {
    let kind = settings.media_type.as_deref().unwrap_or("text/html");
    let charset = settings.charset.as_deref().unwrap_or("ISO-8859-1");
    let fields = response.fields_mut();
    fields.append(
        "Content-Type",
        format!("{kind};charset={charset}").into_bytes(),
    );
    if settings.options() & TRACK_MODIFIED != 0 {
        fields.append(
            "Last-Modified",
            format_date(folder.metadata.mtime_s).to_vec(),
        );
        let mtime_us =
            folder.metadata.mtime_s * 1_000_000 + i64::from(folder.metadata.mtime_ns / 1000);
        fields.append(
            "ETag",
            format!("W/\"{:x}-{mtime_us:x}\"", folder.metadata.size).into_bytes(),
        );
    }
}

/// The folder above; none for the root.
fn parent(
    exchange: &Exchange,
    settings: &Autoindex,
    form: &Form<'_>,
    filename: &[u8],
) -> Option<Entry> {
    let above = exchange.path.strip_suffix(b"/")?;
    let at = above.iter().rposition(|byte| *byte == b'/')?;
    let tested = [filename, b".."].concat();
    if is_ignored(settings, &tested) {
        return None;
    }
    let mut entry = Entry {
        name: above.get(..=at).unwrap_or_default().to_vec(),
        is_parent: true,
        ..Entry::default()
    };
    if form.options & FANCY != 0 {
        let find = |items: &'_ [Item]| {
            let by_path = item(items, &tested, None, None, true).map(Into::into);
            by_path.or_else(|| special(items, "^^DIRECTORY^^").map(Into::into))
        };
        entry.icon = find(&settings.icons);
        entry.alternative = find(&settings.alternatives).or_else(|| Some("PARENTDIR".into()));
        entry.description = description(settings, &tested);
    }
    Some(entry)
}

struct Found<'f> {
    settings: &'f Autoindex,
    form: &'f Form<'f>,
    /// File name of the folder, with a slash at its end.
    folder: &'f [u8],
    found: &'f saker_files::Entry,
}

/// An entry, and whether it is a page whose title is to be its description, by a link or not.
fn entry(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    of: &Found<'_>,
) -> Option<(Entry, Option<Page>)> {
    let Found {
        settings,
        form,
        found,
        ..
    } = of;
    let filename = [of.folder, &found.name].concat();
    if is_ignored(settings, &filename) || found.kind == Kind::Other {
        return None;
    }
    let facts = tried(rules, exchange, host, &found.name, form.options)?;
    let is_folder = found.kind == Kind::Directory;
    let mut entry = Entry {
        name: found.name.clone(),
        ..Entry::default()
    };
    if is_folder {
        entry.name.push(b'/');
    }
    if form.options & (FANCY | TABLE) == 0 {
        return Some((entry, None));
    }
    let (kind, coding) = (
        facts.media_type.as_deref(),
        facts.codings.first().map(|coding| &**coding),
    );
    let find = |items: &'_ [Item]| -> Option<Box<str>> {
        let found = item(items, &filename, kind, coding, is_folder);
        found
            .or_else(|| special(items, "^^DIRECTORY^^").filter(|_| is_folder))
            .map(Into::into)
    };
    entry.modified_s = Some(found.metadata.mtime_s);
    entry.bytes = (!is_folder).then_some(found.metadata.size);
    entry.first = is_folder && form.options & FOLDERS_FIRST != 0;
    entry.icon = find(&settings.icons);
    entry.alternative = find(&settings.alternatives).or_else(|| is_folder.then(|| "DIR".into()));
    entry.description = description(settings, &filename);
    let is_page =
        kind.is_some_and(|kind| kind.starts_with("text/html")) && facts.codings.is_empty();
    let is_scanned = entry.description.is_none() && is_page && form.options & SCAN_TITLES != 0;
    Some((
        entry,
        is_scanned.then_some(Page {
            is_link: found.is_link,
        }),
    ))
}

/// Tries an entry as a request of its own. `None`: it would not be answered.
fn tried(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    name: &[u8],
    options: u32,
) -> Option<Facts> {
    let mut inner = nested(exchange, [exchange.path.as_slice(), name].concat());
    inner.query = None;
    match run_phases(rules, &mut inner) {
        Verdict::Pass => {}
        Verdict::Answer(response) if response.status.0 < 400 => {}
        // Nothing is found out about what is closed.
        Verdict::Answer(response)
            if matches!(response.status, Status::UNAUTHORIZED | Status::FORBIDDEN)
                && options & SHOW_FORBIDDEN != 0 =>
        {
            return Some(Facts::default());
        }
        Verdict::Answer(_) | Verdict::Restart | Verdict::Wait(_) => return None,
    }
    exchange
        .cache
        .change_tokens
        .append(&mut inner.cache.change_tokens);
    let own = peek(&inner)?;
    let local = own.local.as_ref()?;
    let mut facts = magic::facts(
        local,
        host,
        rules.watcher(),
        name,
        &own.filename,
        &mut exchange.cache.change_tokens,
    );
    facts.media_type = local
        .core
        .force_type
        .clone()
        .flatten()
        .or_else(|| own.forced_type.clone())
        .or(facts.media_type);
    Some(facts)
}

fn body(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
    form: &Form<'_>,
    rows: &[u8],
) -> Vec<u8> {
    let mut title = Vec::new();
    escape::html(
        exchange
            .path
            .strip_suffix(b"/")
            .filter(|path| !path.is_empty())
            .unwrap_or(&exchange.path),
        &mut title,
    );
    let filename = peek(exchange)
        .map(|state| state.filename.clone())
        .unwrap_or_default();
    let name = |items: &[Item]| {
        items
            .iter()
            .find(|item| filename.starts_with(item.folder.as_bytes()))
            .map(|item| item.value.clone())
    };
    let suppress = form.options & NO_PREAMBLE != 0;
    let mut out = Vec::with_capacity(4096 + rows.len());
    match name(&local.autoindex.headers)
        .and_then(|name| piece(rules, exchange, host, watcher, &name))
    {
        Some(Piece::Page(text)) => {
            if !suppress {
                page::preamble(form, &title, &mut out);
            }
            out.extend_from_slice(&text);
        }
        Some(Piece::Text(text)) => {
            page::preamble(form, &title, &mut out);
            plain(&text, &mut out);
        }
        None => {
            page::preamble(form, &title, &mut out);
            page::heading(form, &title, &mut out);
        }
    }
    out.extend_from_slice(rows);
    let readme = name(&local.autoindex.readmes)
        .and_then(|name| piece(rules, exchange, host, watcher, &name));
    let ends = !(suppress && matches!(readme, Some(Piece::Page(_))));
    match readme {
        Some(Piece::Page(text)) => out.extend_from_slice(&text),
        Some(Piece::Text(text)) => plain(&text, &mut out),
        None => out.extend_from_slice(&signature::line(exchange, host, local)),
    }
    if ends {
        out.extend_from_slice(b"</body></html>\n");
    }
    out
}

enum Piece {
    Page(Vec<u8>),
    Text(Vec<u8>),
}

fn plain(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<pre>\n");
    escape::html(text, out);
    out.extend_from_slice(b"</pre>\n");
}

/// A header or a readme: a request of its own, by a path or a name in the folder.
fn piece(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    name: &str,
) -> Option<Piece> {
    let path = if name.starts_with('/') {
        name.as_bytes().to_vec()
    } else {
        [exchange.path.as_slice(), name.as_bytes()].concat()
    };
    let mut inner = subrequest(exchange, path, Inner::Lookup)?;
    let verdict = run_phases(rules, &mut inner);
    let own = peek(&inner)?;
    if !matches!(verdict, Verdict::Pass) || own.kind != Some(Kind::File) {
        return None;
    }
    let local = own.local.as_ref()?;
    let facts = magic::facts(
        local,
        host,
        watcher,
        &own.filename,
        &own.filename,
        &mut exchange.cache.change_tokens,
    );
    let kind = local
        .core
        .force_type
        .clone()
        .flatten()
        .or(facts.media_type)?;
    let policy = link_policy(local.core.options.in_force());
    let relative = own.filename.strip_prefix(b"/").unwrap_or(&own.filename);
    let found = resolve(
        watcher,
        Path::new("/"),
        relative,
        policy,
        &mut exchange.cache.change_tokens,
    )
    .ok()?;
    let text = content(&found)?;
    match &*kind {
        kind if kind.starts_with("text/html") => Some(Piece::Page(text)),
        kind if kind.starts_with("text/") => Some(Piece::Text(text)),
        _ => None,
    }
}

fn content(found: &Resolved) -> Option<Vec<u8>> {
    let mut text = vec![0; found.metadata.size.min(PIECE_BYTES_MAX) as usize];
    found.file.read_exact_at(&mut text, 0).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let settings = Autoindex::default();
        let read = |query: &str| {
            let (form, pattern) = form(&settings, query.as_bytes());
            (
                char::from(form.key),
                form.descends,
                String::from_utf8(form.arguments).unwrap(),
                pattern,
            )
        };
        assert_eq!(read(""), ('N', false, String::new(), None));
        assert_eq!(
            read("C=S;O=D;F=2;V=1;P=*a*"),
            ('S', true, ";F=2;V=1;P=*a*".into(), Some(b"*a*".to_vec()))
        );
        assert_eq!(read("C=M&x&O=D"), ('M', false, String::new(), None));
        assert_eq!(
            read("P=%22<"),
            ('N', false, ";P=%22&lt;".into(), Some(b"\"<".to_vec()))
        );
    }
}
