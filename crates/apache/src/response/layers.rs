//! Layers of edits over a response's fields, in Apache's order.
//!
//! Called by: `response`, for responses; `kept`, for heads that are kept.
//! Caveat: Apache has two tables of fields: what is set `always` survives errors and goes out
//! first; an error drops the other one.

use crate::{
    response::{
        edits::{EditContext, apply_all},
        facts::Answered,
    },
    state::State,
};
use saker_apache_model::{
    dir_config::DirConfig,
    modules::headers::{Action, Edit},
};
use saker_files::Kind;
use saker_http::{Fields, Status};
use saker_pipeline::HeadFacts;
use std::sync::Arc;

/// Fields that are the driver's, whatever the rules say (RFC 9110 section 7.6.1, RFC 9112 section
/// 6); Apache keeps Date and Server to itself.
const DRIVERS: [&str; 7] = [
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Keep-Alive",
    "Upgrade",
    "Date",
    "Server",
];

/// Fields of a program that are the content's alone; all others survive errors, as in Apache
/// (ap_scan_script_header_err_core_ex). Compression, which comes before, sets some of them.
const OF_CONTENT: [&str; 7] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Range",
    "Accept-Ranges",
    "ETag",
    "Last-Modified",
    "Location",
];

/// Everything that is laid over one response.
pub struct Layers<'l> {
    /// A program's fields are in the table that `Header always` edits.
    pub is_of_program: bool,
    pub local: &'l DirConfig,
    /// Settings of the host: early edits are its alone.
    pub defaults: &'l DirConfig,
    /// Lines that survive errors.
    pub always: &'l [(Box<str>, Box<[u8]>)],
    /// Lines about the content.
    pub content: &'l [(Box<str>, Box<[u8]>)],
    pub vary: &'l [String],
}

/// The way on which Apache would have come to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A handler has answered; the page for an error counts.
    Content,
    /// A phase before has refused, failed or redirected.
    Refusal,
}

impl Layers<'_> {
    pub fn lay(&self, way: Way, head: &HeadFacts, context: &EditContext<'_>, fields: &mut Fields) {
        let mut always = Fields::new();
        let drivers: Vec<(String, Vec<u8>)> = DRIVERS
            .iter()
            .filter_map(|name| taken(fields, name))
            .collect();
        self.early(way, context, &mut always, fields);
        if self.is_of_program {
            move_to(&mut always, fields);
        }
        self.always
            .iter()
            .for_each(|(name, value)| always.append(name.to_string(), value.to_vec()));
        if way == Way::Content {
            let missing = self
                .content
                .iter()
                .filter(|(name, _)| !fields.has(name))
                .collect::<Vec<_>>();
            let varies = self
                .content
                .iter()
                .filter(|(name, _)| &**name == "Vary" && fields.has(name))
                .collect::<Vec<_>>();
            for name in varies
                .iter()
                .flat_map(|(_, value)| value.split(|byte| *byte == b','))
            {
                fields.add_token("Vary", &String::from_utf8_lossy(name));
            }
            missing
                .into_iter()
                .for_each(|(name, value)| fields.append(name.to_string(), value.to_vec()));
            self.vary
                .iter()
                .for_each(|name| fields.add_token("Vary", name));
        }
        if self.local.expires.is_active() && !always.has("Expires") {
            // The note that goes with a redirect is HTML.
            let is_note = way == Way::Refusal && !fields.has("Content-Type");
            if is_note {
                fields.append("Content-Type", &b"text/html"[..]);
            }
            self.local.expires.apply(head, fields);
            if is_note {
                fields.remove("Content-Type");
            }
        }
        let (always_edits, success) = (&self.local.headers.always, &self.local.headers.success);
        self.edit(
            (always_edits, true),
            way,
            head,
            context,
            (&mut always, fields),
        );
        if way == Way::Content {
            self.edit((success, false), way, head, context, (&mut always, fields));
        }
        finish(always, drivers, fields);
        add_charset(self.local, fields);
    }

    /// For what is answered before anything but early edits has a say.
    pub fn lay_early(&self, context: &EditContext<'_>, fields: &mut Fields) {
        let mut always = Fields::new();
        self.early(Way::Content, context, &mut always, fields);
        finish(always, Vec::new(), fields);
    }

    /// Applies the edits of before the request was handled, as far as nothing has replaced their
    /// fields.
    fn early(&self, way: Way, context: &EditContext<'_>, always: &mut Fields, fields: &mut Fields) {
        let headers = &self.defaults.headers;
        apply_all(&headers.always, true, always, context);
        if way == Way::Content && headers.success.iter().any(|edit| edit.is_early()) {
            let mut early = Fields::new();
            apply_all(&headers.success, true, &mut early, context);
            for (name, value) in early.iter() {
                if !fields.has(name) {
                    fields.append(name.to_owned(), value.to_vec());
                }
            }
        }
    }

    fn edit(
        &self,
        (all, is_always): (&[Arc<Edit>], bool),
        way: Way,
        head: &HeadFacts,
        context: &EditContext<'_>,
        (always, fields): (&mut Fields, &mut Fields),
    ) {
        // Parts are made of the whole after everything else.
        let status = if head.status == Status::PARTIAL_CONTENT {
            Status::OK
        } else {
            head.status
        };
        for edit in all.iter().filter(|edit| !edit.is_early()) {
            if context.work.is_exhausted() {
                return;
            }
            // A type is no field of either table in Apache: what sets it sets it for good.
            let of_type = edit.name.eq_ignore_ascii_case("Content-Type");
            let echoed = {
                let (seen_fields, seen_always) = (fields.clone(), always.clone());
                let facts = Answered {
                    request: context.facts,
                    status,
                    fields: &seen_fields,
                    always: &seen_always,
                    is_content: way == Way::Content,
                };
                let mut vary = Vec::new();
                let holds = crate::response::edits::holds(edit, &facts, &mut vary);
                vary.iter().for_each(|name| fields.add_token("Vary", name));
                if !holds || of_type && is_vain_for_type(edit, fields) {
                    continue;
                }
                let context = EditContext {
                    facts: &facts,
                    ..*context
                };
                let table = if is_always && !of_type {
                    &mut *always
                } else {
                    &mut *fields
                };
                crate::response::edits::apply(edit, table, &context)
            };
            echoed
                .into_iter()
                .for_each(|(name, value)| fields.append(name, value));
        }
    }
}

