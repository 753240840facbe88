//! The facts as rules see them: changes by earlier rules, over those of the context.

use super::Run;
use crate::RewriteContext;
use saker_ap_expr::{Facts, RequestPart, Variable};
use std::borrow::Cow;

/// Facts for expressions in conditions.
pub(crate) struct Overlay<'r> {
    pub context: &'r dyn RewriteContext,
    pub filename: &'r [u8],
    pub query: Option<&'r [u8]>,
    pub path_info: &'r [u8],
    pub environment: &'r [(Vec<u8>, Option<Vec<u8>>)],
    /// No rule has changed the query.
    pub has_received_query: bool,
}

impl Run<'_> {
    pub(crate) fn overlay(&self) -> Overlay<'_> {
        Overlay {
            context: self.context,
            filename: &self.filename,
            query: self.query.as_deref(),
            path_info: if self.discard_path_info {
                b""
            } else {
                self.input.path_info
            },
            environment: &self.effects.environment,
            has_received_query: self.query.as_deref() == self.input.query,
        }
    }
}

impl Overlay<'_> {
    fn facts(&self) -> &dyn Facts {
        self.context.as_facts()
    }
}

impl Facts for Overlay<'_> {
    fn beneath(&self) -> Option<&dyn Facts> {
        Some(self.facts())
    }

    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::RequestFilename | Variable::ScriptFilename => {
                Some(Cow::Borrowed(self.filename))
            }
            Variable::QueryString => self.query.map(Cow::Borrowed),
            Variable::PathInfo => Some(Cow::Borrowed(self.path_info)),
            other => self.facts().variable(other),
        }
    }

    /// The last rule that touched a name has the word.
    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self
            .environment
            .iter()
            .rev()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            Some((_, value)) => value.as_deref().map(Cow::Borrowed),
            None => self.facts().environment(name),
        }
    }

    fn is_as_received(&self, part: &RequestPart) -> bool {
        (*part != RequestPart::Query || self.has_received_query)
            && self.facts().is_as_received(part)
    }
}
