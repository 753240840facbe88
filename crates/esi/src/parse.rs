//! Parses a page into parts.
//!
//! Called by: the page cache, once per page.
//! Caveat: unclosed elements. The outermost element that is not closed in order becomes text, with
//! everything after it; so every byte is parsed once, however broken the page is.

use crate::{
    expression::Expression,
    tag::{self, Mark, Tag},
    tree::{Branch, BranchKind, Include, Inline, Part, Role, Template},
    value::{self, Value},
};
use std::ops::Range;

/// Elements inside one another.
const DEPTH_MAX: usize = 32;
/// Maximum number of faults recorded per page; further ones add no information.
const FAULTS_MAX: usize = 16;

/// An element is not closed, or not in order.
struct Unclosed;

impl Template {
    pub fn parse(page: &[u8]) -> Template {
        let mut parser = Parser {
            page,
            inlines: Vec::new(),
            faults: Vec::new(),
            in_vars: 0,
        };
        let parts = parser.outside(0..page.len(), 0);
        Template {
            parts,
            inlines: parser.inlines,
            faults: parser.faults,
        }
    }
}

struct Parser<'p> {
    page: &'p [u8],
    inlines: Vec<Inline>,
    faults: Vec<String>,
    /// Elements `vars` around this place.
    in_vars: usize,
}

