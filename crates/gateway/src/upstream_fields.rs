//! Edits of the request fields that upstreams and programs get (`upstream_headers`), and the id of
//! the request.
//!
//! Called by: `field_names`, for every head that is told; `forward`, for Host.
//! Caveat: spellings that programs cannot tell from an edited name go with it, so that a client
//! cannot pass `X_User` where the configuration sets `X-User`.

use saker_config::model::{RequestFieldAction, RequestFieldEdit};
use saker_http::{HeadView, RequestHead, field_name::is_alike};
use saker_pipeline::{Exchange, template};

/// Applies the edits to `head`, or to the request's if there is none; returns `head` if there are
/// no edits.
pub fn edited(exchange: &Exchange, head: Option<RequestHead>) -> Option<RequestHead> {
    let settings = &exchange.routing.settings;
    if settings.upstream_fields.is_empty() && settings.request_id.is_none() {
        return head;
    }
    let head = head.as_ref().unwrap_or(&exchange.head);
    let view = head.view();
    let id = exchange.environment.first(template::REQUEST_ID);
    let id_field = settings.request_id.as_deref().zip(id);
    let edits: Vec<Edit<'_>> = settings
        .upstream_fields
        .iter()
        .filter_map(|edit| Edit::of(edit, exchange, view))
        .chain(id_field.map(|(name, id)| Edit::set(name, id.to_vec())))
        .collect();
    let others = view
        .fields()
        .filter(|(name, _)| !edits.iter().any(|edit| edit.replaces(name)));
    let own = edits
        .iter()
        .filter(|edit| !edit.value.is_empty())
        .map(|edit| (edit.name.as_bytes(), edit.value.as_slice()));
    Some(head.with_fields(others.chain(own)))
}

/// Returns the Host that the settings want an upstream to be asked for.
pub fn host(exchange: &Exchange) -> Option<Vec<u8>> {
    let mut edits = exchange.routing.settings.upstream_fields.iter();
    let edit = edits.find(|edit| edit.name.eq_ignore_ascii_case("host"))?;
    match &edit.action {
        RequestFieldAction::Set(text) => {
            Some(template::value(text, exchange)).filter(|host| !host.is_empty())
        }
        _ => None,
    }
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
            RequestFieldAction::Set(text) => (template::value(text, exchange), true),
            RequestFieldAction::Append(text) => (template::value(text, exchange), false),
            RequestFieldAction::SetIfAbsent(_) if is_present() => return None,
            RequestFieldAction::SetIfAbsent(text) => (template::value(text, exchange), true),
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
