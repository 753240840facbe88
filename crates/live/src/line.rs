//! A finished request, as operators see it.
//!
//! Called by: loggers, which make lines; `tail` and `tops`, which show and count them.
//! Caveat: the text of a line is the client's, and hostile: pages must escape it.

use serde_json::{Value, json};

/// A finished request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    pub client: String,
    pub method: String,
    /// `true`: over TLS.
    pub is_secure: bool,
    pub host: String,
    /// Path and query as sent.
    pub target: String,
    pub protocol: String,
    pub status: u16,
    pub bytes: u64,
    pub duration_us: u64,
    pub site: String,
    pub referrer: String,
    pub user_agent: String,
    /// `Cache-Status` or `X-Cache` of the response, or empty.
    pub cache: String,
}

impl Line {
    pub fn to_json(&self) -> Value {
        json!({
            "at_ms": self.at_ms, "client": self.client, "method": self.method,
            "secure": self.is_secure, "host": self.host, "target": self.target,
            "protocol": self.protocol, "status": self.status, "bytes": self.bytes,
            "duration_us": self.duration_us, "site": self.site, "referrer": self.referrer,
            "user_agent": self.user_agent, "cache": self.cache,
        })
    }
}
