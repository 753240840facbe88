//! Reads lists of pages: sitemaps and sitemap indexes (sitemaps.org, protocol 0.9), text files with
//! one URL per line, and robots.txt.
//!
//! Called by: `run`.
//! Caveat: the input is untrusted, of any size, and may not be XML; so no document is built, only
//! URLs are extracted. Compressed files are recognized by their first bytes.
//! Out of scope: extensions such as image sitemaps.

use crate::warm::url::PageUrl;
use flate2::read::MultiGzDecoder;
use std::io::Read;

/// A sitemap may have 50 MB (sitemaps.org); some have a little more.
pub const SITEMAP_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SitemapEntry {
    Page(String),
    Sitemap(String),
}

impl SitemapEntry {
    pub fn url(&self) -> Option<PageUrl> {
        let (SitemapEntry::Page(text) | SitemapEntry::Sitemap(text)) = self;
        PageUrl::parse(text)
    }

    pub fn is_sitemap(&self) -> bool {
        matches!(self, SitemapEntry::Sitemap(_))
    }
}

/// The URLs that a file names.
pub fn entries(bytes: &[u8]) -> Result<Vec<SitemapEntry>, String> {
    let plain = match bytes {
        [0x1f, 0x8b, ..] => unpacked(bytes)?,
        _ => bytes.to_vec(),
    };
    let text = String::from_utf8_lossy(&plain);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let entries: Vec<SitemapEntry> = if text.starts_with('<') {
        of_xml(text)
    } else {
        of_lines(text)
    };
    if entries.is_empty() {
        Err("it contains no URL".into())
    } else {
        Ok(entries)
    }
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let read = MultiGzDecoder::new(bytes)
        .take(SITEMAP_BYTES_MAX as u64 + 1)
        .read_to_end(&mut out);
    match read {
        Ok(_) if out.len() > SITEMAP_BYTES_MAX => Err("it is too large".into()),
        Ok(_) => Ok(out),
        Err(error) => Err(format!("it can't be decompressed: {error}")),
    }
}

/// `<loc>` in `<url>` and `<sitemap>`; not those of other namespaces (`image:loc`).
fn of_xml(text: &str) -> Vec<SitemapEntry> {
    let mut entries = Vec::new();
    let mut is_sitemap = false;
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('<') {
        if let Some(comment) = behind.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let Some((tag, content)) = behind.split_once('>') else {
            break;
        };
        rest = content;
        match tag.split_ascii_whitespace().next().unwrap_or_default() {
            "sitemap" => is_sitemap = true,
            "url" => is_sitemap = false,
            "loc" => {
                let end = content.find("</").unwrap_or(content.len());
                let (inside, behind) = content.split_at(end);
                rest = behind;
                let address = address(inside);
                entries.push(if is_sitemap {
                    SitemapEntry::Sitemap(address)
                } else {
                    SitemapEntry::Page(address)
                });
            }
            _ => {}
        }
    }
    entries
}

fn address(text: &str) -> String {
    let text = text.trim();
    match text
        .strip_prefix("<![CDATA[")
        .and_then(|text| text.strip_suffix("]]>"))
    {
        Some(plain) => plain.trim().to_owned(),
        None => unescaped(text),
    }
}

/// XML 1.0 section 4.6, and character references; anything else stays as it is.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        let named = behind
            .split_once(';')
            .and_then(|(name, after)| Some((character(name)?, after)));
        match named {
            Some((character, after)) => {
                out.push(character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out + rest
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// One URL per line, `#` for comments; from robots.txt, its sitemaps (RFC 9309 section 2.2.4).
fn of_lines(text: &str) -> Vec<SitemapEntry> {
    let entry = |line: &str| {
        let line = line.trim();
        match line.split_once(':') {
            Some((field, url)) if field.eq_ignore_ascii_case("sitemap") => {
                Some(SitemapEntry::Sitemap(url.trim().to_owned()))
            }
            Some((scheme, _))
                if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
            {
                Some(SitemapEntry::Page(line.to_owned()))
            }
            _ => None,
        }
    };
    text.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn page(text: &str) -> SitemapEntry {
        SitemapEntry::Page(text.to_owned())
    }

    fn sitemap(text: &str) -> SitemapEntry {
        SitemapEntry::Sitemap(text.to_owned())
    }

    #[test]
    fn sitemaps() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<!-- <loc>http://h/no</loc> --><urlset xmlns:image=\"x\">\n<url><loc> http://h/a?b&amp;c=&#39;&#x41; </loc>\
                    <image:image><image:loc>http://h/i.png</image:loc></image:image></url>\n<url><loc><![CDATA[http://h/<d>]]></loc></url></urlset>";
        assert_eq!(
            entries(text.as_bytes()).unwrap(),
            [page("http://h/a?b&c='A"), page("http://h/<d>")]
        );
        let index = "<sitemapindex><sitemap><loc>http://h/1.xml.gz</loc><lastmod>x</lastmod></sitemap></sitemapindex>";
        assert_eq!(
            entries(index.as_bytes()).unwrap(),
            [sitemap("http://h/1.xml.gz")]
        );
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text.as_bytes()).unwrap();
        assert_eq!(entries(&packed.finish().unwrap()).unwrap().len(), 2);
    }

    #[test]
    fn lists_and_robots() {
        assert_eq!(
            entries(b"# pages\nhttp://h/a\n\nHTTPS://h/b\n/c\n").unwrap(),
            [page("http://h/a"), page("HTTPS://h/b")]
        );
        assert_eq!(
            entries(b"User-agent: *\nDisallow: /x\nSitemap: https://h/s.xml\n").unwrap(),
            [sitemap("https://h/s.xml")]
        );
    }

    #[test]
    fn what_is_none() {
        for text in [
            &b""[..],
            b"<html><body>404</body></html>",
            b"<loc",
            b"<",
            b"hello",
            &[0x1f, 0x8b, 1, 2, 3],
            b"<urlset><url></url>",
        ] {
            assert!(entries(text).is_err(), "{text:?}");
        }
        assert_eq!(
            entries(b"<url><loc>http://h/&bogus;&#x110000;&").unwrap(),
            [page("http://h/&bogus;&#x110000;&")]
        );
        assert_eq!(unescaped("a&amp"), "a&amp");
    }
}
