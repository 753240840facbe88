//! The parts of a page, with the ranges of their text.

use crate::{expression::Expression, value::Value};
use std::ops::Range;

/// A page that has been looked at. Ranges are those of the page that it was made of.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pub(crate) parts: Vec<Part>,
    pub(crate) inlines: Vec<Inline>,
    pub(crate) faults: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(Range<usize>),
    /// A variable's value, as text.
    Variable(Value),
    Include(Box<Include>),
    Choose(Vec<Branch>),
    Try {
        attempt: Vec<Part>,
        except: Vec<Part>,
    },
    /// `when`, `otherwise`, `attempt`, `except`: until the element around them takes them.
    Branch(Branch),
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub kind: BranchKind,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(crate) enum BranchKind {
    When(Expression),
    Otherwise,
    Attempt,
    Except,
}

#[derive(Clone, Debug)]
pub(crate) struct Include {
    pub src: Value,
    pub alt: Option<Value>,
    pub is_optional: bool,
    /// `as-var`: by which it is known further on.
    pub kept_as: Option<Vec<u8>>,
    pub ttl_s: Option<u64>,
    pub cache_control: Option<Vec<u8>>,
    pub cache_tag: Option<Vec<u8>>,
    pub test: Option<Expression>,
    pub role: Option<Role>,
}

/// Part of an include in a combined request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Main,
    Sub,
}

/// `esi:inline`: content for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inline {
    pub address: Vec<u8>,
    pub cache_control: Option<Vec<u8>>,
    pub cache_tag: Option<Vec<u8>>,
    /// May be requested as a page of its own.
    pub is_fetchable: bool,
    pub content: Range<usize>,
    /// The whole element.
    pub(crate) element: Range<usize>,
}

impl Template {
    pub fn inlines(&self) -> &[Inline] {
        &self.inlines
    }

    /// Faults found in the page; the text is available all the same.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Returns true if the result depends on the request or on other pages.
    pub fn is_dynamic(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Text(_)))
    }

    /// Returns the page for all clients, if it depends on nothing.
    pub fn fixed(&self, page: &[u8]) -> Option<Vec<u8>> {
        let text = |part: &Part| match part {
            Part::Text(range) => page.get(range.clone()),
            _ => None,
        };
        self.parts
            .iter()
            .map(text)
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.concat())
    }

    /// The page as it may be stored: without inline content, which was meant for one response, and
    /// maybe for one client.
    pub fn without_inlines(&self, page: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(page.len());
        let mut from = 0;
        for inline in &self.inlines {
            out.extend_from_slice(page.get(from..inline.element.start).unwrap_or_default());
            from = from.max(inline.element.end);
        }
        out.extend_from_slice(page.get(from..).unwrap_or_default());
        out
    }

    /// About.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Template>()
            + self.parts.iter().map(Part::memory_bytes).sum::<usize>()
            + self.inlines.len() * 256
    }
}

impl Part {
    fn memory_bytes(&self) -> usize {
        let sum = |parts: &[Part]| parts.iter().map(Part::memory_bytes).sum::<usize>();
        let inside = match self {
            Part::Text(_) => 0,
            Part::Variable(_) => 96,
            Part::Include(_) => 384,
            Part::Choose(branches) => branches.iter().map(|branch| sum(&branch.parts) + 256).sum(),
            Part::Try { attempt, except } => sum(attempt) + sum(except),
            Part::Branch(branch) => sum(&branch.parts) + 256,
        };
        size_of::<Part>() + inside
    }
}
