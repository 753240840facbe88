//! Facts of a request that expressions and variables use (ESI 1.0 section 4.1).

use saker_http::{cookies::cookies, query};
use std::iter;

/// Fields of the request, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub host: Vec<u8>,
    /// All Cookie lines.
    pub cookie: Vec<u8>,
    pub accept_language: Vec<u8>,
    pub referer: Vec<u8>,
    pub user_agent: Vec<u8>,
    /// Without its question mark.
    pub query: Vec<u8>,
}

impl Facts {
    /// The value of a variable; `None` if there is none.
    pub(crate) fn value(&self, name: &[u8], key: Option<&[u8]>) -> Option<Vec<u8>> {
        match (name, key) {
            (b"HTTP_HOST", _) => Some(self.host.clone()),
            (b"HTTP_REFERER", _) => Some(self.referer.clone()),
            (b"HTTP_COOKIE", None) => Some(self.cookie.clone()),
            (b"HTTP_COOKIE", Some(name)) => cookie(&self.cookie, name),
            (b"HTTP_ACCEPT_LANGUAGE", None) => Some(self.accept_language.clone()),
            (b"HTTP_ACCEPT_LANGUAGE", Some(language)) => Some(truth(self.accepts(language))),
            (b"HTTP_USER_AGENT", None) => Some(self.user_agent.clone()),
            (b"HTTP_USER_AGENT", Some(what)) => self.agent(what).map(|text| text.to_vec()),
            (b"QUERY_STRING", None) => Some(self.query.clone()),
            (b"QUERY_STRING", Some(name)) => {
                query::value(&self.query, name).map(|value| query::form_decoded(value).into_owned())
            }
            _ => None,
        }
    }

    fn accepts(&self, language: &[u8]) -> bool {
        let ranges = self.accept_language.split(|byte| *byte == b',');
        ranges
            .filter_map(|range| range.split(|byte| *byte == b';').next())
            .any(|tag| tag.trim_ascii().eq_ignore_ascii_case(language))
    }

    fn agent(&self, what: &[u8]) -> Option<&[u8]> {
        let has = |words: &[&str]| {
            words
                .iter()
                .any(|word| memchr::memmem::find(&self.user_agent, word.as_bytes()).is_some())
        };
        match what {
            b"browser" if has(&["MSIE", "Trident/"]) => Some(b"MSIE"),
            b"browser" if has(&["Mozilla"]) => Some(b"MOZILLA"),
            b"browser" => Some(b"OTHER"),
            b"os" if has(&["Windows"]) => Some(b"WIN"),
            b"os" if has(&["Mac"]) => Some(b"MAC"),
            b"os" if has(&["Linux", "X11", "Unix", "BSD"]) => Some(b"UNIX"),
            b"os" => Some(b"OTHER"),
            b"version" => self.version(),
            _ => None,
        }
    }

    /// The first number behind a name: `Mozilla/5.0`.
    fn version(&self) -> Option<&[u8]> {
        let at = match memchr::memmem::find(&self.user_agent, b"MSIE ") {
            Some(at) => at + 5,
            None => memchr::memchr(b'/', &self.user_agent)? + 1,
        };
        let rest = self.user_agent.get(at..)?;
        let end = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit() && *byte != b'.')
            .unwrap_or(rest.len());
        Some(&rest[..end])
    }
}

fn truth(is_so: bool) -> Vec<u8> {
    if is_so {
        b"true".to_vec()
    } else {
        b"false".to_vec()
    }
}

fn cookie(field: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    cookies(iter::once(field))
        .filter(|cookie| cookie.name == name)
        .find_map(|cookie| cookie.value)
        .map(<[u8]>::to_vec)
}
