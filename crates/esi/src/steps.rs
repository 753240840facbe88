//! The steps of a template for one request: text and includes, in order.

use crate::{
    facts::Facts,
    tree::{BranchKind, Include, Part, Role, Template},
};
use std::{collections::HashMap, ops::Range};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Text range of the page.
    Text(Range<usize>),
    Made(Vec<u8>),
    Include(Wanted),
    /// The first, unless an include in it fails: then the second.
    Try {
        attempt: Vec<Step>,
        except: Vec<Step>,
    },
}

/// A page that is to be put in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub src: Vec<u8>,
    /// Alternative, if `src` fails.
    pub alt: Option<Vec<u8>>,
    /// `onerror="continue"`: failing, it is nothing.
    pub is_optional: bool,
    /// `as-var`: fetched once for all includes of it.
    pub is_kept: bool,
    /// Lifetime if the response doesn't specify one.
    pub ttl_s: Option<u64>,
    /// `Cache-Control` if the response has no caching fields.
    pub cache_control: Option<Vec<u8>>,
    /// Additional tags.
    pub cache_tag: Option<Vec<u8>>,
    pub role: Option<Role>,
}

impl Template {
    pub fn steps(&self, facts: &Facts) -> Vec<Step> {
        let mut steps = Vec::new();
        add(&self.parts, facts, &mut Known::default(), &mut steps);
        steps
    }
}

/// Maximum bytes of variables and URLs for one request: client input is inserted as often as the
/// page asks for it.
const MADE_BYTES_MAX: usize = 8 << 20;
/// Includes in all; further ones are left out.
const INCLUDES_MAX: usize = 4096;

#[derive(Default)]
struct Known<'t> {
    named: Named<'t>,
    made_bytes: usize,
    includes: usize,
}

impl Known<'_> {
    /// True if there may be so many bytes more.
    fn takes(&mut self, bytes: usize) -> bool {
        self.made_bytes += bytes;
        self.made_bytes <= MADE_BYTES_MAX
    }

    /// True if there may be that include, too.
    fn includes(&mut self, wanted: &Wanted) -> bool {
        self.includes += 1;
        self.includes <= INCLUDES_MAX
            && self.takes(wanted.src.len() + wanted.alt.as_ref().map_or(0, Vec::len))
    }
}

/// Earlier includes by name (`as-var`).
type Named<'t> = HashMap<&'t [u8], Wanted>;

fn add<'t>(parts: &'t [Part], facts: &Facts, known: &mut Known<'t>, steps: &mut Vec<Step>) {
    for part in parts {
        match part {
            Part::Text(range) => steps.push(Step::Text(range.clone())),
            Part::Variable(value) => match value
                .only_name()
                .and_then(|name| known.named.get(name))
                .cloned()
            {
                Some(wanted) => {
                    steps.extend(known.includes(&wanted).then_some(Step::Include(wanted)))
                }
                None if known.made_bytes > MADE_BYTES_MAX => {}
                None => {
                    let text = value.html(facts);
                    steps.extend(known.takes(text.len()).then_some(Step::Made(text)));
                }
            },
            Part::Include(include) => {
                if known.made_bytes > MADE_BYTES_MAX || known.includes >= INCLUDES_MAX {
                    continue;
                }
                let Some(wanted) = wanted(include, facts).filter(|wanted| known.includes(wanted))
                else {
                    continue;
                };
                if let Some(name) = &include.kept_as {
                    known.named.insert(name, wanted.clone());
                }
                steps.push(Step::Include(wanted));
            }
            Part::Choose(branches) => {
                let is_chosen = |kind: &BranchKind| match kind {
                    BranchKind::When(test) => test.holds(facts),
                    _ => false,
                };
                let otherwise = || {
                    branches
                        .iter()
                        .find(|branch| matches!(branch.kind, BranchKind::Otherwise))
                };
                if let Some(branch) = branches
                    .iter()
                    .find(|branch| is_chosen(&branch.kind))
                    .or_else(otherwise)
                {
                    add(&branch.parts, facts, known, steps);
                }
            }
            Part::Try { attempt, except } => {
                let (mut first, mut second) = (Vec::new(), Vec::new());
                add(attempt, facts, known, &mut first);
                add(except, facts, known, &mut second);
                steps.push(Step::Try {
                    attempt: first,
                    except: second,
                });
            }
            // Without the element that it belongs to.
            Part::Branch(branch) => add(&branch.parts, facts, known, steps),
        }
    }
}

fn wanted(include: &Include, facts: &Facts) -> Option<Wanted> {
    let is_wanted = include.test.as_ref().is_none_or(|test| test.holds(facts));
    is_wanted.then(|| Wanted {
        src: include.src.address(facts),
        alt: include.alt.as_ref().map(|alt| alt.address(facts)),
        is_optional: include.is_optional,
        is_kept: include.kept_as.is_some(),
        ttl_s: include.ttl_s,
        cache_control: include.cache_control.clone(),
        cache_tag: include.cache_tag.clone(),
        role: include.role,
    })
}
