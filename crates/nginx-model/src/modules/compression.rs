//! gzip, gzip_static, charset, and the third-party modules for Brotli and Zstandard.
//!
//! Called by: `load`.
//! Caveat: `*_types` add to `text/html`, which is always compressed.

use crate::{
    inherit::inherit,
    reading::Setters,
    text::Text,
    values::{flag, invalid, number_argument, size_argument},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// Settings of one coding.
#[derive(Clone, Debug, Default)]
pub struct CodingConf {
    pub is_on: Option<bool>,
    pub level: Option<u32>,
    pub min_bytes: Option<u64>,
    pub types: Option<Arc<[Box<str>]>>,
    pub files: Option<StaticFiles>,
}

/// Files that are compressed ahead of time (`gzip_static` and its kin).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaticFiles {
    #[default]
    Off,
    /// For clients that accept them.
    On,
    Always,
}

impl CodingConf {
    fn inherit(&mut self, outer: &CodingConf) {
        inherit!(self, outer: is_on level min_bytes types files);
    }

    /// Returns true if content of the type is compressed.
    pub fn compresses(&self, media_type: &str) -> bool {
        let bare = media_type.split(';').next().unwrap_or_default().trim();
        let types = self.types.as_deref().unwrap_or_default();
        let mut types = types.iter();
        bare == "text/html" || types.any(|own| **own == *"*" || own.eq_ignore_ascii_case(bare))
    }
}

/// Settings of the modules.
#[derive(Clone, Debug, Default)]
pub struct CompressionConf {
    pub gzip: CodingConf,
    pub brotli: CodingConf,
    pub zstd: CodingConf,
    /// `None` inside: `off`.
    pub charset: Option<Option<Box<str>>>,
    /// One whose name has variables. It is set with `charset`, which is `off` then.
    pub charset_text: Option<Option<Text>>,
    pub charset_types: Option<Arc<[Box<str>]>>,
    pub source_charset: Option<Option<Box<str>>>,
    pub overrides_charset: Option<bool>,
}

/// Types that have a charset without `charset_types`.
const CHARSET_TYPES: [&str; 6] = [
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

impl CompressionConf {
    /// Returns a media type with the charset that it has here.
    pub fn with_charset(&self, media_type: &str) -> String {
        let Some(Some(charset)) = &self.charset else {
            return media_type.to_owned();
        };
        match self.has_charset(media_type) {
            true => format!("{media_type}; charset={charset}"),
            false => media_type.to_owned(),
        }
    }

    /// Returns true if content of the type gets a charset.
    pub fn has_charset(&self, media_type: &str) -> bool {
        match &self.charset_types {
            None => CHARSET_TYPES.contains(&media_type),
            Some(types) => {
                let mut types = types.iter();
                media_type == "text/html"
                    || types.any(|own| matches!(&**own, "*") || **own == *media_type)
            }
        }
    }

    pub fn inherit(&mut self, outer: &CompressionConf) {
        self.gzip.inherit(&outer.gzip);
        self.brotli.inherit(&outer.brotli);
        self.zstd.inherit(&outer.zstd);
        inherit!(self, outer: charset charset_text charset_types source_charset overrides_charset);
    }
}

macro_rules! coding_setters {
    ($($field:ident $on:literal $level:literal $length:literal $types:literal $static:literal)*) => {
        &[
            $(($on, |d, conf, _| {
                conf.$field.is_on = Some(flag(d)?);
                Ok(())
            }),
            ($level, |d, conf, _| {
                let level = u32::try_from(number_argument(d)?).unwrap_or(u32::MAX);
                conf.$field.level = Some(level);
                Ok(())
            }),
            ($length, |d, conf, _| {
                conf.$field.min_bytes = Some(size_argument(d)?);
                Ok(())
            }),
            ($types, |d, conf, _| {
                let before = conf.$field.types.take();
                conf.$field.types = Some(joined(before, d));
                Ok(())
            }),
            ($static, |d, conf, _| {
                conf.$field.files = Some(match d.argument(0) {
                    "on" => StaticFiles::On,
                    "always" => StaticFiles::Always,
                    "off" => StaticFiles::Off,
                    other => return Err(invalid(other)),
                });
                Ok(())
            }),)*
            ("charset", |d, conf, reading| {
                let name = d.argument(0);
                let has_variables = name.contains('$');
                conf.charset_text = Some(match has_variables {
                    true => Some(reading.text(name)?),
                    false => None,
                });
                conf.charset = Some(match has_variables {
                    true => None,
                    false => charset(d)?,
                });
                Ok(())
            }),
            ("source_charset", |d, conf, _| {
                conf.source_charset = Some(charset(d)?);
                Ok(())
            }),
            ("override_charset", |d, conf, _| {
                conf.overrides_charset = Some(flag(d)?);
                Ok(())
            }),
            ("charset_types", |d, conf, _| {
                let before = conf.charset_types.take();
                conf.charset_types = Some(joined(before, d));
                Ok(())
            }),
        ]
    };
}

pub const SETTERS: Setters<CompressionConf> = coding_setters!(
    gzip "gzip" "gzip_comp_level" "gzip_min_length" "gzip_types" "gzip_static"
    brotli "brotli" "brotli_comp_level" "brotli_min_length" "brotli_types" "brotli_static"
    zstd "zstd" "zstd_comp_level" "zstd_min_length" "zstd_types" "zstd_static"
);

fn joined(before: Option<Arc<[Box<str>]>>, directive: &Directive) -> Arc<[Box<str>]> {
    let before = before.unwrap_or_default();
    let own = directive.texts().map(Into::into);
    before.iter().cloned().chain(own).collect()
}

fn charset(directive: &Directive) -> Result<Option<Box<str>>, String> {
    match directive.argument(0) {
        "off" => Ok(None),
        name if name.contains('$') => {
            Err("a charset with variables is not supported here: name it".to_owned())
        }
        name => Ok(Some(name.into())),
    }
}
