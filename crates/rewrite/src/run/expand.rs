//! Expands templates.
//!
//! Called by: rules and conditions of a run.
//! Caveat: `?` from a request must not begin a query that the administrator did not write, so the
//! expansion tracks the origin of the question mark that will count.
//! Out of scope: a second pass; request data is never expanded.

use super::{Run, Shown, TEXT_BYTES_MAX};
use crate::{
    Map, MapSource, RewriteContext,
    rule::Flags,
    template::{Lookup, Part, Template},
};
use saker_ap_expr::{Dependency, Facts, RequestPart, Variable};
use std::borrow::Cow;

/// Origin of the question mark that counts: the first one, or the last one with `[QSL]`.
#[derive(Clone, Copy, Debug, Default)]
struct QuestionMark {
    from_request: Option<bool>,
    last: bool,
}

impl QuestionMark {
    fn look(&mut self, text: &[u8], from_request: bool) {
        if text.contains(&b'?') && (self.last || self.from_request.is_none()) {
            self.from_request = Some(from_request);
        }
    }
}

impl Run<'_> {
    /// Without the escapes of a rule's flags.
    pub(crate) fn expand(&mut self, template: &Template) -> Vec<u8> {
        self.expand_with(template, None, &mut QuestionMark::default())
    }

    /// Expands with groups escaped as the flags require.
    pub(crate) fn expand_for(&mut self, template: &Template, flags: &Flags) -> Vec<u8> {
        self.expand_with(template, Some(flags), &mut QuestionMark::default())
    }

    /// A substitution; `None` if its query would begin at a question mark that came in the request.
    pub(crate) fn expand_substitution(
        &mut self,
        template: &Template,
        flags: &Flags,
    ) -> (Vec<u8>, bool) {
        let mut mark = QuestionMark {
            from_request: None,
            last: flags.query_last,
        };
        let text = self.expand_with(template, Some(flags), &mut mark);
        (
            text,
            mark.from_request == Some(true) && !flags.unsafe_allow_3f,
        )
    }

    fn expand_with(
        &mut self,
        template: &Template,
        flags: Option<&Flags>,
        mark: &mut QuestionMark,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &template.parts {
            let before = out.len();
            match part {
                Part::Literal(text) => {
                    mark.look(text, false);
                    out.extend_from_slice(text);
                    continue;
                }
                Part::Escaped(byte) => {
                    out.push(*byte);
                    continue;
                }
                Part::Variable(lookup) => out.extend_from_slice(&self.look_up(lookup)),
                Part::RuleGroup(group) => self.push_group(*group, true, flags, &mut out),
                Part::ConditionGroup(group) => self.push_group(*group, false, flags, &mut out),
                Part::Map { name, key, default } => {
                    let value = self.map_value(name, key, default, flags);
                    out.extend_from_slice(&value);
                }
            }
            mark.look(&out[before..], true);
            if self.is_exhausted() || out.len() > TEXT_BYTES_MAX {
                break;
            }
        }
        self.spend(out.len());
        out
    }

    fn push_group(
        &mut self,
        group: usize,
        of_rule: bool,
        flags: Option<&Flags>,
        out: &mut Vec<u8>,
    ) {
        let groups = if of_rule {
            &self.rule_groups
        } else {
            &self.condition_groups
        };
        let text = groups.text(group);
        let Some(flags) = flags.filter(|flags| flags.escape_groups && !text.is_empty()) else {
            return out.extend_from_slice(text);
        };
        let escaped = escape_group(text, flags);
        if self.input.trace_level >= 5 {
            let line = format!(
                "escaping backreference '{}' to '{}'",
                Shown(text),
                Shown(&escaped)
            );
            self.trace(5, true, |_| line);
        }
        out.extend_from_slice(&escaped);
    }

    fn map_value(
        &mut self,
        name: &str,
        key: &Template,
        default: &Template,
        flags: Option<&Flags>,
    ) -> Vec<u8> {
        let key = self.expand_with(key, flags, &mut QuestionMark::default());
        let server = self.server;
        let value = server.map(name).and_then(|map| {
            match map.source {
                MapSource::Internal(_) => {}
                MapSource::Random(_) => [Dependency::Maps, Dependency::Chance]
                    .iter()
                    .for_each(|one| self.dependencies.add(*one)),
                _ => self.dependencies.add(Dependency::Maps),
            }
            // An empty value in a database is a value.
            let is_value =
                |value: &Vec<u8>| !value.is_empty() || matches!(map.source, MapSource::Dbd { .. });
            let value = look_up(map, &key, self.context).filter(is_value);
            self.trace_map(map, &key, value.as_deref());
            value
        });
        match value {
            Some(value) => value,
            None => self.expand_with(default, flags, &mut QuestionMark::default()),
        }
    }

    fn trace_map(&mut self, map: &Map, key: &[u8], value: Option<&[u8]>) {
        self.trace(5, false, |_| {
            let (name, kind) = (&map.name, map.source.trace_kind());
            match value {
                // httpd's internal functions, but for `escape`, change their argument.
                Some(value) if map.changes_key() => {
                    format!("map lookup OK: map={name} key={0} -> val={0}", Shown(value))
                }
                Some(value) => format!(
                    "map lookup OK: map={name}{kind} key={} -> val={}",
                    Shown(key),
                    Shown(value)
                ),
                None => format!("map lookup FAILED: map={name}{kind} key={}", Shown(key)),
            }
        });
    }

    pub(crate) fn look_up(&mut self, lookup: &Lookup) -> Vec<u8> {
        match lookup {
            Lookup::Nothing => Vec::new(),
            Lookup::Variable(variable) => self.variable(*variable),
            Lookup::RequestField(name) => self.request_field(name),
            Lookup::Environment(name) => {
                self.dependencies.add(Dependency::Environment);
                self.environment(name)
            }
            Lookup::Tls(name) => {
                self.dependencies.add(Dependency::Transport);
                self.context
                    .as_facts()
                    .tls_variable(name)
                    .unwrap_or_default()
                    .into_owned()
            }
            Lookup::LookAhead {
                by_file,
                name,
                inner,
            } => self.look_ahead(*by_file, name, inner),
        }
    }

    fn variable(&mut self, variable: Variable) -> Vec<u8> {
        let row = variable.row();
        if let Some(field) = row.request_field {
            return self.request_field(field.as_bytes());
        }
        if let Some(part) = self.received(variable.part()) {
            let overlay = self.overlay();
            let value = overlay.variable(variable).map(Cow::into_owned);
            self.dependencies.add_value(part, value.as_deref());
            return value.unwrap_or_default();
        }
        self.dependencies.add(row.depends);
        if variable == Variable::ApiVersion {
            return saker_ap_expr::API_VERSION.as_bytes().to_vec();
        }
        let value = match row.depends {
            Dependency::Time => self
                .context
                .as_facts()
                .local_time()
                .variable(variable)
                .unwrap_or_default()
                .into_bytes(),
            _ => self
                .overlay()
                .variable(variable)
                .unwrap_or_default()
                .into_owned(),
        };
        // The two that httpd's trace names.
        if let Variable::Time | Variable::Ipv6 = variable {
            let name = if variable == Variable::Time {
                "RESULT"
            } else {
                "IPV6"
            };
            self.trace(1, true, |_| format!("{name}='{}'", Shown(&value)));
        }
        value
    }

    fn request_field(&mut self, name: &[u8]) -> Vec<u8> {
        match self.received(RequestPart::of_field(name)) {
            Some(part) => {
                let value = self.context.as_facts().request_field(name);
                self.dependencies.add_value(part, value.as_deref());
            }
            None => self.dependencies.add_request_field(name, false),
        }
        self.field_text(name)
    }

    /// The part, if rules read it as the client sent it.
    pub(super) fn received(&self, part: Option<RequestPart>) -> Option<RequestPart> {
        part.filter(|part| self.overlay().is_as_received(part))
    }

    /// The text that is being made contains the query that the request came with, if any.
    pub(crate) fn depends_on_query(&mut self) {
        match self.received(Some(RequestPart::Query)) {
            Some(part) => self.dependencies.add_value(part, self.input.query),
            None => self.dependencies.add(Dependency::Query),
        }
    }

    /// A field that is there is a reason for the response to vary.
    pub(crate) fn field_text(&mut self, name: &[u8]) -> Vec<u8> {
        let value = self.context.as_facts().request_field(name);
        if value.is_some() && !name.eq_ignore_ascii_case(b"host") {
            self.vary_now.push(Shown(name).to_string());
        }
        value.unwrap_or_default().into_owned()
    }

    /// Notes, then the request's environment, then the process's.
    fn environment(&mut self, name: &[u8]) -> Vec<u8> {
        let overlay = self.overlay();
        let known = overlay.note(name).or_else(|| overlay.environment(name));
        let known = known
            .or_else(|| overlay.process_environment(name))
            .map(std::borrow::Cow::into_owned);
        known
            .or_else(|| super::server::script_variable(self.context, self.input, name))
            .unwrap_or_default()
    }

    fn look_ahead(&mut self, by_file: bool, name: &[u8], inner: &Lookup) -> Vec<u8> {
        self.dependencies.add(Dependency::Subrequest);
        let is_path = self.subject.first() == Some(&b'/');
        let mut path = Vec::new();
        match self.directory {
            Some(directory) if !is_path => path.extend_from_slice(if by_file {
                directory
            } else {
                self.base.unwrap_or(directory)
            }),
            _ => {}
        }
        path.extend_from_slice(&self.subject);
        // In a directory, a path is not a file: then use the path.
        let by_file = by_file && !(self.directory.is_some() && is_path);
        let Some(facts) = self.context.look_ahead(&path, by_file) else {
            return Vec::new();
        };
        let value = value_in(facts.as_ref(), inner);
        self.trace(5, true, |_| {
            format!(
                "lookahead: path={} var={} -> val={}",
                Shown(&path),
                Shown(name),
                Shown(&value)
            )
        });
        value
    }
}

