//! Listings of directories: HTML, JSON, and XML as nginx writes them.
//!
//! Called by: the rules, for a directory without an index file.
//! Caveat: the directory is read on the blocking pool.

use crate::{files::utc_offset, request::Request};
use saker_http::{Status, date::format_date};
use saker_net::jobs::{self, JobKind};
use saker_nginx_model::{Location, modules::autoindex::ListingFormat};
use saker_pipeline::{Body, Chunk, Mapped, Response, local_time};
use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Directories with more entries are cut off.
const ENTRIES_MAX: usize = 100_000;
/// Columns of a name.
const NAME_COLUMNS: usize = 50;

/// A listing to make.
#[derive(Debug)]
pub struct Wanted {
    folder: PathBuf,
    path: Vec<u8>,
    site: usize,
    format: ListingFormat,
    has_exact_sizes: bool,
    is_local_time: bool,
    location: Arc<Location>,
    /// The error is a name that no function has.
    callback: Result<Option<Vec<u8>>, ()>,
}

struct Entry {
    name: Vec<u8>,
    is_folder: bool,
    is_file: bool,
    size: u64,
    modified_s: i64,
}

impl Wanted {
    pub fn new(request: &mut Request<'_>, mapped: &Mapped) -> Wanted {
        let location = Arc::clone(&request.state.location);
        let conf = &location.conf.autoindex;
        let query = request.exchange.query.as_deref().unwrap_or_default();
        let callback = query
            .split(|byte| *byte == b'&')
            .find_map(|pair| pair.strip_prefix(b"callback="))
            .filter(|name| !name.is_empty());
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        let callback = match callback {
            Some(name) if !name.iter().all(is_word) => Err(()),
            other => Ok(other.map(<[u8]>::to_vec)),
        };
        Wanted {
            folder: Path::new(OsStr::from_bytes(&mapped.filename())).to_owned(),
            path: request.exchange.path.clone(),
            site: request.exchange.routing.site_index,
            format: conf.format.unwrap_or_default(),
            has_exact_sizes: conf.has_exact_sizes != Some(false),
            is_local_time: conf.is_local_time == Some(true),
            callback,
            location,
        }
    }

