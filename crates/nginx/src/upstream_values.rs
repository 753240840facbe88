//! Values of `$upstream_addr` and its kin: one for each member that was asked.
//!
//! Called by: `builtin`.
//! Caveat: they are read when the head of the response has come, so `$upstream_response_time` is the
//! time until then, and `$upstream_response_length` what the head says.

use crate::request::Request;
use saker_nginx_model::variables::Builtin;
use saker_pipeline::UpstreamAttempt;

impl Request<'_> {
    /// Returns the value of a variable about the members that were asked; `None`: none was.
    pub fn upstream_value(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        self.state.wants_response |= self.state.response.is_none();
        let attempts = self.exchange.upstream.attempts.all();
        if attempts.is_empty() {
            // No member could be asked: the name stands for all.
            let name = self
                .state
                .upstream
                .as_ref()
                .filter(|_| self.state.is_forwarded)?;
            let has_asked = self.state.response.is_some() && !self.is_from_cache();
            return (builtin == Builtin::UpstreamAddr && has_asked)
                .then(|| name.as_bytes().to_vec());
        }
        let values: Vec<String> = attempts
            .iter()
            .map(|attempt| value(builtin, attempt))
            .collect();
        Some(values.join(", ").into_bytes())
    }

    fn is_from_cache(&self) -> bool {
        let result = self
            .exchange
            .extensions
            .get::<saker_page_cache::keyed::KeyedResult>();
        result.is_some_and(|result| result.is_from_cache())
    }
}

fn value(builtin: Builtin, attempt: &UpstreamAttempt) -> String {
    let since = |then: Option<u64>| match then {
        None => "-".to_owned(),
        Some(then) => {
            let ms = then.saturating_sub(attempt.begun_ns) / 1_000_000;
            format!("{}.{:03}", ms / 1000, ms % 1000)
        }
    };
    // A member that did not answer has no head.
    let has_head = attempt.length.is_some()
        || attempt
            .status
            .is_some_and(|status| !matches!(status.0, 502 | 504));
    match builtin {
        Builtin::UpstreamAddr => attempt.address.to_string(),
        Builtin::UpstreamStatus => match attempt.status {
            Some(status) => status.0.to_string(),
            None => "-".to_owned(),
        },
        Builtin::UpstreamConnectTime => since(attempt.connected_ns),
        Builtin::UpstreamHeaderTime => since(attempt.answered_ns.filter(|_| has_head)),
        Builtin::UpstreamResponseTime => since(attempt.answered_ns),
        _ => match attempt.length {
            Some(length) => length.to_string(),
            None => "0".to_owned(),
        },
    }
}
