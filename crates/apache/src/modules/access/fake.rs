//! AuthBasicFake: programs and upstreams get credentials from the configuration.
//!
//! Called by: the fixups, after access has been decided; no decision uses these credentials.

use crate::{
    facts::{RequestFacts, note_dependencies},
    modules::access::credentials::set_authorization,
    state::snapshot,
};
use saker_ap_expr::{Evaluation, base64_encode};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_files::Watcher;
use saker_pipeline::Exchange;

/// Sets the credentials of AuthBasicFake.
pub fn fake_credentials(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) {
    let Some(Some((user, password))) = &local.auth.settings.authentication.fake else {
        return;
    };
    let own = snapshot(exchange);
    let (texts, dependencies, stamps) = {
        let seen = RequestFacts::new(exchange, &own, host, watcher);
        let mut evaluation = Evaluation::new(&seen);
        let texts = [user, password].map(|text| text.evaluate(&mut evaluation).unwrap_or_default());
        (texts, evaluation.dependencies, seen.stamps.take())
    };
    note_dependencies(exchange, &dependencies, stamps);
    let [user, password] = texts;
    if user.is_empty() {
        return;
    }
    let value = [
        b"Basic ".as_slice(),
        &base64_encode(&[user.as_slice(), b":", &password].concat()),
    ]
    .concat();
    set_authorization(exchange, &value);
}
