//! ngx_http_secure_link_module.
//!
//! Called by: `load`.
//! Out of scope: checking links (`saker-nginx`).

use crate::{conf::inherit, reading::Setters, text::Text};

/// Settings of the module.
#[derive(Clone, Debug, Default)]
pub struct SecureLinkConf {
    /// `HASH[,EXPIRES]`
    pub link: Option<Text>,
    pub md5: Option<Text>,
    pub secret: Option<Box<str>>,
}

impl SecureLinkConf {
    pub fn inherit(&mut self, outer: &SecureLinkConf) {
        inherit!(self, outer: link md5 secret);
    }
}

pub const SETTERS: Setters = &[
    ("secure_link", |d, conf, reading| {
        conf.secure_link.link = Some(reading.text(d.argument(0))?);
        Ok(())
    }),
    ("secure_link_md5", |d, conf, reading| {
        conf.secure_link.md5 = Some(reading.text(d.argument(0))?);
        Ok(())
    }),
    ("secure_link_secret", |d, conf, _| {
        conf.secure_link.secret = Some(d.argument(0).into());
        Ok(())
    }),
];
