//! Texts with variables: `$name`, `${name}`, `$header{Name}`, `$claim{name}`, `$1`, and `$$` for a
//! dollar sign.
//!
//! Called by: actions of routes, edits of fields, maps. A template is parsed when its file is read,
//! and linked when all names of the configuration are known.
//! Caveat: a template inside of a template (`vars`) is bounded in depth, and what it produces counts
//! toward the request's budget.
//! Out of scope: what values look like in their destination (`sink`).

use crate::{
    evaluation::{Evaluation, MatchError},
    sink::{Nature, Sink},
    variable::{self, Variable},
};
use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

/// Templates inside of each other.
const DEPTH_MAX: u8 = 32;
/// Groups that `$1` to `$9` can name.
const GROUPS_MAX: usize = 9;

/// A text with variables.
#[derive(Clone, Default)]
pub struct Template {
    text: Box<str>,
    pieces: Box<[Piece]>,
}

#[derive(Clone)]
enum Piece {
    Text(Box<str>),
    Variable(Variable),
    /// A group of the path pattern, from 1.
    Capture(usize),
    Nested(Arc<Template>),
    Map(Arc<dyn Lookup>),
    /// A name before it is linked, and its place in the text.
    Name(Box<str>, Range<usize>),
}

/// A text that is looked up for each request (a map).
pub trait Lookup: fmt::Debug + Send + Sync {
    /// Writes the value for the request to `sink`, like [`Template::expand`].
    ///
    /// # Errors
    /// A pattern takes too many steps.
    fn expand(
        self: Arc<Self>,
        evaluation: &mut Evaluation<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), MatchError>;

    /// Returns true if a value follows from the query.
    fn uses_query(&self) -> bool;

    /// Returns true if a value follows from the authenticated user.
    fn uses_user(&self) -> bool;

    /// The same as [`Template::differs_by_client`].
    fn differs_by_client(&self) -> bool;
}

/// Error in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Bytes of the text that are wrong.
    pub at: Range<usize>,
    pub message: String,
    pub help: Option<String>,
}

/// Names that templates can use in one place of a configuration, in addition to variables of the
/// request.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Number of groups of the path pattern.
    pub groups: usize,
    /// Named groups.
    pub group_names: Vec<(usize, String)>,
    pub vars: BTreeMap<String, Arc<Template>>,
    pub maps: Arc<BTreeMap<String, Arc<dyn Lookup>>>,
}

