//! Calls that a body of XML-RPC may hold, counted as it passes by, piece by piece.
//!
//! Called by: the pipeline's login guard. `system.multicall` tries many passwords in one request,
//! each inside a `struct`, so the number of `struct` elements bounds the number of calls from
//! above. Names of elements have one spelling in XML: no character reference, CDATA section or
//! entity can stand in them, unlike in text such as `method&#78;ame`. So text is never interpreted;
//! all that is read of it is the outer method's name, and only a plain one tells that this is a
//! single call. Caveat: that holds where bytes are ASCII's. A body in another encoding, under a
//! content coding, or with a document type (whose entities could hold elements) is unreadable, and
//! counts as more than any limit. Out of scope: well-formedness, which the application judges.

/// Count for a body that can't be parsed.
pub const UNREADABLE: u32 = u32::MAX;

/// Length limit of a name or a processing instruction; longer ones are irrelevant.
const NAME_BYTES_MAX: usize = 64;
const INSTRUCTION_BYTES_MAX: usize = 256;
const METHOD_BYTES_MAX: usize = 256;

/// Encodings in which every ASCII byte stands for its letter, and nothing else does.
const ENCODINGS: [&str; 11] = [
    "utf-8",
    "utf8",
    "us-ascii",
    "ascii",
    "iso-8859-",
    "iso8859-",
    "iso_8859-",
    "latin1",
    "latin-1",
    "windows-125",
    "cp125",
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first letter.
    #[default]
    Start,
    Text,
    /// Behind `<`.
    Markup,
    /// Behind `<!`.
    Declaration,
    /// Behind `<?`.
    Instruction,
    StartName,
    EndName,
    /// Behind `<methodName`.
    MethodTag,
    /// The text of `methodName`.
    Method,
}

/// Counts the method calls of an XML-RPC body.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    state: State,
    /// A name, a text or an instruction that is being read.
    token: Vec<u8>,
    structs: u32,
    /// Names of single calls found so far.
    single_methods: u32,
    /// Others.
    other_methods: u32,
    /// Text of a method's name has been read, which has to end there.
    is_method_read: bool,
    is_unreadable: bool,
}

impl Calls {
    /// Creates a counter for a body with these fields: all values of Content-Type and
    /// Content-Encoding.
    pub fn new<'v>(
        mut types: impl Iterator<Item = &'v [u8]>,
        mut codings: impl Iterator<Item = &'v [u8]>,
    ) -> Calls {
        let is_coded = codings.any(|value| {
            !value.trim_ascii().is_empty() && !value.trim_ascii().eq_ignore_ascii_case(b"identity")
        });
        let is_strange =
            types.any(|value| charset(value).is_some_and(|charset| !is_plain(&charset)));
        Calls {
            is_unreadable: is_coded || is_strange,
            ..Calls::default()
        }
    }

    pub fn read(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.read_byte(*byte));
    }

    /// Passwords that may have been tried; at least one.
    pub fn count(&self) -> u32 {
        match self.state {
            State::Start if !self.is_unreadable => 1,
            _ if self.is_unreadable => UNREADABLE,
            _ if self.single_methods > 0 && self.other_methods == 0 => 1,
            _ => self.structs.max(1),
        }
    }

    fn read_byte(&mut self, byte: u8) {
        // XML has no such letter; UTF-16 and UTF-32 are full of them.
        self.is_unreadable |= byte == 0;
        self.state = match self.state {
            State::Start => self.start(byte),
            State::Text if byte == b'<' => State::Markup,
            State::Text => State::Text,
            State::Markup => self.markup(byte),
            State::Declaration => self.declaration(byte),
            State::Instruction => self.instruction(byte),
            State::StartName | State::EndName => self.name(byte),
            State::MethodTag => self.method_tag(byte),
            State::Method => self.method(byte),
        };
    }

    fn start(&mut self, byte: u8) -> State {
        match byte {
            b'<' => State::Markup,
            b' ' | b'\t' | b'\r' | b'\n' => State::Start,
            // UTF-8's byte order mark.
            0xef | 0xbb | 0xbf => State::Start,
            _ => {
                self.is_unreadable = true;
                State::Text
            }
        }
    }

    fn markup(&mut self, byte: u8) -> State {
        self.token.clear();
        if std::mem::take(&mut self.is_method_read) && byte != b'/' {
            // Text behind a comment, a CDATA section or an element is the name's, too, or all there
            // is of it.
            self.other_methods = self.other_methods.saturating_add(1);
        }
        match byte {
            b'!' => State::Declaration,
            b'?' => State::Instruction,
            b'/' => State::EndName,
            _ if byte.is_ascii_whitespace() => State::Markup,
            _ => {
                self.state = State::StartName;
                self.name(byte)
            }
        }
    }

    /// Comments and CDATA sections are read as text: elements in there count, though they are none.
    fn declaration(&mut self, byte: u8) -> State {
        self.is_unreadable |= !matches!(byte, b'-' | b'[');
        State::Text
    }

    fn instruction(&mut self, byte: u8) -> State {
        if byte != b'>' {
            self.is_unreadable |= !self.keep(byte, INSTRUCTION_BYTES_MAX);
            return State::Instruction;
        }
        let text = String::from_utf8_lossy(&self.token).to_ascii_lowercase();
        if let Some((_, rest)) = text.split_once("encoding") {
            let value = rest
                .trim_start()
                .strip_prefix('=')
                .map(|value| value.trim_start().trim_start_matches(['"', '\'']));
            let name: String = value
                .unwrap_or_default()
                .chars()
                .take_while(|letter| !matches!(letter, '"' | '\'' | '?'))
                .collect();
            self.is_unreadable |= !is_plain(&name);
        }
        State::Text
    }

    fn name(&mut self, byte: u8) -> State {
        let is_end = self.state == State::EndName;
        match byte {
            b'<' => {
                self.is_unreadable = true;
                return State::Markup;
            }
            b'>' | b'/' => {}
            _ if byte.is_ascii_whitespace() => {}
            _ => {
                // A name longer than any of ours is truncated, and does not match.
                self.keep(byte, NAME_BYTES_MAX);
                return self.state;
            }
        }
        let local = self
            .token
            .rsplit(|byte| *byte == b':')
            .next()
            .unwrap_or_default();
        let (is_struct, is_method) = (
            local.eq_ignore_ascii_case(b"struct"),
            local.eq_ignore_ascii_case(b"methodName"),
        );
        if is_end {
            return State::Text;
        }
        self.structs = self.structs.saturating_add(u32::from(is_struct));
        match is_method {
            true => {
                self.token.clear();
                self.state = State::MethodTag;
                self.method_tag(byte)
            }
            false => State::Text,
        }
    }

    fn method_tag(&mut self, byte: u8) -> State {
        match byte {
            b'>' => State::Method,
            _ if byte.is_ascii_whitespace() => State::MethodTag,
            // An attribute, or an element without text.
            _ => {
                self.other_methods = self.other_methods.saturating_add(1);
                State::Text
            }
        }
    }

    fn method(&mut self, byte: u8) -> State {
        if byte != b'<' {
            let fits = self.keep(byte, METHOD_BYTES_MAX);
            self.other_methods = self.other_methods.saturating_add(u32::from(!fits));
            return State::Method;
        }
        let name = self.token.trim_ascii();
        let is_plain = !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(byte));
        match is_plain && !name.eq_ignore_ascii_case(b"system.multicall") {
            true => self.single_methods = self.single_methods.saturating_add(1),
            false => self.other_methods = self.other_methods.saturating_add(1),
        }
        self.is_method_read = true;
        State::Markup
    }

    /// Appends a byte; returns true if there was room for it.
    fn keep(&mut self, byte: u8, most: usize) -> bool {
        let has_room = self.token.len() < most;
        if has_room {
            self.token.push(byte);
        }
        has_room
    }
}

