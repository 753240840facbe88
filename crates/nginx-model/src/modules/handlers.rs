//! Handlers: ngx_http_stub_status_module, ngx_http_random_index_module, ngx_http_mirror_module,
//! ngx_http_dav_module, ngx_http_flv_module, and ngx_http_mp4_module.
//!
//! Called by: `load`.
//! Out of scope: content (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::Setters,
    text::Text,
    values::{access_mode, flag, invalid, number_argument, size_argument},
};
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
    /// Methods in capitals; empty: off.
    pub dav_methods: Option<Arc<[Box<str>]>>,
    pub delete_depth_min: Option<u64>,
    pub dav_mode: Option<u32>,
    pub makes_folders: Option<bool>,
    pub flv: Option<bool>,
    pub mp4: Option<bool>,
    pub mp4_index_bytes_max: Option<u64>,
    /// `mp4_start_key_frame`
    pub mp4_hides_key_frame: Option<bool>,
}

impl HandlersConf {
    pub fn inherit(&mut self, outer: &HandlersConf, is_block: bool) {
        inherit!(self, outer:
            mirrors mirrors_content random_index dav_methods delete_depth_min dav_mode makes_folders mp4_index_bytes_max mp4_hides_key_frame
        );
        if is_block {
            inherit!(self, outer: stub_status flv mp4);
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
    ("dav_methods", |d, conf, _| {
        let mut methods: Vec<Box<str>> = Vec::new();
        for word in d.texts() {
            match word {
                "off" => {}
                "PUT" | "DELETE" | "MKCOL" | "COPY" | "MOVE" => methods.push(word.into()),
                other => return Err(invalid(other)),
            }
        }
        conf.dav_methods = Some(methods.into());
        Ok(())
    }),
    // Films begin with a key frame anyway; an edit list hides what was not asked for.
    ("mp4_start_key_frame", |d, conf, _| {
        conf.mp4_hides_key_frame = Some(flag(d)?);
        Ok(())
    }),
    ("min_delete_depth", |d, conf, _| {
        conf.delete_depth_min = Some(number_argument(d)?);
        Ok(())
    }),
    ("dav_access", |d, conf, _| {
        conf.dav_mode = Some(access_mode(d)?);
        Ok(())
    }),
    ("create_full_put_path", |d, conf, _| {
        conf.makes_folders = Some(flag(d)?);
        Ok(())
    }),
    ("flv", |_, conf, _| {
        conf.flv = Some(true);
        Ok(())
    }),
    ("mp4", |_, conf, _| {
        conf.mp4 = Some(true);
        Ok(())
    }),
    ("mp4_max_buffer_size", |d, conf, _| {
        conf.mp4_index_bytes_max = Some(size_argument(d)?);
        Ok(())
    }),
    ("stub_status", |_, conf, _| {
        conf.stub_status = Some(true);
        Ok(())
    }),
];
