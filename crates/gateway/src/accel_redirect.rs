//! Responses that a program leaves to this server: a path of ours (X-Accel-Redirect,
//! X-LiteSpeed-Location) or a file (X-Sendfile).
//!
//! Asked by the handler once it has heard a head. A path is walked like any other, with all its
//! rules; a file is left to the files handler, so that ranges, conditions and sendfile are those of
//! any file. Difficulty: each of the originals keeps other fields of the program's. nginx a short
//! list, mod_xsendfile everything that still holds for the file, validators among it, so that
//! conditions may have to be settled here. Absent on purpose: X-Accel-Expires (the cache's);
//! removing files that were sent (X-Sendfile-Temporary).

use crate::answer;
use saker_cgi::ResponseHead;
use saker_config::model::{Rate, SendFiles, SymlinkPolicy};
use saker_http::{
    Fields, KnownField, Method, Status,
    conditional::{self, Precondition, Validators},
    date::parse_date,
    entity_tag::EntityTag,
    field_name::NameSet,
};
use saker_pipeline::{
    Exchange, Handled, InternalRedirect, Mapped, NoBody, Response, Script, Trust, UpstreamRequest,
};
use saker_telemetry::{error_log, message};
use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    sync::Arc,
};

/// Fields that [`steer`] takes.
pub const STEERING: NameSet = NameSet::of(&[
    "x-accel-charset",
    "x-accel-limit-rate",
    "x-accel-buffering",
    "x-litespeed-location",
    "x-sendfile",
    "x-accel-redirect",
]);

/// Fields that nginx keeps from an X-Accel-Redirect response, besides its type.
const KEPT_BY_ACCEL: [&str; 5] = [
    "Set-Cookie",
    "Content-Disposition",
    "Cache-Control",
    "Expires",
    "Accept-Ranges",
];
/// Fields that describe only the program's own content.
const OF_CONTENT: [&str; 6] = [
    "Content-Type",
    "Content-Length",
    "Content-Range",
    "Accept-Ranges",
    "Content-MD5",
    "Trailer",
];
const CONDITIONS: [&str; 4] = [
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A path of ours with its query.
    Accel(Vec<u8>),
    LiteSpeed(Vec<u8>),
    /// The name of a file.
    File(Vec<u8>, Arc<SendFiles>),
}

/// Instructions to this server in a response head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    pub order: Option<Order>,
    pub is_unbuffered: Option<bool>,
    pub rate: Option<Rate>,
}

/// Takes from a head what is meant for this server, where the program is trusted.
/// `leaves_charset`: the rules see to the charset.
pub fn steer(head: &mut ResponseHead, trust: &Trust, leaves_charset: bool) -> Steering {
    let mut steering = Steering::default();
    if !head.fields.may_have(STEERING) {
        return steering;
    }
    let is_success = head.status == Status::OK;
    let fields = &mut head.fields;
    let heeded = |fields: &mut Fields, name: &'static str| {
        taken(fields, name, trust.heeds(name), trust.hides)
    };
    if let Some(charset) = heeded(fields, "X-Accel-Charset")
        && !leaves_charset
    {
        set_charset(fields, &charset);
    }
    steering.rate = heeded(fields, "X-Accel-Limit-Rate").and_then(|text| rate(&text));
    steering.is_unbuffered = heeded(fields, "X-Accel-Buffering").and_then(|text| is_no(&text));
    steering.order =
        taken(fields, "X-LiteSpeed-Location", trust.litespeed, trust.hides).map(Order::LiteSpeed);
    let files = trust.files.as_ref();
    if files.is_none_or(|files| is_success || !files.is_for_success)
        && let Some(name) = taken(fields, "X-Sendfile", files.is_some(), trust.hides)
    {
        steering.order = files.map(|files| Order::File(name, Arc::clone(files)));
    }
    if let Some(path) = heeded(fields, "X-Accel-Redirect") {
        steering.order = Some(Order::Accel(path));
    }
    steering
}

/// Returns the fields of the program's head that stay with the response, whatever its source.
pub fn handed(
    head: ResponseHead,
    call: &UpstreamRequest,
    order: &Order,
    rate: Option<Rate>,
) -> InternalRedirect {
    let response = answer::response(head, call);
    let content_type = response
        .fields()
        .first("Content-Type")
        .map(|text| String::from_utf8_lossy(text).into_owned());
    let is_kept = |name: &str| match order {
        Order::Accel(_) => is_one_of(name, &KEPT_BY_ACCEL),
        Order::LiteSpeed(_) => is_of_any_content(name),
        Order::File(_, files) => is_of_any_content(name) || is_kept_with_file(name, files),
    };
    let mut fields = Fields::new();
    response
        .fields()
        .iter()
        .filter(|line| is_kept(line.0))
        .for_each(|(name, value)| fields.append(name.to_owned(), value.to_vec()));
    let content_type = match order {
        Order::Accel(_) => content_type,
        // What PHP says where a script says nothing.
        Order::LiteSpeed(_) => {
            content_type.filter(|text| !text.to_ascii_lowercase().starts_with("text/html"))
        }
        Order::File(_, files) => content_type.or_else(|| files.keeps_no_type.then(String::new)),
    };
    InternalRedirect {
        fields,
        content_type,
        rate,
    }
}

