//! Values of `$modern_browser`, `$ancient_browser`, and `$msie`.
//!
//! Called by: `builtin`.
//! Caveat: what a User-Agent says may be wrong.

use crate::request::Request;
use saker_nginx_model::{
    modules::browser::{BrowserConf, scan_version},
    variables::Builtin,
};
use std::sync::Arc;

impl Request<'_> {
    /// Returns the value of a variable about the client's browser.
    pub fn browser(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        let agent = self.field("user-agent");
        if builtin == Builtin::Msie {
            let agent = agent?;
            let at = find(&agent, b"MSIE ")?;
            let is_version = agent.get(at + 5).is_some_and(u8::is_ascii_digit);
            return (is_version && find(&agent, b"Opera").is_none()).then(|| b"1".to_vec());
        }
        let location = Arc::clone(&self.state.location);
        let conf = &location.conf.browser;
        let is_modern = is_modern(conf, agent.as_deref());
        let (wanted, value) = match builtin {
            Builtin::ModernBrowser => (true, &conf.modern_value),
            _ => (false, &conf.ancient_value),
        };
        (is_modern == wanted).then(|| match value {
            Some(text) => text.as_bytes().to_vec(),
            None => b"1".to_vec(),
        })
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

fn is_modern(conf: &BrowserConf, agent: Option<&[u8]>) -> bool {
    let takes_unlisted = conf.takes_unlisted == Some(true);
    let Some(agent) = agent else {
        return takes_unlisted;
    };
    for (browser, wanted) in conf.modern.as_deref().unwrap_or_default() {
        let Some(rest) = agent.get(browser.skipped..).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let Some(at) = find(rest, browser.mark.as_bytes()) else {
            continue;
        };
        let version = rest.get(at + browser.mark_bytes..).unwrap_or_default();
        return scan_version(version, *wanted) >= *wanted;
    }
    let version = agent
        .strip_prefix(b"Mozilla/")
        .and_then(|rest| rest.first());
    let is_netscape = agent.len() > b"Mozilla/1.72 ".len()
        && version.is_some_and(|version| (b'1'..=b'4').contains(version));
    if conf.knows_netscape == Some(true) && is_netscape {
        return false;
    }
    let ancient = conf.ancient.as_deref().unwrap_or_default();
    let is_ancient = ancient
        .iter()
        .any(|part| find(agent, part.as_bytes()).is_some());
    takes_unlisted && !is_ancient
}
