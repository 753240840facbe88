//! The facts as rules see them: changes by earlier rules, over those of the context.

use super::Run;
use crate::RewriteContext;
use saker_ap_expr::{Facts, FileFault, FileTest, LocalTime, RequestPart, Variable, Work};
use std::{borrow::Cow, net::IpAddr};

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

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.facts().request_field(name)
    }

    fn response_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.facts().response_field(name)
    }

    fn note(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.facts().note(name)
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

    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.facts().process_environment(name)
    }

    fn tls_variable(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.facts().tls_variable(name)
    }

    fn peer_extensions(&self, object_id: &[u8]) -> Vec<Vec<u8>> {
        self.facts().peer_extensions(object_id)
    }

    fn work(&self) -> Option<&Work> {
        self.facts().work()
    }

    fn client_address(&self) -> Option<IpAddr> {
        self.facts().client_address()
    }

    fn is_as_received(&self, part: &RequestPart) -> bool {
        (*part != RequestPart::Query || self.has_received_query)
            && self.facts().is_as_received(part)
    }

    fn local_time(&self) -> LocalTime {
        self.facts().local_time()
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        self.facts().file_test(path, test)
    }

    fn file_bytes(&self, path: &[u8]) -> Option<u64> {
        self.facts().file_bytes(path)
    }

    fn file_modified_us(&self, path: &[u8]) -> Option<i64> {
        self.facts().file_modified_us(path)
    }

    fn file_content(&self, path: &[u8], bytes_max: usize) -> Result<Vec<u8>, FileFault> {
        self.facts().file_content(path, bytes_max)
    }

    fn uri_status(&self, uri: &[u8]) -> Option<u16> {
        self.facts().uri_status(uri)
    }

    fn file_status(&self, path: &[u8]) -> Option<u16> {
        self.facts().file_status(path)
    }
}
