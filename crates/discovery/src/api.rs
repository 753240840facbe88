//! Requests to the API of a source: JSON documents, and streams of lines.
//!
//! Called by: `consul`, `kubernetes`, `docker`.
//! Caveat: the API is not trusted: documents, lines, and times are bounded, redirects are errors, and
//! requests have a pause between them, however fast the answers come.

use saker_config::model::Discovery;
use saker_gateway::{OwnAnswer, ask_member};
use serde_json::Value;
use std::{cell::Cell, fmt::Write as _, path::Path, time::Duration};
use tokio::{
    fs,
    io::AsyncReadExt as _,
    time::{Instant, sleep_until, timeout},
};

/// Bytes of a document.
pub const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// Entries of a list, before they are looked at.
pub const ENTRIES_MAX: usize = 10_000;
/// Bytes of a line.
pub const LINE_BYTES_MAX: usize = 4 << 20;
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Shortest time between the beginnings of two requests.
const PACE: Duration = Duration::from_millis(250);
/// Time for an answer beyond that for which the source may wait on purpose.
pub const ANSWER_TIME: Duration = Duration::from_secs(15);

/// Form of a token in a request.
#[derive(Clone, Copy, Debug)]
pub enum TokenField {
    Consul,
    Bearer,
}

/// The API of one source.
pub struct Api<'d> {
    discovery: &'d Discovery,
    token: TokenField,
    asked: Cell<Option<Instant>>,
}

/// An answer, with a document.
pub struct Document {
    pub status: u16,
    pub index: Option<u64>,
    pub value: Value,
}

impl<'d> Api<'d> {
    pub fn new(discovery: &'d Discovery, token: TokenField) -> Api<'d> {
        Api {
            discovery,
            token,
            asked: Cell::new(None),
        }
    }

    /// Longest time for which a watch may be open.
    pub fn refresh(&self) -> Duration {
        Duration::from_millis(self.discovery.terms.refresh_ms)
    }

    async fn ask(&self, target: &str, wait: Duration) -> Result<OwnAnswer, String> {
        if let Some(asked) = self.asked.get() {
            sleep_until(asked + PACE).await;
        }
        self.asked.set(Some(Instant::now()));
        let member = self.discovery.api.as_ref().ok_or("no API")?;
        let token = match &self.discovery.terms.token_file {
            Some(file) => Some(token(file).await?),
            None => None,
        };
        let mut fields = vec![
            ("User-Agent", "Saker (discovery)"),
            ("Accept", "application/json"),
        ];
        let bearer;
        match (self.token, &token) {
            (_, None) => {}
            (TokenField::Consul, Some(token)) => fields.push(("X-Consul-Token", token)),
            (TokenField::Bearer, Some(token)) => {
                bearer = format!("Bearer {token}");
                fields.push(("Authorization", &bearer));
            }
        }
        ask_member(member, target, &fields, wait + ANSWER_TIME).await
    }

    /// Fetches a document. `wait`: the time for which the source may wait on purpose. The document of
    /// a status other than 200 is null.
    ///
    /// # Errors
    /// The reason why there is none.
    pub async fn document(&self, target: &str, wait: Duration) -> Result<Document, String> {
        match timeout((wait + ANSWER_TIME) * 2, self.whole(target, wait)).await {
            Ok(document) => document,
            Err(_) => Err("the answer is too slow".to_owned()),
        }
    }

    async fn whole(&self, target: &str, wait: Duration) -> Result<Document, String> {
        let mut answer = self.ask(target, wait).await?;
        let status = answer.status;
        let index = answer.field("x-consul-index");
        let index = index.and_then(|index| index.trim().parse().ok());
        let mut content = Vec::new();
        if status == 200 {
            while let Some(piece) = answer.next(ANSWER_TIME).await? {
                if content.len() + piece.len() > DOCUMENT_BYTES_MAX {
                    let limit = DOCUMENT_BYTES_MAX >> 20;
                    return Err(format!("the answer is longer than {limit} MiB"));
                }
                content.extend_from_slice(piece.bytes());
            }
        }
        let value = match status {
            200 => serde_json::from_slice(&content)
                .map_err(|error| format!("the answer is not JSON: {error}"))?,
            _ => Value::Null,
        };
        Ok(Document {
            status,
            index,
            value,
        })
    }

    /// Opens a stream of lines.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn lines(&self, target: &str) -> Result<Lines, String> {
        let answer = self.ask(target, Duration::ZERO).await?;
        Ok(Lines {
            status: answer.status,
            answer,
            buffer: Vec::new(),
            scanned: 0,
        })
    }
}

