//! Values of `$upstream_addr` and its kin: one for each member that was asked.
//!
//! Called by: `builtin`, and `response` for logs.
//! Caveat: variables are read when the head of the response has come; logs are told the values again
//! when the response is over.

use crate::request::Request;
use saker_nginx_model::variables::{Builtin, Variable};
use saker_pipeline::AttemptValue;

impl Request<'_> {
    /// Returns the value of a variable about the members that were asked; `None`: none was.
    pub fn upstream_value(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        self.state.wants_response |= self.state.response.is_none();
        let attempts = &self.exchange.upstream.attempts;
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
        attempts.text(value_of(builtin)?).map(String::into_bytes)
    }

    /// The name of the server that was asked last, as the configuration has it, without its port.
    pub fn last_server_name(&mut self) -> Option<Vec<u8>> {
        self.state.wants_response |= self.state.response.is_none();
        let address = self.exchange.upstream.attempts.last_address()?;
        let name = match address.strip_prefix("unix:") {
            Some(_) => &*address,
            None => address.rsplit_once(':').map_or(&*address, |(name, _)| name),
        };
        Some(name.as_bytes().to_vec())
    }

    /// True if the response is that of a page of a cache.
    pub fn is_from_cache(&self) -> bool {
        let result = self
            .exchange
            .extensions
            .get::<saker_page_cache::keyed::KeyedResult>();
        result.is_some_and(|result| result.is_from_cache())
    }
}

/// Returns what a variable tells of attempts whose exchange may not be over yet.
pub fn late_value(variable: &Variable) -> Option<AttemptValue> {
    match variable {
        Variable::Builtin(builtin) => value_of(*builtin),
        _ => None,
    }
}

fn value_of(builtin: Builtin) -> Option<AttemptValue> {
    Some(match builtin {
        Builtin::UpstreamAddr => AttemptValue::Address,
        Builtin::UpstreamStatus => AttemptValue::Status,
        Builtin::UpstreamConnectTime => AttemptValue::ConnectTime,
        Builtin::UpstreamHeaderTime => AttemptValue::HeaderTime,
        Builtin::UpstreamResponseTime => AttemptValue::ResponseTime,
        Builtin::UpstreamResponseLength => AttemptValue::ResponseLength,
        Builtin::UpstreamBytesSent => AttemptValue::BytesSent,
        Builtin::UpstreamBytesReceived => AttemptValue::BytesReceived,
        _ => return None,
    })
}
