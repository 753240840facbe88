//! ngx_http_autoindex_module.
//!
//! Called by: `load`.

use crate::{
    inherit::inherit,
    reading::Setters,
    values::{flag, invalid},
};

/// Form of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingFormat {
    #[default]
    Html,
    Json,
    Jsonp,
    Xml,
}

/// Settings of the module.
#[derive(Clone, Debug, Default)]
pub struct AutoindexConf {
    pub is_on: Option<bool>,
    pub has_exact_sizes: Option<bool>,
    pub is_local_time: Option<bool>,
    pub format: Option<ListingFormat>,
}

impl AutoindexConf {
    pub fn inherit(&mut self, outer: &AutoindexConf) {
        inherit!(self, outer: is_on has_exact_sizes is_local_time format);
    }
}

pub const SETTERS: Setters<AutoindexConf> = &[
    ("autoindex", |d, conf, _| {
        conf.is_on = Some(flag(d)?);
        Ok(())
    }),
    ("autoindex_exact_size", |d, conf, _| {
        conf.has_exact_sizes = Some(flag(d)?);
        Ok(())
    }),
    ("autoindex_localtime", |d, conf, _| {
        conf.is_local_time = Some(flag(d)?);
        Ok(())
    }),
    ("autoindex_format", |d, conf, _| {
        conf.format = Some(match d.argument(0) {
            "html" => ListingFormat::Html,
            "json" => ListingFormat::Json,
            "jsonp" => ListingFormat::Jsonp,
            "xml" => ListingFormat::Xml,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
];
