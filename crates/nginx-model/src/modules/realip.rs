//! ngx_http_realip_module.
//!
//! Called by: `load`.
//! Caveat: the proxies are those of the whole configuration: a client's address is settled before a
//! server is chosen. Servers with different settings are refused, and so are settings of locations.

use crate::values::{flag, network};
use saker_nginx_syntax::Directive;

/// Settings of the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RealIp {
    pub from: Vec<String>,
    pub header: Option<Box<str>>,
    pub is_recursive: Option<bool>,
}

impl RealIp {
    /// Returns true if the client is named by the PROXY header instead of a field.
    pub fn is_proxy_protocol(&self) -> bool {
        self.header.as_deref() == Some("proxy_protocol")
    }

    /// Returns true if both believe the same proxies the same.
    pub fn is_same(&self, other: &RealIp) -> bool {
        let networks = |real_ip: &RealIp| {
            let mut from = real_ip.from.clone();
            from.sort_unstable();
            from
        };
        networks(self) == networks(other)
            && self.header == other.header
            && (self.is_recursive == Some(true)) == (other.is_recursive == Some(true))
    }

    /// Settings of a level inside of one with the settings `outer`.
    pub fn inherit(&mut self, outer: &RealIp) {
        if self.from.is_empty() {
            self.from.clone_from(&outer.from);
        }
        self.header = self.header.take().or_else(|| outer.header.clone());
        self.is_recursive = self.is_recursive.or(outer.is_recursive);
    }

    /// Applies a directive.
    ///
    /// # Errors
    /// nginx's message.
    pub fn set(&mut self, directive: &Directive) -> Result<(), String> {
        match directive.name() {
            "set_real_ip_from" => {
                let text = directive.argument(0);
                if text != "unix:" && network(text).is_none() {
                    return Err(format!("invalid value \"{text}\""));
                }
                if !self.from.iter().any(|known| known == text) {
                    self.from.push(text.to_owned());
                }
            }
            "real_ip_header" => self.header = Some(directive.argument(0).into()),
            _ => self.is_recursive = Some(flag(directive)?),
        }
        Ok(())
    }
}

/// Names of the module's directives.
pub fn is_realip(name: &str) -> bool {
    matches!(
        name,
        "set_real_ip_from" | "real_ip_header" | "real_ip_recursive"
    )
}
