//! Properties that the server computes (RFC 4918 section 15).
//!
//! Called by: PROPFIND, and PROPPATCH, which refuses to set them.
//! Caveat: `executable` is Apache's, and the only one that clients may set.
//! Out of scope: `displayname` and `getcontentlanguage`, which clients may keep as they like.

use crate::{
    locks::{Lock, Locks},
    xml::{DAV, Element, escaped},
};
use saker_files::{Kind, Metadata};
use saker_http::date::format_date;
use std::fmt::Write as _;

/// The namespace of Apache's own properties.
pub const APACHE: &str = "http://apache.org/dav/props/";

/// Properties in the order in which all of them are told, with the prefixes that Apache has.
const NAMES: [(&str, &str); 9] = [
    ("lp1", "resourcetype"),
    ("lp1", "creationdate"),
    ("lp1", "getcontentlength"),
    ("lp1", "getlastmodified"),
    ("lp1", "getetag"),
    ("lp2", "executable"),
    ("D", "supportedlock"),
    ("D", "lockdiscovery"),
    ("D", "getcontenttype"),
];

const SUPPORTED_LOCKS: &str = "\n<D:lockentry>\n<D:lockscope><D:exclusive/></D:lockscope>\n\
<D:locktype><D:write/></D:locktype>\n</D:lockentry>\n<D:lockentry>\n\
<D:lockscope><D:shared/></D:lockscope>\n<D:locktype><D:write/></D:locktype>\n</D:lockentry>\n";

/// A resource whose properties are computed.
pub struct Subject<'s> {
    /// `None`: a lock-null resource.
    pub metadata: Option<Metadata>,
    pub path: &'s [u8],
    pub locks: &'s Locks,
    /// Tell about locks?
    pub shows_locks: bool,
    pub now_s: i64,
    pub content_type: Option<String>,
    pub entity_tag: Option<Vec<u8>>,
}

/// Declarations of the prefixes that `properties` uses.
pub fn declarations(properties: &str) -> String {
    let mut out = String::new();
    for (prefix, namespace) in [("lp1", DAV), ("lp2", APACHE)] {
        if properties.contains(&format!("<{prefix}:")) {
            let _ = write!(out, " xmlns:{prefix}=\"{namespace}\"");
        }
    }
    out
}

/// Returns true if the server computes the property and clients can't set it.
pub fn is_protected(property: &Element) -> bool {
    property.namespace == DAV
        && NAMES
            .iter()
            .any(|(prefix, name)| *prefix != "lp2" && *name == property.name)
}

/// Returns true for the property that stands for a file's permission to be executed.
pub fn is_executable(property: &Element) -> bool {
    property.namespace == APACHE && property.name == "executable"
}

/// Appends all properties; `names_only`: without values.
pub fn write_all(subject: &Subject<'_>, names_only: bool, out: &mut String) {
    for (prefix, name) in NAMES {
        if let Some(value) = value(subject, name) {
            match names_only {
                true => push(prefix, name, "", out),
                false => push(prefix, name, &value, out),
            }
        }
    }
}

/// Appends one property, if the resource has it. Returns false otherwise.
pub fn write_one(subject: &Subject<'_>, wanted: &Element, out: &mut String) -> bool {
    let known = NAMES.iter().find(|(prefix, name)| {
        let namespace = if *prefix == "lp2" { APACHE } else { DAV };
        wanted.namespace == namespace && wanted.name == *name
    });
    let found = known.and_then(|(prefix, name)| Some((prefix, name, value(subject, name)?)));
    match found {
        Some((prefix, name, value)) => {
            push(prefix, name, &value, out);
            true
        }
        None => false,
    }
}

fn push(prefix: &str, name: &str, value: &str, out: &mut String) {
    let _ = match value.is_empty() {
        true => writeln!(out, "<{prefix}:{name}/>"),
        false => writeln!(out, "<{prefix}:{name}>{value}</{prefix}:{name}>"),
    };
}