/// An answer that is read line by line.
pub struct Lines {
    pub status: u16,
    answer: OwnAnswer,
    buffer: Vec<u8>,
    /// Bytes at the beginning of `buffer` without a line end.
    scanned: usize,
}

impl Lines {
    /// The next line; `None`: the stream has ended. May be called again after it was dropped while
    /// it waited.
    ///
    /// # Errors
    /// The stream was cut off, or a line is too long.
    pub async fn next(&mut self, silence_max: Duration) -> Result<Option<Vec<u8>>, String> {
        loop {
            let rest = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let after = self.buffer.split_off(self.scanned + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, after);
                self.scanned = 0;
                line.pop();
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LINE_BYTES_MAX {
                let limit = LINE_BYTES_MAX >> 20;
                return Err(format!("a line of the answer is longer than {limit} MiB"));
            }
            match self.answer.next(silence_max).await? {
                Some(piece) => self.buffer.extend_from_slice(piece.bytes()),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    self.scanned = 0;
                    return Ok(Some(std::mem::take(&mut self.buffer)));
                }
            }
        }
    }
}

/// Why a status is not what was wanted.
pub fn refusal(status: u16) -> String {
    match status {
        300..=399 => format!("HTTP status {status} (redirects are not followed)"),
        401 | 403 => format!("HTTP status {status} (may the token read this?)"),
        _ => format!("HTTP status {status}"),
    }
}

async fn token(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = fs::File::open(path).await.map_err(|error| failed(&error))?;
    let mut text = String::new();
    let read = file.take(TOKEN_BYTES_MAX).read_to_string(&mut text).await;
    read.map_err(|error| failed(&error))?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    match is_plain && !token.is_empty() {
        true => Ok(token.to_owned()),
        false => Err(failed(&"the token is not one word of printable characters")),
    }
}

/// A text in the path or the query of a target.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The entries of a list. `what`: the name of one.
///
/// # Errors
/// It is no list, or too long a one.
pub fn entries<'v>(list: &'v Value, what: &str) -> Result<&'v [Value], String> {
    match list.as_array() {
        Some(list) if list.len() <= ENTRIES_MAX => Ok(list),
        Some(_) => Err(format!("more than {ENTRIES_MAX} {what}")),
        None => Err(format!("the answer is not a list of {what}")),
    }
}

/// A text of a document.
pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_targets_stay_within_their_part() {
        assert_eq!(encoded("web-1.a_b~"), "web-1.a_b~");
        assert_eq!(
            encoded("a/../b?c=d&e#f g%"),
            "a%2F..%2Fb%3Fc%3Dd%26e%23f%20g%25"
        );
        assert_eq!(encoded("é\r\n"), "%C3%A9%0D%0A");
    }

    #[test]
    fn lists_are_bounded() {
        let list = |length: usize| Value::from(vec![0; length]);
        assert!(entries(&list(ENTRIES_MAX), "instances").is_ok());
        let error = entries(&list(ENTRIES_MAX + 1), "instances").unwrap_err();
        assert_eq!(error, "more than 10000 instances");
        assert!(entries(&Value::Null, "instances").is_err());
    }

    #[test]
    fn the_reason_of_a_refusal_is_told() {
        assert!(refusal(302).contains("not followed"));
        assert!(refusal(403).contains("token"));
        assert_eq!(refusal(500), "HTTP status 500");
    }
}
