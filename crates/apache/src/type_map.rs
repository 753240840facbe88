//! Type maps: a file that lists variants (handler `type-map`).
//!
//! Difficulty: the file is written by people, so what is not understood in a record is passed over,
//! as Apache does. Absent on purpose: variants whose content stands in the map itself (`Body:`);
//! they are as if they were not there.

use crate::{
    multiviews::{lines, not_acceptable},
    negotiate::{Choice, Variant, choose, vary},
    state::{peek, state},
    verdict::Verdict,
    walk::link_policy,
};
use saker_apache_model::dir_config::DirConfig;
use saker_files::{Kind, Watcher, resolve};
use saker_http::Status;
use saker_pipeline::{Exchange, Response};
use std::{os::unix::fs::FileExt, path::Path};

/// Larger maps are no maps.
const BYTES_MAX: u64 = 256 << 10;

/// Chooses a variant, with which everything begins again.
pub fn answer(exchange: &mut Exchange, watcher: &Watcher, local: &DirConfig) -> Verdict {
    exchange.depends_on_request();
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
    let folder = filename
        .get(
            ..filename
                .iter()
                .rposition(|byte| *byte == b'/')
                .map_or(0, |at| at + 1),
        )
        .unwrap_or_default();
    let mut variants = parsed(&String::from_utf8_lossy(&text));
    for variant in variants.iter_mut().filter(|variant| variant.bytes == 0) {
        let relative = [folder.strip_prefix(b"/").unwrap_or(folder), &variant.name].concat();
        let policy = link_policy(local.core.options.in_force());
        let found = resolve(
            watcher,
            Path::new("/"),
            &relative,
            policy,
            &mut exchange.cache.change_tokens,
        );
        variant.bytes = found.map_or(0, |found| found.metadata.size);
    }
    if variants.is_empty() {
        return Verdict::Answer(Response::new(Status::NOT_FOUND));
    }
    match choose(&variants, exchange.head.view(), &local.negotiation) {
        Choice::None => Verdict::Answer(not_acceptable(&variants)),
        Choice::Variant(at) => {
            let vary = vary(&variants);
            let variant = variants.swap_remove(at);
            let path = match variant.name.first() {
                Some(b'/') => variant.name.clone(),
                _ => {
                    let end = exchange
                        .path
                        .iter()
                        .rposition(|byte| *byte == b'/')
                        .map_or(0, |at| at + 1);
                    [exchange.path.get(..end).unwrap_or_default(), &variant.name].concat()
                }
            };
            state(exchange).negotiated = lines(exchange, variant, vary);
            exchange.path = path;
            Verdict::Restart
        }
    }
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

/// Records are separated by empty lines; a line that begins with a blank goes on with the one
/// before.
fn parsed(text: &str) -> Vec<Variant> {
    let unfolded = text
        .replace("\r\n", "\n")
        .replace("\n ", " ")
        .replace("\n\t", " ");
    let mut variants = Vec::new();
    for record in unfolded.split("\n\n") {
        let mut variant = Variant {
            source: 1.0,
            ..Variant::default()
        };
        let mut has_content = false;
        for line in record.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            has_content |= field(
                &mut variant,
                &name.trim().to_ascii_lowercase(),
                value.trim(),
            );
        }
        if has_content && is_local(&variant.name) {
            variants.push(variant);
        }
    }
    variants
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
        let variants = parsed(text);
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
        assert!(parsed("URI: http://x.test/\nContent-type: a/b\n").is_empty());
    }
}
