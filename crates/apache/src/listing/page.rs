//! The page of a listing, in the three forms that Apache has: a list, columns in a `<pre>`, a
//! table.
//!
//! Difficulty: scripts read these pages, so every blank is where Apache has it.

use crate::listing::entry::Entry;
use saker_apache_model::modules::autoindex::{
    Autoindex, COLUMN_WIDTH, FANCY, ICONS_ARE_LINKS, NO_DESCRIPTION, NO_ICON, NO_MODIFIED,
    NO_RULES, NO_SIZE, NO_SORTING, OLD_DATES, TABLE, Width, XHTML,
};
use saker_http::escape;

/// A page has no more rows once it is as long as this.
pub const PAGE_BYTES_MAX: usize = 16 << 20;

/// No name and no description takes more room, whatever width is asked for.
const WIDTH_MAX: usize = 4096;

/// The form of the page that this request wants.
pub struct Form<'f> {
    pub settings: &'f Autoindex,
    pub options: u32,
    /// `N`, `M`, `S` or `D`.
    pub key: u8,
    pub descends: bool,
    /// Arguments that the links of columns carry on.
    pub arguments: Vec<u8>,
    pub blank_icon: Option<&'f str>,
}

impl Form<'_> {
    fn has(&self, option: u32) -> bool {
        self.options & option != 0
    }

    fn close(&self) -> &'static str {
        if self.has(XHTML) { " />" } else { ">" }
    }

    /// With a style sheet, everything has a class.
    fn class(&self, styled: &'static str, plain: &'static str) -> &'static str {
        if self.settings.style_sheet.is_some() {
            styled
        } else {
            plain
        }
    }
}

fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    escape::html(text, &mut out);
    out
}

/// Everything up to the title of the page's content.
pub fn preamble(form: &Form<'_>, title: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(match form.has(XHTML) {
        true => b"<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n<html xmlns=\"http://www.w3.org/1999/xhtml\">\n".as_slice(),
        false => b"<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n<html>\n",
    });
    out.extend_from_slice(b" <head>\n  <title>Index of ");
    out.extend_from_slice(title);
    out.extend_from_slice(b"</title>\n");
    if let Some(sheet) = &form.settings.style_sheet {
        out.extend_from_slice(
            format!(
                "  <link rel=\"stylesheet\" href=\"{sheet}\" type=\"text/css\"{}\n",
                form.close()
            )
            .as_bytes(),
        );
    }
    if let Some(insert) = &form.settings.head_insert {
        out.extend_from_slice(insert.as_bytes());
    }
    out.extend_from_slice(b" </head>\n <body>\n");
}

pub fn heading(form: &Form<'_>, title: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(
        form.class("  <h1 id=\"indextitle\">Index of ", "<h1>Index of ")
            .as_bytes(),
    );
    out.extend_from_slice(title);
    out.extend_from_slice(b"</h1>\n");
}

pub fn entries(form: &Form<'_>, entries: &[Entry], out: &mut Vec<u8>) {
    let widths = Widths::of(form, entries);
    if form.has(TABLE) {
        table(form, entries, &widths, out);
    } else if form.has(FANCY) {
        columns(form, entries, &widths, out);
    } else {
        list(entries, out);
    }
}

struct Widths {
    name: usize,
    description: usize,
}

impl Widths {
    fn of(form: &Form<'_>, entries: &[Entry]) -> Widths {
        let fits = |width: Option<Width>, longest: usize| match width {
            Some(Width::Fixed(width)) => width.min(WIDTH_MAX),
            Some(Width::Fitting) if !form.has(TABLE) => longest.clamp(COLUMN_WIDTH, WIDTH_MAX),
            _ => COLUMN_WIDTH,
        };
        let name = entries
            .iter()
            .map(|entry| entry.name.len())
            .max()
            .unwrap_or_default();
        let description = entries
            .iter()
            .filter_map(|entry| Some(entry.description.as_ref()?.len()))
            .max()
            .unwrap_or_default();
        let mut widths = Widths {
            name: fits(form.settings.name_width, name),
            description: fits(form.settings.description_width, description),
        };
        if form.settings.description_width.is_none() {
            let more = [(NO_ICON, 6), (NO_MODIFIED, 19), (NO_SIZE, 7)];
            widths.description += more
                .iter()
                .filter(|(option, _)| form.has(*option))
                .map(|(_, more)| more)
                .sum::<usize>();
        }
        widths
    }
}

