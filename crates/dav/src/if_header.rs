//! The field `If` (RFC 4918 section 10.4): conditions on resources, and the lock tokens that a
//! client submits.
//!
//! Called by: all methods that change something.
//! Caveat: a list is about one resource, and the field holds if one list does; a token counts as
//! submitted wherever it stands without `Not`.
//! Out of scope: the other preconditions, which are HTTP's own.

use saker_http::{
    Method, Status,
    entity_tag::EntityTag,
    path,
    target::{self, Target},
};

/// More conditions are refused: each is evaluated.
const CONDITIONS_MAX: usize = 1000;

/// The prefix of tokens that this server gives.
pub const TOKEN_SCHEME: &str = "opaquelocktoken:";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfHeader {
    lists: Vec<List>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// Decoded path of the tagged resource; `None`: that of the request.
    resource: Option<Vec<u8>>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    is_negated: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Token(String),
    /// As sent, with its quotes.
    Tag(Vec<u8>),
}

/// The state of a resource that conditions are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceState {
    pub tokens: Vec<String>,
    pub entity_tag: Option<Vec<u8>>,
}

impl IfHeader {
    /// Reads the field.
    ///
    /// # Errors
    /// 400 if it does not follow the grammar.
    pub fn parse(text: &[u8]) -> Result<IfHeader, Status> {
        Reader { rest: text }.lists().ok_or(Status::BAD_REQUEST)
    }

    /// Returns the tokens that the client submits.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        let conditions = self.lists.iter().flat_map(|list| &list.conditions);
        conditions.filter_map(|condition| match &condition.state {
            State::Token(token) if !condition.is_negated => Some(token.as_str()),
            _ => None,
        })
    }

    /// Returns true if one of the lists holds. `state_of` tells the state of a list's resource,
    /// `None` being that of the request; it is asked list by list, up to the first that holds.
    pub fn holds(&self, mut state_of: impl FnMut(Option<&[u8]>) -> ResourceState) -> bool {
        self.lists.iter().any(|list| {
            let state = state_of(list.resource.as_deref());
            let mut conditions = list.conditions.iter();
            conditions.all(|condition| condition.holds(&state))
        })
    }
}

impl Condition {
    fn holds(&self, state: &ResourceState) -> bool {
        let is_met = match &self.state {
            State::Token(token) => state.tokens.contains(token),
            // RFC 4918 section 10.4.4 wants strong comparison, but a tag that is weak because the
            // file is a second old would then never match.
            State::Tag(tag) => match (&state.entity_tag, EntityTag::parse(tag)) {
                (Some(own), Some(tag)) => EntityTag::parse(own).is_some_and(|own| own.weak_eq(tag)),
                _ => false,
            },
        };
        is_met != self.is_negated
    }
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl<'t> Reader<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes a byte if it is next.
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes everything before `byte`, and `byte`.
    fn until(&mut self, byte: u8) -> Option<&'t [u8]> {
        let at = self.rest.iter().position(|other| *other == byte)?;
        let (text, rest) = self.rest.split_at(at);
        self.rest = rest.get(1..)?;
        Some(text)
    }

    fn lists(mut self) -> Option<IfHeader> {
        let (mut header, mut count) = (IfHeader::default(), 0);
        let mut resource = None;
        let mut is_tagged = None;
        let mut has_list = true;
        loop {
            self.skip_space();
            if self.rest.is_empty() {
                break;
            }
            if self.take(b'<') {
                // Tagged and untagged lists do not mix, and a tag has at least one list.
                if is_tagged == Some(false) || !has_list {
                    return None;
                }
                (is_tagged, has_list) = (Some(true), false);
                resource = Some(tagged(self.until(b'>')?)?);
            } else if self.take(b'(') {
                let is_tagged = *is_tagged.get_or_insert(false);
                if is_tagged && resource.is_none() {
                    return None;
                }
                has_list = true;
                let conditions = self.conditions()?;
                count += conditions.len();
                if count > CONDITIONS_MAX {
                    return None;
                }
                header.lists.push(List {
                    resource: resource.clone(),
                    conditions,
                });
            } else {
                return None;
            }
        }
        (has_list && !header.lists.is_empty()).then_some(header)
    }

    /// The conditions of a list, behind its opening parenthesis.
    fn conditions(&mut self) -> Option<Vec<Condition>> {
        let mut conditions = Vec::new();
        loop {
            self.skip_space();
            if self.take(b')') {
                return (!conditions.is_empty()).then_some(conditions);
            }
            let is_negated = self
                .rest
                .get(..3)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"not"));
            if is_negated {
                self.rest = self.rest.get(3..)?;
                self.skip_space();
            }
            let state = if self.take(b'<') {
                State::Token(token(self.until(b'>')?)?)
            } else if self.take(b'[') {
                let tag = self.until(b']')?.trim_ascii();
                EntityTag::parse(tag)?;
                State::Tag(tag.to_vec())
            } else {
                return None;
            };
            conditions.push(Condition { is_negated, state });
        }
    }
}

