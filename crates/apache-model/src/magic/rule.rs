//! The rules of a magic file: where to look, for what, and what that means (`file`'s old format, as
//! mod_mime_magic reads it).
//!
//! Difficulty: numbers are compared as C on a 64-bit machine does it in mod_mime_magic, where a
//! 32-bit number at an offset is widened with its sign and the one in the rule is not; rules that
//! never match there must not match here. A line that can't be read stays in its place and matches
//! nothing, so that the lines that continue it are not taken for another's.

/// Every look takes so many bytes, and needs them to be there.
const WINDOW_BYTES: usize = 64;

const DESCRIPTION_BYTES_MAX: usize = 49;

const TEXT_BYTES_MAX: usize = 63;

const PRINTED_BYTES_MAX: usize = 255;

#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Default)]
struct Rule {
    /// Number of `>` that it begins with.
    level: usize,
    offset: i64,
    /// The offset is where the offset is: how wide that is, and what is added to it.
    indirect: Option<(Width, i64)>,
    /// `None`: the line can't be read.
    pub test: Option<Test>,
    /// Follows what stands before it without a space.
    joined: bool,
    description: Vec<u8>,
}

#[derive(Debug)]
struct Test {
    kind: Kind,
    unsigned: bool,
    mask: u64,
    /// One of `= ! > < & ^ x`.
    relation: u8,
    number: u64,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Byte,
    Short,
    Long,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Native,
    Big,
    Little,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// A number, or a date, which is a number that is shown otherwise.
    Number(Width, Order),
}

/// In the order in which a word is compared with them.
const KINDS: &[(&[u8], Kind)] = &[
    (b"byte", Kind::Number(Width::Byte, Order::Native)),
    (b"short", Kind::Number(Width::Short, Order::Native)),
    (b"long", Kind::Number(Width::Long, Order::Native)),
    (b"string", Kind::Text),
    (b"date", Kind::Number(Width::Long, Order::Native)),
    (b"beshort", Kind::Number(Width::Short, Order::Big)),
    (b"belong", Kind::Number(Width::Long, Order::Big)),
    (b"bedate", Kind::Number(Width::Long, Order::Big)),
    (b"leshort", Kind::Number(Width::Short, Order::Little)),
    (b"lelong", Kind::Number(Width::Long, Order::Little)),
    (b"ledate", Kind::Number(Width::Long, Order::Little)),
];

type Window = [u8; WINDOW_BYTES];

impl Rules {
    /// With the numbers of the lines that can't be read, and why.
    pub fn parse(text: &[u8]) -> (Rules, Vec<(usize, String)>) {
        let (mut rules, mut complaints) = (Vec::new(), Vec::new());
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (rule, complaint) = Rule::parse(line);
            rules.push(rule);
            complaints.extend(complaint.map(|complaint| (number + 1, complaint)));
        }
        (Rules(rules), complaints)
    }

    /// The text of the first rule that matches, with all that continue it.
    pub fn describe(&self, content: &[u8]) -> Option<Vec<u8>> {
        let mut rules = self.0.iter().enumerate();
        while let Some((at, rule)) = rules.next() {
            if let Some(window) = rule.found(content) {
                let mut text = rule.print(&window);
                let continuations = self
                    .0
                    .get(at + 1..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|rule| rule.level != 0);
                append_continuations(
                    continuations,
                    content,
                    !rule.description.is_empty(),
                    &mut text,
                );
                return Some(text);
            }
            let skipped = self
                .0
                .get(at + 1..)
                .unwrap_or_default()
                .iter()
                .take_while(|rule| rule.level != 0)
                .count();
            if let Some(last) = skipped.checked_sub(1) {
                rules.nth(last);
            }
        }
        None
    }
}

