//! `authorize`: requests that an authorization server must allow (nginx's auth_request, forward
//! auth of Caddy and Traefik, FastCGI authorizers).
//!
//! Called by: `settings`, for sites and routes.
//! Out of scope: the upstream that is named, which `resolve/upstreams` looks up.

use super::upstream::PROXY;
use crate::{
    context::{ROUTE, SITE},
    kind::{Kind, Word},
    model::{Authorize, Settings},
    row::Row,
    value::{Value, ValueError},
};
use std::sync::Arc;

static ASKED: Word = Word {
    expects: "the URL of a server, such as \"http://127.0.0.1:9091\", the name of an [[upstream]], or \"off\"",
    pattern: "",
    read: |text| {
        if text == "off" {
            Ok(Value::Text(text.to_owned()))
        } else {
            (PROXY.read)(text)
        }
    },
};

static TARGET: Word = Word {
    expects: "a path, optionally with a query, such as \"/api/verify?rd=1\"",
    pattern: "^/[!-~]*$",
    read: |text| {
        let is_target = text.starts_with('/')
            && text
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if is_target {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(ValueError::plain(None))
        }
    },
};

static FIELD_NAME: Word = Word {
    expects: "the name of a field, such as \"Remote-User\"",
    pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
    read: |text| match !text.is_empty() && text.bytes().all(saker_http::chars::is_token_char) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "authorize",
        contexts: SITE.or(ROUTE),
        kind: Kind::Word(&ASKED),
        default: Some("\"off\""),
        example: Some("\"http://127.0.0.1:9091\""),
        summary: "Authorization server to ask before each request, with a GET request that has the \
                  client's header fields and no body: status 2xx lets the request pass, 3xx and \
                  4xx go to the client unchanged, anything else is answered with 503. A FastCGI \
                  program is asked in the authorizer role: 200 lets the request pass, and its \
                  `Variable-NAME` fields become variables for programs and logs. The server adds \
                  X-Original-Method, X-Original-URI, X-Original-URL and X-Forwarded-Method, -URI, \
                  -Proto, -Host and -For; fields of these names from the client are dropped.",
        apache: Some("AuthnzFcgiDefineProvider"),
        aliases: &["auth_request", "forward_auth", "authorizer"],
        set: |settings, given| {
            let origin = given.origin();
            let said = Some(given.text()).filter(|said| said != "off");
            if said.is_none() && settings.authorize.is_none() {
                return;
            }
            let authorize = authorize(settings);
            (authorize.said, authorize.origin) = (said.map(Into::into), origin);
        },
        ..Row::BASE
    },
    Row {
        name: "authorize_path",
        contexts: SITE.or(ROUTE),
        kind: Kind::Word(&TARGET),
        example: Some("\"/api/verify\""),
        summary: "Path and query to request from the server of `authorize`. Default: those of the \
                  client's request.",
        aliases: &["auth_request_uri"],
        set: |settings, given| authorize(settings).target = Some(given.text().into()),
        ..Row::BASE
    },
    Row {
        name: "authorize_fields",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Word(&FIELD_NAME)),
        default: Some("[]"),
        example: Some("[\"Remote-User\", \"Remote-Groups\"]"),
        summary: "Response fields of `authorize` to pass on to programs and upstreams. Fields of \
                  these names from the client, or of names that programs can't tell from them \
                  (`Remote_User`), are never passed on.",
        aliases: &["auth_response_headers", "copy_headers", "auth_request_set"],
        set: |settings, given| {
            let fields: Vec<Box<str>> = given.texts().into_iter().map(Into::into).collect();
            if !fields.is_empty() || settings.authorize.is_some() {
                authorize(settings).fields = fields;
            }
        },
        ..Row::BASE
    },
];

fn authorize(settings: &mut Settings) -> &mut Authorize {
    Arc::make_mut(settings.authorize.get_or_insert_default())
}