/// The value as XML; `None`: the resource does not have the property.
fn value(subject: &Subject<'_>, name: &str) -> Option<String> {
    let metadata = subject.metadata.as_ref();
    let is_collection = metadata.is_some_and(|metadata| metadata.kind == Kind::Directory);
    match name {
        "resourcetype" if is_collection => Some("<D:collection/>".to_owned()),
        "resourcetype" => Some(String::new()),
        "creationdate" => Some(iso_date(metadata?.ctime_s)),
        "getcontentlength" if !is_collection => Some(metadata?.size.to_string()),
        "getlastmodified" => {
            let date = format_date(metadata?.mtime_s);
            Some(String::from_utf8_lossy(&date).into_owned())
        }
        "getetag" => {
            metadata?;
            let tag = String::from_utf8_lossy(subject.entity_tag.as_deref()?).into_owned();
            Some(tag.replace('&', "&amp;").replace('<', "&lt;"))
        }
        "executable" if !is_collection => {
            let is_executable = metadata?.mode & 0o100 != 0;
            Some(if is_executable { "T" } else { "F" }.to_owned())
        }
        "supportedlock" => Some(SUPPORTED_LOCKS.to_owned()),
        "lockdiscovery" => Some(lock_discovery(subject)),
        "getcontenttype" => Some(escaped(subject.content_type.as_deref()?)),
        _ => None,
    }
}

fn lock_discovery(subject: &Subject<'_>) -> String {
    let mut out = String::new();
    if subject.shows_locks {
        for lock in subject.locks.on(subject.path) {
            write_lock(lock, subject.now_s, &mut out);
        }
    }
    out
}

/// Appends the element `activelock`.
pub fn write_lock(lock: &Lock, now_s: i64, out: &mut String) {
    let scope = if lock.is_shared {
        "shared"
    } else {
        "exclusive"
    };
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let timeout = match lock.expires_s {
        Some(at) => format!("Second-{}", at.saturating_sub(now_s).max(0)),
        None => "Infinite".to_owned(),
    };
    let _ = write!(
        out,
        "<D:activelock>\n<D:locktype><D:write/></D:locktype>\n\
         <D:lockscope><D:{scope}/></D:lockscope>\n<D:depth>{depth}</D:depth>\n{}\
         <D:timeout>{timeout}</D:timeout>\n<D:locktoken>\n<D:href>{}</D:href>\n</D:locktoken>\n\
         </D:activelock>\n",
        lock.owner,
        escaped(&lock.token),
    );
}

/// A date of RFC 3339, in UTC.
fn iso_date(unix_s: i64) -> String {
    let days = unix_s.div_euclid(86_400);
    let second = unix_s.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month, and day of a day since 1970. Years are counted from March, so that the day that
/// leap years add is their last.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let since_march_0 = days + 719_468;
    let era = since_march_0.div_euclid(DAYS_OF_400_YEARS);
    let day_of_era = since_march_0.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (unix_s, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso_date(unix_s), expected);
        }
    }

    #[test]
    fn lock_null_resources_have_no_properties_of_files() {
        let locks = Locks::default();
        let subject = Subject {
            metadata: None,
            path: b"/a",
            locks: &locks,
            shows_locks: true,
            now_s: 0,
            content_type: None,
            entity_tag: Some(b"\"x\"".to_vec()),
        };
        let mut out = String::new();
        write_all(&subject, true, &mut out);
        assert_eq!(
            out,
            "<lp1:resourcetype/>\n<D:supportedlock/>\n<D:lockdiscovery/>\n"
        );
        assert_eq!(declarations(&out), " xmlns:lp1=\"DAV:\"");
        let getetag = Element {
            namespace: DAV.to_owned(),
            name: "getetag".to_owned(),
            ..Element::default()
        };
        assert!(!write_one(&subject, &getetag, &mut out) && is_protected(&getetag));
    }
}
