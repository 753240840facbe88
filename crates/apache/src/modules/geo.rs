//! mod_maxminddb and mod_geoip: where the client is, as variables, from MaxMind's database files.
//!
//! Once for the host before everything else, and again for sections that say more (MaxMind's module
//! as it behaves), so that SetEnvIf, rewrite rules, Require env, logs and programs see them.
//! Difficulty: the variables depend on the client, so whoever looks at one must not be kept;
//! `may_vary` says which they are. A file that is replaced is read again while the server runs.
//! Absent on purpose: GeoIP's old `.dat` files, which nobody brings up to date any more; files that
//! an `.htaccess` file names.

use super::{core::texts, dir::set_flag};
use crate::{
    host::Host,
    local::{Local, Set},
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_ipset::GeoDatabase;
use saker_pipeline::Exchange;
use std::{net::IpAddr, sync::Arc};

#[derive(Clone, Debug, Default)]
pub struct Geo {
    /// Most places say nothing of it.
    said: Option<Arc<Said>>,
}

#[derive(Clone, Debug, Default)]
struct Said {
    /// MaxMindDBEnable and MaxMindDBSetNotes.
    maxmind: Option<bool>,
    sets_notes: Option<bool>,
    /// MaxMindDBFile, by name.
    databases: Vec<(Box<str>, Arc<GeoDatabase>)>,
    lookups: Vec<Lookup>,
    /// GeoIPEnable.
    geoip: Option<bool>,
    geoip_files: Vec<Arc<GeoDatabase>>,
}

/// A variable, and what it is told.
#[derive(Clone, Debug)]
struct Lookup {
    database: Box<str>,
    variable: Box<str>,
    /// `None`: the network.
    path: Option<Vec<Box<str>>>,
}

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

impl Geo {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("MaxMindDBEnable", |node, local, _| {
            set_flag(node, &mut local.geo.said().maxmind)
        }),
        ("MaxMindDBSetNotes", |node, local, _| {
            set_flag(node, &mut local.geo.said().sets_notes)
        }),
        ("MaxMindDBFile", add_file),
        ("MaxMindDBEnv", add_variable),
        ("MaxMindDBNetworkEnv", add_network),
        ("GeoIPEnable", |node, local, _| {
            set_flag(node, &mut local.geo.said().geoip)
        }),
        ("GeoIPDBFile", add_geoip_file),
    ];

    pub fn under(&self, over: &Geo) -> Geo {
        let said = match (&self.said, &over.said) {
            (Some(outer), Some(inner)) => Some(Arc::new(outer.under(inner))),
            (outer, inner) => inner.as_ref().or(outer.as_ref()).cloned(),
        };
        Geo { said }
    }

    fn said(&mut self) -> &mut Said {
        Arc::make_mut(self.said.get_or_insert_default())
    }

    /// Files that are read again when they change.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<GeoDatabase>> {
        self.said.iter().flat_map(|said| {
            said.databases
                .iter()
                .map(|(_, database)| database)
                .chain(&said.geoip_files)
        })
    }
}

impl Said {
    fn under(&self, over: &Said) -> Said {
        let is_other = |lookup: &&Lookup| {
            !over
                .lookups
                .iter()
                .any(|one| one.database == lookup.database && one.variable == lookup.variable)
        };
        let is_unnamed =
            |(name, _): &&(Box<str>, _)| !over.databases.iter().any(|(other, _)| other == name);
        Said {
            maxmind: over.maxmind.or(self.maxmind),
            sets_notes: over.sets_notes.or(self.sets_notes),
            databases: self
                .databases
                .iter()
                .filter(is_unnamed)
                .chain(&over.databases)
                .cloned()
                .collect(),
            lookups: self
                .lookups
                .iter()
                .filter(is_other)
                .chain(&over.lookups)
                .cloned()
                .collect(),
            geoip: over.geoip.or(self.geoip),
            geoip_files: self
                .geoip_files
                .iter()
                .chain(&over.geoip_files)
                .cloned()
                .collect(),
        }
    }

    fn has_variable(&self, name: &[u8]) -> bool {
        let of_maxmind = name.starts_with(b"MMDB_")
            || self
                .lookups
                .iter()
                .any(|lookup| lookup.variable.as_bytes() == name);
        self.maxmind == Some(true) && of_maxmind
            || self.geoip == Some(true) && name.starts_with(b"GEOIP_")
    }

    fn tell(&self, exchange: &mut Exchange) {
        if self.maxmind == Some(true) {
            self.tell_maxmind(exchange);
        }
        if self.geoip == Some(true) {
            self.tell_geoip(exchange);
        }
    }