/// Leaves the file to the handler behind this one, if it may be sent.
pub fn send_file(
    exchange: &mut Exchange,
    call: &UpstreamRequest,
    name: &[u8],
    files: &SendFiles,
    handed: InternalRedirect,
) -> Handled {
    let (mapped, is_own, mtime_s) = match locate(name, call, files) {
        Ok(found) => found,
        Err((status, reason)) => {
            let name = String::from_utf8_lossy(name);
            error_log::log_about(
                &message::PROGRAM_FILE,
                exchange,
                format_args!("{name}: {reason}"),
            );
            return Handled::Answered(without_content(status, handed, exchange));
        }
    };
    if let Some(status) = settle(exchange, &handed.fields, mtime_s) {
        return Handled::Answered(without_content(status, handed, exchange));
    }
    exchange.routing.mapped = Some(mapped);
    exchange.routing.path_info.clear();
    // What a route does was done.
    exchange.routing.route = None;
    let mut settings = saker_config::model::Settings::clone(&exchange.routing.settings);
    settings.files.hidden = true;
    settings.files.listing = false;
    settings.files.index.clear();
    settings.files.takes_post = true;
    // In a script's own directory, any user with write access may have created a link, and must not
    // borrow this server's permissions.
    if files.follows_links && !is_own {
        settings.files.symlinks = SymlinkPolicy::Follow;
    }
    exchange.routing.settings = Arc::new(settings);
    exchange.body = Box::new(NoBody);
    if exchange.head.view().method() != Method::Post {
        exchange.head = answer::as_get(&exchange.head);
    }
    exchange.upstream.internal_redirect = Some(Box::new(handed));
    Handled::Declined
}

/// Returns the file's path, whether it is in the script's own directory, and its modification time;
/// on error the status and the log message.
fn locate(
    name: &[u8],
    call: &UpstreamRequest,
    files: &SendFiles,
) -> Result<(Mapped, bool, i64), (Status, &'static str)> {
    let unescaped = if files.is_escaped {
        unescape(name)
    } else {
        Some(name.to_vec())
    };
    let name = unescaped.ok_or((
        Status::INTERNAL_SERVER_ERROR,
        "its name is not escaped as it should be",
    ))?;
    let mapped = find(&name, files, call.script.as_deref());
    let (mapped, is_own) = mapped.ok_or((
        Status::NOT_FOUND,
        "not below a folder that files may be sent from",
    ))?;
    let metadata = std::fs::metadata(OsStr::from_bytes(&mapped.filename()))
        .ok()
        .filter(std::fs::Metadata::is_file);
    let metadata = metadata.ok_or((Status::NOT_FOUND, "no such file"))?;
    Ok((mapped, is_own, metadata.mtime()))
}

/// The field's value, which goes no further. `None`: it is not there, empty, or not for us.
fn taken(fields: &mut Fields, name: &str, is_trusted: bool, hides: bool) -> Option<Vec<u8>> {
    let value = if is_trusted || hides {
        fields.first(name)?.to_vec()
    } else {
        return None;
    };
    fields.remove(name);
    Some(value).filter(|value| is_trusted && !value.is_empty())
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_of_any_content(name: &str) -> bool {
    !is_one_of(name, &OF_CONTENT)
        && !is_one_of(name, &["ETag", "Last-Modified", "Content-Encoding"])
}

fn is_kept_with_file(name: &str, files: &SendFiles) -> bool {
    files.keeps_entity_tag && name.eq_ignore_ascii_case("ETag")
        || files.keeps_last_modified && name.eq_ignore_ascii_case("Last-Modified")
        || files.keeps_encoding && name.eq_ignore_ascii_case("Content-Encoding")
}

/// nginx: bytes in a second; 0 is none.
fn rate(text: &[u8]) -> Option<Rate> {
    let bytes_per_s = std::str::from_utf8(text)
        .ok()?
        .trim()
        .parse()
        .ok()
        .filter(|rate: &u64| *rate > 0)?;
    Some(Rate {
        bytes_per_s,
        burst_bytes: bytes_per_s,
        after_bytes: 0,
    })
}

fn is_no(text: &[u8]) -> Option<bool> {
    match text.trim_ascii().to_ascii_lowercase().as_slice() {
        b"no" => Some(true),
        b"yes" => Some(false),
        _ => None,
    }
}

fn set_charset(fields: &mut Fields, charset: &[u8]) {
    if !charset
        .iter()
        .all(|byte| saker_http::chars::is_token(&[*byte]))
    {
        return;
    }
    let Some(whole) = fields.first("Content-Type").map(<[u8]>::to_vec) else {
        return;
    };
    let is_other = |part: &&[u8]| {
        !part
            .trim_ascii()
            .get(..8)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"charset="))
    };
    let kept: Vec<&[u8]> = whole.split(|byte| *byte == b';').filter(is_other).collect();
    fields.set(
        "Content-Type",
        [&kept.join(&b';'), &b"; charset="[..], charset].concat(),
    );
}

