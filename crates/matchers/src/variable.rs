//! Variables: parts of a request by name, in nginx's words where nginx has one.
//!
//! Called by: templates.
//! Caveat: `$path`, `$request_uri`, `$args`, and `$query` are as sent, that is percent-encoded; all
//! other values are decoded.
//! Out of scope: names of the configuration (`vars`, maps, captures), which templates link.

use crate::{
    evaluation::{Evaluation, Repeated},
    parameters::{cookies, parameters},
    sink::Nature,
};
use saker_ap_expr::{Dependency, RequestPart, Variable as ServerVariable};
use saker_http::{
    cookies::cookies_with_commas,
    query::{form_decoded, is_read_as, parameters_with_semicolons},
};
use std::borrow::Cow;

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    Host,
    /// The path as sent.
    Path,
    /// The current query with its question mark, or nothing.
    Query,
    /// The current query.
    Args,
    /// A question mark if there is a query.
    IsArgs,
    /// The current path, decoded.
    Uri,
    /// Path and query as sent.
    RequestUri,
    Method,
    Scheme,
    RemoteAddress,
    RemotePort,
    /// The authenticated user.
    RemoteUser,
    /// A detail about the authenticated user: a claim of a token or session, or an attribute
    /// of a directory.
    Claim(Box<str>),
    /// The id of the request, where its settings want one.
    RequestId,
    /// The list of proxies, with the client or proxy that connected.
    ForwardedFor,
    ServerAddress,
    ServerPort,
    Protocol,
    /// A request field, by its name in lower case.
    Field(Box<str>),
    Cookie(Box<str>),
    /// A query parameter.
    Argument(Box<str>),
}

/// Names without a part of their own choice.
pub(crate) const NAMES: [(&str, Variable); 21] = [
    ("host", Variable::Host),
    ("path", Variable::Path),
    ("query", Variable::Query),
    ("args", Variable::Args),
    ("query_string", Variable::Args),
    ("is_args", Variable::IsArgs),
    ("uri", Variable::Uri),
    ("document_uri", Variable::Uri),
    ("request_uri", Variable::RequestUri),
    ("method", Variable::Method),
    ("request_method", Variable::Method),
    ("scheme", Variable::Scheme),
    ("remote_addr", Variable::RemoteAddress),
    ("remote_port", Variable::RemotePort),
    ("remote_user", Variable::RemoteUser),
    ("request_id", Variable::RequestId),
    ("proxy_add_x_forwarded_for", Variable::ForwardedFor),
    ("server_addr", Variable::ServerAddress),
    ("server_port", Variable::ServerPort),
    ("protocol", Variable::Protocol),
    ("server_protocol", Variable::Protocol),
];

impl Variable {
    /// Finds a variable by its name, without the dollar sign.
    pub fn from_name(name: &str) -> Option<Variable> {
        if let Some((_, variable)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Some(variable.clone());
        }
        let (kind, of) = name.split_once('_').filter(|(_, of)| !of.is_empty())?;
        match kind {
            "http" => Some(Variable::field(&of.replace('_', "-"))),
            "cookie" => Some(Variable::Cookie(of.into())),
            "arg" => Some(Variable::Argument(of.into())),
            "claim" => Some(Variable::Claim(of.into())),
            _ => None,
        }
    }

    /// The variable of a request field. Host is always read in its canonical form.
    pub fn field(name: &str) -> Variable {
        match name.eq_ignore_ascii_case("host") {
            true => Variable::Host,
            false => Variable::Field(name.to_ascii_lowercase().into()),
        }
    }

    /// Returns true if the value is percent-encoded.
    pub(crate) fn is_encoded(&self) -> bool {
        matches!(
            self,
            Variable::Path | Variable::Query | Variable::Args | Variable::RequestUri
        )
    }

    /// Returns true if the value is unknown before access is decided.
    pub(crate) fn is_of_user(&self) -> bool {
        matches!(self, Variable::RemoteUser | Variable::Claim(_))
    }

    /// Returns true if the value follows from what clients send beside the URL, or who they are.
    pub(crate) fn is_of_client(&self) -> bool {
        self.is_of_user() || matches!(self, Variable::Field(_) | Variable::Cookie(_))
    }

    /// Returns true if the value follows from the client's address.
    pub(crate) fn is_address(&self) -> bool {
        matches!(
            self,
            Variable::RemoteAddress | Variable::RemotePort | Variable::ForwardedFor
        )
    }

    /// Returns true if the value follows from the query.
    pub(crate) fn is_of_query(&self) -> bool {
        matches!(
            self,
            Variable::Query
                | Variable::Args
                | Variable::IsArgs
                | Variable::RequestUri
                | Variable::Argument(_)
        )
    }

