//! ngx_http_secure_link_module.
//!
//! Called by: `load`.
//! Out of scope: checking links (`saker-nginx`).

use crate::{inherit::inherit, reading::Setters, text::Text};

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

pub const SETTERS: Setters<SecureLinkConf> = &[
    ("secure_link", |d, conf, reading| {
        conf.link = Some(reading.text(d.argument(0))?);
        Ok(())
    }),
    ("secure_link_md5", |d, conf, reading| {
        conf.md5 = Some(reading.text(d.argument(0))?);
        Ok(())
    }),
    ("secure_link_secret", |d, conf, _| {
        conf.secret = Some(d.argument(0).into());
        Ok(())
    }),
];
