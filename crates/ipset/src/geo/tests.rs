//! Data about a place, and broken database files.

use super::*;
use saker_testkit::mmdb::{Data, database};

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("saker-geo-{}-{name}", std::process::id()));
    fs::write(&path, bytes).unwrap();
    path
}

const CITY: Data<'_> = Data::Map(&[
    (
        "city",
        Data::Map(&[("names", Data::Map(&[("en", Data::Text("Atlantis"))]))]),
    ),
    ("continent", Data::Map(&[("code", Data::Text("EU"))])),
    (
        "country",
        Data::Map(&[
            ("iso_code", Data::Text("XA")),
            ("names", Data::Map(&[("en", Data::Text("Utopia"))])),
        ]),
    ),
    (
        "subdivisions",
        Data::List(&[Data::Map(&[("iso_code", Data::Text("N1"))])]),
    ),
]);
const NETWORK: Data<'_> = Data::Map(&[
    ("autonomous_system_number", Data::Number(64_500)),
    ("autonomous_system_organization", Data::Text("Example Net")),
]);

#[test]
fn several_databases_know_a_place_together() {
    let paths = [
        written("city", &database([203, 0, 113, 0], 24, &CITY)),
        written("as", &database([203, 0, 0, 0], 8, &NETWORK)),
    ];
    let databases: Vec<_> = paths
        .iter()
        .map(|path| Arc::new(GeoDatabase::new(path.clone())))
        .collect();
    databases
        .iter()
        .for_each(|database| assert_eq!(database.refresh(), Ok(true)));
    let place = place_of(&databases, "203.0.113.7".parse().unwrap());
    assert_eq!(
        (place.country.as_deref(), place.network),
        (Some("XA"), Some(64_500))
    );
    let variables: Vec<String> = place
        .variables()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        variables.join(" "),
        "GEOIP_COUNTRY_CODE=XA GEOIP_COUNTRY_NAME=Utopia GEOIP_CONTINENT_CODE=EU GEOIP_REGION=N1 GEOIP_CITY=Atlantis \
         GEOIP_ORGANIZATION=Example Net"
    );
    let elsewhere = place_of(&databases, "203.0.114.7".parse().unwrap());
    assert_eq!((elsewhere.country, elsewhere.network), (None, Some(64_500)));
    assert_eq!(
        place_of(&databases, "192.0.2.1".parse().unwrap()),
        Place::default()
    );
    assert_eq!(
        place_of(&databases, "2001:db8::1".parse().unwrap()),
        Place::default()
    );
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
}

#[test]
fn what_stands_at_a_path() {
    const RECORD: Data<'_> = Data::Map(&[
        ("country", Data::Map(&[("iso_code", Data::Text("XA"))])),
        (
            "location",
            Data::Map(&[
                ("latitude", Data::Broken(1.5)),
                ("metro_code", Data::Short(7)),
            ]),
        ),
        (
            "subdivisions",
            Data::List(&[
                Data::Map(&[("iso_code", Data::Text("N1"))]),
                Data::Map(&[("iso_code", Data::Text("N2"))]),
            ]),
        ),
    ]);
    let path = written("paths", &database([203, 0, 113, 0], 24, &RECORD));
    let file = GeoDatabase::new(path.clone());
    assert_eq!(
        file.record("203.0.113.7".parse().unwrap(), &[vec!["country"]]),
        None,
        "not read yet"
    );
    assert_eq!(file.refresh(), Ok(true));
    let paths = [
        "country/iso_code",
        "location/latitude",
        "location/metro_code",
        "subdivisions/0/iso_code",
        "subdivisions/-1/iso_code",
        "subdivisions/2/iso_code",
        "country",
        "none/at/all",
    ];
    let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    let record = file.record("203.0.113.7".parse().unwrap(), &paths).unwrap();
    let values: Vec<&str> = record
        .values
        .iter()
        .map(|value| value.as_deref().unwrap_or("-"))
        .collect();
    assert_eq!(values, ["XA", "1.50000", "7", "N1", "N2", "-", "-", "-"]);
    assert_eq!(
        (record.is_found, record.network.as_str()),
        (true, "203.0.113.0/24")
    );
    let elsewhere = file.record("192.0.2.1".parse().unwrap(), &paths).unwrap();
    assert!(!elsewhere.is_found && elsewhere.values.iter().all(Option::is_none));
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_broken_file_is_not_taken() {
    let path = written("broken", &database([203, 0, 113, 0], 24, &CITY));
    let databases = [Arc::new(GeoDatabase::new(path.clone()))];
    let country = || place_of(&databases, "203.0.113.7".parse().unwrap()).country;
    assert_eq!(
        (databases[0].refresh(), databases[0].refresh()),
        (Ok(true), Ok(false))
    );
    fs::write(&path, b"no database").unwrap();
    assert!(
        databases[0]
            .refresh()
            .unwrap_err()
            .message
            .contains("no MaxMind database")
    );
    assert_eq!(databases[0].refresh(), Ok(false));
    assert_eq!(country().as_deref(), Some("XA"), "the one before stays");
    // Whatever bytes there are: no panic.
    let whole = database([203, 0, 113, 0], 24, &CITY);
    for cut in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[cut] ^= 0xff;
        fs::write(&path, &damaged).unwrap();
        let other = [Arc::new(GeoDatabase::new(path.clone()))];
        let _ = other[0].refresh();
        place_of(&other, "203.0.113.7".parse().unwrap());
    }
    fs::remove_file(&path).unwrap();
}