/// The charset that a Content-Type names, in lower case.
fn charset(content_type: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    let (_, rest) = text.split_once("charset")?;
    let value = rest
        .trim_start()
        .strip_prefix('=')
        .unwrap_or(rest)
        .trim_start();
    let name: String = value
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|letter| !matches!(letter, '"' | '\'' | ';' | ' '))
        .collect();
    Some(name)
}

fn is_plain(encoding: &str) -> bool {
    let name = encoding.trim();
    ENCODINGS
        .iter()
        .any(|known| match known.ends_with(['-', '5']) {
            // A family: a number follows.
            true => name.strip_prefix(known).is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
            }),
            false => name == *known,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(body: &[u8]) -> u32 {
        let mut calls = Calls::default();
        calls.read(body);
        calls.count()
    }

    fn multicall(inner: &str, times: usize) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<methodCall><methodName>system.multicall</methodName><params><param><value><array><data>{}\
             </data></array></value></param></params></methodCall>",
            inner.repeat(times)
        )
    }

    const INNER: &str = "<value><struct><member><name>methodName</name><value><string>wp.getUsersBlogs</string></value></member>\
                         <member><name>params</name><value><array><data><value>a</value><value>b</value></data></array></value></member></struct></value>";
    const SINGLE: &str = "<methodCall><methodName>wp.newPost</methodName><params><param><value><struct><member><name>a</name>\
                          <value><struct></struct></value></member></struct></value></param></params></methodCall>";

    #[test]
    fn calls_are_counted_wherever_the_body_is_cut() {
        for (text, expected) in [
            ("", 1),
            (" \r\n", 1),
            (SINGLE, 1),
            (multicall(INNER, 500).as_str(), 500),
            (multicall("", 0).as_str(), 1),
        ] {
            for size in [1, 2, 3, 7, 64, 100_000] {
                let mut calls = Calls::default();
                text.as_bytes()
                    .chunks(size)
                    .for_each(|piece| calls.read(piece));
                assert_eq!(calls.count(), expected, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn no_spelling_of_the_names_makes_calls_fewer() {
        let spelled = |outer: &str, inner: &str| {
            multicall(
                &INNER.replace("<name>methodName<", &format!("<name>{inner}<")),
                40,
            )
            .replace(">system.multicall<", &format!(">{outer}<"))
        };
        let names = [
            "method&#78;ame",
            "&#109;&#101;thodName",
            "&#x6D;ethodName",
            "&#0000000109;ethodName",
            "<![CDATA[methodName]]>",
            "method<![CDATA[Na]]>me",
            "<![CDATA[method]]><![CDATA[Name]]>",
            "method<!-- -->Name",
            "method<?x y?>Name",
            "junk<b/>methodName",
            "\n methodName\t",
            "methodname",
        ];
        for inner in names {
            for outer in [
                "system.multicall",
                "\n system.multicall ",
                "SYSTEM.multicall",
                "system&#46;multicall",
                "<![CDATA[system.multicall]]>",
                "system<!-- -->.multicall",
                "wp.x<b/>system.multicall",
            ] {
                assert_eq!(
                    count(spelled(outer, inner).as_bytes()),
                    40,
                    "{outer} {inner}"
                );
            }
        }
    }

    #[test]
    fn elements_count_by_any_name_that_leads_to_them() {
        let many = multicall(INNER, 40);
        for (from, to) in [
            ("<struct>", "<struct >"),
            ("<struct>", "<struct\n\ta=\"b\">"),
            ("<struct>", "<x:struct>"),
            ("<struct>", "<STRUCT>"),
            ("<methodName>", "<methodName >"),
            ("<methodName>", "<x:methodName>"),
            ("<methodName>", "<methodName a=\"x>y\">"),
            (
                "<methodName>",
                "<!-- <methodName>wp.x</methodName> --><methodName>",
            ),
            ("<methodName>", "<methodName>wp.x</methodName><methodName>"),
            (
                "</methodName>",
                "</methodName><methodName>wp.x</methodName>",
            ),
            ("<methodName>system", "<methodName>sys<?xml ?>tem"),
            ("<methodName>system.multicall</methodName>", ""),
            ("<methodName>system.multicall</methodName>", "<methodName/>"),
            ("<methodCall>", "<methodCall xmlns:x=\"y\">"),
        ] {
            assert_eq!(count(many.replace(from, to).as_bytes()), 40, "{from} {to}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_over_every_limit() {
        let many = multicall(INNER, 40);
        let utf16 = |to: fn(u16) -> [u8; 2]| many.encode_utf16().flat_map(to).collect::<Vec<u8>>();
        let marked = |mark: &[u8], body: Vec<u8>| [mark, &body].concat();
        let with = |from: &str, to: &str| many.replacen(from, to, 1).into_bytes();
        let bodies = [
            utf16(u16::to_le_bytes),
            utf16(u16::to_be_bytes),
            marked(&[0xff, 0xfe], utf16(u16::to_le_bytes)),
            marked(&[0xfe, 0xff], utf16(u16::to_be_bytes)),
            many.chars()
                .flat_map(|letter| u32::from(letter).to_le_bytes())
                .collect(),
            many.replace('<', "+ADw-").into_bytes(),
            with("version=\"1.0\"", "version=\"1.0\" encoding=\"UTF-7\""),
            with("version=\"1.0\"", "version='1.0' encoding = 'utf-16'"),
            with("version=\"1.0\"", "version=\"1.0\" encoding=\"IBM037\""),
            with(
                "version=\"1.0\"",
                "version=\"1.0\" encoding=\"iso-2022-jp\"",
            ),
            with(
                "<methodCall>",
                "<!DOCTYPE methodCall [<!ENTITY a \"<struct/>\">]><methodCall>",
            ),
            with("<methodCall>", "<meth<?xml ?>odCall>"),
            with("<methodName>", "<methodN<?xml ?>ame>"),
            // EBCDIC's `<?xml`, and gzip.
            vec![0x4c, 0x6f, 0xa7, 0x94, 0x93],
            vec![0x1f, 0x8b, 8, 0],
            b"log=a&pwd=b".to_vec(),
            format!("<?{}", "x".repeat(300)).into_bytes(),
        ];
        for body in bodies {
            assert_eq!(
                count(&body),
                UNREADABLE,
                "{}",
                String::from_utf8_lossy(&body)
            );
        }
    }

    #[test]
    fn fields_say_whether_a_body_can_be_read() {
        let count = |content_type: &'static str, coding: &'static str| {
            let mut calls = Calls::new(
                [content_type.as_bytes()].into_iter(),
                [coding.as_bytes()].into_iter(),
            );
            calls.read(SINGLE.as_bytes());
            calls.count()
        };
        for content_type in [
            "",
            "text/xml",
            "text/xml; charset=UTF-8",
            "text/xml;charset=\"iso-8859-15\"",
            "text/xml; Charset = windows-1252",
        ] {
            assert_eq!(count(content_type, ""), 1, "{content_type}");
        }
        assert_eq!(count("text/xml", "identity"), 1);
        for (content_type, coding) in [
            ("text/xml; charset=utf-16", ""),
            ("text/xml; charset='UTF-7'", ""),
            ("text/xml; charset", ""),
            ("", "gzip"),
            ("", "identity, br"),
        ] {
            assert_eq!(
                count(content_type, coding),
                UNREADABLE,
                "{content_type} {coding}"
            );
        }
    }
}
