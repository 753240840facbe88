//! What to say about a key that no row knows.

use super::{rows, rows_in};
use crate::{diagnostic::quoted, row::Contexts, suggest};

/// Keys of the next versions, so that nobody searches for a typing error.
const LATER: &[(&[&str], &str)] = &[(
    &[
        "tls",
        "https",
        "ssl",
        "certificate",
        "certificates",
        "certificate_file",
        "certificate_key",
        "cert",
        "key",
        "key_file",
        "private_key",
        "acme",
        "ssl_certificate",
        "ssl_certificate_key",
        "SSLEngine",
        "SSLCertificateFile",
        "SSLCertificateKeyFile",
    ],
    "TLS arrives with the next version; this one serves plain HTTP",
)];

/// Message and help.
pub fn explain(key: &str, context: Contexts) -> (String, Option<String>) {
    let message = format!("unknown key {} in {}", quoted(key), context.described().header);
    let help = later(key).or_else(|| elsewhere(key, context)).or_else(|| foreign(key, context)).or_else(|| similar(key, context));
    (message, help)
}

fn later(key: &str) -> Option<String> {
    let row = LATER.iter().find(|(names, _)| names.iter().any(|name| suggest::same_word(name, key)));
    row.map(|(_, help)| (*help).to_owned())
}

/// The right word in the wrong table.
fn elsewhere(key: &str, context: Contexts) -> Option<String> {
    if rows_in(context).any(|row| suggest::same_word(row.name, key)) {
        return None;
    }
    let homes: Vec<&str> = rows().iter().filter(|row| row.name == key).flat_map(|row| row.contexts.each()).map(|row| row.header).collect();
    match homes.as_slice() {
        [] => None,
        homes => Some(format!("this key belongs in {}", homes.join(" or "))),
    }
}

/// The word of another server.
fn foreign(key: &str, context: Contexts) -> Option<String> {
    let known = |row: &&&'static crate::Row| row.is_known_elsewhere_as(key);
    let row = rows().iter().filter(|row| row.contexts.includes(context)).find(known).or_else(|| rows().iter().find(known))?;
    let home = row.contexts.each().next()?;
    Some(format!("here it is called `{}`, in {}", row.name, home.header))
}

fn similar(key: &str, context: Contexts) -> Option<String> {
    if let Some(name) = suggest::nearest(key, rows_in(context).map(|row| row.name)) {
        return Some(format!("did you mean `{name}`?"));
    }
    let name = suggest::nearest(key, rows().iter().map(|row| row.name))?;
    let home = rows().iter().find(|row| row.name == name)?.contexts.each().next()?;
    Some(format!("did you mean `{name}`? It belongs in {}", home.header))
}
