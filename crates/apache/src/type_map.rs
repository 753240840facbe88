//! Type maps: a file that lists variants (handler `type-map`), or contains them (`Body:`).
//!
//! Called by: the content phase, for files with that handler.
//! Caveat: people write the file, so unknown parts of a record are skipped, as in Apache.

use crate::{
    methods,
    multiviews::{lines, not_acceptable},
    negotiate::{Choice, Variant, choose, vary},
    state::{peek, state},
    verdict::Verdict,
    walk::link_policy,
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_content::{
    Content,
    byteranges::{self, Boundaries},
};
use saker_files::{Kind, Watcher, resolve};
use saker_http::{
    KnownField, Method, Status,
    conditional::{self, Precondition, Validators, range_applies},
    range::{RangeOutcome, resolve_by},
};
use saker_pipeline::{Body, Chunk, Exchange, Response};
use std::{os::unix::fs::FileExt, path::Path};

/// Larger maps are no maps.
const BYTES_MAX: u64 = 256 << 10;

/// Chooses a variant, with which everything begins again.
pub fn answer(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) -> Verdict {
    exchange.depends_on_request();
    let is_there = peek(exchange).is_some_and(|own| own.kind == Some(Kind::File));
    if !is_there {
        return Verdict::Answer(Response::new(Status::NOT_FOUND));
    }
    // RFC 2295 section 8.1: what a map leads to is no map itself.
    if exchange.routing.redirects > 0
        && peek(exchange).is_some_and(|own| !own.negotiated.is_empty())
    {
        return Verdict::Answer(Response::new(Status(506)));
    }
    let filename = peek(exchange)
        .map(|own| own.filename.clone())
        .unwrap_or_default();
    let Some(text) = read(exchange, watcher, local, &filename) else {
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    let name_at = filename.iter().rposition(|byte| *byte == b'/');
    let folder = &filename[..name_at.map_or(0, |at| at + 1)];
    let mut variants = parsed(&text);
    let own_name = filename.get(folder.len()..).unwrap_or_default();
    for variant in &mut variants {
        match variant.body {
            Some(_) => variant.name = own_name.to_vec(),
            None if variant.bytes == 0 => {
                variant.bytes = size(exchange, watcher, local, (folder, &variant.name));
            }
            None => {}
        }
    }
    if variants.is_empty() {
        return Verdict::Answer(Response::new(Status::NOT_FOUND));
    }
    match choose(&variants, exchange.head.view(), &local.negotiation) {
        Choice::None => Verdict::Answer(not_acceptable(&variants)),
        Choice::Variant(at) => {
            let vary = vary(&variants);
            let is_transparent = variants.iter().all(|variant| variant.body.is_none());
            let variant = variants.swap_remove(at);
            if let Some(body) = variant.body {
                let variant = Variant {
                    body: None,
                    ..variant
                };
                return Verdict::Answer(inline(exchange, host, &variant, body, vary));
            }
            let path = path_of(exchange, &variant);
            let mut lines = lines(exchange, variant, vary);
            // Transparent negotiation needs a URL for each variant (RFC 2295).
            lines.retain(|(name, _)| {
                is_transparent || !matches!(&**name, "Content-Location" | "TCN")
            });
            state(exchange).negotiated = lines;
            exchange.path = path;
            Verdict::Restart
        }
    }
}

/// The path of a variant; what is behind the map's name is behind the variant's.
fn path_of(exchange: &Exchange, variant: &Variant) -> Vec<u8> {
    if variant.name.starts_with(b"/") {
        return variant.name.clone();
    }
    let behind = exchange.routing.path_info.as_slice();
    let map = exchange.path.strip_suffix(behind).unwrap_or(&exchange.path);
    let slash = map.iter().rposition(|byte| *byte == b'/');
    let folder = map.get(..slash.map_or(0, |at| at + 1)).unwrap_or_default();
    [folder, &variant.name, behind].concat()
}

/// The size of a file of the directory; 0: there is none.
fn size(
    exchange: &mut Exchange,
    watcher: &Watcher,
    local: &DirConfig,
    (folder, name): (&[u8], &[u8]),
) -> u64 {
    let relative = [folder.strip_prefix(b"/").unwrap_or(folder), name].concat();
    let found = resolve(
        watcher,
        Path::new("/"),
        &relative,
        link_policy(local.core.options.in_force()),
        &mut exchange.cache.change_tokens,
    );
    found.map_or(0, |found| found.metadata.size)
}

/// A variant whose content is in the map, or what the conditions of the request make of it. It has no
/// validators: as in Apache, it is as new as the request.
fn inline(
    exchange: &Exchange,
    host: &Host,
    variant: &Variant,
    body: Vec<u8>,
    vary: String,
) -> Response {
    let view = exchange.head.view();
    let is_read = matches!(view.method(), Method::Get | Method::Head | Method::Post);
    let validators = Validators {
        entity_tag: None,
        last_modified: (!view.has(KnownField::IfModifiedSince)).then_some(exchange.now),
        now: exchange.now,
    };
    let mut response = match conditional::evaluate(view, Some(&validators)) {
        _ if !is_read => methods::with_methods(Status::METHOD_NOT_ALLOWED, host),
        Precondition::Proceed => described(variant),
        Precondition::NotModified => {
            let mut response = Response::new(Status::NOT_MODIFIED);
            response.fields_mut().append("Accept-Ranges", &b"bytes"[..]);
            response
        }
        Precondition::Failed => Response::new(Status::PRECONDITION_FAILED),
    };
    if !vary.is_empty() {
        response.fields_mut().append("Vary", vary.into_bytes());
    }
    if response.status != Status::OK {
        return response;
    }
    let wanted = view
        .known(KnownField::Range)
        .filter(|_| view.method() == Method::Get && range_applies(view, &validators));
    match wanted {
        Some(value) => part(exchange, response, body, value),
        None => {
            response.body = Body::Memory(Chunk::from(body));
            response
        }
    }
}

/// The head of a variant.
fn described(variant: &Variant) -> Response {
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    if !variant.media_type.is_empty() {
        let charset = variant.charset.as_deref();
        let charset = charset.map_or_else(String::new, |charset| format!("; charset={charset}"));
        let value = format!("{}{charset}", variant.media_type);
        fields.append("Content-Type", value.into_bytes());
    }
    if !variant.languages.is_empty() {
        fields.append(
            "Content-Language",
            variant.languages.join(", ").into_bytes(),
        );
    }
    if let Some(coding) = &variant.coding {
        fields.append("Content-Encoding", coding.as_bytes().to_vec());
    }
    fields.append("Accept-Ranges", &b"bytes"[..]);
    response
}

/// The ranges of a body that a client asks for.
fn part(exchange: &Exchange, mut response: Response, body: Vec<u8>, value: &[u8]) -> Response {
    let files = &exchange.routing.settings.files;
    let length = body.len() as u64;
    let content = Content::Memory(Chunk::from(body));
    match resolve_by(files.range_rules, value, length, files.ranges_max as usize) {
        RangeOutcome::Whole => response.body = content.whole(),
        RangeOutcome::One(range) => {
            response.status = Status::PARTIAL_CONTENT;
            let value = byteranges::content_range(range, length);
            response.fields_mut().set("Content-Range", value);
            response.body = content.part(range.first..range.last + 1);
        }
        RangeOutcome::Many(ranges) => {
            let fields = std::mem::take(response.fields_mut());
            let kind = fields.first("Content-Type").map(<[u8]>::to_vec);
            return BOUNDARIES.with(|boundaries| {
                byteranges::response(boundaries, kind.as_deref(), fields, &content, &ranges)
            });
        }
        RangeOutcome::Unsatisfiable => {
            let mut refused = Response::new(Status::RANGE_NOT_SATISFIABLE);
            let value = format!("bytes */{length}").into_bytes();
            refused.fields_mut().set("Content-Range", value);
            return refused;
        }
    }
    response
}

thread_local! {
    static BOUNDARIES: Boundaries = Boundaries::default();
}

fn read(
    exchange: &mut Exchange,
    watcher: &Watcher,
    local: &DirConfig,
    filename: &[u8],
) -> Option<Vec<u8>> {
    let policy = link_policy(local.core.options.in_force());
    let relative = filename.strip_prefix(b"/").unwrap_or(filename);
    let found = resolve(
        watcher,
        Path::new("/"),
        relative,
        policy,
        &mut exchange.cache.change_tokens,
    )
    .ok()?;
    if found.metadata.kind != Kind::File || found.metadata.size > BYTES_MAX {
        return None;
    }
    let mut text = vec![0; found.metadata.size as usize];
    found.file.read_exact_at(&mut text, 0).ok()?;
    Some(text)
}

/// Records are separated by empty lines; a line that begins with a blank continues the one before.
fn parsed(text: &[u8]) -> Vec<Variant> {
    let mut variants = Vec::new();
    let mut record = Record::default();
    let mut rest = text;
    while !rest.is_empty() {
        let mut line = take_line(&mut rest).to_vec();
        while matches!(rest, [b' ' | b'\t', ..]) && !line.is_empty() {
            line.push(b' ');
            line.extend_from_slice(take_line(&mut rest));
        }
        if line.trim_ascii().is_empty() {
            variants.extend(std::mem::take(&mut record).variant());
            continue;
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name == "body" {
            // What follows a body without an end is part of it, not of the map.
            let Some(body) = take_body(&mut rest, value.as_bytes()) else {
                return variants;
            };
            record.variant.bytes = body.len() as u64;
            record.variant.body = Some(body);
            record.has_content = true;
        } else {
            record.has_content |= field(&mut record.variant, &name, value);
        }
    }
    variants.extend(record.variant());
    variants
}

struct Record {
    variant: Variant,
    has_content: bool,
}

impl Default for Record {
    fn default() -> Record {
        let variant = Variant {
            source: 1.0,
            ..Variant::default()
        };
        Record {
            variant,
            has_content: false,
        }
    }
}

impl Record {
    fn variant(self) -> Option<Variant> {
        let is_there = self.variant.body.is_some() || is_local(&self.variant.name);
        (self.has_content && is_there).then_some(self.variant)
    }
}

/// The next line without its end.
fn take_line<'t>(rest: &mut &'t [u8]) -> &'t [u8] {
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (*rest, &b""[..]),
    };
    *rest = after;
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The text up to the tag, which may stand anywhere, as in Apache; what follows it on its line is
/// skipped. `None` if the tag does not come, or is empty: the map is broken there.
fn take_body(rest: &mut &[u8], tag: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memmem::find(rest, tag).filter(|_| !tag.is_empty())?;
    let body = rest.get(..at)?.to_vec();
    *rest = rest.get(at..)?;
    take_line(rest);
    Some(body)
}

/// A path of this site that leads nowhere else.
fn is_local(name: &[u8]) -> bool {
    let is_url = name.windows(3).any(|part| part == b"://");
    !name.is_empty() && !is_url && !name.split(|byte| *byte == b'/').any(|part| part == b"..")
}

/// Reads one field. Returns whether it says something about the content.
fn field(variant: &mut Variant, name: &str, value: &str) -> bool {
    match name {
        "uri" => {
            variant.name = value
                .split_ascii_whitespace()
                .next()
                .unwrap_or_default()
                .into();
            return false;
        }
        "content-type" => {
            let mut parts = value.split(';').map(str::trim);
            variant.media_type = parts.next().unwrap_or_default().to_ascii_lowercase().into();
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key.trim().to_ascii_lowercase().as_str() {
                    "qs" => {
                        variant.source = value.trim().parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0)
                    }
                    "charset" => variant.charset = Some(value.trim().to_ascii_lowercase().into()),
                    _ => {}
                }
            }
        }
        "content-language" => {
            variant.languages = value
                .split(',')
                .map(|one| one.trim().to_ascii_lowercase().into())
                .collect()
        }
        "content-encoding" => variant.coding = Some(value.to_ascii_lowercase().into()),
        "content-length" => variant.bytes = value.parse().unwrap_or_default(),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let text = "URI: map\n\nURI: a.en\nContent-type: text/html; qs=0.5;\n charset=UTF-8\nContent-language: en, en-US\n\n# comment\nURI: ../x\nContent-type: a/b\n\r\nuri: b.gz\nContent-encoding: x-gzip\ncontent-length: 7\n";
        let variants = parsed(text.as_bytes());
        assert_eq!(variants.len(), 2);
        assert_eq!(
            (
                variants[0].source,
                variants[0].charset.as_deref(),
                variants[0].languages.len()
            ),
            (0.5, Some("utf-8"), 2)
        );
        assert_eq!(
            (variants[1].coding.as_deref(), variants[1].bytes),
            (Some("x-gzip"), 7)
        );
        assert!(parsed(b"URI: http://x.test/\nContent-type: a/b\n").is_empty());
    }

    #[test]
    fn contents_of_the_map_itself() {
        let text = b"URI: doc\n\nContent-type: text/html\nContent-language: en\nBody:--x--\nfirst\n\n second\n--x--\n\nContent-type: text/html\nContent-language: fr\nBody:---\npadded   --- ignored\n\nContent-type: text/html\nContent-language: de\nBody:--y--\r\nunended\n";
        let variants = parsed(text);
        let bodies: Vec<_> = variants
            .iter()
            .map(|variant| variant.body.as_deref())
            .collect();
        assert_eq!(
            bodies,
            [Some(&b"first\n\n second\n"[..]), Some(b"padded   ")]
        );
        assert_eq!(variants[0].bytes, 15);
    }
}
