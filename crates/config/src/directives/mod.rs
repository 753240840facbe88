//! The table of directives: one file per feature, with its rows, its own kinds of values, and how
//! its values are laid over others. The order here is the order of the reference page.

/// A table whose rows all have one kind of setter.
macro_rules! target {
    ($draft:ident $variant:ident) => {
        impl crate::row::Target for $draft {
            fn take(&mut self, set: &crate::row::Set, given: crate::value::Given) {
                match set {
                    crate::row::Set::$variant(set) => set(self, given),
                    _ => debug_assert!(false, "not a setter for this table: {set:?}"),
                }
            }
        }
    };
}

pub(crate) mod abuse;
pub(crate) mod acme;
pub(crate) mod authorize;
pub(crate) mod cache;
pub(crate) mod cache_use;
pub(crate) mod challenge;
pub(crate) mod compression;
pub(crate) mod dynamic_vhosts;
pub(crate) mod error_pages;
pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod logs;
pub(crate) mod media;
pub(crate) mod modsecurity;
pub(crate) mod php;
pub(crate) mod redirect;
pub(crate) mod route;
pub(crate) mod server;
pub(crate) mod signed_urls;
pub(crate) mod site;
pub(crate) mod throttle;
pub(crate) mod tls;
pub(crate) mod upstream;
pub(crate) mod upstream_health;
pub(crate) mod upstream_server;

#[cfg(test)]
mod tests;

pub(crate) use acme::{AcmeDraft, DirectoryDraft};
pub(crate) use challenge::ChallengeDraft;
pub(crate) use fields::FieldDraft;
pub(crate) use file::FileDraft;
pub(crate) use listener::ListenerDraft;
pub(crate) use logs::AccessLogDraft;
pub(crate) use route::RouteDraft;
pub(crate) use signed_urls::{ReferrersDraft, SignedDraft, TriggerDraft};
pub(crate) use site::SiteDraft;
pub(crate) use throttle::{RateDraft, RequestRateDraft};
pub(crate) use tls::{CertificateDraft, SiteTlsDraft};
pub(crate) use upstream::UpstreamDraft;
pub(crate) use upstream_server::ServerDraft;

use crate::row::{Contexts, Row};
use std::sync::LazyLock;

static ROWS: LazyLock<Vec<&'static Row>> = LazyLock::new(|| {
    let features = [
        file::ROWS,
        server::ROWS,
        limits::ROWS,
        listener::ROWS,
        site::ROWS,
        tls::ROWS,
        acme::ROWS,
        files::ROWS,
        media::ROWS,
        php::ROWS,
        dynamic_vhosts::ROWS,
        route::ROWS,
        redirect::ROWS,
        authorize::ROWS,
        upstream::ROWS,
        upstream_health::ROWS,
        upstream_server::ROWS,
        compression::ROWS,
        cache::ROWS,
        cache_use::ROWS,
        fields::ROWS,
        error_pages::ROWS,
        throttle::ROWS,
        abuse::ROWS,
        signed_urls::ROWS,
        challenge::ROWS,
        modsecurity::ROWS,
        logs::ROWS,
    ];
    features.into_iter().flatten().collect()
});

/// Every key there is.
pub fn rows() -> &'static [&'static Row] {
    &ROWS
}

pub(crate) fn rows_in(context: Contexts) -> impl Iterator<Item = &'static Row> {
    rows()
        .iter()
        .copied()
        .filter(move |row| row.contexts.includes(context))
}

pub(crate) fn row_for(name: &str, context: Contexts) -> Option<&'static Row> {
    rows_in(context).find(|row| row.name == name)
}