fn list(entries: &[Entry], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<ul>");
    for entry in entries {
        if out.len() >= PAGE_BYTES_MAX {
            break;
        }
        out.extend_from_slice(b"<li><a href=\"");
        out.extend_from_slice(&anchor(entry));
        out.extend_from_slice(b"\"> ");
        out.extend_from_slice(&html(entry.shown()));
        out.extend_from_slice(b"</a></li>\n");
    }
    out.extend_from_slice(b"</ul>\n");
}

/// A colon in the first component would be a scheme's.
fn anchor(entry: &Entry) -> Vec<u8> {
    let first = entry
        .name
        .split(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    let mut link = if first.contains(&b':') {
        b"./".to_vec()
    } else {
        Vec::new()
    };
    link.extend(saker_ap_expr::escape_uri(&entry.name));
    html(&link)
}

fn columns(form: &Form<'_>, entries: &[Entry], widths: &Widths, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<pre>");
    if !form.has(NO_ICON) {
        match form.blank_icon {
            Some(icon) => {
                image(form, icon, "Icon ", out);
                out.push(b' ');
            }
            None => out.extend_from_slice(b"      "),
        }
    }
    link(form, b'N', "Name", out);
    pad(widths.name.saturating_sub(4) + 1, out);
    if !form.has(NO_MODIFIED) {
        link(form, b'M', "Last modified", out);
        pad(6, out);
    }
    if !form.has(NO_SIZE) {
        link(form, b'S', "Size", out);
        pad(2, out);
    }
    if !form.has(NO_DESCRIPTION) {
        link(form, b'D', "Description", out);
    }
    match form.has(NO_RULES) {
        false => out.extend_from_slice(format!("<hr{}", form.close()).as_bytes()),
        true => out.push(b'\n'),
    }
    for entry in entries {
        if out.len() >= PAGE_BYTES_MAX {
            break;
        }
        row_of_columns(form, entry, widths, out);
    }
    if !form.has(NO_RULES) {
        out.extend_from_slice(format!("<hr{}", form.close()).as_bytes());
    }
    out.extend_from_slice(b"</pre>\n");
}

fn row_of_columns(form: &Form<'_>, entry: &Entry, widths: &Widths, out: &mut Vec<u8>) {
    if !form.has(NO_ICON) {
        icon(form, entry, "     ", out);
        out.push(b' ');
    }
    name(entry, Some(widths.name), out);
    out.push(b' ');
    if !form.has(NO_MODIFIED) {
        match entry.modified_s {
            Some(modified_s) => out.extend_from_slice(date(form, modified_s).as_bytes()),
            None => pad(19, out),
        }
    }
    if !form.has(NO_SIZE) {
        out.extend_from_slice(size(entry.bytes).as_bytes());
        pad(2, out);
    }
    if let Some(text) = entry
        .description
        .as_deref()
        .filter(|_| !form.has(NO_DESCRIPTION))
    {
        out.extend_from_slice(&cut(text, widths.description));
    }
    out.push(b'\n');
}

fn table(form: &Form<'_>, entries: &[Entry], widths: &Widths, out: &mut Vec<u8>) {
    out.extend_from_slice(
        form.class(
            "  <table id=\"indexlist\">\n   <tr class=\"indexhead\">",
            "  <table>\n   <tr>",
        )
        .as_bytes(),
    );
    if !form.has(NO_ICON) {
        out.extend_from_slice(
            form.class("<th class=\"indexcolicon\">", "<th valign=\"top\">")
                .as_bytes(),
        );
        match form.blank_icon {
            Some(icon) => image(form, icon, "[ICO]", out),
            None => out.extend_from_slice(b"&nbsp;"),
        }
        out.extend_from_slice(b"</th>");
    }
    let columns = [
        (0, b'N', "Name", "<th class=\"indexcolname\">"),
        (
            NO_MODIFIED,
            b'M',
            "Last modified",
            "<th class=\"indexcollastmod\">",
        ),
        (NO_SIZE, b'S', "Size", "<th class=\"indexcolsize\">"),
        (
            NO_DESCRIPTION,
            b'D',
            "Description",
            "<th class=\"indexcoldesc\">",
        ),
    ];
    let mut count = usize::from(!form.has(NO_ICON));
    for (option, key, title, class) in columns
        .into_iter()
        .filter(|column| !form.has(column.0) || column.0 == 0)
    {
        let _ = option;
        out.extend_from_slice(form.class(class, "<th>").as_bytes());
        link(form, key, title, out);
        out.extend_from_slice(b"</th>");
        count += 1;
    }
    out.extend_from_slice(b"</tr>\n");
    let start = form.class("   <tr class=\"indexbreakrow\">", "   <tr>");
    let rule = format!(
        "{start}<th colspan=\"{count}\"><hr{}</th></tr>\n",
        form.close()
    );
    let rule = if form.has(NO_RULES) {
        String::new()
    } else {
        rule
    };
    out.extend_from_slice(rule.as_bytes());
    for (at, entry) in entries.iter().enumerate() {
        if out.len() >= PAGE_BYTES_MAX {
            break;
        }
        row_of_table(form, entry, at % 2 == 1, widths, out);
    }
    out.extend_from_slice(rule.as_bytes());
    out.extend_from_slice(b"</table>\n");
}

fn row_of_table(form: &Form<'_>, entry: &Entry, is_odd: bool, widths: &Widths, out: &mut Vec<u8>) {
    out.extend_from_slice(
        form.class(
            if is_odd {
                "   <tr class=\"odd\">"
            } else {
                "   <tr class=\"even\">"
            },
            "<tr>",
        )
        .as_bytes(),
    );
    if !form.has(NO_ICON) {
        out.extend_from_slice(
            form.class("<td class=\"indexcolicon\">", "<td valign=\"top\">")
                .as_bytes(),
        );
        icon(form, entry, "&nbsp;", out);
        out.extend_from_slice(b"</td>");
    }
    out.extend_from_slice(form.class("<td class=\"indexcolname\">", "<td>").as_bytes());
    let is_fitting = form.settings.name_width == Some(Width::Fitting);
    name(entry, (!is_fitting).then_some(widths.name), out);
    out.extend_from_slice(b"</td>");
    if !form.has(NO_MODIFIED) {
        let text = match entry.modified_s {
            Some(modified_s) => {
                format!(
                    "{}{}",
                    form.class("<td class=\"indexcollastmod\">", "<td align=\"right\">"),
                    date(form, modified_s)
                )
            }
            None => format!(
                "{}&nbsp;",
                form.class("<td class=\"indexcollastmod\">", "<td>")
            ),
        };
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"</td>");
    }
    if !form.has(NO_SIZE) {
        let start = form.class("<td class=\"indexcolsize\">", "<td align=\"right\">");
        out.extend_from_slice(format!("{start}{}</td>", size(entry.bytes)).as_bytes());
    }
    if !form.has(NO_DESCRIPTION) {
        out.extend_from_slice(form.class("<td class=\"indexcoldesc\">", "<td>").as_bytes());
        match entry.description.as_deref() {
            Some(text) if form.settings.description_width == Some(Width::Fitting) => {
                out.extend_from_slice(text.as_bytes())
            }
            Some(text) => out.extend_from_slice(&cut(text, widths.description)),
            None => out.extend_from_slice(b"&nbsp;"),
        }
        out.extend_from_slice(b"</td>");
    }
    out.extend_from_slice(b"</tr>\n");
}