/// A state token. One of our scheme that can't be ours is refused, as Apache does.
fn token(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.trim();
    match text.strip_prefix(TOKEN_SCHEME) {
        Some(id) => is_uuid(id).then(|| text.to_ascii_lowercase()),
        None => text.contains(':').then(|| text.to_owned()),
    }
}

/// Returns true for the text form of a UUID (RFC 9562 section 4).
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The decoded path of a resource tag, which is an absolute URL or an absolute path. The host is not
/// looked at: behind a proxy, clients know the server by another name.
fn tagged(text: &[u8]) -> Option<Vec<u8>> {
    let raw = match target::split(Method::Get, text.trim_ascii()).ok()? {
        Target::Origin { path, .. } | Target::Absolute { path, .. } => path,
        _ => return None,
    };
    let mut decoded = Vec::new();
    path::normalize(raw, &mut decoded).ok()?;
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "opaquelocktoken:0a0a0a0a-0000-4000-8000-00000000000a";
    const B: &str = "urn:uuid:0b";

    fn state(tokens: &[&str], tag: Option<&str>) -> ResourceState {
        ResourceState {
            tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
            entity_tag: tag.map(|tag| tag.as_bytes().to_vec()),
        }
    }

    #[test]
    fn lists_are_alternatives_and_conditions_are_not() {
        let cases = [
            (format!("(<{A}>)"), true),
            (format!("(<{B}>)"), false),
            (format!("(<{A}> [\"x\"])"), true),
            (format!("(<{A}> [\"y\"])"), false),
            (format!("(<{A}> [\"y\"]) ([\"x\"])"), true),
            (format!("(<{B}>)(Not <DAV:no-lock>)"), true),
            (format!("(Not <{A}>)"), false),
            (format!("(not<{B}>[W/\"x\"])"), true),
            ("(<DAV:no-lock>)".into(), false),
        ];
        for (text, expected) in cases {
            let header = IfHeader::parse(text.as_bytes()).unwrap();
            let holds = header.holds(|_| state(&[A], Some("\"x\"")));
            assert_eq!(holds, expected, "{text}");
        }
    }

    #[test]
    fn tags_name_resources() {
        let text = format!("<http://a.test/x%20y> (<{A}>) (<{B}>) </z/../w> ([\"t\"])");
        let header = IfHeader::parse(text.as_bytes()).unwrap();
        let mut paths = Vec::new();
        let holds = header.holds(|tag| {
            paths.push(String::from_utf8_lossy(tag.unwrap()).into_owned());
            ResourceState::default()
        });
        assert!(!holds);
        assert_eq!(paths, ["/x y", "/x y", "/w"]);
        assert_eq!(header.tokens().collect::<Vec<_>>(), [A, B]);
        let mut asked = 0;
        assert!(header.holds(|_| {
            asked += 1;
            state(if asked == 2 { &[B] } else { &[] }, None)
        }));
        assert_eq!(asked, 2, "no list is looked at behind one that holds");
        assert!(header.holds(|tag| match tag {
            Some(b"/w") => state(&[], Some("\"t\"")),
            _ => state(&[], None),
        }));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "garbage",
            "()",
            "(",
            "(<a:b>",
            "(<a:b>) x",
            "<http://a.test/> ",
            "(Not)",
            "(<opaquelocktoken:foo>)",
            "(<nocolon>)",
            "([x])",
            "(<a:b>) </x> (<a:b>)",
            "<../x> (<a:b>)",
            "</x> </y> (<a:b>)",
            "</%00> (<a:b>)",
        ] {
            assert!(IfHeader::parse(text.as_bytes()).is_err(), "{text}");
        }
        let many = "(<a:b>)".repeat(CONDITIONS_MAX);
        assert!(IfHeader::parse(many.as_bytes()).is_ok());
        assert!(IfHeader::parse(format!("{many}(<a:b>)").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_input_is_read_or_refused(text in "[()<>\\[\\]\"A-z /:!-]{0,60}") {
            if let Ok(header) = IfHeader::parse(text.as_bytes()) {
                header.holds(|_| ResourceState::default());
            }
        }
    }
}
