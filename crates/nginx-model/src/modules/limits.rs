//! ngx_http_limit_req_module and ngx_http_limit_conn_module.
//!
//! Called by: `load`, which reads the zones, too.
//! Caveat: a zone belongs to the generation; its counts begin again with a reload that changes it.
//! Out of scope: counting (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::{Reading, Setters, ZoneUse},
    text::Text,
    values::{flag, number_argument, size},
};
use saker_config::model::Origin;
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// `limit_req_zone` or `limit_conn_zone`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    pub name: Box<str>,
    /// `limit_req_zone` or `limit_conn_zone`.
    pub directive: &'static str,
    /// Number in the list of zones.
    pub number: usize,
    pub key: Text,
    /// Requests per 1000 seconds; 0 for connections.
    pub per_1000_s: u64,
    pub entries_max: usize,
}

impl Zone {
    /// Refuses a name that another zone has.
    ///
    /// # Errors
    /// nginx's message.
    pub fn check_new(&self, known: &[Arc<Zone>]) -> Result<(), String> {
        let Some(other) = known.iter().find(|other| other.name == self.name) else {
            return Ok(());
        };
        Err(match other.directive == self.directive {
            true => format!(
                "{} \"{}\" is already bound to key \"{}\"",
                self.directive, self.name, other.key.source
            ),
            false => format!(
                "the shared memory zone \"{}\" is already declared for a different use",
                self.name
            ),
        })
    }
}

/// One `limit_req`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimit {
    pub zone: Box<str>,
    /// In thousandths of a request.
    pub burst: u64,
    /// Requests beyond this are not delayed; `None`: none is.
    pub delay: Option<u64>,
}

/// Zone and number of connections of a `limit_conn`.
pub type ConnectionLimit = (Box<str>, u64);

/// Settings of the modules.
#[derive(Clone, Debug, Default)]
pub struct LimitsConf {
    pub requests: Option<Arc<[RequestLimit]>>,
    pub requests_status: Option<u16>,
    pub requests_dry_run: Option<bool>,
    pub connections: Option<Arc<[ConnectionLimit]>>,
    pub connections_status: Option<u16>,
    pub connections_dry_run: Option<bool>,
}

impl LimitsConf {
    pub fn inherit(&mut self, outer: &LimitsConf) {
        inherit!(self, outer:
            requests requests_status requests_dry_run connections connections_status
            connections_dry_run
        );
    }
}

pub const SETTERS: Setters<LimitsConf> = &[
    ("limit_req", limit_req),
    ("limit_req_status", |d, conf, _| {
        conf.requests_status = Some(status(d)?);
        Ok(())
    }),
    ("limit_req_dry_run", |d, conf, _| {
        conf.requests_dry_run = Some(flag(d)?);
        Ok(())
    }),
    ("limit_conn", |d, conf, reading| {
        note_use(d, d.argument(0), "limit_conn_zone", reading);
        let number = d
            .argument(1)
            .parse()
            .ok()
            .filter(|number| (1..=65_535).contains(number))
            .ok_or_else(|| match d.argument(1).parse::<u64>() {
                Ok(65_536..) => "connection limit must be less 65536".to_owned(),
                _ => format!("invalid number of connections \"{}\"", d.argument(1)),
            })?;
        let before = conf.connections.take().unwrap_or_default();
        if before.iter().any(|(zone, _)| **zone == *d.argument(0)) {
            return Err("\"limit_conn\" directive is duplicate".to_owned());
        }
        let own = (d.argument(0).into(), number);
        conf.connections = Some(before.iter().cloned().chain([own]).collect());
        Ok(())
    }),
    ("limit_conn_status", |d, conf, _| {
        conf.connections_status = Some(status(d)?);
        Ok(())
    }),
    ("limit_conn_dry_run", |d, conf, _| {
        conf.connections_dry_run = Some(flag(d)?);
        Ok(())
    }),
];

fn status(directive: &Directive) -> Result<u16, String> {
    let number = number_argument(directive)?;
    u16::try_from(number)
        .ok()
        .filter(|status| (400..=599).contains(status))
        .ok_or_else(|| "value must be between 400 and 599".to_owned())
}