    pub(crate) fn nature(&self) -> Nature {
        match self {
            Variable::Path | Variable::RequestUri => Nature::SentPath,
            Variable::Query | Variable::Args | Variable::IsArgs => Nature::SentQuery,
            Variable::Uri => Nature::Path,
            Variable::Field(_) | Variable::Cookie(_) | Variable::Argument(_) => Nature::Text,
            Variable::Method | Variable::RemoteUser | Variable::Claim(_) => Nature::Text,
            Variable::RequestId | Variable::ForwardedFor => Nature::Text,
            _ => Nature::Name,
        }
    }

    /// The part of the request that the value follows from, unless outcomes are kept by it anyway.
    pub(crate) fn part(&self) -> Option<RequestPart> {
        match self {
            Variable::Args | Variable::Argument(_) => Some(RequestPart::Query),
            Variable::Method => Some(RequestPart::Method),
            Variable::RemoteAddress => Some(RequestPart::ClientAddress),
            Variable::Field(name) => RequestPart::of_field(name.as_bytes()),
            Variable::Cookie(_) => RequestPart::of_field(b"cookie"),
            _ => None,
        }
    }

    /// The value in the text of its part ([`Variable::part`]).
    pub(crate) fn value_in<'t>(&self, text: Option<&'t [u8]>) -> Cow<'t, [u8]> {
        let text = text.unwrap_or_default();
        match self {
            Variable::Argument(name) => parameters(text)
                .find(|(known, _)| **known == *name.as_bytes())
                .map(|(_, value)| value)
                .unwrap_or_default(),
            Variable::Cookie(name) => cookies(text)
                .find(|(known, _)| *known == name.as_bytes())
                .map_or(Cow::Borrowed(&[][..]), |(_, value)| Cow::Borrowed(value)),
            _ => Cow::Borrowed(text),
        }
    }

    /// Values of all parameters or cookies that some program knows by the name, as it decodes them.
    fn values_in<'t>(&self, text: &'t [u8]) -> Vec<Cow<'t, [u8]>> {
        match self {
            Variable::Argument(name) => parameters_with_semicolons(text)
                .filter(|parameter| is_read_as(parameter.name, name.as_bytes()))
                .map(|parameter| form_decoded(parameter.value.unwrap_or_default()))
                .collect(),
            Variable::Cookie(name) => cookies_with_commas(std::iter::once(text))
                .filter(|cookie| is_read_as(cookie.name, name.as_bytes()))
                .map(|cookie| form_decoded(cookie.value.unwrap_or_default()))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// True if the text has several parameters or cookies of the name, or one that programs read
    /// otherwise.
    fn is_repeated_in(&self, text: &[u8]) -> bool {
        match &*self.values_in(text) {
            [] => false,
            [only] => *only != self.value_in(Some(text)),
            _ => true,
        }
    }

    /// The same as [`Variable::value_in`]; of several parameters or cookies, that which is wanted.
    fn one_value_in<'t>(&self, text: Option<&'t [u8]>, repeated: Repeated) -> Cow<'t, [u8]> {
        let is_usual = matches!(repeated, Repeated::AsUsual | Repeated::Watched);
        let mut values = match self {
            Variable::Argument(_) | Variable::Cookie(_) if !is_usual => {
                self.values_in(text.unwrap_or_default())
            }
            _ => return self.value_in(text),
        };
        match (values.is_empty(), repeated) {
            (true, _) => Cow::default(),
            (false, Repeated::First) => values.swap_remove(0),
            (false, _) => values.pop().unwrap_or_default(),
        }
    }

    /// Returns the value without recording it.
    pub(crate) fn peek<'f>(&self, evaluation: &Evaluation<'f>) -> Cow<'f, [u8]> {
        let facts = evaluation.facts;
        let server = |variable| facts.variable(variable).unwrap_or_default();
        let repeated = evaluation.repeated;
        let watch = |is_repeated: &dyn Fn() -> bool| {
            if evaluation.repeated == Repeated::Watched && is_repeated() {
                evaluation.has_repeated.set(true);
            }
        };
        let value_in = |text: Option<&'f [u8]>| self.one_value_in(text, repeated);
        match self {
            Variable::Host => Cow::Borrowed(facts.host()),
            Variable::Path => Cow::Borrowed(sent_path(facts.target()).0),
            Variable::RequestUri => {
                let (path, query) = sent_path(facts.target());
                match query {
                    Some(query) => Cow::Owned([path, b"?", query].concat()),
                    None => Cow::Borrowed(path),
                }
            }
            Variable::Query => facts.query().map_or(Cow::Borrowed(&[]), |query| {
                Cow::Owned([b"?", query].concat())
            }),
            Variable::IsArgs => Cow::Borrowed(facts.query().map_or(&[], |_| b"?")),
            Variable::Uri => Cow::Borrowed(facts.path()),
            Variable::Method => server(ServerVariable::RequestMethod),
            Variable::Scheme => Cow::Borrowed(if facts.is_secure() { b"https" } else { b"http" }),
            Variable::RemoteAddress => server(ServerVariable::RemoteAddr),
            Variable::RemotePort => server(ServerVariable::RemotePort),
            Variable::RemoteUser => server(ServerVariable::RemoteUser),
            Variable::Claim(name) => facts.claim(name),
            Variable::RequestId => facts.request_id(),
            Variable::ForwardedFor => facts.forwarded_for(),
            Variable::ServerAddress => server(ServerVariable::ServerAddr),
            Variable::ServerPort => server(ServerVariable::ServerPort),
            Variable::Protocol => Cow::Borrowed(facts.version().as_str().as_bytes()),
            Variable::Field(name) => {
                let name = name.as_bytes();
                let value = match evaluation.repeated {
                    Repeated::AsUsual | Repeated::Watched => facts.request_field(name),
                    repeated => facts.one_request_field(name, repeated),
                };
                // Lines that are joined are no longer borrowed.
                watch(&|| matches!(value, Some(Cow::Owned(_))));
                value.unwrap_or_default()
            }
            Variable::Cookie(_) => match facts.request_field(b"cookie") {
                Some(Cow::Borrowed(text)) => {
                    watch(&|| self.is_repeated_in(text));
                    value_in(Some(text))
                }
                Some(Cow::Owned(text)) => {
                    watch(&|| self.is_repeated_in(&text));
                    Cow::Owned(self.one_value_in(Some(&text), repeated).into_owned())
                }
                None => Cow::Borrowed(&[]),
            },
            Variable::Args | Variable::Argument(_) => {
                watch(&|| self.is_repeated_in(facts.query().unwrap_or_default()));
                value_in(facts.query())
            }
        }
    }

    /// Returns the value, and records what it depends on.
    pub(crate) fn read<'f>(&self, evaluation: &mut Evaluation<'f>) -> Cow<'f, [u8]> {
        let facts = evaluation.facts;
        let has_query = facts.query().is_some();
        match self {
            Variable::Host | Variable::Path | Variable::Uri => {}
            Variable::Query | Variable::IsArgs | Variable::RequestUri => {
                evaluation.read_optional(RequestPart::Query, has_query)
            }
            Variable::Scheme => evaluation.dependencies.add(Dependency::Scheme),
            Variable::Protocol => evaluation.dependencies.add(Dependency::RequestLine),
            Variable::RemotePort => evaluation.dependencies.add(Dependency::Client),
            Variable::RemoteUser | Variable::Claim(_) => {
                evaluation.dependencies.add(Dependency::User)
            }
            Variable::ForwardedFor => evaluation.dependencies.add(Dependency::Client),
            Variable::ServerAddress | Variable::ServerPort | Variable::RequestId => {
                evaluation.dependencies.add(Dependency::Connection)
            }
            _ => match self.part() {
                Some(RequestPart::Query) => evaluation.read_optional(RequestPart::Query, has_query),
                Some(RequestPart::Field(name)) => {
                    let is_present = facts.request_field(name.as_bytes()).is_some();
                    evaluation.read_optional(RequestPart::Field(name), is_present);
                }
                Some(part) => evaluation.read(&part),
                None => {}
            },
        }
        self.peek(evaluation)
    }
}

