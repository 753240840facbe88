//! The HTML of a directory listing: one self-contained page, light or dark, usable on a phone and
//! without scripts.
//!
//! Called by: the listing.
//! Caveat: names are anything but `/` and NUL. In text they are escaped, and characters that don't
//! print or change the writing direction are replaced by visible signs; in links each is encoded
//! and starts with `./`, or `a:b` would be a scheme.
//! Out of scope: JSON.

use crate::{
    listing::entries::{Column, ENTRIES_MAX, Entries, Entry, Order},
    location, names,
};
use saker_config::model::Files;
use saker_http::{date::format_date, escape};

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1c2330;--dim:#667085;--line:#e4e7ec;--hover:#f2f5fa;--link:#1d4ed8;--folder:#c98a1b;--page:#fff}
@media(prefers-color-scheme:dark){:root{--text:#e6e9ef;--dim:#98a2b3;--line:#2a3140;--hover:#1d2430;--link:#8ab4ff;--folder:#e0b050;--page:#131820}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:64rem;background:var(--page);color:var(--text);font:1rem/1.5 system-ui,sans-serif}
h1{font-size:1.25rem;font-weight:600;margin:0 0 1rem;overflow-wrap:anywhere}
a{color:var(--link);text-decoration:none}
a:hover,a:focus-visible{text-decoration:underline}
table{width:100%;border-collapse:collapse}
th,td{padding:.45rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-size:.875rem;font-weight:600;white-space:nowrap}
th a,.size,.date{color:var(--dim)}
th[aria-sort] a{color:var(--text)}
tbody tr:hover{background:var(--hover)}
.name{width:100%;overflow-wrap:anywhere}
.name a{display:flex;gap:.6rem}
.size,.date{white-space:nowrap;font-variant-numeric:tabular-nums}
th.size,td.size{text-align:right}
svg{flex:none;width:1.2em;height:1.5em;color:var(--dim)}
svg.icons{position:absolute;width:0;height:0}
svg.folder{color:var(--folder)}
p{color:var(--dim);font-size:.875rem}
@media(max-width:36rem){.date .time{display:none}th,td{padding:.6rem .3rem}}";

/// Defined once, used by each row.
const ICONS: &str = "\
<svg class=\"icons\"><defs>\
<symbol id=\"folder\" viewBox=\"0 0 20 24\"><path fill=\"currentColor\" d=\"M1 6a2 2 0 0 1 2-2h5l2 3h7a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H3a2 2 0 0 1-2-2z\"/></symbol>\
<symbol id=\"up\" viewBox=\"0 0 20 24\"><path fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" d=\"M5 10l5-5 5 5M10 5v14\"/></symbol>\
<symbol id=\"file\" viewBox=\"0 0 20 24\"><path fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" d=\"M3 2h9l5 5v15H3zM12 2v5h5\"/></symbol>\
<symbol id=\"text\" viewBox=\"0 0 20 24\"><path fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" d=\"M3 2h9l5 5v15H3zM12 2v5h5M6 12h8M6 15h8M6 18h5\"/></symbol>\
<symbol id=\"image\" viewBox=\"0 0 20 24\"><path fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" d=\"M2 4h16v16H2zM2 17l5-6 4 5 3-3 4 5M14 9h.1\"/></symbol>\
<symbol id=\"media\" viewBox=\"0 0 20 24\"><path fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" d=\"M2 4h16v16H2zM8 8.5v7l6-3.5z\"/></symbol>\
<symbol id=\"archive\" viewBox=\"0 0 20 24\"><path fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" d=\"M2 4h16v4H2zM3 8v12h14V8M8 12h4\"/></symbol>\
</defs></svg>";

/// The page for the directory at `path`, which ends with a slash.
pub fn html(path: &[u8], entries: &Entries, order: Order, files: &Files) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096 + entries.list.len() * 320);
    push(
        &mut out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n",
    );
    push(
        &mut out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Index of ",
    );
    text(path, &mut out);
    push(&mut out, "</title>\n<style>");
    push(&mut out, STYLE);
    push(&mut out, "</style>\n");
    push(&mut out, ICONS);
    breadcrumb(path, &mut out);
    head_row(order, &mut out);
    if path != b"/" {
        push(
            &mut out,
            "<tr><td class=\"name\"><a href=\"../\"><svg><use href=\"#up\"/></svg>Parent folder</a><td class=\"size\"><td class=\"date\">\n",
        );
    }
    for entry in &entries.list {
        row(entry, files, &mut out);
    }
    push(&mut out, "</tbody></table>\n");
    push(&mut out, &format!("<p>{}</p>\n</html>\n", summary(entries)));
    out
}

/// Each parent directory is a link.
fn breadcrumb(path: &[u8], out: &mut Vec<u8>) {
    push(out, "\n<h1><a href=\"/\">Home</a>");
    let mut end = 1;
    for component in path
        .split(|byte| *byte == b'/')
        .filter(|component| !component.is_empty())
    {
        end += component.len() + 1;
        push(out, " / <a href=\"");
        escape::html(&location::path(&path[..end.min(path.len())]), out);
        push(out, "\"><bdi>");
        text(component, out);
        push(out, "</bdi></a>");
    }
    push(out, "</h1>\n");
}

