//! Checks `[cluster]`, and reads the password from its file.
//!
//! Called by: `check::whole`.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    model::Cluster,
    reader::table_in,
    source::{Location, Source},
};
use std::sync::Arc;
use toml::de::DeTable;

pub(crate) fn whole(configuration: &mut Configuration) {
    let Some((mut cluster, at)) = configuration.cluster.take() else {
        return;
    };
    for (key, message, help) in complaints(&mut cluster) {
        let place = configuration
            .texts
            .iter()
            .find_map(|source| place_of(source, key));
        let place = place.as_ref().unwrap_or(&at);
        configuration.diagnostics.push(Diagnostic::new(
            Severity::Error,
            place,
            message,
            help.map(Into::into),
        ));
    }
    configuration.cluster = Some((cluster, at));
}

/// The value of a key of [cluster].
fn place_of(source: &Arc<Source>, key: &str) -> Option<Location> {
    let table = DeTable::parse_recoverable(&source.text).0.into_inner();
    let node = table_in(&table, "cluster")?.get(key)?;
    Some(Location {
        source: Arc::clone(source),
        span: node.span(),
    })
}

/// The key that is wrong, with message and help.
type Complaint = (&'static str, String, Option<&'static str>);

fn complaints(cluster: &mut Cluster) -> Vec<Complaint> {
    let mut all = Vec::new();
    // A missing or broken URL has been reported.
    let Some(url) = &mut cluster.url else {
        return all;
    };
    match &cluster.password_file {
        Some(_) if url.password.is_some() => all.push((
            "password_file",
            "`url` has a password, and `password_file` is set".into(),
            Some("keep one of them"),
        )),
        Some(path) => match saker_net::privileged::read_to_string(path) {
            Ok(text) => {
                let password = text.lines().next().unwrap_or_default();
                match password.is_empty() {
                    true => all.push((
                        "password_file",
                        format!(
                            "`password_file` {}: its first line is empty",
                            path.display()
                        ),
                        None,
                    )),
                    false => url.password = Some(password.to_owned()),
                }
            }
            Err(error) => all.push((
                "password_file",
                format!("`password_file` {}: {error}", path.display()),
                None,
            )),
        },
        None => {}
    }
    if url.user.is_some() && url.password.is_none() && cluster.password_file.is_none() {
        all.push((
            "url",
            "`url` has a user without a password".into(),
            Some("write redis://user:password@host, or redis://:password@host without a user"),
        ));
    }
    if cluster.ca_file.is_some() && !url.is_tls {
        all.push((
            "ca_file",
            "`ca_file` without TLS".into(),
            Some("write rediss:// in `url`"),
        ));
    }
    all
}