    fn tell_maxmind(&self, exchange: &mut Exchange) {
        // SetEnvIf may have said which address it is about.
        let said = exchange
            .environment
            .first(b"MMDB_ADDR")
            .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let address: IpAddr = said.unwrap_or_else(|| exchange.client.ip());
        self.set(exchange, "MMDB_ADDR", &address.to_string());
        for (name, database) in &self.databases {
            let lookups: Vec<&Lookup> = self
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
            self.set(
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
                    (Some(_), Some(value)) => self.set(exchange, &lookup.variable, value),
                    (None, _) => self.set(exchange, &lookup.variable, &record.network),
                    _ => {}
                }
            }
        }
    }

    fn set(&self, exchange: &mut Exchange, name: &str, value: &str) {
        exchange.environment.set(name.as_bytes(), value.as_bytes());
        if self.sets_notes == Some(true) {
            exchange.notes.set(name.as_bytes(), value.as_bytes());
        }
    }

    /// Of several files the first that knows a thing has the word.
    fn tell_geoip(&self, exchange: &mut Exchange) {
        let address = exchange.client.ip();
        exchange
            .environment
            .set(b"GEOIP_ADDR", address.to_string().as_bytes());
        let paths: Vec<Vec<&str>> = GEOIP
            .iter()
            .map(|(_, path)| path.split('/').collect())
            .collect();
        for database in self.geoip_files.iter().rev() {
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
}

/// Before everything else.
pub fn of_server(exchange: &mut Exchange, host: &Host) {
    if let Some(said) = &host.defaults.geo.said {
        said.tell(exchange);
    }
}

/// Once the file is known, where more is said of it.
pub fn of_section(exchange: &mut Exchange, host: &Host, local: &Local) {
    let of_host = host.defaults.geo.said.as_ref().map(Arc::as_ptr);
    if let Some(said) = local
        .geo
        .said
        .as_ref()
        .filter(|said| Some(Arc::as_ptr(said)) != of_host)
    {
        said.tell(exchange);
    }
}

/// Whether a variable (of that name, or any) is another one for another client.
pub fn may_vary(host: &Host, local: &Local, name: Option<&[u8]>) -> bool {
    let mut said = host.defaults.geo.said.iter().chain(&local.geo.said);
    said.any(|said| match name {
        Some(name) => said.has_variable(name),
        None => said.maxmind == Some(true) || said.geoip == Some(true),
    })
}

fn opened(path: &str, reading: &Reading<'_>) -> Result<Arc<GeoDatabase>, String> {
    let database = GeoDatabase::new(reading.server_path(path.as_bytes()));
    database
        .refresh()
        .map_err(|fault| format!("Failed to open {path}: {}", fault.message))?;
    Ok(Arc::new(database))
}

/// A name, and the file.
fn add_file(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [name, path, ..] = words.as_slice() else {
        return Err("MaxMindDBFile takes a name and a file".into());
    };
    let database = opened(path, reading).map_err(|why| format!("MaxMindDBFile: {why}"))?;
    let said = local.geo.said();
    said.databases.retain(|(known, _)| **known != **name);
    said.databases.push((name.as_str().into(), database));
    Ok(())
}

/// A variable, and `DATABASE/path/to/the/value`.
fn add_variable(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [variable, path, ..] = words.as_slice() else {
        return Err("MaxMindDBEnv takes a variable and a path".into());
    };
    let mut parts = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(Box::<str>::from);
    let Some(database) = parts.next() else {
        return Err(format!("MaxMindDBEnv: {path} names no database"));
    };
    let lookup = Lookup {
        database,
        variable: variable.as_str().into(),
        path: Some(parts.collect()),
    };
    local.geo.said().lookups.push(lookup);
    Ok(())
}

fn add_network(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [database, variable, ..] = words.as_slice() else {
        return Err("MaxMindDBNetworkEnv takes a name and a variable".into());
    };
    local.geo.said().lookups.push(Lookup {
        database: database.as_str().into(),
        variable: variable.as_str().into(),
        path: None,
    });
    Ok(())
}

/// A file, and words about how it is read, which mean nothing here.
fn add_geoip_file(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let path = texts(node).into_iter().next().unwrap_or_default();
    if path.to_ascii_lowercase().ends_with(".dat") {
        return Err(format!(
            "GeoIPDBFile: {path} is of the format that nobody brings up to date any more; name a file of the new one, such as GeoLite2-City.mmdb \
             (geoipupdate fetches it)"
        ));
    }
    let database = opened(&path, reading).map_err(|why| format!("GeoIPDBFile: {why}"))?;
    local.geo.said().geoip_files.push(database);
    Ok(())
}