fn image(form: &Form<'_>, url: &str, alternative: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<img src=\"");
    out.extend_from_slice(&html(url.as_bytes()));
    out.extend_from_slice(format!("\" alt=\"{alternative}\"").as_bytes());
    for (name, value) in [
        ("width", form.settings.icon_width),
        ("height", form.settings.icon_height),
    ] {
        if let Some(value) = value.filter(|value| *value != 0) {
            out.extend_from_slice(format!(" {name}=\"{value}\"").as_bytes());
        }
    }
    out.extend_from_slice(form.close().as_bytes());
}

fn icon(form: &Form<'_>, entry: &Entry, blank: &str, out: &mut Vec<u8>) {
    if form.has(ICONS_ARE_LINKS) {
        out.extend_from_slice(&[b"<a href=\"", anchor(entry).as_slice(), b"\">"].concat());
    }
    match entry
        .icon
        .as_deref()
        .or(form.settings.default_icon.as_deref())
    {
        Some(icon) => image(
            form,
            icon,
            &format!("[{}]", entry.alternative.as_deref().unwrap_or("   ")),
            out,
        ),
        None => out.extend_from_slice(blank.as_bytes()),
    }
    if form.has(ICONS_ARE_LINKS) {
        out.extend_from_slice(b"</a>");
    }
}

