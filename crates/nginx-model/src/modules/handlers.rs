//! ngx_http_stub_status_module, ngx_http_random_index_module, and ngx_http_mirror_module.
//!
//! Called by: `load`.
//! Out of scope: content (`saker-nginx`).

use crate::{inherit::inherit, reading::Setters, text::Text, values::flag};
use std::sync::Arc;

/// Settings of the modules.
#[derive(Clone, Debug, Default)]
pub struct HandlersConf {
    /// Empty: off.
    pub mirrors: Option<Arc<[Text]>>,
    pub mirrors_content: Option<bool>,
    pub random_index: Option<bool>,
    /// The location answers with the numbers of connections. Not inherited, except by the blocks
    /// inside.
    pub stub_status: Option<bool>,
}

impl HandlersConf {
    pub fn inherit(&mut self, outer: &HandlersConf, is_block: bool) {
        inherit!(self, outer: mirrors mirrors_content random_index);
        if is_block {
            inherit!(self, outer: stub_status);
        }
    }
}

pub const SETTERS: Setters<HandlersConf> = &[
    ("mirror", |d, conf, reading| {
        if d.argument(0) == "off" {
            conf.mirrors = Some(Arc::default());
            return Ok(());
        }
        let own = reading.text(d.argument(0))?;
        let before = conf.mirrors.take().unwrap_or_default();
        conf.mirrors = Some(before.iter().cloned().chain([own]).collect());
        Ok(())
    }),
    ("mirror_request_body", |d, conf, _| {
        conf.mirrors_content = Some(flag(d)?);
        Ok(())
    }),
    ("random_index", |d, conf, _| {
        conf.random_index = Some(flag(d)?);
        Ok(())
    }),
    ("stub_status", |_, conf, _| {
        conf.stub_status = Some(true);
        Ok(())
    }),
];
