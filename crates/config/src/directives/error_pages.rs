//! `[site.error_pages]`: error documents of a site.
//!
//! Called by: `settings`, for sites and routes.
//! Caveat: a class (`4xx`) is stored as its single statuses.

use crate::{
    context::{ROUTE, SITE},
    kind::{KeyKind, Kind, Word},
    model::{ErrorPage, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};

static STATUS: KeyKind = KeyKind {
    expects: "statuses from 400 to 599, or the classes 4xx and 5xx",
    pattern: "^([45][0-9][0-9]|[45]xx)$",
    is_case_sensitive: false,
    read: read_status,
};

static PAGE: Word = Word {
    expects: "a path (\"/404.html\"), a route (\"@name\"), a text (\"text:...\") or a URL \
              (\"https://...\")",
    pattern: "^(/|@|text:|https?://)",
    read: |text| read_page(text).map(Value::parsed),
};

pub const ROWS: &[Row<Settings>] = &[Row {
    name: "error_pages",
    contexts: SITE.or(ROUTE),
    kind: Kind::MapOf(&STATUS, &Kind::Word(&PAGE)),
    default: Some("{}"),
    example: Some("{ 404 = \"/404.html\", 5xx = \"text:Please come back later.\" }"),
    summary: "Error documents by status or class (`4xx`, `5xx`; a status takes precedence over its \
              class): a path of the site, `@` and the name of a route (whose rules hold if it gets the \
              client's path), `text:` and a text (HTML if it starts with `<`), or a URL to redirect to.",
    apache: Some("ErrorDocument"),
    aliases: &["error_page", "handle_errors"],
    set: merge,
    ..Row::BASE
}];

/// Classes first, so that a status takes precedence over its class in any order of the file.
fn merge(settings: &mut Settings, given: Spanned) {
    let (classes, statuses): (Vec<_>, Vec<_>) = given
        .map()
        .into_iter()
        .partition(|(key, _)| key.ends_with("xx"));
    for (key, one) in classes.into_iter().chain(statuses) {
        let Some(page) = one.parsed_as::<ErrorPage>() else {
            continue;
        };
        settings
            .error_pages
            .extend(statuses_of(&key).map(|status| (status, page.clone())));
    }
}

fn statuses_of(key: &str) -> std::ops::RangeInclusive<u16> {
    match key.parse() {
        Ok(status) => status..=status,
        Err(_) if key == "4xx" => 400..=499,
        Err(_) => 500..=599,
    }
}

fn read_status(text: &str) -> Result<String, ValueError> {
    let lower = text.to_ascii_lowercase();
    let is_status = text.len() == 3
        && text
            .parse::<u16>()
            .is_ok_and(|status| (400..=599).contains(&status));
    match is_status || lower == "4xx" || lower == "5xx" {
        true => Ok(lower),
        false => Err(ValueError::plain(None)),
    }
}

fn read_page(text: &str) -> Result<ErrorPage, ValueError> {
    if let Some(text) = text.strip_prefix("text:") {
        return Ok(ErrorPage::Text(text.to_owned()));
    }
    if text.chars().any(char::is_control) {
        return Err(ValueError::new("control characters are not allowed"));
    }
    if text.starts_with('/') {
        return Ok(ErrorPage::Path(text.to_owned()));
    }
    if let Some(name) = text.strip_prefix('@') {
        return Ok(ErrorPage::Route(name.into()));
    }
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(ErrorPage::Redirect(text.to_owned())),
        false => Err(ValueError::plain(Some(format!(
            "for a page of the site, write {}",
            crate::diagnostic::quoted(&format!("/{text}"))
        )))),
    }
}
