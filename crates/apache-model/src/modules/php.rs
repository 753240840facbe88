//! mod_php's directives: settings that travel with each request to PHP, whichever kind runs it.
//!
//! Difficulty: who may change what. A setting of `php_admin_value` can't be changed further in by
//! `php_value`, nor by `.user.ini` or the script, which PHP itself sees to; `engine` is ours to
//! obey. Absent on purpose: checking names, since extensions bring their own. FcgidWrapper is read
//! for what it says about who runs a file: PHP behind a wrapper is the server's own PHP here.

use crate::reading::{Reading, Set};
use saker_apache_syntax::Node;
use saker_config::model::PhpValue;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Php {
    /// Each name once.
    pub settings: Vec<PhpValue>,
}

impl Php {
    pub const DIRECTIVES: &'static [(&'static str, Set<Php>)] = &[
        ("php_value", |node, php, _| {
            add(node, php, Kind::Value, false)
        }),
        ("php_flag", |node, php, _| add(node, php, Kind::Flag, false)),
        ("php_admin_value", |node, php, _| {
            add(node, php, Kind::Value, true)
        }),
        ("php_admin_flag", |node, php, _| {
            add(node, php, Kind::Flag, true)
        }),
        ("FcgidWrapper", wrapper),
    ];

    /// PHP's order: what is further in counts, unless what is further out was an administrator's
    /// and this is not.
    pub fn merge(&self, over: &Php) -> Php {
        let mut merged = self.clone();
        over.settings
            .iter()
            .for_each(|setting| merged.set(setting.clone()));
        merged
    }

    fn set(&mut self, setting: PhpValue) {
        match self
            .settings
            .iter_mut()
            .find(|known| known.name == setting.name)
        {
            Some(known) if known.is_admin && !setting.is_admin => {}
            Some(known) => *known = setting,
            None => self.settings.push(setting),
        }
    }

    /// `engine off`: nothing is run here.
    pub fn is_off(&self) -> bool {
        self.settings.iter().any(|setting| {
            &*setting.name == b"engine" && matches!(&*setting.value, b"0" | b"off" | b"Off" | b"")
        })
    }

    /// The settings that PHP is told; whether it runs at all was decided here.
    pub fn told(&self) -> Vec<PhpValue> {
        self.settings
            .iter()
            .filter(|setting| &*setting.name != b"engine")
            .cloned()
            .collect()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Value,
    Flag,
}

fn add(node: &Node, php: &mut Php, kind: Kind, is_admin: bool) -> Result<(), String> {
    let words = node.arguments();
    let [name, value] = words.as_slice() else {
        return Err(format!("{} takes two arguments", node.canonical_name()));
    };
    let is_on = value.eq_ignore_ascii_case(b"on") || value == b"1";
    let value: &[u8] = match kind {
        Kind::Flag if is_on => b"1",
        Kind::Flag => b"0",
        Kind::Value if value.eq_ignore_ascii_case(b"none") => b"",
        Kind::Value => value,
    };
    php.set(PhpValue {
        name: name.as_slice().into(),
        value: value.into(),
        is_admin,
    });
    Ok(())
}

/// `command [suffix] [virtual]`
fn wrapper(node: &Node, _: &mut Php, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let command = words
        .first()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .unwrap_or_default();
    let is_for_php = command.contains("php")
        || words
            .get(1)
            .is_some_and(|suffix| suffix.starts_with(b".ph"));
    if !is_for_php {
        return Err(format!(
            "FcgidWrapper {command}: only wrappers for PHP have something to stand in for them; run it as a FastCGI server"
        ));
    }
    let message = format!(
        "PHP files are run by the server's own PHP instead of {command}: what that script sets is not in force"
    );
    reading.diagnostics.push(node.warning(
        message,
        Some("name an ini file in PHPIniDir, and settings by php_value".into()),
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str, is_admin: bool) -> PhpValue {
        PhpValue {
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
            is_admin,
        }
    }

    fn php(settings: &[(&str, &str, bool)]) -> Php {
        Php {
            settings: settings
                .iter()
                .map(|(name, value, is_admin)| setting(name, value, *is_admin))
                .collect(),
        }
    }

    #[test]
    fn an_administrators_setting_stays() {
        let outer = php(&[
            ("memory_limit", "64M", true),
            ("display_errors", "0", false),
            ("x", "1", false),
        ]);
        let inner = php(&[
            ("memory_limit", "1G", false),
            ("display_errors", "1", false),
            ("x", "2", true),
        ]);
        let expected = php(&[
            ("memory_limit", "64M", true),
            ("display_errors", "1", false),
            ("x", "2", true),
        ]);
        assert_eq!(outer.merge(&inner), expected);
        assert_eq!(
            expected
                .merge(&php(&[("memory_limit", "2G", true)]))
                .settings[0],
            setting("memory_limit", "2G", true)
        );
    }

    #[test]
    fn the_engine_is_ours() {
        let off = php(&[("engine", "0", true), ("a", "b", false)]);
        assert!(off.is_off() && off.merge(&php(&[("engine", "1", false)])).is_off());
        assert_eq!(off.told(), [setting("a", "b", false)]);
        assert!(!php(&[("engine", "1", false)]).is_off() && !Php::default().is_off());
    }
}
