//! AuthBasicFake: programs and upstreams get credentials from the configuration.
//!
//! Called by: the fixups, after access has been decided; no decision uses these credentials.

use crate::{
    facts::{Seen, note_dependencies},
    host::Host,
    local::Local,
    state::peek,
};
use saker_ap_expr::{Evaluation, base64_encode};
use saker_files::Watcher;
use saker_pipeline::Exchange;

/// Sets the credentials of AuthBasicFake.
pub fn fake_credentials(exchange: &mut Exchange, host: &Host, watcher: &Watcher, local: &Local) {
    let Some(Some((user, password))) = &local.auth.settings.authentication.fake else {
        return;
    };
    let own = peek(exchange).cloned().unwrap_or_default();
    let (texts, dependencies, stamps) = {
        let seen = Seen::new(exchange, &own, host, watcher);
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

/// Replaces the Authorization field of the request.
pub fn set_authorization(exchange: &mut Exchange, value: &[u8]) {
    const NAME: &[u8] = b"Authorization";
    let head = exchange.head.clone();
    let others = head
        .view()
        .fields()
        .filter(|(name, _)| !name.eq_ignore_ascii_case(NAME));
    exchange.head = head.with_fields(others.chain(std::iter::once((NAME, value))));
}
