//! Filters of content: ngx_http_sub_module, ngx_http_addition_module, ngx_http_ssi_module,
//! ngx_http_gunzip_module, and ngx_http_userid_module.
//!
//! Called by: `load`.
//! Caveat: `*_types` add to `text/html`, which is always filtered.
//! Out of scope: the filters (`saker-nginx`).

use crate::{
    inherit::{flags, inherit},
    reading::{Reading, Setters},
    text::Text,
    values::{invalid, size_argument, time_ms},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// One `sub_filter`.
#[derive(Clone, Debug, PartialEq)]
pub struct Substitution {
    pub text: Text,
    pub replacement: Text,
}

/// Media types that a filter is for, besides `text/html`.
pub type Types = Option<Arc<[Box<str>]>>;

/// `userid`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserId {
    Off,
    /// Read for logs only.
    Log,
    /// `on` and `v1`: true for the old form of the cookie.
    On(bool),
}

/// `userid_expires`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieEnd {
    Session,
    Max,
    Seconds(i64),
}

/// Settings of the modules.
#[derive(Clone, Debug, Default)]
pub struct FiltersConf {
    pub substitutions: Option<Arc<[Substitution]>>,
    pub sub_once: Option<bool>,
    pub sub_types: Types,
    pub sub_keeps_date: Option<bool>,
    /// Empty: none.
    pub before: Option<Text>,
    pub after: Option<Text>,
    pub addition_types: Types,
    pub ssi: Option<bool>,
    pub ssi_types: Types,
    pub ssi_silent: Option<bool>,
    pub ssi_value_bytes: Option<u64>,
    pub ssi_keeps_date: Option<bool>,
    pub gunzip: Option<bool>,
    /// Bytes of a slice; 0: none.
    pub slice_bytes: Option<u64>,
    pub user_id: Option<UserId>,
    pub user_id_name: Option<Box<str>>,
    pub user_id_domain: Option<Box<str>>,
    pub user_id_path: Option<Box<str>>,
    pub user_id_expires: Option<CookieEnd>,
    pub user_id_p3p: Option<Box<str>>,
    pub user_id_flags: Option<Arc<[Box<str>]>>,
    pub user_id_service: Option<u32>,
    pub user_id_mark: Option<Option<u8>>,
}

impl FiltersConf {
    pub fn inherit(&mut self, outer: &FiltersConf) {
        inherit!(self, outer:
            substitutions sub_once sub_types sub_keeps_date before after addition_types ssi ssi_types
            ssi_silent ssi_value_bytes ssi_keeps_date gunzip slice_bytes user_id user_id_name user_id_domain
            user_id_path user_id_expires user_id_p3p user_id_flags user_id_service user_id_mark
        );
    }

    /// Returns true if content is changed.
    pub fn changes_content(&self) -> bool {
        self.substitutions.is_some() || self.ssi == Some(true) || self.has_additions()
    }

    /// Returns true if content is added.
    pub fn has_additions(&self) -> bool {
        let is_set = |text: &Option<Text>| text.as_ref().is_some_and(|text| !text.parts.is_empty());
        is_set(&self.before) || is_set(&self.after)
    }
}

pub const FLAGS: Setters<FiltersConf> = flags!(
    "sub_filter_once" sub_once
    "sub_filter_last_modified" sub_keeps_date
    "ssi" ssi
    "ssi_silent_errors" ssi_silent
    "ssi_last_modified" ssi_keeps_date
    "gunzip" gunzip
);

pub const SETTERS: Setters<FiltersConf> = &[
    ("slice", |d, conf, _| {
        conf.slice_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("sub_filter", |d, conf, reading| {
        let text = reading.text(d.argument(0))?;
        if text.parts.is_empty() {
            return Err("search pattern cannot be empty".to_owned());
        }
        let own = Substitution {
            text,
            replacement: reading.text(d.argument(1))?,
        };
        let before = conf.substitutions.take().unwrap_or_default();
        conf.substitutions = Some(before.iter().cloned().chain([own]).collect());
        Ok(())
    }),
    ("sub_filter_types", |d, conf, _| {
        add_words(&mut conf.sub_types, d);
        Ok(())
    }),
    ("add_before_body", |d, conf, reading| {
        conf.before = Some(reading.text(d.argument(0))?);
        Ok(())
    }),
    ("add_after_body", |d, conf, reading| {
        conf.after = Some(reading.text(d.argument(0))?);
        Ok(())
    }),
    ("addition_types", |d, conf, _| {
        add_words(&mut conf.addition_types, d);
        Ok(())
    }),
    ("ssi_types", |d, conf, _| {
        add_words(&mut conf.ssi_types, d);
        Ok(())
    }),
    ("ssi_value_length", |d, conf, _| {
        conf.ssi_value_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("userid", |d, conf, _| {
        conf.user_id = Some(match d.argument(0) {
            "off" => UserId::Off,
            "log" => UserId::Log,
            "on" => UserId::On(false),
            "v1" => UserId::On(true),
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("userid_name", |d, conf, _| {
        conf.user_id_name = Some(d.argument(0).into());
        Ok(())
    }),
    ("userid_domain", |d, conf, _| {
        conf.user_id_domain = Some(none_is_empty(d).into());
        Ok(())
    }),
    ("userid_path", |d, conf, _| {
        conf.user_id_path = Some(d.argument(0).into());
        Ok(())
    }),
    ("userid_p3p", |d, conf, _| {
        conf.user_id_p3p = Some(none_is_empty(d).into());
        Ok(())
    }),
    ("userid_expires", |d, conf, _| {
        conf.user_id_expires = Some(match d.argument(0) {
            "off" => CookieEnd::Session,
            "max" => CookieEnd::Max,
            text => {
                let ms = time_ms(text).ok_or_else(|| invalid(text))?;
                CookieEnd::Seconds(i64::try_from(ms / 1000).unwrap_or(i64::MAX))
            }
        });
        Ok(())
    }),
    ("userid_flags", user_id_flags),
    ("userid_service", |d, conf, _| {
        let number = d.argument(0).parse().map_err(|_| invalid(d.argument(0)))?;
        conf.user_id_service = Some(number);
        Ok(())
    }),
    ("userid_mark", |d, conf, _| {
        conf.user_id_mark = Some(match d.argument(0).as_bytes() {
            b"off" => None,
            [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Some(*mark),
            _ => return Err("value must be \"off\" or a single letter, digit or \"=\"".to_owned()),
        });
        Ok(())
    }),
];

fn none_is_empty(directive: &Directive) -> &str {
    match directive.argument(0) {
        "none" => "",
        text => text,
    }
}

fn add_words(types: &mut Types, directive: &Directive) {
    let before = types.take().unwrap_or_default();
    let own = directive.texts().map(Into::into);
    *types = Some(before.iter().cloned().chain(own).collect());
}

fn user_id_flags(
    directive: &Directive,
    conf: &mut FiltersConf,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let mut attributes: Vec<Box<str>> = Vec::new();
    for word in directive.texts() {
        attributes.push(match word {
            "off" => continue,
            "secure" => "; secure".into(),
            "httponly" => "; httponly".into(),
            "samesite=strict" => "; samesite=strict".into(),
            "samesite=lax" => "; samesite=lax".into(),
            "samesite=none" => "; samesite=none".into(),
            other => return Err(format!("invalid parameter \"{other}\"")),
        });
    }
    conf.user_id_flags = Some(attributes.into());
    Ok(())
}
