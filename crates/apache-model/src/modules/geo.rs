//! Settings of mod_maxminddb and mod_geoip: which databases, and which variables they fill.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Caveat: the files are opened when they are read; a file that is replaced is read again while the
//! server runs.
//! Out of scope: GeoIP's old `.dat` files; setting the variables (`saker_apache`).

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_ipset::GeoDatabase;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Geo {
    /// Most places say nothing of it.
    pub said: Option<Arc<GeoSettings>>,
}

#[derive(Clone, Debug, Default)]
pub struct GeoSettings {
    /// MaxMindDBEnable and MaxMindDBSetNotes.
    pub maxmind: Option<bool>,
    pub sets_notes: Option<bool>,
    /// MaxMindDBFile, by name.
    pub databases: Vec<(Box<str>, Arc<GeoDatabase>)>,
    pub lookups: Vec<Lookup>,
    /// GeoIPEnable.
    pub geoip: Option<bool>,
    pub geoip_files: Vec<Arc<GeoDatabase>>,
}

/// A variable, and what it is told.
#[derive(Clone, Debug)]
pub struct Lookup {
    pub database: Box<str>,
    pub variable: Box<str>,
    /// `None`: the network.
    pub path: Option<Vec<Box<str>>>,
}

impl Geo {
    pub const DIRECTIVES: &'static [(&'static str, Set<Geo>)] = &[
        ("MaxMindDBEnable", |node, geo, _| {
            set_flag(node, &mut geo.said().maxmind)
        }),
        ("MaxMindDBSetNotes", |node, geo, _| {
            set_flag(node, &mut geo.said().sets_notes)
        }),
        ("MaxMindDBFile", add_file),
        ("MaxMindDBEnv", add_variable),
        ("MaxMindDBNetworkEnv", add_network),
        ("GeoIPEnable", |node, geo, _| {
            set_flag(node, &mut geo.said().geoip)
        }),
        ("GeoIPDBFile", add_geoip_file),
    ];

    pub fn merge(&self, over: &Geo) -> Geo {
        let said = match (&self.said, &over.said) {
            (Some(outer), Some(inner)) => Some(Arc::new(outer.merge(inner))),
            (outer, inner) => inner.as_ref().or(outer.as_ref()).cloned(),
        };
        Geo { said }
    }

    fn said(&mut self) -> &mut GeoSettings {
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

impl GeoSettings {
    fn merge(&self, over: &GeoSettings) -> GeoSettings {
        let is_other = |lookup: &&Lookup| {
            !over
                .lookups
                .iter()
                .any(|one| one.database == lookup.database && one.variable == lookup.variable)
        };
        let is_unnamed =
            |(name, _): &&(Box<str>, _)| !over.databases.iter().any(|(other, _)| other == name);
        GeoSettings {
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

    pub fn has_variable(&self, name: &[u8]) -> bool {
        let begins_with = |prefix: &str| {
            let own = name.get(..prefix.len());
            own.is_some_and(|own| own.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let of_maxmind = begins_with("MMDB_")
            || self
                .lookups
                .iter()
                .any(|lookup| lookup.variable.as_bytes().eq_ignore_ascii_case(name));
        self.maxmind == Some(true) && of_maxmind
            || self.geoip == Some(true) && begins_with("GEOIP_")
    }
}

fn opened(path: &str, reading: &Reading<'_>) -> Result<Arc<GeoDatabase>, String> {
    let database = GeoDatabase::new(reading.server_path(path.as_bytes()));
    database
        .refresh()
        .map_err(|fault| format!("Failed to open {path}: {}", fault.message))?;
    Ok(Arc::new(database))
}

/// A name, and the file.
fn add_file(node: &Node, geo: &mut Geo, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [name, path, ..] = words.as_slice() else {
        return Err("MaxMindDBFile takes a name and a file".into());
    };
    let database = opened(path, reading).map_err(|why| format!("MaxMindDBFile: {why}"))?;
    let said = geo.said();
    said.databases.retain(|(known, _)| **known != **name);
    said.databases.push((name.as_str().into(), database));
    Ok(())
}

/// A variable, and `DATABASE/path/to/the/value`.
fn add_variable(node: &Node, geo: &mut Geo, _: &mut Reading<'_>) -> Result<(), String> {
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
    geo.said().lookups.push(lookup);
    Ok(())
}

fn add_network(node: &Node, geo: &mut Geo, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [database, variable, ..] = words.as_slice() else {
        return Err("MaxMindDBNetworkEnv takes a name and a variable".into());
    };
    geo.said().lookups.push(Lookup {
        database: database.as_str().into(),
        variable: variable.as_str().into(),
        path: None,
    });
    Ok(())
}

/// A file, and words about how it is read, which mean nothing here.
fn add_geoip_file(node: &Node, geo: &mut Geo, reading: &mut Reading<'_>) -> Result<(), String> {
    let path = texts(node).into_iter().next().unwrap_or_default();
    if path.to_ascii_lowercase().ends_with(".dat") {
        return Err(format!(
            "GeoIPDBFile: {path} is in the legacy format, which is no longer updated; use a file in the new format, such as GeoLite2-City.mmdb \
             (geoipupdate fetches it)"
        ));
    }
    let database = opened(&path, reading).map_err(|why| format!("GeoIPDBFile: {why}"))?;
    geo.said().geoip_files.push(database);
    Ok(())
}
