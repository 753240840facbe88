//! Edits of the request fields that upstreams and programs get (`upstream_headers`), and the id of
//! the request.
//!
//! Called by: `field_names`, for every head that is told; `forward`, for Host.
//! Caveat: spellings that programs cannot tell from an edited name go with it, so that a client
//! cannot pass `X_User` where the configuration sets `X-User`.

use saker_config::model::{RequestFieldAction, RequestFieldEdit, Template};
use saker_http::{HeadView, RequestHead, field_name::is_alike};
use saker_matchers::MatchError;
use saker_pipeline::{Exchange, template, texts};
use saker_telemetry::trace::RequestTrace;

/// Applies the edits to `head`, or to the request's if there is none; returns `head` if there are
/// no edits.
pub fn edited(exchange: &Exchange, head: Option<RequestHead>) -> Option<RequestHead> {
    let settings = &exchange.routing.settings;
    let trace = exchange.log.request_trace.as_deref();
    let has_edits = !settings.upstream_fields.is_empty() || settings.request_id.is_some();
    if !has_edits && trace.is_none() {
        return head;
    }
    let head = head.as_ref().unwrap_or(exchange.upstream_head());
    let view = head.view();
    let id = exchange.environment.first(template::REQUEST_ID);
    let id_field = settings.request_id.as_deref().zip(id);
    let edits: Vec<Edit<'_>> = settings
        .upstream_fields
        .iter()
        .filter_map(|edit| Edit::of(edit, exchange, view))
        .chain(id_field.map(|(name, id)| Edit::set(name, id.to_vec())))
        .chain(trace.into_iter().flat_map(trace_fields))
        .collect();
    // The parser has removed the fields that a client may nominate.
    let is_of_client = |name: &[u8]| name.eq_ignore_ascii_case(b"connection");
    let others = view
        .fields()
        .filter(|(name, _)| !is_of_client(name) && !edits.iter().any(|edit| edit.replaces(name)));
    let own = edits
        .iter()
        .filter(|edit| !edit.value.is_empty())
        .map(|edit| (edit.name.as_bytes(), edit.value.as_slice()));
    Some(head.with_fields(others.chain(own)))
}

/// The fields of a trace replace those of the client.
fn trace_fields<'a>(trace: &RequestTrace) -> [Edit<'a>; 2] {
    let parent = trace.context.parent_field(trace.upstream_id);
    [
        Edit::set("traceparent", parent),
        Edit::set("tracestate", trace.context.state.to_vec()),
    ]
}

/// Returns the Host that the settings want an upstream to be asked for.
pub fn host(exchange: &Exchange) -> Option<Vec<u8>> {
    let mut edits = exchange.routing.settings.upstream_fields.iter();
    let edit = edits.find(|edit| edit.name.eq_ignore_ascii_case("host"))?;
    match &edit.action {
        RequestFieldAction::Set(text) => {
            Some(expanded(text, exchange)).filter(|host| !host.is_empty())
        }
        _ => None,
    }
}

/// The value of a text. [`check`] has refused requests without one.
fn expanded(text: &Template, exchange: &Exchange) -> Vec<u8> {
    texts::value(text, exchange).unwrap_or_default()
}

/// Evaluates the texts for upstreams and programs whose evaluation may fail: an upstream must not
/// get a request without what the configuration promises it.
///
/// # Errors
/// The request's budget is used up, or a pattern of a map takes too many steps.
pub fn check(exchange: &Exchange) -> Result<(), MatchError> {
    let settings = &exchange.routing.settings;
    let fields = settings.upstream_fields.iter();
    let fields = fields.filter_map(|edit| edit.action.text());
    let variables = settings.variables.iter().map(|variable| &variable.value);
    let mut texts = fields.chain(variables);
    texts.try_for_each(|text| match text.may_fail() || is_exhausted(exchange) {
        true => texts::value(text, exchange).map(drop),
        false => Ok(()),
    })
}

fn is_exhausted(exchange: &Exchange) -> bool {
    exchange.budget().work().is_exhausted()
}

/// An edit with its value for one request.
struct Edit<'a> {
    name: &'a str,
    value: Vec<u8>,
    /// The request's own lines of the name are dropped.
    is_set: bool,
}

impl Edit<'_> {
    fn of<'a>(
        edit: &'a RequestFieldEdit,
        exchange: &Exchange,
        view: HeadView<'_>,
    ) -> Option<Edit<'a>> {
        let is_present = || {
            view.fields()
                .any(|(name, _)| name.eq_ignore_ascii_case(edit.name.as_bytes()))
        };
        let (value, is_set) = match &edit.action {
            RequestFieldAction::Set(text) => (expanded(text, exchange), true),
            RequestFieldAction::Append(text) => (expanded(text, exchange), false),
            RequestFieldAction::SetIfAbsent(_) if is_present() => return None,
            RequestFieldAction::SetIfAbsent(text) => (expanded(text, exchange), true),
            RequestFieldAction::Remove => (Vec::new(), true),
        };
        Some(Edit {
            name: &edit.name,
            value,
            is_set,
        })
    }

    fn set(name: &str, value: Vec<u8>) -> Edit<'_> {
        Edit {
            name,
            value,
            is_set: true,
        }
    }

    fn replaces(&self, name: &[u8]) -> bool {
        self.is_set && is_alike(name, self.name.as_bytes())
    }
}