fn head_row(order: Order, out: &mut Vec<u8>) {
    push(out, "<table><thead><tr>");
    for (column, letter, class, title) in [
        (Column::Name, 'N', "name", "Name"),
        (Column::Size, 'S', "size", "Size"),
        (Column::Modified, 'M', "date", "Modified"),
    ] {
        let current = column == order.by;
        // A second click reverses the order.
        let next = if current && !order.descending {
            'D'
        } else {
            'A'
        };
        let (sort, arrow) = match (current, order.descending) {
            (false, _) => ("", ""),
            (true, false) => (" aria-sort=\"ascending\"", " ↑"),
            (true, true) => (" aria-sort=\"descending\"", " ↓"),
        };
        push(
            out,
            &format!(
                "<th class=\"{class}\"{sort}><a href=\"?C={letter};O={next}\">{title}{arrow}</a>"
            ),
        );
    }
    push(out, "</thead>\n<tbody>\n");
}

fn row(entry: &Entry, files: &Files, out: &mut Vec<u8>) {
    let icon = icon(entry, files);
    push(out, "<tr><td class=\"name\"><a href=\"");
    escape::html(&link(entry), out);
    push(
        out,
        &format!("\"><svg class=\"{icon}\"><use href=\"#{icon}\"/></svg><bdi>"),
    );
    text(&entry.name, out);
    push(
        out,
        if entry.folder {
            "/</bdi></a>"
        } else {
            "</bdi></a>"
        },
    );
    match entry.folder {
        true => push(out, "<td class=\"size\">"),
        false => push(
            out,
            &format!(
                "<td class=\"size\" title=\"{} bytes\">{}",
                grouped(entry.size),
                human_size(entry.size)
            ),
        ),
    }
    date(entry.mtime_s, out);
}

fn link(entry: &Entry) -> Vec<u8> {
    let mut link = b"./".to_vec();
    escape::uri_path(&entry.name, &mut link);
    if entry.folder {
        link.push(b'/');
    }
    link
}

fn date(mtime_s: i64, out: &mut Vec<u8>) {
    let full = format_date(mtime_s);
    let full = String::from_utf8_lossy(&full);
    let (day, time) = iso(&full);
    push(
        out,
        &format!(
            "<td class=\"date\"><time datetime=\"{day}T{time}Z\" title=\"{full}\">{day} <span class=\"time\">{time}</span></time>\n"
        ),
    );
}

/// Year, month and day, then hours and minutes, from an IMF-fixdate (`Sun, 06 Nov 1994 08:49:37
/// GMT`).
fn iso(date: &str) -> (String, &str) {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let part = |range| date.get(range).unwrap_or_default();
    let month = MONTHS
        .iter()
        .position(|name| *name == part(8..11))
        .map_or(0, |at| at + 1);
    (
        format!("{}-{month:02}-{}", part(12..16), part(5..7)),
        part(17..22),
    )
}

/// Appends a name as text. Characters that don't print or change the writing direction
/// (`\u{202e}gpj.exe` looks like a picture) are replaced by visible signs.
fn text(name: &[u8], out: &mut Vec<u8>) {
    let shown: String = String::from_utf8_lossy(name).chars().map(visible).collect();
    escape::html(shown.as_bytes(), out);
}

fn visible(letter: char) -> char {
    match letter {
        '\0'..='\u{1f}' => {
            char::from_u32(0x2400 + letter as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        letter => letter,
    }
}

fn icon(entry: &Entry, files: &Files) -> &'static str {
    const ARCHIVES: [&str; 9] = [
        "zip", "gzip", "tar", "7z", "xz", "zstd", "bzip", "rar", "iso9660",
    ];
    if entry.folder {
        return "folder";
    }
    let content_type = names::content_type(files, &entry.name).unwrap_or_default();
    let content_type = String::from_utf8_lossy(&content_type);
    match content_type.split('/').next().unwrap_or_default() {
        "image" => "image",
        "audio" | "video" => "media",
        "text" => "text",
        _ if ["json", "javascript", "xml", "pdf"]
            .iter()
            .any(|word| content_type.contains(word)) =>
        {
            "text"
        }
        _ if ARCHIVES.iter().any(|word| content_type.contains(word)) => "archive",
        _ => "file",
    }
}

fn summary(entries: &Entries) -> String {
    if entries.truncated {
        return format!(
            "Only the first {} entries are shown; there are more.",
            grouped(ENTRIES_MAX as u64)
        );
    }
    let folders = entries.list.iter().filter(|entry| entry.folder).count();
    let files = entries.list.len() - folders;
    let bytes: u64 = entries
        .list
        .iter()
        .map(|entry| entry.size)
        .fold(0, u64::saturating_add);
    let plural = |count: usize, one: &str| {
        if count == 1 {
            format!("1 {one}")
        } else {
            format!("{} {one}s", grouped(count as u64))
        }
    };
    format!(
        "{}, {}, {}",
        plural(folders, "folder"),
        plural(files, "file"),
        human_size(bytes)
    )
}

/// Decimal units with one place below ten.
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    // 999.5 would be shown as 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let places = usize::from(value < 9.95);
    format!("{value:.places$} {}", UNITS[unit])
}

/// With a thin space between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