    /// Reads the directory and writes the listing.
    pub async fn respond(self) -> Response {
        if self.format == ListingFormat::Jsonp && self.callback.is_err() {
            return Response::new(Status::BAD_REQUEST);
        }
        let folder = self.folder.clone();
        let read = jobs::run(JobKind::Listing, Some(self.site), move |cancel| {
            let mut entries = Vec::new();
            for entry in fs::read_dir(folder)?.flatten() {
                if cancel.is_cancelled() || entries.len() >= ENTRIES_MAX {
                    break;
                }
                entries.extend(read_entry(&entry));
            }
            entries.sort_by(|one: &Entry, other| {
                let by_kind = other.is_folder.cmp(&one.is_folder);
                by_kind.then_with(|| one.name.cmp(&other.name))
            });
            std::io::Result::Ok(entries)
        });
        let entries = match read.await {
            Ok(Ok(entries)) => entries,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Response::new(Status::FORBIDDEN);
            }
            Ok(Err(_)) => return Response::new(Status::NOT_FOUND),
            Err(_) => return Response::new(Status::SERVICE_UNAVAILABLE),
        };
        let (media_type, text) = match self.format {
            ListingFormat::Html => ("text/html", self.html(&entries)),
            ListingFormat::Json => ("application/json", self.json(&entries)),
            ListingFormat::Jsonp => match &self.callback {
                Ok(Some(name)) => {
                    let text = [
                        b"/* callback */\r\n",
                        name.as_slice(),
                        b"(",
                        &self.json(&entries),
                        b");",
                    ];
                    ("application/javascript", text.concat())
                }
                _ => ("application/json", self.json(&entries)),
            },
            ListingFormat::Xml => ("text/xml; charset=utf-8", self.xml(&entries)),
        };
        let mut response = Response::new(Status::OK);
        let media_type = self.location.conf.compression.with_charset(media_type);
        response
            .fields_mut()
            .set("Content-Type", media_type.into_bytes());
        response.body = Body::Memory(Chunk::from(text));
        response
    }

    fn html(&self, entries: &[Entry]) -> Vec<u8> {
        let mut title = Vec::new();
        escape_html(&self.path, &mut title);
        let mut out = b"<html>\r\n<head><title>Index of ".to_vec();
        out.extend_from_slice(&title);
        out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
        out.extend_from_slice(&title);
        out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
        for entry in entries {
            self.html_line(entry, &mut out);
        }
        out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
        out
    }

    fn html_line(&self, entry: &Entry, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<a href=\"");
        escape_html(&escape_component(&entry.name), out);
        out.extend_from_slice(if entry.is_folder { b"/\">" } else { b"\">" });
        let shown = String::from_utf8_lossy(&entry.name);
        // Without UTF-8 as the charset, each byte takes a column.
        let charset = self.location.conf.compression.charset.as_ref();
        let charset = charset.and_then(|charset| charset.as_deref());
        let is_utf8 = charset.is_some_and(|charset| charset.eq_ignore_ascii_case("utf-8"));
        let mut columns = match is_utf8 {
            true => shown.chars().count(),
            false => entry.name.len(),
        };
        if columns > NAME_COLUMNS {
            let cut = match is_utf8 {
                true => shown
                    .chars()
                    .take(NAME_COLUMNS - 3)
                    .collect::<String>()
                    .into(),
                false => entry
                    .name
                    .get(..NAME_COLUMNS - 3)
                    .unwrap_or_default()
                    .to_vec(),
            };
            escape_html(&cut, out);
            out.extend_from_slice(b"..&gt;</a>");
        } else {
            escape_html(&entry.name, out);
            if entry.is_folder && columns < NAME_COLUMNS {
                out.push(b'/');
                columns += 1;
            }
            out.extend_from_slice(b"</a>");
            out.extend(std::iter::repeat_n(b' ', NAME_COLUMNS - columns));
        }
        out.push(b' ');
        out.extend(self.date(entry.modified_s).into_bytes());
        out.push(b' ');
        let size = match (entry.is_folder, self.has_exact_sizes) {
            (true, true) => format!("{:>19}", "-"),
            (true, false) => format!("{:>7}", "-"),
            (false, true) => format!("{:>19}", entry.size),
            (false, false) => short_size(entry.size),
        };
        // The buffer was not written to before; it takes everything.
        let _ = write!(out, "{size}\r\n");
    }

    fn date(&self, unix_s: i64) -> String {
        let date = format_date(unix_s);
        let date = String::from_utf8_lossy(&date).into_owned();
        if !self.is_local_time {
            // `Sun, 06 Nov 1994 08:49:37 GMT`
            let part = |from, to| date.get(from..to).unwrap_or_default();
            return format!(
                "{}-{}-{} {}",
                part(5, 7),
                part(8, 11),
                part(12, 16),
                part(17, 22)
            );
        }
        let local = local_time(unix_s);
        let shifted = format_date(unix_s + offset_s(unix_s));
        let month = String::from_utf8_lossy(&shifted)
            .get(8..11)
            .unwrap_or_default()
            .to_owned();
        format!(
            "{:02}-{month}-{} {:02}:{:02}",
            local.day, local.year, local.hour, local.minute
        )
    }

    fn json(&self, entries: &[Entry]) -> Vec<u8> {
        let line = |entry: &Entry| {
            let mut line = b"{ \"name\":\"".to_vec();
            json_escape(&entry.name, &mut line);
            line.extend_from_slice(b"\", \"type\":\"");
            line.extend_from_slice(kind(entry).as_bytes());
            line.extend_from_slice(b"\", \"mtime\":\"");
            line.extend_from_slice(&format_date(entry.modified_s));
            line.push(b'"');
            if entry.is_file {
                line.extend(format!(", \"size\":{}", entry.size).into_bytes());
            }
            line.extend_from_slice(b" }");
            line
        };
        let lines: Vec<Vec<u8>> = entries.iter().map(line).collect();
        [b"[\r\n", lines.join(&b",\r\n"[..]).as_slice(), b"\r\n]"].concat()
    }

    fn xml(&self, entries: &[Entry]) -> Vec<u8> {
        let mut out = b"<?xml version=\"1.0\"?>\r\n<list>\r\n".to_vec();
        for entry in entries {
            let kind = kind(entry);
            let date = String::from_utf8_lossy(&format_date(entry.modified_s)).into_owned();
            let date = xml_date(&date);
            out.extend(format!("<{kind} mtime=\"{date}\"").into_bytes());
            if entry.is_file {
                out.extend(format!(" size=\"{}\"", entry.size).into_bytes());
            }
            out.push(b'>');
            escape_html(&entry.name, &mut out);
            out.extend(format!("</{kind}>\r\n").into_bytes());
        }
        out.extend_from_slice(b"</list>\r\n");
        out
    }
}