/// The first folder that has the name below it, and whether that is the script's own.
fn find(name: &[u8], files: &SendFiles, script: Option<&Script>) -> Option<(Mapped, bool)> {
    let own = script
        .filter(|_| files.beside_script)
        .and_then(|script| Path::new(OsStr::from_bytes(&script.filename)).parent());
    let own = own
        .filter(|folder| folder.is_absolute())
        .into_iter()
        .map(|folder| (folder, true));
    let mut roots = own.chain(files.roots.iter().map(|root| (root.as_path(), false)));
    roots.find_map(|(root, is_own)| {
        Some((
            Mapped {
                root: root.into(),
                relative: below(root.as_os_str().as_bytes(), name)?,
            },
            is_own,
        ))
    })
}

/// The name from a folder on, if it ends below it (on its way it may leave it, as in Apache).
fn below(root: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut there = parts(root)?;
    let depth = there.len();
    if name.starts_with(b"/") {
        there.clear();
    }
    for part in name
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
    {
        match part {
            b".." => drop(there.pop()?),
            _ => there.push(part),
        }
    }
    let is_below = there.len() > depth
        && parts(root)? == *there.get(..depth)?
        && !name.contains(&0)
        && !name.ends_with(b"/");
    is_below.then(|| there.get(depth..).unwrap_or_default().join(&b'/'))
}

fn parts(path: &[u8]) -> Option<Vec<&[u8]>> {
    let all: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
        .collect();
    (!all.contains(&&b".."[..])).then_some(all)
}

/// As Apache's ap_unescape_url: no slash and no NUL may come of it.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let value = match byte {
            b'%' => u8::from_str_radix(
                std::str::from_utf8(&[*bytes.next()?, *bytes.next()?]).ok()?,
                16,
            )
            .ok()?,
            plain => {
                out.push(*plain);
                continue;
            }
        };
        out.push(Some(value).filter(|value| !matches!(value, 0 | b'/'))?);
    }
    Some(out)
}

/// Conditions of a request whose validators are the program's own are decided here, and gone. The
/// status of an answer without the file, if it follows.
fn settle(exchange: &mut Exchange, fields: &Fields, mtime_s: i64) -> Option<Status> {
    let view = exchange.head.view();
    let has_tag = fields.has("ETag");
    let asks_for_tags = view.has(KnownField::IfMatch) || view.has(KnownField::IfNoneMatch);
    if !has_tag && (!fields.has("Last-Modified") || asks_for_tags) {
        return None;
    }
    let entity_tag = fields.first("ETag").and_then(EntityTag::parse);
    let said_s = fields
        .first("Last-Modified")
        .and_then(|text| parse_date(text, exchange.now));
    let validators = Validators {
        entity_tag,
        last_modified: said_s.or(Some(mtime_s)),
        now: exchange.now,
    };
    let (outcome, keeps_range) = (
        conditional::evaluate(view, Some(&validators)),
        conditional::range_applies(view, &validators),
    );
    let goes = |name: &[u8]| {
        let name = std::str::from_utf8(name).unwrap_or_default();
        is_one_of(name, &CONDITIONS)
            || name.eq_ignore_ascii_case("If-Range")
            || !keeps_range && name.eq_ignore_ascii_case("Range")
    };
    exchange.head = exchange
        .head
        .with_fields(view.fields().filter(|(name, _)| !goes(name)));
    match outcome {
        Precondition::Proceed => None,
        Precondition::NotModified => Some(Status::NOT_MODIFIED),
        Precondition::Failed => Some(Status::PRECONDITION_FAILED),
    }
}

fn without_content(status: Status, handed: InternalRedirect, exchange: &mut Exchange) -> Response {
    let mut response = Response::new(status);
    handed.lay(&mut exchange.routing.settings, &mut response);
    response
}

#[cfg(test)]
mod tests;