/// One counts if the last of the level before it did.
fn append_continuations<'r>(
    rules: impl Iterator<Item = &'r Rule>,
    content: &[u8],
    mut is_after_text: bool,
    text: &mut Vec<u8>,
) {
    let mut level = 1;
    for rule in rules.into_iter() {
        if rule.level > level {
            continue;
        }
        level = rule.level;
        let Some(window) = rule.found(content) else {
            continue;
        };
        if is_after_text && !rule.joined && !rule.description.is_empty() {
            text.push(b' ');
        }
        text.extend(rule.print(&window));
        is_after_text |= !rule.description.is_empty();
        level += 1;
    }
}

impl Rule {
    /// `[>…]offset type[&mask] [relation]value description`
    fn parse(line: &[u8]) -> (Rule, Option<String>) {
        let level = line.iter().take_while(|byte| **byte == b'>').count();
        let mut rule = Rule {
            level,
            ..Rule::default()
        };
        let complaint = rule.parse_rest(line.get(level..).unwrap_or_default()).err();
        (rule, complaint.map(str::to_owned))
    }

    fn parse_rest(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let pointer = line.strip_prefix(b"(").filter(|_| self.level != 0);
        let (offset, mut rest) = number(pointer.unwrap_or(line)).ok_or("offset invalid")?;
        self.offset = offset;
        if pointer.is_some() {
            let (indirect, behind) = indirect(rest)?;
            (self.indirect, rest) = (Some(indirect), behind);
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (test, description) = Test::parse(trimmed(rest.get(digits..).unwrap_or_default()))?;
        self.test = Some(test);
        let description = trimmed(description);
        let bare = description
            .strip_prefix(b"\\b")
            .or_else(|| description.strip_prefix(b"\x08"));
        self.joined = bare.is_some();
        let bare = bare.unwrap_or(description);
        self.description = bare.get(..DESCRIPTION_BYTES_MAX).unwrap_or(bare).to_vec();
        Ok(())
    }

    /// The value at the rule's place, if the rule matches it.
    fn found(&self, content: &[u8]) -> Option<Window> {
        let test = self.test.as_ref()?;
        let mut window = test.window(content, self.offset)?;
        if let Some((width, more)) = self.indirect {
            let offset = match width {
                Width::Byte => i64::from(window[0]),
                Width::Short => i64::from(u16::from_ne_bytes([window[0], window[1]])),
                Width::Long => long(&window) as i64,
            };
            window = test.window(content, offset.wrapping_add(more))?;
        }
        test.holds(&window).then_some(window)
    }

    /// The description, in which C's printf finds its one argument.
    fn print(&self, window: &Window) -> Vec<u8> {
        let Some(test) = &self.test else {
            return Vec::new();
        };
        let mut text = Vec::new();
        let mut rest = self.description.as_slice();
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            if *byte != b'%' {
                text.push(*byte);
                continue;
            }
            let skipped = rest
                .iter()
                .take_while(|byte| b"-+ #.0123456789lhq".contains(byte))
                .count();
            let letter = rest.get(skipped).copied().unwrap_or(b'%');
            rest = rest.get(skipped + 1..).unwrap_or_default();
            test.print(letter, window, &mut text);
        }
        text.truncate(PRINTED_BYTES_MAX);
        text
    }
}

