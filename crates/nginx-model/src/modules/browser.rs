//! ngx_http_browser_module: browsers that count as modern or as ancient.
//!
//! Called by: `load`.
//! Caveat: the first known browser whose name the User-Agent has decides by its version; Opera comes
//! first, because it says to be others, too.
//! Out of scope: values of `$modern_browser`, `$ancient_browser`, and `$msie` (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::{Reading, Setters},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// A browser by a name in its User-Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Browser {
    name: &'static str,
    /// Bytes at the beginning in which the mark is not looked for.
    pub skipped: usize,
    /// Stands before the version.
    pub mark: &'static str,
    /// Bytes of the mark and what separates it from the version.
    pub mark_bytes: usize,
}

const fn browser(name: &'static str, before: &str, mark: &'static str, full: &str) -> Browser {
    Browser {
        name,
        skipped: before.len(),
        mark,
        mark_bytes: full.len(),
    }
}

/// In the order in which they are looked for.
const BROWSERS: [Browser; 5] = [
    browser("opera", "", "Opera", "Opera "),
    browser("msie", "Mozilla/4.0 (compatible; ", "MSIE ", "MSIE "),
    browser("gecko", "Mozilla/5.0 (", "rv:", "rv:"),
    browser("safari", "Mozilla/5.0 (", "Safari/", "Safari/"),
    browser(
        "konqueror",
        "Mozilla/5.0 (compatible; ",
        "Konqueror/",
        "Konqueror/",
    ),
];

/// Settings of the module.
#[derive(Clone, Debug, Default)]
pub struct BrowserConf {
    /// Browsers with their lowest modern versions, in the order in which they are looked for.
    pub modern: Option<Arc<[(Browser, u64)]>>,
    /// Parts of the User-Agent of ancient browsers.
    pub ancient: Option<Arc<[Box<str>]>>,
    /// Browsers that are not listed are modern.
    pub takes_unlisted: Option<bool>,
    /// Netscape 1 to 4 is ancient.
    pub knows_netscape: Option<bool>,
    pub modern_value: Option<Box<str>>,
    pub ancient_value: Option<Box<str>>,
}

impl BrowserConf {
    pub fn inherit(&mut self, outer: &BrowserConf) {
        let is_empty = self.modern.is_none()
            && self.ancient.is_none()
            && self.takes_unlisted.is_none()
            && self.knows_netscape.is_none();
        if is_empty {
            inherit!(self, outer: modern ancient takes_unlisted knows_netscape);
        }
        inherit!(self, outer: modern_value ancient_value);
    }
}

pub const SETTERS: Setters<BrowserConf> = &[
    ("modern_browser", modern),
    ("ancient_browser", |d, conf, _| {
        for word in d.texts() {
            if word == "netscape4" {
                conf.knows_netscape = Some(true);
                continue;
            }
            let before = conf.ancient.take().unwrap_or_default();
            conf.ancient = Some(before.iter().cloned().chain([word.into()]).collect());
        }
        Ok(())
    }),
    ("modern_browser_value", |d, conf, _| {
        conf.modern_value = Some(d.argument(0).into());
        Ok(())
    }),
    ("ancient_browser_value", |d, conf, _| {
        conf.ancient_value = Some(d.argument(0).into());
        Ok(())
    }),
];

fn modern(
    directive: &Directive,
    conf: &mut BrowserConf,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let (name, text) = (directive.argument(0), directive.argument(1));
    if directive.arguments.len() == 1 {
        if name != "unlisted" {
            return Err("invalid number of arguments in \"modern_browser\" directive".to_owned());
        }
        conf.takes_unlisted = Some(true);
        return Ok(());
    }
    let at = BROWSERS.iter().position(|known| known.name == name);
    let Some(browser) = at.and_then(|at| BROWSERS.get(at)) else {
        return Err(format!("unknown browser name \"{name}\""));
    };
    let version = version(text).ok_or_else(|| format!("invalid browser version \"{text}\""))?;
    let before = conf.modern.take().unwrap_or_default();
    let mut all: Vec<_> = before
        .iter()
        .copied()
        .chain([(*browser, version)])
        .collect();
    all.sort_by_key(|(one, _)| BROWSERS.iter().position(|known| known == one));
    conf.modern = Some(all.into());
    Ok(())
}

/// Returns a version of up to four parts as a number.
fn version(text: &str) -> Option<u64> {
    let is_version = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_version.then(|| scan_version(text.as_bytes(), u64::MAX))
}

/// Reads a version; stops where it is as high as wanted.
pub fn scan_version(text: &[u8], wanted: u64) -> u64 {
    let (mut version, mut part, mut scale) = (0_u64, 0_u64, 1_000_000_u64);
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                part = part
                    .saturating_mul(10)
                    .saturating_add(u64::from(byte - b'0'))
            }
            b'.' => {
                version = version.saturating_add(part.saturating_mul(scale));
                if version >= wanted {
                    return version;
                }
                (part, scale) = (0, scale / 100);
            }
            _ => break,
        }
    }
    version.saturating_add(part.saturating_mul(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("5.5"), Some(5_050_000));
        assert_eq!(version("1.0.2.3"), Some(1_000_203));
        assert_eq!(version("7"), Some(7_000_000));
        assert_eq!(version("7a"), None);
        assert_eq!(scan_version(b"6.0; Windows", 5_000_000), 6_000_000);
        assert!(scan_version(&[b'9'; 200], u64::MAX) > 0);
    }
}
