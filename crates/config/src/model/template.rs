//! Texts with variables of the request, such as `https://$host$request_uri`.
//!
//! Called by: directives, which parse them when the configuration is read; features, which evaluate
//! them for a request.
//! Caveat: names are nginx's. A name that does not exist is an error of the configuration.
//! Out of scope: evaluation (`saker_pipeline::template`).

use std::fmt;

/// A parsed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldTemplate {
    pub pieces: Box<[FieldTemplatePiece]>,
}

/// A part of a [`FieldTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldTemplatePiece {
    Text(Box<str>),
    FieldVariable(FieldVariable),
}

/// A value of the request. The comments give the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldVariable {
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

const NAMES: &[(&str, FieldVariable)] = &[
    ("host", FieldVariable::Host),
    ("remote_addr", FieldVariable::RemoteAddress),
    ("remote_port", FieldVariable::RemotePort),
    ("remote_user", FieldVariable::RemoteUser),
    ("scheme", FieldVariable::Scheme),
    ("request_id", FieldVariable::RequestId),
    ("request_method", FieldVariable::Method),
    ("method", FieldVariable::Method),
    ("request_uri", FieldVariable::RequestUri),
    ("uri", FieldVariable::Path),
    ("path", FieldVariable::Path),
    ("query_string", FieldVariable::Query),
    ("args", FieldVariable::Query),
    ("query", FieldVariable::Query),
    ("server_addr", FieldVariable::ServerAddress),
    ("server_port", FieldVariable::ServerPort),
    ("server_protocol", FieldVariable::Protocol),
    ("proxy_add_x_forwarded_for", FieldVariable::ForwardedFor),
];

impl FieldTemplate {
    /// Parses a text: `$name` and `${name}` are variables, `$$` is a dollar sign.
    ///
    /// # Errors
    /// Names that do not exist, and a `$` without a name.
    pub fn parse(text: &str) -> Result<FieldTemplate, TemplateError> {
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
            let variable = FieldVariable::named(name).ok_or_else(|| TemplateError {
                variable: format!("${name}"),
            })?;
            if !literal.is_empty() {
                pieces.push(FieldTemplatePiece::Text(
                    std::mem::take(&mut literal).into(),
                ));
            }
            pieces.push(FieldTemplatePiece::FieldVariable(variable));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(FieldTemplatePiece::Text(literal.into()));
        }
        Ok(FieldTemplate {
            pieces: pieces.into(),
        })
    }

    /// Returns the text if it has no variables.
    pub fn literal(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [FieldTemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the names of all variables, for suggestions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl FieldVariable {
    fn named(name: &str) -> Option<FieldVariable> {
        if let Some((_, variable)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Some(variable.clone());
        }
        let of = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        of("http_")
            .map(|field| FieldVariable::Field(field.replace('_', "-").into()))
            .or_else(|| of("cookie_").map(|cookie| FieldVariable::Cookie(cookie.into())))
            .or_else(|| of("arg_").map(|argument| FieldVariable::Argument(argument.into())))
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
        let text = |text: &str| FieldTemplatePiece::Text(text.into());
        let parsed = FieldTemplate::parse("a$host:${scheme}b$$$http_x_api_key").unwrap();
        assert_eq!(
            *parsed.pieces,
            [
                text("a"),
                FieldTemplatePiece::FieldVariable(FieldVariable::Host),
                text(":"),
                FieldTemplatePiece::FieldVariable(FieldVariable::Scheme),
                text("b$"),
                FieldTemplatePiece::FieldVariable(FieldVariable::Field("x-api-key".into())),
            ]
        );
        assert_eq!(FieldTemplate::parse("").unwrap().literal(), Some(""));
        assert_eq!(FieldTemplate::parse("5$$").unwrap().literal(), Some("5$"));
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
            let error = FieldTemplate::parse(text).unwrap_err();
            assert_eq!(error.variable, variable, "{text}");
        }
    }
}
