//! Dictionaries and lists of structured fields (RFC 9651 sections 3.1, 3.2 and 4.2), as far as
//! caching uses them.
//!
//! Called by: `targeted`, `no_vary_search` and `groups`.
//! Caveat: one bad byte invalidates the whole field (section 4.2), so everything is checked.
//! Parameters are checked and dropped: no field that is read here uses them.
//! Out of scope: writing.

/// A bare item (section 3.3). Kinds that no caller reads keep no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Boolean(bool),
    Integer(i64),
    String(Vec<u8>),
    Token(Vec<u8>),
    /// Decimal, byte sequence, date or display string.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Item(Item),
    /// An inner list.
    List(Vec<Item>),
}

/// Keys with their members, in order; of a repeated key the last counts.
pub type Dictionary = Vec<(Vec<u8>, Member)>;

/// The dictionary of all lines of a field; `None` if malformed. Without lines, or with empty ones,
/// it is empty.
pub fn dictionary<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Dictionary> {
    let joined = lines.collect::<Vec<_>>().join(&b","[..]);
    let mut reader = Reader(joined.as_slice());
    let mut members = Dictionary::new();
    reader.skip(b" ");
    while !reader.0.is_empty() {
        let (key, member) = reader.member()?;
        members.retain(|held| held.0 != key);
        members.push((key, member));
        reader.skip(b" \t");
        if reader.0.is_empty() {
            break;
        }
        reader.literal(b',')?;
        reader.skip(b" \t");
        // A comma at the end (section 4.2.2).
        if reader.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// The list of all lines of a field; `None` if malformed (section 4.2.1).
pub fn list<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Member>> {
    let joined = lines.collect::<Vec<_>>().join(&b","[..]);
    let mut reader = Reader(joined.as_slice());
    let mut members = Vec::new();
    reader.skip(b" ");
    while !reader.0.is_empty() {
        members.push(match reader.0.first() {
            Some(b'(') => Member::List(reader.inner_list()?),
            _ => Member::Item(reader.bare_item()?),
        });
        reader.parameters()?;
        reader.skip(b" \t");
        if reader.0.is_empty() {
            break;
        }
        reader.literal(b',')?;
        reader.skip(b" \t");
        if reader.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// The remaining text; every step consumes its front or fails.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn skip(&mut self, bytes: &[u8]) {
        let count = self
            .0
            .iter()
            .take_while(|byte| bytes.contains(byte))
            .count();
        self.0 = &self.0[count..];
    }

    fn literal(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        (*first == byte).then_some(())
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
        let count = self.0.iter().take_while(|byte| wanted(**byte)).count();
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }

    fn member(&mut self) -> Option<(Vec<u8>, Member)> {
        let key = self.key()?;
        let member = match self.0.first() {
            Some(b'=') => {
                self.0 = &self.0[1..];
                if self.0.first() == Some(&b'(') {
                    Member::List(self.inner_list()?)
                } else {
                    Member::Item(self.bare_item()?)
                }
            }
            _ => Member::Item(Item::Boolean(true)),
        };
        self.parameters()?;
        Some((key, member))
    }

    /// Section 4.2.3.3.
    fn key(&mut self) -> Option<Vec<u8>> {
        let first = self.0.first()?;
        if !first.is_ascii_lowercase() && *first != b'*' {
            return None;
        }
        Some(self.take_while(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        }))
    }

    /// Section 4.2.3.2.
    fn parameters(&mut self) -> Option<()> {
        while self.0.first() == Some(&b';') {
            self.0 = &self.0[1..];
            self.skip(b" ");
            self.key()?;
            if self.0.first() == Some(&b'=') {
                self.0 = &self.0[1..];
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// Section 4.2.1.2.
    fn inner_list(&mut self) -> Option<Vec<Item>> {
        self.literal(b'(')?;
        let mut items = Vec::new();
        loop {
            self.skip(b" ");
            if self.0.first()? == &b')' {
                self.0 = &self.0[1..];
                return Some(items);
            }
            items.push(self.bare_item()?);
            self.parameters()?;
            if !matches!(self.0.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Item> {
        match self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Item::String),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => Some(Item::Token(self.take_while(|byte| {
                saker_http::chars::is_token_char(byte) || byte == b':' || byte == b'/'
            }))),
            b'?' => self.boolean(),
            b':' => self.byte_sequence(),
            b'@' => {
                self.0 = &self.0[1..];
                matches!(self.number()?, Item::Integer(_)).then_some(Item::Other)
            }
            b'%' => {
                self.0 = &self.0[1..];
                self.string().map(|_| Item::Other)
            }
            _ => None,
        }
    }

    /// Section 4.2.4: at most 15 digits, or 12 and 3 around a point.
    fn number(&mut self) -> Option<Item> {
        let negative = self.0.first() == Some(&b'-');
        self.0 = &self.0[usize::from(negative)..];
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if self.0.first() == Some(&b'.') {
            self.0 = &self.0[1..];
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            return ((1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len()))
                .then_some(Item::Other);
        }
        if !(1..=15).contains(&whole.len()) {
            return None;
        }
        let number = whole
            .iter()
            .fold(0i64, |sum, byte| sum * 10 + i64::from(byte - b'0'));
        Some(Item::Integer(if negative { -number } else { number }))
    }

    /// Section 4.2.5: printable ASCII; only the quote and the backslash may be escaped.
    fn string(&mut self) -> Option<Vec<u8>> {
        self.literal(b'"')?;
        let mut text = Vec::new();
        loop {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            match first {
                b'"' => return Some(text),
                b'\\' => {
                    let (escaped, rest) = self
                        .0
                        .split_first()
                        .filter(|(byte, _)| matches!(byte, b'"' | b'\\'))?;
                    text.push(*escaped);
                    self.0 = rest;
                }
                b' '..=b'~' => text.push(*first),
                _ => return None,
            }
        }
    }

    fn boolean(&mut self) -> Option<Item> {
        self.literal(b'?')?;
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        matches!(first, b'0' | b'1').then_some(Item::Boolean(*first == b'1'))
    }

    fn byte_sequence(&mut self) -> Option<Item> {
        self.literal(b':')?;
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.literal(b':').map(|()| Item::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Dictionary> {
        dictionary(std::iter::once(text.as_bytes()))
    }

    #[test]
    fn good_dictionaries() {
        let item = |key: &str, item: Item| (key.as_bytes().to_vec(), Member::Item(item));
        let rows: [(&str, Dictionary); 14] = [
            ("", vec![]),
            ("  ", vec![]),
            ("a", vec![item("a", Item::Boolean(true))]),
            ("a=?0", vec![item("a", Item::Boolean(false))]),
            ("max-age=60", vec![item("max-age", Item::Integer(60))]),
            (
                "a=-1,\tb",
                vec![item("a", Item::Integer(-1)), item("b", Item::Boolean(true))],
            ),
            ("a=1, a=2", vec![item("a", Item::Integer(2))]),
            (
                "a;x=1;y, b=2; z=\"\\\"\"",
                vec![item("a", Item::Boolean(true)), item("b", Item::Integer(2))],
            ),
            (
                "a=\"x, \\\\y\"",
                vec![item("a", Item::String(b"x, \\y".to_vec()))],
            ),
            (
                "a=tok/en:1",
                vec![item("a", Item::Token(b"tok/en:1".to_vec()))],
            ),
            ("a=1.5", vec![item("a", Item::Other)]),
            ("a=:YQ==:", vec![item("a", Item::Other)]),
            ("a=@1659578233", vec![item("a", Item::Other)]),
            (
                "a=( \"x\"  b;c=1 2 )",
                vec![(
                    b"a".to_vec(),
                    Member::List(vec![
                        Item::String(b"x".to_vec()),
                        Item::Token(b"b".to_vec()),
                        Item::Integer(2),
                    ]),
                )],
            ),
        ];
        for (text, want) in rows {
            assert_eq!(read(text), Some(want), "{text}");
        }
        assert_eq!(
            dictionary([&b"a=1"[..], b"b"].into_iter()).map(|read| read.len()),
            Some(2)
        );
    }

    #[test]
    fn one_bad_byte_spoils_all() {
        let rows = [
            "A",
            "a,",
            "a,,b",
            "a=",
            "a b",
            "1",
            "a=(",
            "a=(1",
            "a=(1,2)",
            "a=(1\"x\")",
            "a=\"x",
            "a=\"\\x\"",
            "a=\"ä\"",
            "a=?2",
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=:x",
            "a=@1.5",
            "a;",
            "a;A",
            "a = 1",
            "max-age=10, &&&&&",
            "a=-",
            "a=%x",
        ];
        for text in rows {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
