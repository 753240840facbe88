//! Permissions of `.htaccess` files by `AllowOverride` and `AllowOverrideList`.

use crate::{
    options::{ALL_OPTIONS, ANY_OPTION, OptionSet},
    row::{ALL, AUTH_CONFIG, FILE_INFO, INDEXES, LIMIT, OPTIONS, Overrides, Row},
};
use std::collections::BTreeSet;

/// The permissions in force for a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub overrides: Overrides,
    /// Options that `Options` may change.
    pub options: OptionSet,
    /// Names from `AllowOverrideList`, lower case.
    pub list: BTreeSet<String>,
    /// `Nonfatal=Override`: what is not permitted is passed over.
    pub ignores_forbidden: bool,
    /// `Nonfatal=Unknown`: what is no directive is passed over.
    pub ignores_unknown: bool,
}

/// The treatment of a directive in an `.htaccess` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Permitted,
    Ignored,
    Refused,
}

impl Default for Permission {
    /// `AllowOverride None`, Apache's default.
    fn default() -> Permission {
        let list = BTreeSet::new();
        Permission {
            overrides: Overrides(0),
            options: ANY_OPTION,
            list,
            ignores_forbidden: false,
            ignores_unknown: false,
        }
    }
}

impl Permission {
    /// `AllowOverride All`.
    pub fn all() -> Permission {
        Permission {
            overrides: ALL,
            ..Permission::default()
        }
    }

    /// Returns whether `.htaccess` files are not even looked for.
    pub fn is_none(&self) -> bool {
        self.overrides == Overrides(0) && self.list.is_empty()
    }

    pub fn verdict(&self, row: &Row) -> Verdict {
        if self.overrides.meets(row.overrides) || self.lists(row) {
            Verdict::Permitted
        } else if self.ignores_forbidden {
            Verdict::Ignored
        } else {
            Verdict::Refused
        }
    }

    /// Returns whether `AllowOverrideList` names it.
    pub(crate) fn lists(&self, row: &Row) -> bool {
        self.list.contains(&row.name.to_ascii_lowercase())
    }

    /// The settings that would permit it.
    pub(crate) fn help(&self, row: &Row) -> String {
        let classes: Vec<&str> = row.overrides.classes().collect();
        match classes.is_empty() {
            true => format!("{} does not belong in .htaccess", row.title()),
            false => format!("AllowOverride {} would permit it", classes.join(" or ")),
        }
    }

    /// The arguments of `AllowOverride`, over the list that is in force; the error in Apache's
    /// words.
    pub fn parse(words: &[Vec<u8>]) -> Result<Permission, String> {
        let mut permission = Permission::default();
        for word in words {
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(at) => (word.get(..at).unwrap_or_default(), word.get(at + 1..)),
                None => (word.as_slice(), None),
            };
            permission.word(name, value)?;
        }
        Ok(permission)
    }

    fn word(&mut self, name: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let shown = String::from_utf8_lossy(name).into_owned();
        match (shown.to_ascii_lowercase().as_str(), value) {
            ("none", _) => self.overrides = Overrides(0),
            ("all", _) => self.overrides = ALL,
            ("authconfig", _) => self.overrides = self.overrides.or(AUTH_CONFIG),
            ("fileinfo", _) => self.overrides = self.overrides.or(FILE_INFO),
            ("indexes", _) => self.overrides = self.overrides.or(INDEXES),
            ("limit", _) => self.overrides = self.overrides.or(LIMIT),
            ("options", value) => {
                self.overrides = self.overrides.or(OPTIONS);
                self.options = value.map_or(Ok(ALL_OPTIONS), option_list)?;
            }
            ("nonfatal", Some(value)) if value.eq_ignore_ascii_case(b"Override") => {
                self.ignores_forbidden = true
            }
            ("nonfatal", Some(value)) if value.eq_ignore_ascii_case(b"Unknown") => {
                self.ignores_unknown = true
            }
            ("nonfatal", Some(value)) if value.eq_ignore_ascii_case(b"All") => {
                (self.ignores_forbidden, self.ignores_unknown) = (true, true)
            }
            // Other values say nothing, as in Apache.
            ("nonfatal", Some(_)) => {}
            ("nonfatal", None) => {
                return Err(format!(
                    "=Override, =Unknown or =All expected after {shown}"
                ));
            }
            _ => return Err(format!("Illegal override option {shown}")),
        }
        Ok(())
    }
}

/// Behind `Options=`.
fn option_list(value: &[u8]) -> Result<OptionSet, String> {
    let names = value
        .split(|byte| *byte == b',')
        .filter(|name| !name.is_empty());
    names
        .map(|name| {
            OptionSet::named(name)
                .ok_or_else(|| format!("Illegal option {}", String::from_utf8_lossy(name)))
        })
        .try_fold(OptionSet(0), |set, option| Ok(set.or(option?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{options, rows::find_row, word::words};

    fn parsed(line: &str) -> Result<Permission, String> {
        Permission::parse(&words(line.as_bytes()))
    }

    #[test]
    fn classes() {
        assert_eq!(
            parsed("FileInfo indexes").unwrap().overrides,
            FILE_INFO.or(INDEXES)
        );
        assert_eq!(parsed("All").unwrap(), Permission::all());
        assert!(parsed("None").unwrap().is_none());
        let options = parsed("Options=Indexes,MultiViews").unwrap();
        assert_eq!(
            (options.overrides, options.options),
            (OPTIONS, options::INDEXES.or(options::MULTI_VIEWS))
        );
        let nonfatal = parsed("None Nonfatal=All").unwrap();
        assert!(nonfatal.ignores_forbidden && nonfatal.ignores_unknown);
        assert_eq!(
            parsed("Bogus").unwrap_err(),
            "Illegal override option Bogus"
        );
        assert_eq!(
            parsed("Nonfatal").unwrap_err(),
            "=Override, =Unknown or =All expected after Nonfatal"
        );
        assert_eq!(parsed("Options=x").unwrap_err(), "Illegal option x");
    }

    #[test]
    fn verdicts() {
        let row = |name: &str| find_row(name.as_bytes()).unwrap();
        let mut permission = parsed("FileInfo").unwrap();
        assert_eq!(permission.verdict(row("RewriteRule")), Verdict::Permitted);
        assert_eq!(permission.verdict(row("<IfModule")), Verdict::Permitted);
        assert_eq!(permission.verdict(row("Options")), Verdict::Refused);
        assert_eq!(permission.verdict(row("DocumentRoot")), Verdict::Refused);
        permission.list.insert("options".into());
        assert_eq!(permission.verdict(row("Options")), Verdict::Permitted);
        permission.ignores_forbidden = true;
        assert_eq!(permission.verdict(row("Require")), Verdict::Ignored);
    }
}