impl Template {
    /// Splits a text into pieces. Variables of the request are known right away, other names are
    /// linked later.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let start = text.len() - after.len() - 1;
            push_text(&mut pieces, before);
            let (piece, length) = reference(after, start)?;
            match piece {
                Piece::Text(text) => push_text(&mut pieces, &text),
                piece => pieces.push(piece),
            }
            rest = &after[length..];
        }
        push_text(&mut pieces, rest);
        Ok(Template {
            text: text.into(),
            pieces: pieces.into(),
        })
    }

    /// A text without variables.
    pub fn literal(text: &str) -> Template {
        let mut pieces = Vec::new();
        push_text(&mut pieces, text);
        Template {
            text: text.into(),
            pieces: pieces.into(),
        }
    }

    /// Returns the template with all names resolved.
    pub fn link(&self, names: &Names) -> Result<Template, TemplateError> {
        let pieces: Result<Vec<Piece>, TemplateError> = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Name(name, at) => resolve(name, at, names),
                Piece::Capture(group) if *group > names.groups => Err(no_group(
                    self.place_of_group(*group),
                    &group.to_string(),
                    names.groups,
                )),
                piece => Ok(piece.clone()),
            })
            .collect();
        Ok(Template {
            text: self.text.clone(),
            pieces: pieces?.into(),
        })
    }

    /// The template as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, if it has no variables.
    pub fn constant(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Names that are not linked yet.
    pub fn names(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Name(name, at) => Some((&**name, at.clone())),
            _ => None,
        })
    }

    /// Returns true if it uses groups of the path pattern.
    pub fn uses_captures(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Capture(_) => true,
            Piece::Nested(inner) => inner.uses_captures(),
            _ => false,
        })
    }

    /// Returns true if it uses a value that is percent-encoded, which a file path must not.
    pub fn uses_encoded(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Variable(variable) => variable.is_encoded(),
            Piece::Nested(inner) => inner.uses_encoded(),
            _ => false,
        })
    }

    /// Returns true if a value follows from the query.
    pub fn uses_query(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Variable(variable) => variable.is_of_query(),
            Piece::Nested(inner) => inner.uses_query(),
            Piece::Map(map) => map.uses_query(),
            _ => false,
        })
    }

    /// Returns true if it uses the authenticated user, who is unknown before access is decided.
    pub fn uses_user(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Variable(variable) => variable.is_of_user(),
            Piece::Nested(inner) => inner.uses_user(),
            Piece::Map(map) => map.uses_user(),
            _ => false,
        })
    }

    /// Returns true if clients that ask for one URL may have different values, by their fields,
    /// cookies, or users, or by a map of their addresses. Addresses as such do not count: they differ
    /// for each client, and a response that shows them is not for all.
    pub fn differs_by_client(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Variable(variable) => variable.is_of_client(),
            Piece::Nested(inner) => inner.differs_by_client(),
            Piece::Map(map) => map.differs_by_client(),
            _ => false,
        })
    }

    /// Returns true if it uses the client's address.
    pub(crate) fn uses_address(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Variable(variable) => variable.is_address(),
            Piece::Nested(inner) => inner.uses_address(),
            _ => false,
        })
    }

    /// Returns true if expansion can fail for a request whose budget is not used up.
    pub fn may_fail(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Nested(inner) => inner.may_fail(),
            Piece::Map(_) => true,
            _ => false,
        })
    }

    /// The only variable, if the template is nothing else.
    pub(crate) fn single(&self) -> Option<&Variable> {
        match &*self.pieces {
            [Piece::Variable(variable)] => Some(variable),
            _ => None,
        }
    }

    /// Returns true if the template is one variable, by its name. Names must not be linked yet.
    pub fn is_variable(&self, wanted: &str) -> bool {
        matches!(&*self.pieces, [Piece::Name(name, _)] if **name == *wanted)
    }

    /// Splits into path and query: at the first question mark of the configured text, or at
    /// `$is_args` or `$query`, whose values begin with one. Names must not be linked yet.
    pub fn split_query(&self) -> (Template, Option<Template>) {
        let of = |pieces: Vec<Piece>| Template {
            text: self.text.clone(),
            pieces: pieces.into(),
        };
        for (at, piece) in self.pieces.iter().enumerate() {
            let (before, after) = (&self.pieces[..at], &self.pieces[at + 1..]);
            let (mut path, mut query) = (before.to_vec(), Vec::new());
            match piece {
                Piece::Text(text) => {
                    let Some((first, rest)) = text.split_once('?') else {
                        continue;
                    };
                    push_text(&mut path, first);
                    push_text(&mut query, rest);
                }
                Piece::Name(name, _) if **name == *"is_args" => {}
                Piece::Name(name, at) if **name == *"query" => {
                    query.push(Piece::Name("args".into(), at.clone()));
                }
                _ => continue,
            }
            query.extend_from_slice(after);
            return (of(path), Some(of(query)));
        }
        (self.clone(), None)
    }

    /// Writes the text with all values to `sink`.
    ///
    /// # Errors
    /// The request's budget is used up, or a pattern of a map takes too many steps.
    pub fn expand(
        &self,
        evaluation: &mut Evaluation<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), MatchError> {
        if evaluation.depth >= DEPTH_MAX || evaluation.is_exhausted() {
            return Err(MatchError {
                message: "expanding variables took too many steps".to_owned(),
            });
        }
        evaluation.depth += 1;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    evaluation.charge(text.len());
                    sink.literal(text);
                }
                Piece::Variable(variable) => {
                    let value = variable.read(evaluation);
                    evaluation.charge(value.len());
                    sink.value(&value, variable.nature());
                }
                Piece::Capture(group) => {
                    let captures = evaluation.captures.clone();
                    let value = captures.get(*group);
                    evaluation.charge(value.len());
                    sink.value(value, Nature::Path);
                }
                Piece::Nested(inner) => inner.expand(evaluation, sink)?,
                Piece::Map(map) => Arc::clone(map).expand(evaluation, sink)?,
                Piece::Name(..) => debug_assert!(false, "a name is not linked: {self:?}"),
            }
        }
        evaluation.depth -= 1;
        Ok(())
    }

    /// The first `$N` of the text.
    fn place_of_group(&self, group: usize) -> Range<usize> {
        let wanted = [format!("${group}"), format!("${{{group}}}")];
        wanted
            .iter()
            .find_map(|wanted| Some((self.text.find(wanted)?, wanted.len())))
            .map_or(0..self.text.len(), |(at, length)| at..at + length)
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if text.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(Piece::Text(last)) => *last = format!("{last}{text}").into(),
        _ => pieces.push(Piece::Text(text.into())),
    }
}

