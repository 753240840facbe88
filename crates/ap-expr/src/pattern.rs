//! Regular expressions: PCRE2 with the JIT, over bytes, with httpd's defaults
//! (`RegexDefaultOptions`: DOTALL, DOLLAR_ENDONLY).
//!
//! Called by: every directive that takes a pattern, when the configuration is read.
//! Caveat: no pattern may hang a worker, whatever the subject. The limits are part of the pattern's
//! text (`(*LIMIT_MATCH=…)`), which both the JIT and the interpreter obey and which the pattern's
//! author can lower but not raise. The JIT has a small stack; on overflow the interpreter matches
//! again, with limited memory, too. The defaults for compiling are a setting of the thread
//! (`RegexDefaultOptions`), because patterns are compiled in many places of a configuration, and
//! each uses the directives above it.
//! Out of scope: UTF mode (httpd matches bytes; a pattern may enable it with `(*UTF)`).

mod dollar;
#[cfg(test)]
mod tests;
mod weight;

use pcre2::bytes::{Regex, RegexBuilder};
use std::{
    borrow::Cow,
    cell::Cell,
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
};

/// `$0` to `$9`.
pub const SPANS: usize = 10;

/// Calls of the matcher's inner function, for one subject.
const MATCH_LIMIT: u32 = 2_500_000;
/// Nested backtracking points of the interpreter.
const DEPTH_LIMIT: u32 = 50_000;
/// Memory limit of the interpreter.
const HEAP_LIMIT_KIB: u32 = 8 * 1024;
/// PCRE2_ERROR_JIT_STACKLIMIT.
const JIT_STACK_LIMIT: i32 = -46;
const UNSET: u32 = u32::MAX;

/// Weight of all patterns of one `.htaccess` file: some 16,000 short ones, or a few that repeat
/// themselves a thousand times.
pub const PATTERNS_WEIGHT_MAX: u64 = 1 << 20;

thread_local! {
    static DEFAULTS: Cell<PatternOptions> = const { Cell::new(PatternOptions::HTTPD) };
    /// Remaining weight budget for patterns, if limited.
    static WEIGHT_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Patterns that the thread compiles are bounded together while this is there.
#[must_use]
pub struct PatternsBounded {
    before: Option<u64>,
}

impl PatternsBounded {
    pub fn to(weight: u64) -> PatternsBounded {
        PatternsBounded {
            before: WEIGHT_LEFT.replace(Some(weight)),
        }
    }

    /// True if there were more than there may be.
    pub fn is_exhausted(&self) -> bool {
        WEIGHT_LEFT.get() == Some(0)
    }

    /// Charges a pattern to the remaining budget.
    fn take(text: &str) -> Result<(), PatternError> {
        let Some(left) = WEIGHT_LEFT.get() else {
            return Ok(());
        };
        let left = left.checked_sub(weight::weight(text));
        WEIGHT_LEFT.set(Some(left.unwrap_or(0)));
        left.map(drop).ok_or_else(|| PatternError {
            message: "the patterns of this file are too large together".to_owned(),
        })
    }
}

impl Drop for PatternsBounded {
    fn drop(&mut self) {
        WEIGHT_LEFT.set(self.before);
    }
}

/// Pattern options. The default is the thread's, which is httpd's unless configured otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternOptions {
    /// Flag `i`.
    pub caseless: bool,
    /// Flag `m`: `^` and `$` at lines.
    pub multiline: bool,
    /// `.` matches a newline too.
    pub dotall: bool,
    /// `$` means the very end, not also the place before a last newline.
    pub dollar_endonly: bool,
    /// White space and `#` comments in the pattern mean nothing.
    pub extended: bool,
}

impl Default for PatternOptions {
    fn default() -> Self {
        DEFAULTS.get()
    }
}

impl PatternOptions {
    pub const HTTPD: PatternOptions = PatternOptions {
        caseless: false,
        multiline: false,
        dotall: true,
        dollar_endonly: true,
        extended: false,
    };

    /// The defaults, and case of no matter if `caseless`.
    pub fn caseless(caseless: bool) -> Self {
        let defaults = Self::default();
        PatternOptions {
            caseless: caseless || defaults.caseless,
            ..defaults
        }
    }

    /// Makes them the thread's defaults until the returned guard is dropped.
    pub fn in_force(self) -> DefaultsInForce {
        DefaultsInForce {
            before: DEFAULTS.replace(self),
        }
    }

    /// Makes them the thread's defaults, within the reach of an [`PatternOptions::in_force`].
    pub fn set_default(self) {
        DEFAULTS.set(self);
    }