impl Parser<'_> {
    /// Parses a range; an element that does not end in it becomes text.
    fn outside(&mut self, range: Range<usize>, depth: usize) -> Vec<Part> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        while let Some(mark) = tag::next(self.page, at..range.end) {
            let start = start(&mark);
            self.text(at..start, &mut parts);
            let (inlines, in_vars) = (self.inlines.len(), self.in_vars);
            match self.mark(mark, range.end, depth, &mut parts) {
                Ok(next) => at = next,
                Err(Unclosed) => {
                    self.inlines.truncate(inlines);
                    self.in_vars = in_vars;
                    self.fault(
                        start,
                        "an element is not closed: it and what follows is text",
                    );
                    parts.push(Part::Text(start..range.end));
                    return parts;
                }
            }
        }
        self.text(at..range.end, &mut parts);
        parts
    }

    /// Parses up to the end tag of that name; returns the offset after it.
    fn inside(
        &mut self,
        name: &[u8],
        range: Range<usize>,
        depth: usize,
    ) -> Result<(Vec<Part>, usize), Unclosed> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        loop {
            let mark = tag::next(self.page, at..range.end).ok_or(Unclosed)?;
            self.text(at..start(&mark), &mut parts);
            match mark {
                Mark::Close(closed, tag) if closed == name => return Ok((parts, tag.end)),
                Mark::Close(closed, _) if has_content(&closed) => return Err(Unclosed),
                mark => at = self.mark(mark, range.end, depth, &mut parts)?,
            }
        }
    }

    /// Adds the element that a mark begins; returns the offset after it.
    fn mark(
        &mut self,
        mark: Mark,
        end: usize,
        depth: usize,
        parts: &mut Vec<Part>,
    ) -> Result<usize, Unclosed> {
        if depth > DEPTH_MAX {
            return Err(Unclosed);
        }
        match mark {
            Mark::Open(tag) => self.element(tag, end, depth, parts),
            Mark::Close(_, tag) => {
                self.fault(tag.start, "an end tag without its beginning is text");
                parts.push(Part::Text(tag.clone()));
                Ok(tag.end)
            }
            // ESI 1.0 section 3.7.
            Mark::Comment(tag) => {
                let length =
                    memchr::memmem::find(&self.page[tag.end..end], b"-->").ok_or(Unclosed)?;
                let inside = self.outside(tag.end..tag.end + length, depth + 1);
                parts.extend(inside);
                Ok(tag.end + length + 3)
            }
        }
    }

    fn element(
        &mut self,
        tag: Tag,
        end: usize,
        depth: usize,
        parts: &mut Vec<Part>,
    ) -> Result<usize, Unclosed> {
        match tag.name.as_slice() {
            b"include" => {
                match include(&tag) {
                    Some(include) => parts.push(Part::Include(Box::new(include))),
                    None => self.fault(tag.range.start, "an include without src is left out"),
                }
                Ok(self.after_end_tag(&tag, end))
            }
            b"comment" => Ok(self.after_end_tag(&tag, end)),
            b"remove" if tag.is_empty => Ok(tag.range.end),
            b"remove" => Ok(self.raw(&tag, end)?.end),
            b"inline" => self.inline(&tag, end),
            b"vars" => self.vars(&tag, end, depth, parts),
            b"choose" | b"try" | b"when" | b"otherwise" | b"attempt" | b"except" => {
                self.branching(&tag, end, depth, parts)
            }
            _ => {
                self.fault(tag.range.start, "an element that ESI does not have is text");
                parts.push(Part::Text(tag.range.clone()));
                Ok(tag.range.end)
            }
        }
    }

    fn branching(
        &mut self,
        tag: &Tag,
        end: usize,
        depth: usize,
        parts: &mut Vec<Part>,
    ) -> Result<usize, Unclosed> {
        let (inside, next) = match tag.is_empty {
            true => (Vec::new(), tag.range.end),
            false => self.inside(&tag.name, tag.range.end..end, depth + 1)?,
        };
        let kind = match tag.name.as_slice() {
            b"choose" => {
                parts.push(Part::Choose(branches(inside)));
                return Ok(next);
            }
            b"try" => {
                parts.push(attempt(branches(inside)));
                return Ok(next);
            }
            b"when" => BranchKind::When(self.test(tag).unwrap_or_else(Expression::never)),
            b"otherwise" => BranchKind::Otherwise,
            b"attempt" => BranchKind::Attempt,
            _ => BranchKind::Except,
        };
        parts.push(Part::Branch(Branch {
            kind,
            parts: inside,
        }));
        Ok(next)
    }

    /// `None`, with a fault, if the expression is missing or invalid.
    fn test(&mut self, tag: &Tag) -> Option<Expression> {
        let test = tag.attribute(b"test").and_then(Expression::parse);
        if test.is_none() {
            self.fault(
                tag.range.start,
                "a test that can't be read holds for nobody",
            );
        }
        test
    }

    /// ESI 1.0 section 4.1; `name` holds a variable where the element is empty.
    fn vars(
        &mut self,
        tag: &Tag,
        end: usize,
        depth: usize,
        parts: &mut Vec<Part>,
    ) -> Result<usize, Unclosed> {
        if tag.is_empty {
            parts.extend(
                tag.attribute(b"name")
                    .map(|name| Part::Variable(Value::parse(name))),
            );
            return Ok(tag.range.end);
        }
        self.in_vars += 1;
        let (inside, next) = self.inside(b"vars", tag.range.end..end, depth + 1)?;
        self.in_vars -= 1;
        parts.extend(inside);
        Ok(next)
    }

    /// LSCache protocol 9.4. Its content is a page of its own, and parsed when that is requested.
    fn inline(&mut self, tag: &Tag, end: usize) -> Result<usize, Unclosed> {
        let close = if tag.is_empty {
            tag.range.end..tag.range.end
        } else {
            self.raw(tag, end)?
        };
        match tag.attribute(b"name").or(tag.attribute(b"src")) {
            Some(address) => self.inlines.push(Inline {
                address: address.to_vec(),
                cache_control: tag.attribute(b"cache-control").map(<[u8]>::to_vec),
                cache_tag: tag.attribute(b"cache-tag").map(<[u8]>::to_vec),
                is_fetchable: tag
                    .attribute(b"fetchable")
                    .is_some_and(|text| text.eq_ignore_ascii_case(b"yes")),
                content: tag.range.end..close.start,
                element: tag.range.start..close.end,
            }),
            None => self.fault(tag.range.start, "an inline without name is left out"),
        }
        Ok(close.end)
    }

    /// The end tag of an element whose content is not looked at.
    fn raw(&self, tag: &Tag, end: usize) -> Result<Range<usize>, Unclosed> {
        let mut from = tag.range.end;
        loop {
            from += memchr::memmem::find(self.page.get(from..end).ok_or(Unclosed)?, b"</")
                .ok_or(Unclosed)?;
            // Only what stands there: a tag in between is content.
            let limit = end.min(from + tag.name.len() + 64);
            if let Some(Mark::Close(name, range)) = tag::next(self.page, from..limit)
                && name == tag.name
                && range.start == from
            {
                return Ok(range);
            }
            from += 2;
        }
    }

    /// Offset after an immediately following end tag, if the element is written with one.
    fn after_end_tag(&self, tag: &Tag, end: usize) -> usize {
        let after = tag.range.end;
        let space = self.page[after..end]
            .iter()
            .take(64)
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let limit = end.min(after + space + tag.name.len() + 64);
        match tag::next(self.page, after + space..limit) {
            Some(Mark::Close(name, range))
                if !tag.is_empty && name == tag.name && range.start == after + space =>
            {
                range.end
            }
            _ => after,
        }
    }

    fn text(&mut self, range: Range<usize>, parts: &mut Vec<Part>) {
        let mut from = range.start;
        if self.in_vars > 0 {
            while let Some((before, variable, after)) = value::split(&self.page[from..range.end]) {
                let (before, after) = (from + before.len(), range.end - after.len());
                push_text(from..before, parts);
                parts.push(Part::Variable(Value::of(variable)));
                from = after;
            }
        }
        push_text(from..range.end, parts);
    }

    fn fault(&mut self, at: usize, what: &str) {
        if self.faults.len() < FAULTS_MAX {
            let line = self.page[..at.min(self.page.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1;
            self.faults.push(format!("line {line}: {what}"));
        }
    }
}

fn start(mark: &Mark) -> usize {
    match mark {
        Mark::Open(tag) => tag.range.start,
        Mark::Close(_, range) | Mark::Comment(range) => range.start,
    }
}

fn push_text(range: Range<usize>, parts: &mut Vec<Part>) {
    if range.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Text(last)) if last.end == range.start => last.end = range.end,
        _ => parts.push(Part::Text(range)),
    }
}

