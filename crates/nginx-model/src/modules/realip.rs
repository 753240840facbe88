//! ngx_http_realip_module.
//!
//! Called by: `load`.
//! Caveat: the proxies are those of the server as a whole: a client address is settled before a
//! location is chosen. Settings of servers and locations are joined, which is reported where it
//! makes a difference.

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
