//! Edits of the request before the action of a route: fields, query parameters, cookies, method.
//!
//! Called by: the phase `fixups`, after the path has its final form.
//! Caveat: an edited request is not as received, so what later rules find in it is never a condition
//! of a cached route. Spellings that programs cannot tell from an edited name go with it: `X_User` of
//! a field, `user.id` and `user_id[]` of a parameter or cookie. Values become one line of a field, one
//! value of a parameter, one cookie.
//! Out of scope: fields of the response (`variable_fields`).

use saker_config::model::{RequestEdits, Template};
use saker_files::Watcher;
use saker_http::{KnownField, RequestHead, field_name::is_alike, query::is_read_as};
use saker_matchers::{
    Evaluation, FieldSink, MatchError, Nature, ParameterEdit, Sink, edit_parameters, without_edited,
};
use saker_pipeline::{Exchange, ExchangeFacts, Noted};
use std::{borrow::Cow, sync::Arc};

type TextEdits = Vec<(Box<str>, Option<Vec<u8>>)>;

/// Applies the edits of the route.
pub fn apply(exchange: &mut Exchange, watcher: &Watcher) -> Result<(), MatchError> {
    let site = Arc::clone(&exchange.routing.site);
    let route = exchange.routing.route.and_then(|at| site.routes.get(at));
    let Some(edits) = route.and_then(|route| route.request.as_deref()) else {
        return Ok(());
    };
    let (fields, parameters, cookies) = expand_all(exchange, edits, watcher)?;
    fields
        .iter()
        .for_each(|(name, _)| exchange.notes_edit_of(name));
    exchange.cache.edits_choice_of_page |= !cookies.is_empty() || edits.method.is_some();
    if !parameters.is_empty() {
        exchange.routing.has_written_query = true;
        exchange.query = edit_parameters(exchange.query.as_deref(), &parameters);
    }
    if !fields.is_empty() || !cookies.is_empty() {
        exchange.head = with_fields(exchange, &fields, &cookies);
    }
    if let Some(method) = &edits.method {
        let view = exchange.head.view();
        let target = String::from_utf8_lossy(view.target()).into_owned();
        let bare = RequestHead::build(method, &target, view.version(), &[]);
        exchange.head = bare.with_fields(view.fields());
    }
    Ok(())
}

type Expanded = (TextEdits, Vec<(Box<str>, ParameterEdit)>, TextEdits);

fn expand_all(
    exchange: &mut Exchange,
    edits: &RequestEdits,
    watcher: &Watcher,
) -> Result<Expanded, MatchError> {
    let captures = exchange.captures();
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
    let mut outcome = Ok(());
    let mut texts = |edits: &[(Box<str>, Option<Template>)], is_component: bool| -> TextEdits {
        let mut texts = Vec::with_capacity(edits.len());
        for (name, template) in edits {
            let Some(template) = template else {
                texts.push((name.clone(), None));
                continue;
            };
            let text = match is_component {
                true => {
                    let mut sink = ComponentSink::default();
                    let expanded = template.expand(&mut evaluation, &mut sink);
                    outcome = outcome.clone().and(expanded);
                    sink.0
                }
                false => {
                    let mut sink = FieldSink::default();
                    let expanded = template.expand(&mut evaluation, &mut sink);
                    outcome = outcome.clone().and(expanded);
                    sink.finish()
                }
            };
            texts.push((name.clone(), Some(text)));
        }
        texts
    };
    let (fields, parameters, mut cookies) = (
        texts(&edits.fields, false),
        texts(&edits.parameters, true),
        texts(&edits.cookies, false),
    );
    Noted::of(&facts, evaluation).note(exchange);
    outcome?;
    // A semicolon would begin another cookie.
    for (_, cookie) in &mut cookies {
        if let Some(cookie) = cookie {
            cookie.retain(|byte| !b";,".contains(byte));
        }
    }
    let parameters = parameters
        .into_iter()
        .map(|(name, text)| (name, text.map_or(ParameterEdit::Remove, ParameterEdit::Set)))
        .collect();
    Ok((fields, parameters, cookies))
}

fn with_fields(exchange: &Exchange, fields: &TextEdits, cookies: &TextEdits) -> RequestHead {
    let view = exchange.head.view();
    let is_edited = |name: &[u8]| {
        fields
            .iter()
            .any(|(edited, _)| is_alike(name, edited.as_bytes()))
            || (!cookies.is_empty() && name.eq_ignore_ascii_case(b"cookie"))
    };
    let cookie = (!cookies.is_empty()).then(|| edited_cookies(exchange, cookies));
    let kept = view.fields().filter(|(name, _)| !is_edited(name));
    let set = fields
        .iter()
        .filter_map(|(name, text)| Some((name.as_bytes(), text.as_deref()?)));
    let cookie = cookie
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| (&b"Cookie"[..], text.as_slice()));
    exchange.head.with_fields(kept.chain(set).chain(cookie))
}

fn edited_cookies(exchange: &Exchange, edits: &TextEdits) -> Vec<u8> {
    let view = exchange.head.view();
    let is_edited = |name: &[u8]| {
        edits
            .iter()
            .any(|(edited, _)| is_read_as(name, edited.as_bytes()))
    };
    let kept = view
        .lines(KnownField::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
        .filter_map(|pair| without_edited(pair, b',', is_edited));
    // The first of two cookies counts in PHP.
    let mut pairs: Vec<Cow<'_, [u8]>> = edits
        .iter()
        .filter_map(|(name, text)| Some([name.as_bytes(), b"=", text.as_deref()?].concat().into()))
        .collect();
    pairs.extend(kept);
    pairs.join(&b"; "[..])
}

/// The value of a query parameter: everything is encoded, configured text too.
#[derive(Debug, Default)]
struct ComponentSink(Vec<u8>);

impl Sink for ComponentSink {
    fn literal(&mut self, text: &str) {
        saker_matchers::encode_component(text.as_bytes(), &mut self.0);
    }

    fn value(&mut self, value: &[u8], _: Nature) {
        saker_matchers::encode_component(value, &mut self.0);
    }
}
