//! mod_maxminddb and mod_geoip: where the client is, as variables, from MaxMind's database files.
//!
//! Once for the host before everything else, and again for sections that say more (MaxMind's module
//! as it behaves), so that SetEnvIf, rewrite rules, Require env, logs and programs see them.
//! Called by: the phases `server_rewrite` and `map_to_storage`.
//! Caveat: the variables depend on the client, so an outcome that looked at one must not be kept;
//! `may_vary` says which they are.
//! Out of scope: the files (`saker_apache_model`).

use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::geo::{GeoSettings, Lookup},
};
use saker_pipeline::Exchange;
use std::{net::IpAddr, sync::Arc};

/// mod_geoip's variables, and where today's databases have them.
const GEOIP: &[(&str, &str)] = &[
    ("GEOIP_CONTINENT_CODE", "continent/code"),
    ("GEOIP_COUNTRY_CODE", "country/iso_code"),
    ("GEOIP_COUNTRY_NAME", "country/names/en"),
    ("GEOIP_REGION", "subdivisions/0/iso_code"),
    ("GEOIP_REGION_NAME", "subdivisions/0/names/en"),
    ("GEOIP_CITY", "city/names/en"),
    ("GEOIP_POSTAL_CODE", "postal/code"),
    ("GEOIP_METRO_CODE", "location/metro_code"),
    ("GEOIP_LATITUDE", "location/latitude"),
    ("GEOIP_LONGITUDE", "location/longitude"),
    ("GEOIP_ORGANIZATION", "autonomous_system_organization"),
    ("GEOIP_ISP", "isp"),
];

fn tell(said: &GeoSettings, exchange: &mut Exchange) {
    if said.maxmind == Some(true) {
        tell_maxmind(said, exchange);
    }
    if said.geoip == Some(true) {
        tell_geoip(said, exchange);
    }
}

fn tell_maxmind(said: &GeoSettings, exchange: &mut Exchange) {
    // SetEnvIf may have said which address it is about.
    let of_variable = exchange
        .environment
        .first(b"MMDB_ADDR")
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let address: IpAddr = of_variable.unwrap_or_else(|| exchange.client.ip());
    set(said, exchange, "MMDB_ADDR", &address.to_string());
    for (name, database) in &said.databases {
        let lookups: Vec<&Lookup> = said
            .lookups
            .iter()
            .filter(|lookup| lookup.database == *name)
            .collect();
        if !lookups.iter().any(|lookup| lookup.path.is_some()) {
            continue;
        }
        let paths: Vec<Vec<Box<str>>> = lookups
            .iter()
            .map(|lookup| lookup.path.clone().unwrap_or_default())
            .collect();
        let Some(record) = database.record(address, &paths) else {
            continue;
        };
        set(
            said,
            exchange,
            "MMDB_INFO",
            if record.is_found {
                "result found"
            } else {
                "lookup success"
            },
        );
        for (lookup, value) in lookups.iter().zip(&record.values) {
            match (&lookup.path, value) {
                (Some(_), Some(value)) => set(said, exchange, &lookup.variable, value),
                (None, _) => set(said, exchange, &lookup.variable, &record.network),
                _ => {}
            }
        }
    }
}

fn set(said: &GeoSettings, exchange: &mut Exchange, name: &str, value: &str) {
    exchange.environment.set(name.as_bytes(), value.as_bytes());
    if said.sets_notes == Some(true) {
        exchange.log.notes.set(name.as_bytes(), value.as_bytes());
    }
}

/// Sets the variables of mod_geoip; of several files, the first that knows a value counts.
fn tell_geoip(said: &GeoSettings, exchange: &mut Exchange) {
    let address = exchange.client.ip();
    exchange
        .environment
        .set(b"GEOIP_ADDR", address.to_string().as_bytes());
    let paths: Vec<Vec<&str>> = GEOIP
        .iter()
        .map(|(_, path)| path.split('/').collect())
        .collect();
    for database in said.geoip_files.iter().rev() {
        let Some(record) = database.record(address, &paths) else {
            continue;
        };
        for ((name, _), value) in GEOIP.iter().zip(&record.values) {
            if let Some(value) = value {
                exchange.environment.set(name.as_bytes(), value.as_bytes());
            }
        }
    }
}

/// Before everything else.
pub fn of_server(exchange: &mut Exchange, host: &Host) {
    if let Some(said) = &host.defaults.geo.said {
        tell(said, exchange);
    }
}

/// Once the file is known, where more is said of it.
pub fn of_section(exchange: &mut Exchange, host: &Host, local: &DirConfig) {
    let of_host = host.defaults.geo.said.as_ref().map(Arc::as_ptr);
    if let Some(said) = local
        .geo
        .said
        .as_ref()
        .filter(|said| Some(Arc::as_ptr(said)) != of_host)
    {
        tell(said, exchange);
    }
}

/// Returns whether a variable (of that name, or any) differs between clients.
pub fn may_vary(host: &Host, local: &DirConfig, name: Option<&[u8]>) -> bool {
    let mut said = host.defaults.geo.said.iter().chain(&local.geo.said);
    said.any(|said| match name {
        Some(name) => said.has_variable(name),
        None => said.maxmind == Some(true) || said.geoip == Some(true),
    })
}
