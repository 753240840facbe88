//! ngx_http_geoip_module and ngx_stream_geoip_module: variables about the client's address.
//!
//! Called by: the readers of `http` and `stream`.
//! Caveat: the variables of a database that is not configured have no value, as in nginx.
//! Out of scope: databases of cities.

use crate::{
    geoip::{GeoIp, GeoIpPart},
    reading::Reading,
    values::{flag, network},
    variables::Source,
};
use saker_ap_expr::Subnet;
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// The databases of a block, and the proxies whose `X-Forwarded-For` names the client.
#[derive(Clone, Debug, Default)]
pub struct GeoIpTables {
    pub countries: Option<Arc<GeoIp>>,
    pub organizations: Option<Arc<GeoIp>>,
    pub proxies: Vec<Subnet>,
    pub is_recursive: bool,
}

/// Variables of countries, and what they show.
const COUNTRY: [(&str, GeoIpPart); 3] = [
    ("geoip_country_code", GeoIpPart::CountryCode),
    ("geoip_country_code3", GeoIpPart::CountryCode3),
    ("geoip_country_name", GeoIpPart::CountryName),
];
const ORGANIZATION: [(&str, GeoIpPart); 1] = [("geoip_org", GeoIpPart::Organization)];

/// Applies a directive; false: it is another's.
///
/// # Errors
/// nginx's message.
pub fn set(
    directive: &Directive,
    geoip: &mut GeoIpTables,
    reading: &mut Reading<'_>,
) -> Result<bool, String> {
    match directive.name() {
        "geoip_country" if geoip.countries.is_some() => return Err("is duplicate".to_owned()),
        "geoip_org" if geoip.organizations.is_some() => return Err("is duplicate".to_owned()),
        "geoip_country" => {
            let database = read(directive, reading)?;
            if !database.has_countries() {
                return Err(format!(
                    "invalid GeoIP database \"{}\" type",
                    directive.argument(0)
                ));
            }
            geoip.countries = Some(Arc::new(database));
            define(&COUNTRY, reading);
        }
        "geoip_org" => {
            let database = read(directive, reading)?;
            if database.has_countries() {
                return Err(format!(
                    "invalid GeoIP database \"{}\" type",
                    directive.argument(0)
                ));
            }
            geoip.organizations = Some(Arc::new(database));
            define(&ORGANIZATION, reading);
        }
        "geoip_proxy" => geoip.proxies.push(
            network(directive.argument(0))
                .ok_or_else(|| format!("invalid network \"{}\"", directive.argument(0)))?,
        ),
        "geoip_proxy_recursive" => geoip.is_recursive = flag(directive)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn read(directive: &Directive, reading: &Reading<'_>) -> Result<GeoIp, String> {
    let path = reading.conf_prefix.join(directive.argument(0));
    let shown = path.display();
    let bytes = saker_net::privileged::read(&path);
    let bytes = bytes.map_err(|_| format!("GeoIP_open(\"{shown}\") failed"))?;
    let mut database =
        GeoIp::new(bytes).ok_or_else(|| format!("invalid GeoIP database \"{shown}\" type"))?;
    database.is_utf8 = match directive.argument(1) {
        "" => false,
        "utf8" => true,
        other => return Err(format!("invalid parameter \"{other}\"")),
    };
    Ok(database)
}

fn define(variables: &[(&str, GeoIpPart)], reading: &mut Reading<'_>) {
    for (name, part) in variables {
        reading.variables.define(name, Source::GeoIp(*part));
    }
}

impl GeoIpTables {
    /// The database that a variable is about.
    pub fn of(&self, part: GeoIpPart) -> Option<&GeoIp> {
        match part {
            GeoIpPart::Organization => self.organizations.as_deref(),
            _ => self.countries.as_deref(),
        }
    }
}
