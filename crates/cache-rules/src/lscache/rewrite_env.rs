//! Cache control by rewrite rules with `[E=name:value]` (LSCache protocol 3.2).
//!
//! Called by: the page cache, once after the last rule.
//! Caveat: `Cache-Control` is two things, a control list that adds up and a vary value that
//! replaces; and an internal redirect prefixes earlier variables with `REDIRECT_`.
//! Out of scope: the variables themselves, which stay visible to later rules and the application.

use super::{
    control::Control,
    query::{KeyEdits, UnknownEdit},
    tags::strip_prefix,
    vary::VaryRules,
};

/// Everything that rules have set for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteEnv {
    /// Control lists in order, with commas between them.
    control: Vec<u8>,
    pub vary: VaryRules,
    pub edits: KeyEdits,
    /// `modcache=0`: the cache ignores this request.
    pub off: bool,
    /// `noabort=1`: the backend continues when the client leaves.
    pub no_abort: bool,
}

impl RewriteEnv {
    /// Starts from the key edits of the configuration.
    pub fn new(edits: KeyEdits) -> RewriteEnv {
        RewriteEnv {
            edits,
            ..RewriteEnv::default()
        }
    }

    /// True if the cache reads a variable of that name.
    pub fn is_ours(name: &[u8]) -> bool {
        [
            &b"cache-control"[..],
            b"cache-ctrl",
            b"cache-vary",
            b"cache-key-mod",
            b"modcache",
            b"noabort",
            b"lscache_vary_value",
        ]
        .iter()
        .any(|ours| ours.eq_ignore_ascii_case(name))
    }

    /// Reads a request's variables: those set before an internal redirect first.
    pub fn take_in<'v>(&mut self, variables: impl Iterator<Item = (&'v [u8], &'v [u8])>) {
        let mut ours: Vec<_> = variables
            .map(|(name, value)| {
                let (redirects, name) = before_redirects(name);
                (redirects, name, value)
            })
            .filter(|(_, name, _)| RewriteEnv::is_ours(name))
            .collect();
        ours.sort_by_key(|(redirects, _, _)| std::cmp::Reverse(*redirects));
        for (_, name, value) in ours {
            // An invalid word changes nothing.
            let _ = self.set(name, value);
        }
    }

    /// Applies a variable, in the order in which rules set them; ignores others than
    /// [`RewriteEnv::is_ours`].
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), UnknownEdit> {
        match name.to_ascii_lowercase().as_slice() {
            b"cache-control" | b"cache-ctrl" => self.add_control(value),
            b"lscache_vary_value" => self.set_vary(value),
            b"cache-vary" => self.vary.add_cookies(value),
            b"cache-key-mod" => return self.edits.add(value),
            b"modcache" => self.off = value.trim_ascii() == b"0",
            b"noabort" => self.no_abort = value.trim_ascii() == b"1",
            _ => {}
        }
        Ok(())
    }

    /// Applies what was collected to a control.
    pub fn apply_to(&self, control: &mut Control) {
        control.apply(&self.control);
    }

    fn add_control(&mut self, value: &[u8]) {
        if let Some(vary) = strip_prefix(value.trim_ascii(), b"vary=") {
            return self.set_vary(vary);
        }
        if !self.control.is_empty() {
            self.control.push(b',');
        }
        self.control.extend_from_slice(value);
    }

    fn set_vary(&mut self, value: &[u8]) {
        self.vary.value = Some(value.trim_ascii().to_vec()).filter(|vary| !vary.is_empty());
    }
}

/// The number of redirects since a variable was set, and its original name.
fn before_redirects(mut name: &[u8]) -> (usize, &[u8]) {
    let mut redirects = 0;
    while let Some(inner) = name.strip_prefix(b"REDIRECT_") {
        (redirects, name) = (redirects + 1, inner);
    }
    (redirects, name)
}
