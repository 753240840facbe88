//! Locations of addresses from MaxMind database files: country, continent, city, and network.
//!
//! Called by: rules and logs that use locations. A file may be replaced while the server runs, like
//! an `AddressList`; a broken one is not used.
//! Caveat: databases differ in content, so several are asked, and the first with a value wins.

use crate::{ListFault, list::version};
use maxminddb::{LookupResult, PathElement, Reader};
use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

/// The largest there are have some 100 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

type Database = Reader<Vec<u8>>;

#[derive(Default)]
struct Content {
    database: Option<Arc<Database>>,
    version: Option<crate::list::FileVersion>,
}

/// A database file.
pub struct GeoDatabase {
    path: PathBuf,
    content: RwLock<Content>,
}

/// Location and network of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Two letters (ISO 3166-1).
    pub country: Option<Box<str>>,
    pub country_name: Option<Box<str>>,
    /// `AF`, `AN`, `AS`, `EU`, `NA`, `OC`, `SA`.
    pub continent: Option<Box<str>>,
    pub region: Option<Box<str>>,
    pub city: Option<Box<str>>,
    /// Number of the autonomous system, and who runs it.
    pub network: Option<u32>,
    pub organization: Option<Box<str>>,
}

/// A database's record for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// It says anything at all.
    pub is_found: bool,
    /// Values, one for each requested path.
    pub values: Vec<Option<String>>,
    /// The block that the record applies to, `192.0.2.0/24`.
    pub network: String,
}

impl Place {
    fn is_whole(&self) -> bool {
        self.country.is_some() && self.city.is_some() && self.network.is_some()
    }

    /// The variables that programs, rules and logs have of it, by mod_geoip's names.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let texts = [
            ("GEOIP_COUNTRY_CODE", &self.country),
            ("GEOIP_COUNTRY_NAME", &self.country_name),
            ("GEOIP_CONTINENT_CODE", &self.continent),
            ("GEOIP_REGION", &self.region),
            ("GEOIP_CITY", &self.city),
            ("GEOIP_ORGANIZATION", &self.organization),
        ];
        texts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// The same file is the same database.
impl PartialEq for GeoDatabase {
    fn eq(&self, other: &GeoDatabase) -> bool {
        self.path == other.path
    }
}

impl Eq for GeoDatabase {}

impl std::fmt::Debug for GeoDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GeoDatabase({})", self.path.display())
    }
}