/// Path and query of a request target, without scheme and authority.
fn sent_path(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], target.get(at + 1..)),
        None => (target, None),
    };
    if path.first() == Some(&b'/') {
        return (path, query);
    }
    let after_scheme = path.windows(3).position(|window| window == b"://");
    let path = match after_scheme {
        None => path,
        Some(at) => {
            let rest = &path[at + 3..];
            rest.iter()
                .position(|byte| *byte == b'/')
                .map_or(&b"/"[..], |slash| &rest[slash..])
        }
    };
    (path, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Variable::from_name("host"), Some(Variable::Host));
        assert_eq!(Variable::from_name("http_host"), Some(Variable::Host));
        assert_eq!(
            Variable::from_name("http_x_a"),
            Some(Variable::Field("x-a".into()))
        );
        assert_eq!(
            Variable::from_name("arg_a_b"),
            Some(Variable::Argument("a_b".into()))
        );
        assert_eq!(
            Variable::from_name("claim_tenant"),
            Some(Variable::Claim("tenant".into()))
        );
        for unknown in ["", "hosts", "http_", "claim_", "foo_bar", "1"] {
            assert_eq!(Variable::from_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn targets() {
        for (target, path, query) in [
            ("/a%20b?c=1", "/a%20b", Some("c=1")),
            ("/a?", "/a", Some("")),
            ("http://h/a", "/a", None),
            ("http://h", "/", None),
            ("*", "*", None),
        ] {
            assert_eq!(
                sent_path(target.as_bytes()),
                (path.as_bytes(), query.map(str::as_bytes)),
                "{target}"
            );
        }
    }
}