/// The piece after a dollar sign at `start`, and its length.
fn reference(after: &str, start: usize) -> Result<(Piece, usize), TemplateError> {
    let wrong = |length: usize, message: &str, help: &str| TemplateError {
        at: start..start + 1 + length,
        message: message.to_owned(),
        help: Some(help.to_owned()),
    };
    let identifier = |text: &str| {
        text.bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            .count()
    };
    if after.starts_with('$') {
        return Ok((Piece::Text("$".into()), 1));
    }
    if let Some(digit @ b'1'..=b'9') = after.bytes().next() {
        return Ok((Piece::Capture(usize::from(digit - b'0')), 1));
    }
    if let Some(inner) = after.strip_prefix('{') {
        let Some((name, _)) = inner.split_once('}') else {
            return Err(wrong(
                1,
                "missing `}` after `${`",
                "write $$ for a dollar sign",
            ));
        };
        let at = start..start + name.len() + 3;
        if name.is_empty() || identifier(name) != name.len() {
            return Err(wrong(
                name.len() + 2,
                "invalid name of a variable",
                "write ${name}",
            ));
        }
        return Ok((named(name, at), name.len() + 2));
    }
    let length = identifier(after);
    if length == 0 || after.starts_with('0') {
        return Err(wrong(
            0,
            "`$` must be followed by the name of a variable",
            "write $$ for a dollar sign",
        ));
    }
    let name = &after[..length];
    if let "header" | "claim" = name
        && let Some(inner) = after[length..].strip_prefix('{')
    {
        let of = inner.split_once('}').map_or("", |(of, _)| of);
        let variable = match name {
            "header" if saker_http::chars::is_token(of.as_bytes()) => Variable::field(of),
            "claim" if !of.is_empty() && !of.contains(char::is_control) => {
                Variable::Claim(of.into())
            }
            "header" => {
                let help = "write $header{Name}";
                return Err(wrong(length + 1, "invalid name of a field", help));
            }
            _ => {
                let help = "write $claim{name}";
                return Err(wrong(length + 1, "invalid name of a claim", help));
            }
        };
        return Ok((Piece::Variable(variable), length + of.len() + 2));
    }
    Ok((named(name, start..start + 1 + length), length))
}

fn named(name: &str, at: Range<usize>) -> Piece {
    match name.parse::<usize>() {
        Ok(group @ 1..=GROUPS_MAX) => Piece::Capture(group),
        _ => Piece::Name(name.into(), at),
    }
}

fn resolve(name: &str, at: &Range<usize>, names: &Names) -> Result<Piece, TemplateError> {
    if let Some((group, _)) = names.group_names.iter().find(|(_, known)| known == name) {
        return match *group {
            group @ 1..=GROUPS_MAX => Ok(Piece::Capture(group)),
            _ => Err(TemplateError {
                at: at.clone(),
                message: format!("the group `{name}` is not one of the first {GROUPS_MAX}"),
                help: Some("write (?:...) for groups that are not used".to_owned()),
            }),
        };
    }
    if let Some(template) = names.vars.get(name) {
        return Ok(Piece::Nested(Arc::clone(template)));
    }
    if let Some(map) = names.maps.get(name) {
        return Ok(Piece::Map(Arc::clone(map)));
    }
    match Variable::from_name(name) {
        Some(variable) => Ok(Piece::Variable(variable)),
        None if name.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(no_group(at.clone(), name, names.groups))
        }
        None => Err(TemplateError {
            at: at.clone(),
            message: format!("unknown variable `${name}`"),
            help: Some(help_with(name, names)),
        }),
    }
}

/// A known name at the start of an unknown one was meant to end there: `$hostx`.
fn help_with(name: &str, names: &Names) -> String {
    let of_request = variable::NAMES.iter().map(|(known, _)| *known);
    let all = of_request
        .chain(names.vars.keys().map(String::as_str))
        .chain(names.maps.keys().map(String::as_str))
        .chain(names.group_names.iter().map(|(_, known)| known.as_str()));
    let near = all
        .clone()
        .filter(|known| name.starts_with(known) || known.starts_with(name))
        .max_by_key(|known| known.len());
    // A letter may be missing, and more in a longer name.
    let distance_max = 1 + name.len() / 4;
    let alike = || {
        all.map(|known| (strsim::osa_distance(name, known), known))
            .filter(|(distance, _)| *distance <= distance_max)
            .min()
            .map(|(_, known)| known)
    };
    match near.or_else(alike) {
        Some(known) if name.starts_with(known) => {
            format!(
                "write ${{{known}}}{}, or $$ for a dollar sign",
                &name[known.len()..]
            )
        }
        Some(known) => format!("did you mean `${known}`?"),
        None if name.starts_with("jwt_claim_") => {
            let claim = &name["jwt_claim_".len()..];
            format!("did you mean `$claim_{claim}`?")
        }
        None => {
            "variables are `$host`, `$uri`, `$args`, `$http_NAME`, `$arg_NAME`, \
                 `$cookie_NAME`, `$claim_NAME` and others (docs/routes.md), names of `vars`, and names of maps; $$ is a dollar \
                 sign"
                .to_owned()
        }
    }
}

fn no_group(at: Range<usize>, group: &str, groups: usize) -> TemplateError {
    TemplateError {
        at,
        message: match groups {
            0 => format!("undefined ${group}: the pattern has no `*` and no group"),
            1 => format!("undefined ${group}: the pattern has one `*` or group"),
            _ => format!("undefined ${group}: the pattern has {groups} `*` or groups"),
        },
        help: Some("`$path` is the whole path of the request".to_owned()),
    }
}

/// The same text is the same template.
impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        self.text == other.text
    }
}

impl Eq for Template {}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