fn has_content(name: &[u8]) -> bool {
    matches!(
        name,
        b"vars" | b"choose" | b"try" | b"when" | b"otherwise" | b"attempt" | b"except"
    )
}

/// Content between branches belongs to none of them (ESI 1.0 section 3.4).
fn branches(parts: Vec<Part>) -> Vec<Branch> {
    let branch = |part| match part {
        Part::Branch(branch) => Some(branch),
        _ => None,
    };
    parts.into_iter().filter_map(branch).collect()
}

fn attempt(branches: Vec<Branch>) -> Part {
    let (mut attempt, mut except) = (Vec::new(), Vec::new());
    for branch in branches {
        match branch.kind {
            BranchKind::Attempt => attempt.extend(branch.parts),
            BranchKind::Except => except.extend(branch.parts),
            _ => {}
        }
    }
    Part::Try { attempt, except }
}

/// LSCache protocol 9.2.
fn include(tag: &Tag) -> Option<Include> {
    let src = Value::parse(tag.attribute(b"src")?.trim_ascii());
    let is = |name: &[u8], word: &[u8]| {
        tag.attribute(name)
            .is_some_and(|text| text.trim_ascii().eq_ignore_ascii_case(word))
    };
    let combine = tag.attribute(b"combine").or(tag.attribute(b"combined"));
    (!src.is_empty()).then(|| Include {
        src,
        alt: tag
            .attribute(b"alt")
            .map(|alt| Value::parse(alt.trim_ascii()))
            .filter(|alt| !alt.is_empty()),
        is_optional: is(b"onerror", b"continue"),
        kept_as: tag
            .attribute(b"as-var")
            .map(<[u8]>::trim_ascii)
            .filter(|name| !matches!(*name, b"" | b"0"))
            .map(<[u8]>::to_vec),
        ttl_s: tag.attribute(b"ttl").and_then(seconds),
        cache_control: tag.attribute(b"cache-control").map(<[u8]>::to_vec),
        cache_tag: tag.attribute(b"cache-tag").map(<[u8]>::to_vec),
        test: tag
            .attribute(b"test")
            .map(|test| Expression::parse(test).unwrap_or_else(Expression::never)),
        role: match combine.map(<[u8]>::trim_ascii) {
            Some(b"main" | b"parent") => Some(Role::Main),
            Some(b"sub") => Some(Role::Sub),
            _ => None,
        },
    })
}

/// `90`, `90s`, `5m`, `2h`, `1d`.
fn seconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let unit = match &text[end..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(unit)
}
