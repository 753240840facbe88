//! ngx_http_access_module, ngx_http_auth_basic_module, and ngx_http_auth_request_module.
//!
//! Called by: `load`.
//! Caveat: a level with its own `allow` or `deny` has none of the outer ones.
//! Out of scope: deciding (`saker-nginx`).

use crate::{
    inherit::inherit,
    modules::maps::{Referers, valid_referers},
    reading::{Reading, Setters},
    text::Text,
    values::network,
    variables::Source,
};
use saker_ap_expr::Subnet;
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// One `allow` or `deny`.
#[derive(Clone, Debug)]
pub struct AccessRule {
    pub allows: bool,
    pub who: Who,
}

/// Clients that a rule is about.
#[derive(Clone, Debug)]
pub enum Who {
    All,
    Network(Subnet),
    UnixSockets,
}

/// Settings of the modules.
#[derive(Clone, Debug, Default)]
pub struct AccessConf {
    pub rules: Option<Arc<Vec<AccessRule>>>,
    /// `None` inside: `off`.
    pub realm: Option<Option<Text>>,
    pub user_file: Option<Text>,
    /// Path that is asked for permission (`auth_request`); `None` inside: `off`.
    pub auth_request: Option<Option<Text>>,
    /// Variables that its answer sets (`auth_request_set`).
    pub auth_request_set: Option<Arc<[(usize, Text)]>>,
    /// `valid_referers`
    pub referers: Option<Arc<Referers>>,
}

impl AccessConf {
    pub fn inherit(&mut self, outer: &AccessConf) {
        inherit!(self, outer: rules realm user_file auth_request auth_request_set referers);
    }
}

pub const SETTERS: Setters<AccessConf> = &[
    ("allow", |d, conf, _| rule(d, conf, true)),
    ("deny", |d, conf, _| rule(d, conf, false)),
    ("auth_basic", |d, conf, reading| {
        conf.realm = Some(match d.argument(0) {
            "off" => None,
            text => Some(reading.text(text)?),
        });
        Ok(())
    }),
    ("auth_request", |d, conf, reading| {
        conf.auth_request = Some(match d.argument(0) {
            "off" => None,
            uri => Some(reading.text(uri)?),
        });
        Ok(())
    }),
    ("auth_request_set", |d, conf, reading| {
        let name = d
            .argument(0)
            .strip_prefix('$')
            .filter(|name| !name.is_empty())
            .ok_or_else(|| format!("invalid variable name \"{}\"", d.argument(0)))?;
        let number = reading.variables.define(name, Source::Slot);
        let value = reading.text(d.argument(1))?;
        let before = conf.auth_request_set.take().unwrap_or_default();
        let own = (number, value);
        conf.auth_request_set = Some(before.iter().cloned().chain([own]).collect());
        Ok(())
    }),
    ("valid_referers", |d, conf, reading| {
        let referers = conf.referers.get_or_insert_default();
        valid_referers(d, Arc::make_mut(referers), reading)
    }),
    (
        "auth_basic_user_file",
        |d, conf, reading: &mut Reading<'_>| {
            let base = reading.conf_prefix;
            conf.user_file = Some(reading.path_text(d.argument(0), base)?);
            Ok(())
        },
    ),
];

fn rule(directive: &Directive, conf: &mut AccessConf, allows: bool) -> Result<(), String> {
    let text = directive.argument(0);
    let who = match text {
        "all" => Who::All,
        "unix:" => Who::UnixSockets,
        _ => Who::Network(network(text).ok_or_else(|| format!("invalid parameter \"{text}\""))?),
    };
    // Lists have thousands of lines.
    Arc::make_mut(conf.rules.get_or_insert_default()).push(AccessRule { allows, who });
    Ok(())
}
