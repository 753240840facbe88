//! Changes of PHP's own configuration: php.ini, and the files of the directories that are scanned
//! besides.
//!
//! Where they are is PHP's to know, and it is asked once per pool. Difficulty: it answers in plain
//! text or as a page, by kind.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// More files than this in a scanned folder are not looked at.
const FILES_MAX: usize = 500;

/// Locations from which a PHP reads its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// php.ini, whether it is there or not.
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

/// Snapshot of the files at these locations. Equal snapshots mean that nothing has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(Vec<(PathBuf, u64, u64, i64, i64)>);

impl Places {
    /// From what `php -i` prints.
    pub fn parse(text: &str) -> Places {
        let mut places = Places::default();
        for (name, value) in text.lines().filter_map(pair) {
            if value == "(none)" || value.is_empty() {
                continue;
            }
            match name.as_str() {
                "Configuration File (php.ini) Path" => {
                    places.files.push(Path::new(&value).join("php.ini"))
                }
                "Loaded Configuration File" => places.files.push(value.into()),
                "Scan this dir for additional .ini files" => {
                    places.folders.extend(value.split(':').map(PathBuf::from))
                }
                _ => {}
            }
        }
        places.files.sort();
        places.files.dedup();
        places
    }

    pub fn look(&self) -> Fingerprint {
        let entries = self
            .folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten());
        let mut scanned: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "ini"))
            .take(FILES_MAX)
            .collect();
        scanned.sort();
        Fingerprint(
            self.files
                .iter()
                .chain(&scanned)
                .filter_map(|path| print(path))
                .collect(),
        )
    }
}

fn print(path: &Path) -> Option<(PathBuf, u64, u64, i64, i64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((
        path.to_owned(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    ))
}

/// `Name => value`, or a row of a table with two cells.
fn pair(line: &str) -> Option<(String, String)> {
    if let Some((name, value)) = line.split_once(" => ") {
        return Some((name.trim().to_owned(), value.trim().to_owned()));
    }
    let (first, second) = line.split_once("</td><td")?;
    let (_, value) = second.split_once('>')?;
    Some((without_tags(first), without_tags(value)))
}

fn without_tags(text: &str) -> String {
    let mut is_inside = false;
    let kept = text.chars().filter(|c| {
        let was_inside = is_inside;
        is_inside = match c {
            '<' => true,
            '>' => false,
            _ => is_inside,
        };
        !is_inside && !was_inside
    });
    kept.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Configuration File (php.ini) Path => /etc/php/8.2/fpm\nLoaded Configuration File => (none)\n\
                        Scan this dir for additional .ini files => /etc/php/8.2/fpm/conf.d:/srv/ini\nPHP Variables\n";
    const PAGE: &str = "<tr><td class=\"e\">Configuration File (php.ini) Path </td><td class=\"v\">/etc/php/8.2/fpm </td></tr>\n\
                        <tr><td class=\"e\">Loaded Configuration File </td><td class=\"v\">/etc/php/8.2/fpm/php.ini </td></tr>\n\
                        <tr><td class=\"e\">Scan this dir for additional .ini files </td><td class=\"v\">/etc/php/8.2/fpm/conf.d:/srv/ini </td></tr>\n";

    #[test]
    fn both_forms() {
        let expected = Places {
            files: vec!["/etc/php/8.2/fpm/php.ini".into()],
            folders: vec!["/etc/php/8.2/fpm/conf.d".into(), "/srv/ini".into()],
        };
        assert_eq!(Places::parse(TEXT), expected);
        assert_eq!(Places::parse(PAGE), expected);
        assert_eq!(Places::parse("nothing of the kind"), Places::default());
    }

    #[test]
    fn changes_are_seen() {
        let folder = std::env::temp_dir().join(format!("saker-php-ini-{}", std::process::id()));
        fs::create_dir_all(folder.join("conf.d")).unwrap();
        let places = Places {
            files: vec![folder.join("php.ini")],
            folders: vec![folder.join("conf.d")],
        };
        let mut seen = vec![places.look()];
        for (file, text) in [
            ("php.ini", "a=1"),
            ("php.ini", "a=12"),
            ("conf.d/x.ini", ""),
        ] {
            fs::write(folder.join(file), text).unwrap();
            seen.push(places.look());
        }
        fs::write(folder.join("conf.d/readme"), "").unwrap();
        assert_eq!(seen.last(), Some(&places.look()));
        seen.dedup();
        assert_eq!(seen.len(), 4);
        fs::remove_dir_all(&folder).unwrap();
    }
}
