//! `[site.error_pages]`: answers of the site's own for statuses.

use crate::{
    model::{ErrorPage, Settings},
    row::{Fault, KeyKind, Kind, ROUTE, ROW, Row, SITE, Set, Word},
    value::{Given, Value},
};

static STATUS: KeyKind = KeyKind {
    expects: "statuses from 400 to 599, or the classes 4xx and 5xx",
    pattern: "^([45][0-9][0-9]|[45]xx)$",
    read: read_status,
};

static PAGE: Word = Word {
    expects: "a path (\"/404.html\"), a text (\"text:...\") or a URL (\"https://...\")",
    pattern: "^(/|text:|https?://)",
    read: |text| read_page(text).map(Value::ErrorPage),
};

pub static ROWS: &[Row] = &[Row {
    name: "error_pages",
    contexts: SITE.or(ROUTE),
    kind: Kind::MapOf(&STATUS, &Kind::Word(&PAGE)),
    default: Some("{}"),
    example: Some("{ 404 = \"/404.html\", 5xx = \"text:Please come back later.\" }"),
    summary: "By status or class (`4xx`, `5xx`; a status goes before its class): a path of the site, `text:` and what to say (HTML where it \
              begins with `<`), or a URL to redirect to.",
    apache: Some("ErrorDocument"),
    aliases: &["error_page", "handle_errors"],
    set: Set::Settings(lay_over),
    ..ROW
}];

/// Classes first, so that a status of its own goes before its class in whatever order they stand.
fn lay_over(settings: &mut Settings, given: Given) {
    let (classes, statuses): (Vec<_>, Vec<_>) = given
        .map()
        .into_iter()
        .partition(|(key, _)| key.ends_with("xx"));
    for (key, one) in classes.into_iter().chain(statuses) {
        let Value::ErrorPage(page) = one.value else {
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

fn read_status(text: &str) -> Result<String, Fault> {
    let lower = text.to_ascii_lowercase();
    let is_status = text.len() == 3
        && text
            .parse::<u16>()
            .is_ok_and(|status| (400..=599).contains(&status));
    match is_status || lower == "4xx" || lower == "5xx" {
        true => Ok(lower),
        false => Err(Fault::plain(None)),
    }
}

fn read_page(text: &str) -> Result<ErrorPage, Fault> {
    if let Some(text) = text.strip_prefix("text:") {
        return Ok(ErrorPage::Text(text.to_owned()));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::new("it has control characters"));
    }
    if text.starts_with('/') {
        return Ok(ErrorPage::Path(text.to_owned()));
    }
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(ErrorPage::Redirect(text.to_owned())),
        false => Err(Fault::plain(Some(format!(
            "write {} for a page of the site",
            crate::diagnostic::quoted(&format!("/{text}"))
        )))),
    }
}
