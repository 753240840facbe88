//! Texts with variables of the request, such as `https://$host$request_uri`.
//!
//! Called by: directives, which parse them when the configuration is read; features, which evaluate
//! them for a request.
//! Caveat: names are nginx's. A name that does not exist is an error of the configuration.
//! Out of scope: evaluation (`saker_pipeline::template`).

use std::fmt;

/// A parsed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pub pieces: Box<[TemplatePiece]>,
}

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    Text(Box<str>),
    Variable(Variable),
}

/// A value of the request. The comments give the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `$host`: effective host, without port.
    Host,
    /// `$remote_addr`: client address, behind trusted proxies.
    RemoteAddress,
    /// `$remote_port`
    RemotePort,
    /// `$remote_user`: authenticated user.
    RemoteUser,
    /// `$scheme`: `http` or `https`.
    Scheme,
    /// `$request_id`: see `request_id` of sites.
    RequestId,
    /// `$request_method`, `$method`
    Method,
    /// `$request_uri`: path and query as sent.
    RequestUri,
    /// `$uri`, `$path`: path, decoded and normalized.
    Path,
    /// `$query_string`, `$args`, `$query`: query as sent, without its question mark.
    Query,
    /// `$server_addr`
    ServerAddress,
    /// `$server_port`
    ServerPort,
    /// `$server_protocol`
    Protocol,
    /// `$proxy_add_x_forwarded_for`: the list of proxies, with the client or proxy that connected.
    ForwardedFor,
    /// `$http_NAME`: request field, `_` standing for `-`.
    Field(Box<str>),
    /// `$cookie_NAME`
    Cookie(Box<str>),
    /// `$arg_NAME`: query parameter.
    Argument(Box<str>),
}

/// Reason why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The unknown name, with its dollar sign; a lone `$` if no name follows.
    pub variable: String,
}

const NAMES: &[(&str, Variable)] = &[
    ("host", Variable::Host),
    ("remote_addr", Variable::RemoteAddress),
    ("remote_port", Variable::RemotePort),
    ("remote_user", Variable::RemoteUser),
    ("scheme", Variable::Scheme),
    ("request_id", Variable::RequestId),
    ("request_method", Variable::Method),
    ("method", Variable::Method),
    ("request_uri", Variable::RequestUri),
    ("uri", Variable::Path),
    ("path", Variable::Path),
    ("query_string", Variable::Query),
    ("args", Variable::Query),
    ("query", Variable::Query),
    ("server_addr", Variable::ServerAddress),
    ("server_port", Variable::ServerPort),
    ("server_protocol", Variable::Protocol),
    ("proxy_add_x_forwarded_for", Variable::ForwardedFor),
];

impl Template {
    /// Parses a text: `$name` and `${name}` are variables, `$$` is a dollar sign.
    ///
    /// # Errors
    /// Names that do not exist, and a `$` without a name.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                literal.push('$');
                rest = after;
                continue;
            }
            let (name, after) = name(after);
            let variable = Variable::named(name).ok_or_else(|| TemplateError {
                variable: format!("${name}"),
            })?;
            if !literal.is_empty() {
                pieces.push(TemplatePiece::Text(std::mem::take(&mut literal).into()));
            }
            pieces.push(TemplatePiece::Variable(variable));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(TemplatePiece::Text(literal.into()));
        }
        Ok(Template {
            pieces: pieces.into(),
        })
    }

    /// Returns the text if it has no variables.
    pub fn literal(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [TemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the names of all variables, for suggestions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl Variable {
    fn named(name: &str) -> Option<Variable> {
        if let Some((_, variable)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Some(variable.clone());
        }
        let of = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        of("http_")
            .map(|field| Variable::Field(field.replace('_', "-").into()))
            .or_else(|| of("cookie_").map(|cookie| Variable::Cookie(cookie.into())))
            .or_else(|| of("arg_").map(|argument| Variable::Argument(argument.into())))
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variable.as_str() {
            "$" => f.write_str("`$` without the name of a variable"),
            name => write!(f, "unknown variable `{name}`"),
        }
    }
}

/// Splits a name, in braces or not, from the text behind it.
fn name(text: &str) -> (&str, &str) {
    if let Some((name, after)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, after);
    }
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let text = |text: &str| TemplatePiece::Text(text.into());
        let parsed = Template::parse("a$host:${scheme}b$$$http_x_api_key").unwrap();
        assert_eq!(
            *parsed.pieces,
            [
                text("a"),
                TemplatePiece::Variable(Variable::Host),
                text(":"),
                TemplatePiece::Variable(Variable::Scheme),
                text("b$"),
                TemplatePiece::Variable(Variable::Field("x-api-key".into())),
            ]
        );
        assert_eq!(Template::parse("").unwrap().literal(), Some(""));
        assert_eq!(Template::parse("5$$").unwrap().literal(), Some("5$"));
        assert_eq!(parsed.literal(), None);
    }

    #[test]
    fn names_that_do_not_exist() {
        for (text, variable) in [
            ("$hosts", "$hosts"),
            ("a$", "$"),
            ("$ a", "$"),
            ("${}", "$"),
            ("$http_", "$http_"),
            ("${remote addr}", "$remote addr"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(error.variable, variable, "{text}");
        }
    }
}
