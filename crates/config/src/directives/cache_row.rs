//! Parts that the rows of `[site.cache]` share.
//!
//! Called by: `cache_use` and `cache_http`.
//! Out of scope: the rows.

use crate::{
    context::CACHE,
    kind::{Kind, Word},
    model::CacheUse,
    row::Row,
    value::{Spanned, Value, ValueError},
};

pub(super) static FIELD: Word = Word {
    expects: "the name of a field, such as \"X-Device\"",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    read: field,
};

pub(super) const FIELDS: Kind = Kind::ListOf(&Kind::Word(&FIELD));

pub(super) type Setter = fn(&mut CacheUse, Spanned);

pub(super) const BASE: Row<CacheUse> = Row {
    contexts: CACHE,
    since: "0.2",
    ..Row::BASE
};

pub(super) const fn flag(
    name: &'static str,
    default: &'static str,
    summary: &'static str,
    set: Setter,
) -> Row<CacheUse> {
    Row {
        name,
        kind: Kind::Boolean,
        default: Some(default),
        summary,
        set,
        ..BASE
    }
}

fn field(text: &str) -> Result<Value, ValueError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_token) {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(ValueError::plain(None))
    }
}
