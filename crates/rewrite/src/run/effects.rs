//! Side effects of rules: environment, cookies, types, and handlers.

use super::{Run, Shown, test::push_new};
use crate::{Cookie, rule::Rule};
use saker_ap_expr::{Facts, number};
use saker_http::date::format_date;

/// Variables that page caches listen to.
const CONTROL: &[u8] = b"Cache-Control";
const VARY_VALUE: &[u8] = b"LSCACHE_VARY_VALUE";
/// Before a value of [`CONTROL`] that is none of its list.
const VARY: &[u8] = b"vary=";

impl Run<'_> {
    /// `[E=…]`
    pub(super) fn set_environment(&mut self, rule: &Rule) {
        for template in &rule.flags.environment {
            let text = self.expand(template);
            let (name, value) = match text.strip_prefix(b"!") {
                Some(name) => (name.to_vec(), None),
                None => {
                    let (name, value) = split_at(&text, b':');
                    (name.to_vec(), Some(value.to_vec()))
                }
            };
            self.trace(5, false, |_| match &value {
                Some(value) => format!(
                    "setting env variable '{}' to '{}'",
                    Shown(&name),
                    Shown(value)
                ),
                None => format!("unsetting env variable '{}'", Shown(&name)),
            });
            match (to_cache(&name), value) {
                (Some(spelling), Some(value)) => self.tell_cache(spelling, &value),
                (Some(spelling), None) => self.put(spelling.to_vec(), None),
                (None, value) => self.put(name, value),
            }
        }
    }

    /// Adds a cache directive. Directives accumulate, except the vary value, which replaces the
    /// previous one and can be read by the next rule (LSCache protocol 3.2).
    fn tell_cache(&mut self, spelling: &[u8], value: &[u8]) {
        let value = value.trim_ascii();
        if let Some((word, vary)) = value.split_at_checked(VARY.len())
            && word.eq_ignore_ascii_case(VARY)
            && spelling == CONTROL
        {
            return self.put(VARY_VALUE.to_vec(), Some(each_once(vary.trim_ascii())));
        }
        let said = self
            .overlay()
            .environment(spelling)
            .unwrap_or_default()
            .into_owned();
        let said = match () {
            () if said.is_empty() => value.to_vec(),
            // A loop, or the same rules in the folder below.
            () if said == value
                || said
                    .strip_suffix(value)
                    .is_some_and(|before| before.ends_with(b",")) =>
            {
                said
            }
            () => [&said, &b","[..], value].concat(),
        };
        self.spend(said.len());
        self.put(spelling.to_vec(), Some(said));
    }

    /// Loops must not make the list grow.
    fn put(&mut self, name: Vec<u8>, value: Option<Vec<u8>>) {
        self.effects
            .environment
            .retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.effects.environment.push((name, value));
    }

    /// `[CO=…]`
    pub(super) fn set_cookies(&mut self, rule: &Rule) {
        for template in &rule.flags.cookies {
            let text = self.expand(template);
            let Some(cookie) = cookie(&text, self.input.request_time_s) else {
                continue;
            };
            if self
                .effects
                .cookies
                .iter()
                .any(|known| known.name == cookie.name)
            {
                self.trace(5, false, |_| {
                    format!("skipping already set cookie '{}'", Shown(&cookie.name))
                });
                continue;
            }
            self.trace(5, false, |_| {
                format!("setting cookie '{}'", Shown(&cookie.field_value))
            });
            self.effects.cookies.push(cookie);
        }
    }

    /// `[T=…]` and `[H=…]`
    pub(super) fn force_type_and_handler(&mut self, rule: &Rule) {
        if let Some(template) = &rule.flags.mime_type {
            let kind = self.expand_for(template, &rule.flags).to_ascii_lowercase();
            if !kind.is_empty() {
                self.trace(2, true, |run| {
                    format!(
                        "remember {} to have MIME-type '{}'",
                        Shown(&run.filename),
                        Shown(&kind)
                    )
                });
                self.effects.forced_type = Some(kind);
            }
        }
        if let Some(template) = &rule.flags.handler {
            let handler = self.expand_for(template, &rule.flags).to_ascii_lowercase();
            if !handler.is_empty() {
                self.trace(2, true, |run| {
                    format!(
                        "remember {} to have Content-handler '{}'",
                        Shown(&run.filename),
                        Shown(&handler)
                    )
                });
                self.effects.forced_handler = Some(handler);
            }
        }
    }

    /// The rule matched: what its conditions looked at goes into Vary.
    pub(super) fn keep_vary(&mut self) {
        for name in std::mem::take(&mut self.vary) {
            push_new(&mut self.effects.vary, &name);
        }
    }
}

