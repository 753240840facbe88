//! mod_negotiation's directives: which language goes before which. The choice itself is made in
//! `negotiate.rs`.

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;

#[derive(Clone, Debug, Default)]
pub struct Negotiation {
    /// In lower case, the best first.
    pub priority: Option<Vec<Box<str>>>,
    pub force: Option<Force>,
}

/// The cases that ForceLanguagePriority decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Force {
    /// Between languages that the client likes as much.
    pub prefer: bool,
    /// Decides if the client takes none of them.
    pub fallback: bool,
}

impl Negotiation {
    pub const DIRECTIVES: &'static [(&'static str, Set<Negotiation>)] = &[
        ("LanguagePriority", set_priority),
        ("ForceLanguagePriority", set_force),
    ];

    pub fn merge(&self, over: &Negotiation) -> Negotiation {
        Negotiation {
            priority: said(&self.priority, &over.priority),
            force: over.force.or(self.force),
        }
    }

    pub fn force(&self) -> Force {
        self.force.unwrap_or(Force {
            prefer: true,
            fallback: false,
        })
    }

    /// The place of a language in the priority.
    pub fn rank(&self, language: &str) -> Option<usize> {
        self.priority
            .iter()
            .flatten()
            .position(|known| language.eq_ignore_ascii_case(known))
    }
}

fn set_priority(
    node: &Node,
    negotiation: &mut Negotiation,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let words = texts(node)
        .into_iter()
        .map(|word| word.to_ascii_lowercase().into());
    negotiation.priority.get_or_insert_default().extend(words);
    Ok(())
}

fn set_force(
    node: &Node,
    negotiation: &mut Negotiation,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let mut force = Force {
        prefer: false,
        fallback: false,
    };
    for word in texts(node) {
        match word.to_ascii_lowercase().as_str() {
            "none" => {
                force = Force {
                    prefer: false,
                    fallback: false,
                }
            }
            "prefer" => force.prefer = true,
            "fallback" => force.fallback = true,
            _ => return Err(format!("Invalid ForceLanguagePriority option {word}")),
        }
    }
    negotiation.force = Some(force);
    Ok(())
}