    /// RegexDefaultOptions (httpd 2.4, core): `none`, and names with `+`, `-`, or alone, which
    /// forgets all others.
    pub fn changed_by(mut self, text: &str) -> Result<PatternOptions, String> {
        const NONE: PatternOptions = PatternOptions {
            caseless: false,
            multiline: false,
            dotall: false,
            dollar_endonly: false,
            extended: false,
        };
        for word in text.split_ascii_whitespace() {
            if word.eq_ignore_ascii_case("none") {
                self = NONE;
                continue;
            }
            let name = word.strip_prefix(['+', '-']).unwrap_or(word);
            if name.len() == word.len() {
                self = NONE;
            }
            let option = match name.to_ascii_uppercase().as_str() {
                "ICASE" => &mut self.caseless,
                "EXTENDED" => &mut self.extended,
                "DOTALL" => &mut self.dotall,
                "DOLLAR_ENDONLY" => &mut self.dollar_endonly,
                _ => return Err(format!("RegexDefaultOptions: option '{name}' unknown")),
            };
            *option = !word.starts_with('-');
        }
        Ok(self)
    }
}

/// The thread's defaults are others while this is there.
#[must_use]
pub struct DefaultsInForce {
    before: PatternOptions,
}

impl Drop for DefaultsInForce {
    fn drop(&mut self) {
        DEFAULTS.set(self.before);
    }
}

/// A compiled pattern. Clones share it.
#[derive(Clone)]
pub struct Pattern {
    inner: Arc<Compiled>,
}

struct Compiled {
    text: Box<[u8]>,
    compiled: Regex,
    /// Without the JIT; made when the JIT's stack was too small.
    interpreted: OnceLock<Option<Regex>>,
    options: PatternOptions,
}

/// Names of environment variables, and where in the subject their values are.
pub type NamedCaptures = Vec<(String, Range<usize>)>;

/// Error in a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    pub message: String,
}

/// The match was given up: it would have taken too long, or too much memory. That is not "no match":
/// a client that sends a long text would get past a rule that denies. The request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached;

/// Positions of the match and its groups 1 to 9.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Spans([(u32, u32); SPANS]);

impl Pattern {
    pub fn compile(
        text: impl AsRef<[u8]>,
        options: PatternOptions,
    ) -> Result<Pattern, PatternError> {
        let text = text.as_ref();
        PatternsBounded::take(&as_text(text))?;
        let compiled = build(text, options, true)?;
        let inner = Compiled {
            text: text.into(),
            compiled,
            interpreted: OnceLock::new(),
            options,
        };
        Ok(Pattern {
            inner: Arc::new(inner),
        })
    }

    /// Returns what tells the pattern from every other one that exists at the same time.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    /// The pattern as written.
    pub fn text(&self) -> &[u8] {
        &self.inner.text
    }

    pub fn options(&self) -> PatternOptions {
        self.inner.options
    }

    /// Capturing groups, without the match itself.
    pub fn groups(&self) -> usize {
        self.inner.compiled.captures_len().saturating_sub(1)
    }

    /// Named groups with their numbers.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.inner
            .compiled
            .capture_names()
            .iter()
            .enumerate()
            .filter_map(|(number, name)| Some((number, name.as_deref()?)))
    }

    pub fn is_match(&self, subject: &[u8]) -> Result<bool, LimitReached> {
        match self.inner.compiled.is_match(subject) {
            Ok(found) => Ok(found),
            Err(error) if error.code() == JIT_STACK_LIMIT => self
                .interpreted()?
                .is_match(subject)
                .map_err(|_| LimitReached),
            Err(_) => Err(LimitReached),
        }
    }

    /// The first match with its groups.
    pub fn captures(&self, subject: &[u8]) -> Result<Option<Spans>, LimitReached> {
        // Most patterns don't match most subjects, and asking whether allocates nothing.
        if self.groups() > 0 && !self.is_match(subject)? {
            return Ok(None);
        }
        self.captures_at(subject, 0)
    }

    /// The first match that starts at `start` or after.
    pub fn captures_at(&self, subject: &[u8], start: usize) -> Result<Option<Spans>, LimitReached> {
        if start > subject.len() || u32::try_from(subject.len()).is_err() {
            return Ok(None);
        }
        match spans(&self.inner.compiled, subject, start) {
            Err(error) if error.code() == JIT_STACK_LIMIT => {
                spans(self.interpreted()?, subject, start).map_err(|_| LimitReached)
            }
            outcome => outcome.map_err(|_| LimitReached),
        }
    }

    /// The text of any group, also of one behind those that [`Spans`] has room for, of a match that
    /// was found before. `None`: the group took no part.
    pub fn group_text<'s>(
        &self,
        group: usize,
        subject: &'s [u8],
        spans: &Spans,
    ) -> Result<Option<&'s [u8]>, LimitReached> {
        if group < SPANS {
            return Ok(spans.get(group).and_then(|range| subject.get(range)));
        }
        let read = |regex: &Regex| -> Result<Option<&'s [u8]>, pcre2::Error> {
            let mut locations = regex.capture_locations();
            let found = regex.captures_read(&mut locations, subject)?;
            let range = found.and_then(|_| locations.get(group));
            Ok(range.and_then(|(start, end)| subject.get(start..end)))
        };
        match read(&self.inner.compiled) {
            Err(error) if error.code() == JIT_STACK_LIMIT => {
                read(self.interpreted()?).map_err(|_| LimitReached)
            }
            outcome => outcome.map_err(|_| LimitReached),
        }
    }

    /// Names (`MATCH_` and the group's name in capitals, as LocationMatch and DirectoryMatch set
    /// them) and where they matched.
    pub fn named_captures(&self, subject: &[u8]) -> Result<Option<NamedCaptures>, LimitReached> {
        if !self.is_match(subject)? {
            return Ok(None);
        }
        let mut locations = self.inner.compiled.capture_locations();
        if self
            .inner
            .compiled
            .captures_read(&mut locations, subject)
            .is_err()
        {
            let regex = self.interpreted()?;
            locations = regex.capture_locations();
            regex
                .captures_read(&mut locations, subject)
                .map_err(|_| LimitReached)?;
        }
        let named = self.names().map(|(number, name)| {
            let (start, end) = locations.get(number).unwrap_or((0, 0));
            (format!("MATCH_{}", name.to_ascii_uppercase()), start..end)
        });
        Ok(Some(named.collect()))
    }

    fn interpreted(&self) -> Result<&Regex, LimitReached> {
        let made = self
            .inner
            .interpreted
            .get_or_init(|| build(&self.inner.text, self.inner.options, false).ok());
        made.as_ref().ok_or(LimitReached)
    }
}