/// `name:value:domain[:minutes[:path[:secure[:httponly[:samesite]]]]]`, or with `;` between if it
/// begins with one. Empty fields don't count.
fn cookie(text: &[u8], now_s: i64) -> Option<Cookie> {
    let (separator, text) = match text.strip_prefix(b";") {
        Some(rest) => (b';', rest),
        None => (b':', text),
    };
    let mut fields = text
        .split(|byte| *byte == separator)
        .filter(|field| !field.is_empty());
    let (name, value, domain) = (fields.next()?, fields.next()?, fields.next()?);
    let (minutes, path) = (fields.next(), fields.next());
    let (secure, http_only, same_site) = (fields.next(), fields.next(), fields.next());
    let mut out = [
        name,
        b"=",
        value,
        b"; path=",
        path.unwrap_or(b"/"),
        b"; domain=",
        domain,
    ]
    .concat();
    if let Some(minutes) = minutes.map(number).filter(|minutes| *minutes != 0) {
        out.extend_from_slice(b"; expires=");
        out.extend_from_slice(&expires(now_s.saturating_add(minutes.saturating_mul(60))));
    }
    if secure.is_some_and(|word| is_yes(word, b"secure")) {
        out.extend_from_slice(b"; secure");
    }
    if http_only.is_some_and(|word| is_yes(word, b"HttpOnly")) {
        out.extend_from_slice(b"; HttpOnly");
    }
    if let Some(word) =
        same_site.filter(|word| *word != b"0" && !word.eq_ignore_ascii_case(b"false"))
    {
        out.extend_from_slice(b"; SameSite=");
        out.extend_from_slice(word);
    }
    Some(Cookie {
        name: name.to_vec(),
        field_value: out,
    })
}

fn is_yes(word: &[u8], name: &[u8]) -> bool {
    word == b"1" || word.eq_ignore_ascii_case(b"true") || word.eq_ignore_ascii_case(name)
}

/// `Wdy, DD-Mon-YYYY HH:MM:SS GMT`, as cookies have had it since Netscape.
fn expires(unix_s: i64) -> Vec<u8> {
    let mut date = format_date(unix_s.clamp(0, 253_402_300_799)).to_vec();
    for at in [7, 11] {
        if let Some(space) = date.get_mut(at) {
            *space = b'-';
        }
    }
    date
}

/// The one spelling of a variable that adds up.
fn to_cache(name: &[u8]) -> Option<&'static [u8]> {
    let spellings: [(&str, &'static [u8]); 4] = [
        ("Cache-Control", CONTROL),
        ("Cache-Ctrl", CONTROL),
        ("Cache-Vary", b"Cache-Vary"),
        ("Cache-Key-Mod", b"Cache-Key-Mod"),
    ];
    spellings
        .iter()
        .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
        .map(|(_, spelling)| *spelling)
}

/// Parts of a vary value: the rules that add one to those before run again for a folder's index,
/// and behind an internal redirect.
fn each_once(vary: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in vary.split(|byte| *byte == b'+') {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(&b'+')
}

/// Splits at the first `sign`.
fn split_at(text: &[u8], sign: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == sign) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies() {
        let cases = [
            ("a:b", None),
            ("a:b:.ex.org", Some("a=b; path=/; domain=.ex.org")),
            (";a;b:c;.ex.org", Some("a=b:c; path=/; domain=.ex.org")),
            ("a:b:d:0", Some("a=b; path=/; domain=d")),
            (
                "a:b:d:1440:/p",
                Some("a=b; path=/p; domain=d; expires=Fri, 02-Jan-1970 00:00:00 GMT"),
            ),
            (
                "a:b:d:0:/:secure:httponly:Lax",
                Some("a=b; path=/; domain=d; secure; HttpOnly; SameSite=Lax"),
            ),
            (
                "a:b:d:0:/:1:true:false",
                Some("a=b; path=/; domain=d; secure; HttpOnly"),
            ),
            ("a:b:d:0:/:no:0:0", Some("a=b; path=/; domain=d")),
        ];
        for (text, field) in cases {
            let made = cookie(text.as_bytes(), 0)
                .map(|cookie| String::from_utf8_lossy(&cookie.field_value).into_owned());
            assert_eq!(made.as_deref(), field, "{text}");
        }
    }
}
