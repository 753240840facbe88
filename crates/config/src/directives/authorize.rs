//! `authorize`: requests that pass only when somebody else says so (nginx's auth_request, Caddy's
//! and Traefik's forward auth, FastCGI's authorizers).

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
    expects: "a path, with a query if need be, such as \"/api/verify?rd=1\"",
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
        summary: "Who is asked before each request, by GET, with its fields and without its content: an answer of 2xx lets it pass, one of 3xx or 4xx \
                  goes to the client as it is, everything else is 503. A FastCGI program is asked in the role of authorizer: 200 lets pass, and \
                  what it says by `Variable-NAME` are variables for programs and logs. Servers are told X-Original-Method, X-Original-URI, \
                  X-Original-URL, X-Forwarded-Method, -URI, -Proto, -Host and -For by us; what clients say by these names is left out.",
        apache: Some("AuthnzFcgiDefineProvider"),
        aliases: &["auth_request", "forward_auth", "authorizer"],
        set: |settings, given| {
            let origin = given.origin();
            let said = Some(given.text()).filter(|said| said != "off");
            if said.is_none() && settings.authorize.is_none() {
                return;
            }
            let authorize = of(settings);
            (authorize.said, authorize.origin) = (said.map(Into::into), origin);
        },
        ..Row::BASE
    },
    Row {
        name: "authorize_path",
        contexts: SITE.or(ROUTE),
        kind: Kind::Word(&TARGET),
        example: Some("\"/api/verify\""),
        summary: "What the server of `authorize` is asked for; the request's own path and query where nothing is said.",
        aliases: &["auth_request_uri"],
        set: |settings, given| of(settings).target = Some(given.text().into()),
        ..Row::BASE
    },
    Row {
        name: "authorize_fields",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Word(&FIELD_NAME)),
        default: Some("[]"),
        example: Some("[\"Remote-User\", \"Remote-Groups\"]"),
        summary: "Fields that programs and servers are told as the answer of `authorize` has them. What the client says by these names, or by others that programs can't tell from them (`Remote_User`), is never passed on.",
        aliases: &["auth_response_headers", "copy_headers", "auth_request_set"],
        set: |settings, given| {
            let fields: Vec<Box<str>> = given.texts().into_iter().map(Into::into).collect();
            if !fields.is_empty() || settings.authorize.is_some() {
                of(settings).fields = fields;
            }
        },
        ..Row::BASE
    },
];

fn of(settings: &mut Settings) -> &mut Authorize {
    Arc::make_mut(settings.authorize.get_or_insert_default())
}