fn limit_req(
    directive: &Directive,
    conf: &mut LimitsConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let mut limit = RequestLimit {
        zone: "".into(),
        burst: 0,
        delay: Some(0),
    };
    for word in directive.texts() {
        let number = |text: &str| {
            text.parse::<u64>()
                .ok()
                .and_then(|number| number.checked_mul(1000))
                .ok_or_else(|| format!("invalid parameter \"{word}\""))
        };
        match word.split_once('=') {
            Some(("zone", name)) => limit.zone = name.into(),
            Some(("burst", text)) => limit.burst = number(text)?,
            Some(("delay", text)) => limit.delay = Some(number(text)?),
            None if word == "nodelay" => limit.delay = None,
            _ => return Err(format!("invalid parameter \"{word}\"")),
        }
    }
    if limit.zone.is_empty() {
        return Err("\"limit_req\" must have \"zone\" parameter".to_owned());
    }
    note_use(directive, &limit.zone, "limit_req_zone", reading);
    let before = conf.requests.take().unwrap_or_default();
    conf.requests = Some(before.iter().cloned().chain([limit]).collect());
    Ok(())
}

fn note_use(directive: &Directive, zone: &str, kind: &'static str, reading: &mut Reading<'_>) {
    reading.zone_uses.push(ZoneUse {
        zone: zone.into(),
        kind,
        origin: Origin {
            line: directive.end_line,
            ..directive.origin()
        },
    });
}

/// Reports zones that limits name, and that are none of theirs.
pub fn check_uses(zones: &[Arc<Zone>], reading: &mut Reading<'_>) {
    for used in std::mem::take(&mut reading.zone_uses) {
        let name = &used.zone;
        match zones.iter().find(|zone| zone.name == *name) {
            Some(zone) if zone.directive == used.kind => {}
            Some(_) => {
                let message = format!(
                    "the shared memory zone \"{name}\" is already declared for a different use"
                );
                let (file, line) = (&used.origin.file, used.origin.line);
                reading.report.error_at(file, line, message);
            }
            None => {
                let message = format!("zero size shared memory zone \"{name}\"");
                reading.report.error_without_place(message);
            }
        }
    }
}

/// Bytes of a zone per entry, as in nginx on 64 bits.
const ENTRY_BYTES: u64 = 128;

/// Reads a zone. Of connections: without a rate.
///
/// # Errors
/// nginx's message.
pub fn zone(
    directive: &Directive,
    reading: &mut Reading<'_>,
    number: usize,
) -> Result<Zone, String> {
    let key = reading.text(directive.argument(0))?;
    let mut zone = Zone {
        name: "".into(),
        directive: match directive.name() {
            "limit_req_zone" => "limit_req_zone",
            _ => "limit_conn_zone",
        },
        number,
        key,
        per_1000_s: 0,
        entries_max: 0,
    };
    for word in directive.texts().skip(1) {
        let invalid = || format!("invalid parameter \"{word}\"");
        match word.split_once('=') {
            Some(("zone", text)) => {
                let (name, bytes) = text
                    .split_once(':')
                    .ok_or_else(|| format!("invalid zone size \"{word}\""))?;
                let bytes = size(bytes).ok_or_else(|| format!("invalid zone size \"{word}\""))?;
                if bytes < 32 << 10 {
                    return Err(format!("zone \"{word}\" is too small"));
                }
                zone.name = name.into();
                zone.entries_max = usize::try_from(bytes / ENTRY_BYTES).unwrap_or(usize::MAX);
            }
            Some(("rate", text)) if directive.name() == "limit_req_zone" => {
                let (number, unit) = text
                    .split_once("r/")
                    .ok_or_else(|| format!("invalid rate \"{word}\""))?;
                let number: u64 = number
                    .parse()
                    .map_err(|_| format!("invalid rate \"{word}\""))?;
                zone.per_1000_s = match unit {
                    "s" => number * 1000,
                    "m" => number * 1000 / 60,
                    _ => return Err(format!("invalid rate \"{word}\"")),
                };
            }
            None if word == "sync" => {}
            _ => return Err(invalid()),
        }
    }
    match zone.name.is_empty() {
        true => Err(format!(
            "\"{}\" must have \"zone\" parameter",
            directive.name()
        )),
        false => Ok(zone),
    }
}