/// AddDefaultCharset, the last word on a type.
pub fn add_charset(local: &DirConfig, fields: &mut Fields) {
    if local.core.default_charset.is_none() {
        return;
    }
    let Some(said) = fields.first("Content-Type") else {
        return;
    };
    if let Ok(said) = std::str::from_utf8(said)
        && let Some(whole) = local.core.charset_added(said)
    {
        fields.set("Content-Type", whole.as_bytes().to_vec());
    }
}

/// Moves a program's fields to the table of those that survive errors, where each has one line but
/// cookies.
fn move_to(always: &mut Fields, fields: &mut Fields) {
    let own = std::mem::take(fields);
    for (name, value) in own.iter() {
        if OF_CONTENT
            .iter()
            .any(|kept| kept.eq_ignore_ascii_case(name))
        {
            fields.append(name.to_owned(), value.to_vec());
        } else if name.eq_ignore_ascii_case("Vary") {
            for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                // Compression has added this one, which is the content's.
                let table = match token.eq_ignore_ascii_case(b"Accept-Encoding") {
                    true => &mut *fields,
                    false => &mut *always,
                };
                table.add_token("Vary", &String::from_utf8_lossy(token));
            }
        } else if name.eq_ignore_ascii_case("Set-Cookie") {
            always.append(name.to_owned(), value.to_vec());
        } else {
            let merged = match always.first(name) {
                Some(old) => [old, b", ", value].concat(),
                None => value.to_vec(),
            };
            always.set(name.to_owned(), merged);
        }
    }
}

/// The type that the content has replaces what such edits leave in the table.
fn is_vain_for_type(edit: &Edit, fields: &Fields) -> bool {
    let adds = matches!(
        edit.action,
        Action::Add(_) | Action::Append(_) | Action::Merge(_)
    );
    adds && fields.has("Content-Type")
}

fn taken(fields: &mut Fields, name: &str) -> Option<(String, Vec<u8>)> {
    let value = fields.first(name)?.to_vec();
    fields.remove(name);
    Some((name.to_owned(), value))
}

/// One table before the other; what is the driver's stays as it was.
fn finish(always: Fields, drivers: Vec<(String, Vec<u8>)>, fields: &mut Fields) {
    let own = std::mem::take(fields);
    for (name, value) in always.iter().chain(own.iter()) {
        if !DRIVERS
            .iter()
            .any(|driver| driver.eq_ignore_ascii_case(name))
        {
            fields.append(name.to_owned(), value.to_vec());
        }
    }
    drivers
        .into_iter()
        .for_each(|(name, value)| fields.append(name, value));
    without_repetitions(fields);
}

/// Names in Vary are sent once each, as in Apache, however many rules have added them.
pub fn without_repetitions(fields: &mut Fields) {
    let Some(value) = fields.first("Vary") else {
        return;
    };
    let names = || value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_repeated = |(at, name): (usize, &[u8])| {
        names()
            .take(at)
            .any(|other| other.eq_ignore_ascii_case(name))
    };
    if !names().enumerate().any(is_repeated) {
        return;
    }
    let once: Vec<&[u8]> = names()
        .enumerate()
        .filter(|(at, name)| !is_repeated((*at, name)))
        .map(|(_, name)| name)
        .collect();
    let once = once.join(&b", "[..]);
    fields.set("Vary", once);
}

/// Lines about a file's content that its type does not say.
pub fn content_lines(own: &State) -> Vec<(Box<str>, Box<[u8]>)> {
    if own.kind != Some(Kind::File) {
        return Vec::new();
    }
    let is_replaced = |name: &str| own.negotiated.iter().any(|(other, _)| &**other == name);
    own.content_lines
        .iter()
        .filter(|(name, _)| !is_replaced(name))
        .chain(&own.negotiated)
        .cloned()
        .collect()
}