impl Spans {
    pub const NONE: Spans = Spans([(UNSET, UNSET); SPANS]);

    /// `None` for groups that there aren't, and those that took no part.
    pub fn get(&self, group: usize) -> Option<Range<usize>> {
        let (start, end) = *self.0.get(group)?;
        (start != UNSET).then_some(start as usize..end as usize)
    }

    /// Returns the text matched by the group; empty if the group didn't participate.
    pub fn text<'s>(&self, group: usize, subject: &'s [u8]) -> &'s [u8] {
        self.get(group)
            .and_then(|range| subject.get(range))
            .unwrap_or_default()
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries((0..SPANS).map_while(|group| self.get(group)))
            .finish()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pattern({:?})",
            String::from_utf8_lossy(&self.inner.text)
        )
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PatternError {}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pattern took too many steps, or too much memory, for this subject")
    }
}

impl std::error::Error for LimitReached {}

fn build(text: &[u8], options: PatternOptions, jit: bool) -> Result<Regex, PatternError> {
    let text = as_text(text);
    if text.contains('\0') {
        return Err(PatternError {
            message: "the pattern holds a NUL".to_owned(),
        });
    }
    let text = if options.dollar_endonly && !options.multiline {
        dollar::absolute(&text)
    } else {
        text
    };
    let (verbs, rest) = text.split_at(leading_verbs(&text));
    // httpd compiles with DUPNAMES, for which the inline option is `(?J)`.
    let names = if rest.contains("(?") { "(?J)" } else { "" };
    let limited = format!(
        "(*LIMIT_MATCH={MATCH_LIMIT})(*LIMIT_DEPTH={DEPTH_LIMIT})(*LIMIT_HEAP={HEAP_LIMIT_KIB}){verbs}{names}{rest}"
    );
    let mut builder = RegexBuilder::new();
    builder
        .caseless(options.caseless)
        .multi_line(options.multiline)
        .dotall(options.dotall)
        .extended(options.extended);
    builder.jit_if_available(jit);
    builder.build(&limited).map_err(|error| PatternError {
        message: without_offset(&error.to_string()),
    })
}

/// PCRE2's binding wants text. Bytes that are none are written as `\xHH`, which matches the same.
fn as_text(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text {
        match byte {
            0x80.. => out.push_str(&format!("\\x{byte:02x}")),
            byte => out.push(char::from(*byte)),
        }
    }
    Cow::Owned(out)
}

/// Length of the `(*VERB)`s at the start, which count only there.
fn leading_verbs(text: &str) -> usize {
    let mut at = 0;
    while text[at..].starts_with("(*")
        && text[at + 2..].starts_with(|c: char| c.is_ascii_uppercase())
    {
        match text[at..].find(')') {
            Some(end) => at += end + 1,
            None => break,
        }
    }
    at
}

/// The offset would count our own limits too.
fn without_offset(message: &str) -> String {
    let tail = message
        .split_once("offset ")
        .and_then(|(_, rest)| rest.split_once(": "));
    tail.map_or(message, |(_, what)| what).to_owned()
}

fn spans(regex: &Regex, subject: &[u8], start: usize) -> Result<Option<Spans>, pcre2::Error> {
    if regex.captures_len() <= 1 {
        let found = regex.find_at(subject, start)?;
        return Ok(found.map(|found| {
            let mut spans = Spans::NONE;
            spans.0[0] = (found.start() as u32, found.end() as u32);
            spans
        }));
    }
    let mut locations = regex.capture_locations();
    if regex
        .captures_read_at(&mut locations, subject, start)?
        .is_none()
    {
        return Ok(None);
    }
    let mut spans = Spans::NONE;
    for (group, span) in spans.0.iter_mut().enumerate().take(locations.len()) {
        if let Some((start, end)) = locations.get(group) {
            *span = (start as u32, end as u32);
        }
    }
    Ok(Some(spans))
}