impl GeoDatabase {
    pub fn new(path: PathBuf) -> GeoDatabase {
        GeoDatabase {
            path,
            content: RwLock::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file if it has changed since the last time. Returns true if it was read. A file
    /// that can't be read is reported once.
    pub fn refresh(&self) -> Result<bool, ListFault> {
        let version = version(&self.path);
        if version
            == self
                .content
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .version
            && version.is_some()
        {
            return Ok(false);
        }
        let read = read(&self.path);
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        let was_there = content.version.is_some();
        content.version = version;
        match read {
            Ok(database) => {
                content.database = Some(Arc::new(database));
                Ok(true)
            }
            // It was said when it went.
            Err(_) if version.is_none() && !was_there && content.database.is_some() => Ok(false),
            Err(message) => Err(ListFault {
                path: self.path.clone(),
                line: 0,
                message,
            }),
        }
    }

    /// Looks up an address at paths such as `country`, `names`, `en`; a number is an index into a
    /// list, counted from its end if negative. `None`: the database is not available.
    pub fn record<P: AsRef<str>>(&self, address: IpAddr, paths: &[Vec<P>]) -> Option<Record> {
        let database = self
            .content
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .database
            .clone()?;
        let found = database.lookup(address.to_canonical()).ok()?;
        let network = found
            .network()
            .map(|network| network.to_string())
            .unwrap_or_default();
        let values = paths.iter().map(|path| text_at(&found, path)).collect();
        Some(Record {
            is_found: found.has_data(),
            values,
            network,
        })
    }

    /// Adds this database's values to those already known.
    fn add_to(&self, place: &mut Place, address: IpAddr) {
        let database = self
            .content
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .database
            .clone();
        let Some(database) = database else { return };
        // A database that has a fault at this address knows nothing of it.
        let Ok(found) = database.lookup(address) else {
            return;
        };
        let text = |path: &[&str]| {
            let path: Vec<PathElement<'_>> = path.iter().map(|key| PathElement::Key(key)).collect();
            found
                .decode_path::<&str>(&path)
                .ok()
                .flatten()
                .map(Box::from)
        };
        let fill = |known: &mut Option<Box<str>>, path: &[&str]| {
            if known.is_none() {
                *known = text(path);
            }
        };
        fill(&mut place.country, &["country", "iso_code"]);
        fill(&mut place.country, &["registered_country", "iso_code"]);
        fill(&mut place.country_name, &["country", "names", "en"]);
        fill(&mut place.continent, &["continent", "code"]);
        fill(&mut place.city, &["city", "names", "en"]);
        fill(&mut place.organization, &["autonomous_system_organization"]);
        if place.region.is_none() {
            let path = [
                PathElement::Key("subdivisions"),
                PathElement::Index(0),
                PathElement::Key("iso_code"),
            ];
            place.region = found
                .decode_path::<&str>(&path)
                .ok()
                .flatten()
                .map(Box::from);
        }
        if place.network.is_none() {
            place.network = found
                .decode_path::<u32>(&[PathElement::Key("autonomous_system_number")])
                .ok()
                .flatten();
        }
    }
}

/// Combines the records of several databases for an address.
pub fn place_of(databases: &[Arc<GeoDatabase>], address: IpAddr) -> Place {
    let mut place = Place::default();
    for database in databases {
        if place.is_whole() {
            break;
        }
        database.add_to(&mut place, address.to_canonical());
    }
    place
}

/// Numbers as mod_maxminddb writes them.
fn text_at<P: AsRef<str>>(found: &LookupResult<'_, Vec<u8>>, path: &[P]) -> Option<String> {
    let path: Vec<PathElement<'_>> = path.iter().map(|part| element(part.as_ref())).collect();
    let text = || {
        found
            .decode_path::<&str>(&path)
            .ok()
            .flatten()
            .map(str::to_owned)
    };
    let truth = || {
        found
            .decode_path::<bool>(&path)
            .ok()
            .flatten()
            .map(|truth| u8::from(truth).to_string())
    };
    // Each type of the file's is read as itself alone.
    let short = || {
        found
            .decode_path::<u16>(&path)
            .ok()
            .flatten()
            .map(u64::from)
    };
    let whole = || {
        found
            .decode_path::<u32>(&path)
            .ok()
            .flatten()
            .map(u64::from)
    };
    let long = || found.decode_path::<u64>(&path).ok().flatten();
    let unsigned = || {
        whole()
            .or_else(short)
            .or_else(long)
            .map(|number| number.to_string())
    };
    let signed = || {
        found
            .decode_path::<i32>(&path)
            .ok()
            .flatten()
            .map(|number| number.to_string())
    };
    let single = || {
        found
            .decode_path::<f32>(&path)
            .ok()
            .flatten()
            .map(f64::from)
    };
    let broken = || {
        found
            .decode_path::<f64>(&path)
            .ok()
            .flatten()
            .or_else(single)
            .map(|number| format!("{number:.5}"))
    };
    text()
        .or_else(truth)
        .or_else(unsigned)
        .or_else(signed)
        .or_else(broken)
}

fn element(part: &str) -> PathElement<'_> {
    match part.parse::<isize>() {
        Ok(number) if number < 0 => PathElement::IndexFromEnd(number.unsigned_abs() - 1),
        Ok(number) => PathElement::Index(number.unsigned_abs()),
        Err(_) => PathElement::Key(part),
    }
}

fn read(path: &Path) -> Result<Database, String> {
    let bytes = fs::metadata(path)
        .map(|metadata| metadata.len())
        .unwrap_or(0);
    if bytes > FILE_BYTES_MAX {
        return Err(format!("a database has {FILE_BYTES_MAX} bytes at most"));
    }
    let content =
        fs::read(path).map_err(|error| format!("reading the database failed: {error}"))?;
    let database = Reader::from_source(content)
        .map_err(|error| format!("this is no MaxMind database: {error}"))?;
    Ok(database)
}

#[cfg(test)]
mod tests;