/// Value in the facts of a subrequest.
fn value_in(facts: &dyn Facts, lookup: &Lookup) -> Vec<u8> {
    let value = match lookup {
        Lookup::Variable(variable) => match variable.row().request_field {
            Some(field) => facts.request_field(field.as_bytes()),
            None => match facts.local_time().variable(*variable) {
                Some(time) => return time.into_bytes(),
                None => facts.variable(*variable),
            },
        },
        Lookup::RequestField(name) => facts.request_field(name),
        Lookup::Environment(name) => facts
            .note(name)
            .or_else(|| facts.environment(name))
            .or_else(|| facts.process_environment(name)),
        Lookup::Tls(name) => facts.tls_variable(name),
        Lookup::Nothing | Lookup::LookAhead { .. } => None,
    };
    value.unwrap_or_default().into_owned()
}

/// `[B]` and its sisters.
fn escape_group(text: &[u8], flags: &Flags) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut out = Vec::with_capacity(text.len() + 16);
    let these = &flags.escape_these;
    for byte in text {
        let printable = (0x21..=0x7e).contains(byte) || *byte >= 0x80;
        let by_kind = if flags.escape_controls {
            !printable
        } else {
            these.is_empty()
        };
        let wanted = (by_kind || these.contains(byte)) && !flags.escape_not_these.contains(byte);
        match byte {
            byte if !wanted || byte.is_ascii_alphanumeric() || *byte == b'_' => out.push(*byte),
            b' ' if !flags.escape_no_plus => out.push(b'+'),
            byte => out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
    }
    out
}

/// Returns the value of a key; `None`: the default applies.
fn look_up(map: &Map, key: &[u8], context: &dyn RewriteContext) -> Option<Vec<u8>> {
    match &map.source {
        MapSource::Internal(function) => Some(function.apply(key)),
        MapSource::Text(file) => context.text_map(file)?.value(key).map(<[u8]>::to_vec),
        MapSource::Random(file) => {
            let texts = context.text_map(file)?;
            let value = texts.value(key)?;
            let count = value.split(|byte| *byte == b'|').count();
            let chosen = if count > 1 { context.pick(count) } else { 0 };
            value
                .split(|byte| *byte == b'|')
                .nth(chosen)
                .map(<[u8]>::to_vec)
        }
        // A newline would end the key, and the program's next answer would belong to another
        // one.
        MapSource::Program { .. } if key.contains(&b'\n') => None,
        external @ MapSource::Program { .. } => context
            .external_map(&map.name, external, key)
            .filter(|value| !value.eq_ignore_ascii_case(b"NULL")),
        external => context.external_map(&map.name, external, key),
    }
}