/// The link to an entry, its name cut or padded to a width.
fn name(entry: &Entry, width: Option<usize>, out: &mut Vec<u8>) {
    let shown = entry.shown();
    let (text, padding) = match width {
        Some(width) if shown.len() > width => (
            [
                shown.get(..width.saturating_sub(3)).unwrap_or_default(),
                b"..>",
            ]
            .concat(),
            0,
        ),
        Some(width) => (shown.to_vec(), width - shown.len()),
        None => (shown.to_vec(), 0),
    };
    out.extend_from_slice(
        &[
            b"<a href=\"",
            anchor(entry).as_slice(),
            b"\">",
            &html(&text),
            b"</a>",
        ]
        .concat(),
    );
    pad(padding, out);
}

fn pad(count: usize, out: &mut Vec<u8>) {
    out.extend(std::iter::repeat_n(b' ', count));
}

/// A column's title, with a link that sorts by it.
fn link(form: &Form<'_>, key: u8, title: &str, out: &mut Vec<u8>) {
    if form.has(NO_SORTING) {
        return out.extend_from_slice(title.as_bytes());
    }
    let direction = if key == form.key && !form.descends {
        'D'
    } else {
        'A'
    };
    out.extend_from_slice(format!("<a href=\"?C={};O={direction}", char::from(key)).as_bytes());
    out.extend_from_slice(&form.arguments);
    out.extend_from_slice(format!("\">{title}</a>").as_bytes());
}

fn date(form: &Form<'_>, unix_s: i64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let time = crate::time::local(unix_s);
    match form.has(OLD_DATES) {
        true => {
            let month = MONTHS
                .get(usize::from(time.month).saturating_sub(1))
                .unwrap_or(&"");
            format!(
                "{:02}-{month}-{:04} {:02}:{:02}  ",
                time.day, time.year, time.hour, time.minute
            )
        }
        false => format!(
            "{:04}-{:02}-{:02} {:02}:{:02}  ",
            time.year, time.month, time.day, time.hour, time.minute
        ),
    }
}

/// Four characters: `  - `, `973 `, `1.2K`, ` 17M`.
fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "  - ".into(), short_size)
}

/// Four characters, as Apache shows sizes.
pub fn short_size(bytes: u64) -> String {
    let mut size = bytes;
    if size < 973 {
        return format!("{size:3} ");
    }
    for unit in ['K', 'M', 'G', 'T', 'P', 'E'] {
        let mut rest = size & 1023;
        size >>= 10;
        if size >= 973 {
            continue;
        }
        if size < 9 || size == 9 && rest < 973 {
            rest = (rest * 5 + 256) / 512;
            let (whole, tenth) = if rest >= 10 {
                (size + 1, 0)
            } else {
                (size, rest)
            };
            return format!("{whole}.{tenth}{unit}");
        }
        return format!("{:3}{unit}", if rest >= 512 { size + 1 } else { size });
    }
    "****".into()
}

/// A description of that many visible characters: tags count for nothing, an entity for one.
fn cut(text: &str, width: usize) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut at, mut left) = (0, width);
    while let Some(byte) = bytes.get(at).filter(|byte| left > 0 || **byte == b'<') {
        let end = match byte {
            b'<' => Some(b'>'),
            b'&' => Some(b';'),
            _ => None,
        };
        if *byte != b'<' {
            left -= 1;
        }
        if let Some(end) = end {
            at += bytes
                .get(at..)
                .unwrap_or_default()
                .iter()
                .position(|other| *other == end)
                .unwrap_or(bytes.len() - at - 1);
        }
        at += 1;
    }
    match left == 0 && at < bytes.len() {
        true => [bytes.get(..at.saturating_sub(1)).unwrap_or_default(), b">"].concat(),
        false => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_four_characters() {
        let cases = [
            (None, "  - "),
            (Some(0), "  0 "),
            (Some(972), "972 "),
            (Some(973), "1.0K"),
            (Some(2000), "2.0K"),
            (Some(20_000), " 20K"),
            (Some(1_200_000), "1.1M"),
            (Some(996_147), "973K"),
            (Some(10_188), "9.9K"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn descriptions_are_cut() {
        let cases = [
            (
                "<b>An archive</b> which has a long description &amp; more",
                23,
                "<b>An archive</b> which has a>",
            ),
            ("short", 23, "short"),
            ("a &amp; b", 5, "a &amp; b"),
            ("unclosed <b", 23, "unclosed <b"),
            ("", 0, ""),
        ];
        for (text, width, expected) in cases {
            assert_eq!(
                String::from_utf8(cut(text, width)).unwrap(),
                expected,
                "{text}"
            );
        }
    }
}