/// Escapes the characters that nginx escapes.
fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            other => out.push(*other),
        }
    }
}

fn offset_s(unix_s: i64) -> i64 {
    let text = utc_offset(unix_s);
    let number = |from, to| text.get(from..to).and_then(|part| part.parse::<i64>().ok());
    let seconds = number(1, 3).unwrap_or(0) * 3600 + number(3, 5).unwrap_or(0) * 60;
    if text.starts_with('-') {
        -seconds
    } else {
        seconds
    }
}

fn read_entry(entry: &fs::DirEntry) -> Option<Entry> {
    let name = entry.file_name();
    let name = name.as_bytes();
    if name.starts_with(b".") {
        return None;
    }
    // Of a link that leads nowhere, the link itself is shown.
    let metadata = fs::metadata(entry.path())
        .or_else(|_| entry.metadata())
        .ok()?;
    Some(Entry {
        name: name.to_vec(),
        is_folder: metadata.is_dir(),
        is_file: metadata.is_file(),
        size: metadata.len(),
        modified_s: metadata.mtime(),
    })
}

fn kind(entry: &Entry) -> &'static str {
    match (entry.is_folder, entry.is_file) {
        (true, _) => "directory",
        (_, true) => "file",
        _ => "other",
    }
}

/// Escapes all but unreserved characters (RFC 3986 section 2.3).
fn escape_component(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ if byte.is_ascii_alphanumeric() => out.push(*byte),
            _ => out.extend(format!("%{byte:02X}").bytes()),
        }
    }
    out
}

/// Sizes in the largest unit, rounded.
fn short_size(size: u64) -> String {
    let (number, unit) = match size {
        0x4000_0000.. => ((size + (1 << 29)) >> 30, "G"),
        0x10_0000.. => ((size + (1 << 19)) >> 20, "M"),
        10_000.. => ((size + (1 << 9)) >> 10, "K"),
        _ => return format!(" {size:>6}"),
    };
    format!("{number:>6}{unit}")
}

fn json_escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            8 => out.extend(b"\\b"),
            12 => out.extend(b"\\f"),
            0..=31 => out.extend(format!("\\u{byte:04X}").bytes()),
            _ => out.push(*byte),
        }
    }
}

/// `2024-01-31T08:49:37Z`
fn xml_date(date: &str) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let part = |from, to| date.get(from..to).unwrap_or_default();
    let month = MONTHS.find(part(8, 11)).unwrap_or_default() / 3 + 1;
    format!(
        "{}-{month:02}-{}T{}Z",
        part(12, 16),
        part(5, 7),
        part(17, 25)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_dates() {
        assert_eq!(short_size(9_999), "   9999");
        assert_eq!(short_size(10_240), "    10K");
        assert_eq!(short_size(5 << 20), "     5M");
        let date = format_date(784_111_777);
        let date = String::from_utf8_lossy(&date).into_owned();
        assert_eq!(xml_date(&date), "1994-11-06T08:49:37Z");
    }
}