impl Test {
    fn parse(text: &[u8]) -> Result<(Test, &[u8]), &'static str> {
        let bare = text.strip_prefix(b"u");
        let (kind, mut rest) = kind(bare.unwrap_or(text)).ok_or("type invalid")?;
        let mut test = Test {
            kind,
            unsigned: bare.is_some(),
            mask: u64::MAX,
            relation: b'=',
            number: 0,
            text: Vec::new(),
        };
        if let Some(behind) = rest.strip_prefix(b"&") {
            let (mask, behind) = number(behind).unwrap_or((0, behind));
            (test.mask, rest) = (test.widened(mask as u64), behind);
        }
        rest = trimmed(rest);
        match rest.split_first() {
            Some((relation @ (b'>' | b'<' | b'&' | b'^' | b'='), behind)) => {
                (test.relation, rest) = (*relation, behind)
            }
            Some((b'!', behind)) if kind != Kind::Text => (test.relation, rest) = (b'!', behind),
            Some((b'x', behind)) if behind.first().is_some_and(u8::is_ascii_whitespace) => {
                test.relation = b'x';
                return Ok((test, behind));
            }
            _ => {}
        }
        rest = trimmed(rest);
        match kind {
            Kind::Text => (test.text, rest) = unescaped(rest),
            Kind::Number(..) => {
                let (number, behind) = number(rest).unwrap_or((0, rest));
                (test.number, rest) = (test.widened(number as u64), behind);
            }
        }
        Ok((test, rest))
    }

    /// With the sign of its width.
    fn widened(&self, value: u64) -> u64 {
        match self.kind {
            Kind::Number(Width::Byte, _) if !self.unsigned => i64::from(value as i8) as u64,
            Kind::Number(Width::Short, _) if !self.unsigned => i64::from(value as i16) as u64,
            _ => value,
        }
    }

    fn window(&self, content: &[u8], offset: i64) -> Option<Window> {
        let offset = usize::try_from(offset).ok()?;
        let mut window: Window = content
            .get(offset..offset.checked_add(WINDOW_BYTES)?)?
            .try_into()
            .ok()?;
        let [a, b, c, d, ..] = window;
        let in_order = |order: Order, little: &[u8]| {
            let mut bytes = little.to_vec();
            if order == Order::Big {
                bytes.reverse();
            }
            bytes
        };
        match self.kind {
            Kind::Text => {
                window[WINDOW_BYTES - 1] = 0;
                if let Some(end) = window.iter_mut().find(|byte| **byte == b'\n') {
                    *end = 0;
                }
            }
            Kind::Number(Width::Short, order @ (Order::Big | Order::Little)) => {
                let bytes = in_order(order, &[a, b]);
                let value = bytes
                    .iter()
                    .rev()
                    .fold(0u16, |value, byte| value << 8 | u16::from(*byte));
                window[..2].copy_from_slice(&value.to_ne_bytes());
            }
            Kind::Number(Width::Long, order @ (Order::Big | Order::Little)) => {
                let bytes = in_order(order, &[a, b, c, d]);
                let value = bytes
                    .iter()
                    .rev()
                    .fold(0u32, |value, byte| value << 8 | u32::from(*byte));
                window[..8].copy_from_slice(&i64::from(value as i32).to_ne_bytes());
            }
            Kind::Number(..) => {}
        }
        Some(window)
    }

    fn value(&self, window: &Window) -> u64 {
        match self.kind {
            Kind::Text => {
                let difference = window
                    .iter()
                    .zip(&self.text)
                    .map(|(there, wanted)| i64::from(*there) - i64::from(*wanted));
                difference
                    .into_iter()
                    .find(|difference| *difference != 0)
                    .unwrap_or(0) as u64
            }
            Kind::Number(Width::Byte, _) => u64::from(window[0]),
            Kind::Number(Width::Short, _) => u64::from(u16::from_ne_bytes([window[0], window[1]])),
            Kind::Number(Width::Long, _) => long(window),
        }
    }

    fn holds(&self, window: &Window) -> bool {
        // As Apache: the letter x for a value matches anything.
        if self.text == b"x" || (self.kind != Kind::Text && self.number & 0xffff == u64::from(b'x'))
        {
            return true;
        }
        let (value, wanted) = (self.widened(self.value(window)) & self.mask, self.number);
        match self.relation {
            b'x' => true,
            b'!' => value != wanted,
            b'=' => value == wanted,
            b'>' if self.unsigned => value > wanted,
            b'<' if self.unsigned => value < wanted,
            b'>' => value as i64 > wanted as i64,
            b'<' => (value as i64) < wanted as i64,
            b'&' => value & wanted == wanted,
            b'^' => value & wanted != wanted,
            _ => false,
        }
    }

    fn print(&self, letter: u8, window: &Window, text: &mut Vec<u8>) {
        let value = self.widened(self.value(window)) & self.mask;
        match (letter, self.kind) {
            (b'%', _) => text.push(b'%'),
            (b's', Kind::Text) if self.relation == b'=' => text.extend(until_zero(&self.text)),
            (b's', Kind::Text) => text.extend(until_zero(window)),
            (b'c', Kind::Number(..)) => text.push(value as u8),
            (b'x', Kind::Number(..)) => text.extend(format!("{value:x}").bytes()),
            (b'o', Kind::Number(..)) => text.extend(format!("{value:o}").bytes()),
            (b'u', Kind::Number(..)) => text.extend(value.to_string().bytes()),
            (b'd' | b'i', Kind::Number(..)) => text.extend((value as i64).to_string().bytes()),
            _ => {}
        }
    }
}

fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn long(window: &Window) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *window;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

fn kind(text: &[u8]) -> Option<(Kind, &[u8])> {
    KINDS
        .iter()
        .find_map(|(name, kind)| Some((*kind, text.strip_prefix(*name)?)))
}

/// `[.l|.s|.b][+-number])`
fn indirect(text: &[u8]) -> Result<((Width, i64), &[u8]), &'static str> {
    let (width, rest) = match text {
        [b'.', b'l', rest @ ..] => (Width::Long, rest),
        [b'.', b's', rest @ ..] => (Width::Short, rest),
        [b'.', b'b', rest @ ..] => (Width::Byte, rest),
        [b'.', ..] => return Err("indirect offset type invalid"),
        rest => (Width::Long, rest),
    };
    let (more, rest) = number(rest).unwrap_or((0, rest));
    let rest = rest
        .strip_prefix(b")")
        .ok_or("missing ')' in indirect offset")?;
    Ok(((width, more), rest))
}

/// As C's `strtol` with base 0: decimal, `0x…`, `0…`.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let text = trimmed(text);
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (base, text) = match text {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, text.get(2..)?),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let digits = text
        .iter()
        .take_while(|byte| char::from(**byte).is_digit(base))
        .count();
    let (digits, rest) = text
        .split_at_checked(digits)
        .filter(|(digits, _)| !digits.is_empty())?;
    let add = |value: i64, digit: &u8| {
        let digit = i64::from(char::from(*digit).to_digit(base).unwrap_or(0));
        value.saturating_mul(i64::from(base)).saturating_add(digit)
    };
    let value = digits.iter().fold(0, add);
    Some((
        if negative {
            value.saturating_neg()
        } else {
            value
        },
        rest,
    ))
}

/// Up to a space, with C's escapes; and what is behind the space.
fn unescaped(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let (mut value, mut rest) = (Vec::new(), text);
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if byte.is_ascii_whitespace() || value.len() >= TEXT_BYTES_MAX {
            break;
        }
        if *byte != b'\\' {
            value.push(*byte);
            continue;
        }
        let Some((letter, behind)) = rest.split_first() else {
            break;
        };
        rest = behind;
        match letter {
            b'n' => value.push(b'\n'),
            b'r' => value.push(b'\r'),
            b'b' => value.push(0x08),
            b't' => value.push(b'\t'),
            b'f' => value.push(0x0c),
            b'v' => value.push(0x0b),
            b'0'..=b'7' => {
                let (code, more) = digits(rest, 8, 2);
                value.push((u32::from(letter - b'0') << (3 * more) | code) as u8);
                rest = rest.get(more..).unwrap_or_default();
            }
            b'x' => {
                let (code, more) = digits(rest, 16, 3);
                value.push(if more == 0 { b'x' } else { code as u8 });
                rest = rest.get(more..).unwrap_or_default();
            }
            other => value.push(*other),
        }
    }
    (value, rest)
}

/// The value of so many digits at most, and how many there are.
fn digits(text: &[u8], base: u32, count_max: usize) -> (u32, usize) {
    let found = text
        .iter()
        .take(count_max)
        .map_while(|byte| char::from(*byte).to_digit(base));
    found.fold((0, 0), |(value, count), digit| {
        (value * base + digit, count + 1)
    })
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
