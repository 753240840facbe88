//! The console: pages and an API for operators of a running server.
//!
//! Called by: the process, which implements [`Backend`] and runs [`serve`]; commands, which write
//! the users file.
//! Caveat: it runs on the main thread, apart from the sites: its own small HTTP/1.1 server, so that
//! it answers while workers are busy, and no site's rules, limits, or bans stand in its way. One
//! table lists all routes, and one gate stands before them.
//! Out of scope: the capabilities themselves; the control socket and the console call the same
//! functions ([`saker_control::Control`]).

mod actions;
mod answers;
mod api;
mod api_call;
mod api_routes;
mod assets;
mod audit;
mod backend;
mod ban_pages;
mod cache_orders;
mod connection;
mod connections;
mod cookie;
mod diff;
mod editor;
mod entry_pages;
mod events;
mod exchange;
mod gate;
mod history_files;
mod live_changes;
mod log_files;
mod log_in;
mod log_in_pages;
mod log_pages;
mod oidc;
mod oidc_state;
mod openapi;
mod owner_pages;
mod owner_settings;
mod page_routes;
mod pages;
mod passkey_pages;
mod passkey_store;
mod passkeys;
mod password;
mod pending_change;
mod reading;
mod redirect_pages;
mod route_parameters;
mod route_table;
mod routes;
mod serve;
mod sessions;
mod settings_pages;
mod site_scope;
mod state;
mod totp;
mod upstream_pages;
mod users;
mod warm_pages;
mod wizard_pages;
mod wizards;

pub use api_call::{ApiCall, api_routes};
pub use backend::{
    Backend, CheckedConfiguration, Fetch, Finding, Language, LogFile, Question, TraceLine,
};
pub use live_changes::{LiveChange, LiveChanges, MemberChange, SiteRedirect, find_member};
pub use openapi::document as openapi_document;
use saker_config::{Diagnostic, Model};
pub use serve::serve;
pub use state::ConsoleState;
pub use users::{Change, Role, UsersError, change_users, new_token, new_totp};

/// Errors that only the whole configuration shows.
pub fn problems(model: &Model) -> Option<Diagnostic> {
    let has_tls = model
        .listeners
        .iter()
        .any(|listener| listener.tls.is_some());
    if !model.console.tls || model.console.address.is_none() || has_tls {
        return None;
    }
    let origin = model.console.origin.clone();
    let message = "the console has no certificate: it uses those of the first listener with TLS";
    let mut problem = Diagnostic::without_source(origin, message.to_owned());
    problem.help = Some("add a [[listener]] with `tls = true`".to_owned());
    Some(problem)
}
