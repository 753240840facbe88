//! PHP's settings over FastCGI: two variables with a line for each, which php-fpm reads like its
//! ini file (LSAPI has a place of its own for them).
//!
//! Difficulty: a value must mean itself there, whatever is in it. Single quotes do that for all
//! bytes but themselves.

use crate::{Level, Setting, Variables};

/// php-fpm takes these for settings (`init_request_info` of its fpm_main.c).
const VARIABLES: [&[u8]; 2] = [b"PHP_ADMIN_VALUE", b"PHP_VALUE"];

/// Adds PHP_ADMIN_VALUE and PHP_VALUE, where there is something to say. A setting that can't be
/// said (its name is none, a NUL in it) is left out, and counted.
pub fn push_settings(settings: &[Setting<'_>], variables: &mut Variables) -> usize {
    let sayable = |setting: &&Setting<'_>| {
        is_name(setting.name) && memchr::memchr(0, setting.value).is_none()
    };
    for (name, level) in VARIABLES
        .into_iter()
        .zip([Level::System, Level::PerDirectory])
    {
        let mut lines = Vec::new();
        for setting in settings
            .iter()
            .filter(sayable)
            .filter(|setting| setting.level == level)
        {
            push_line(setting, &mut lines);
        }
        if !lines.is_empty() {
            variables.push(name, &lines);
        }
    }
    settings.iter().filter(|setting| !sayable(setting)).count()
}

/// Removes the variables that PHP takes for settings, from any source: php-fpm keeps what they say
/// in the process, where the next site's requests come to. Called where the server knows all
/// settings, before [`push_settings`].
pub fn drop_settings(variables: &mut Variables) {
    for name in VARIABLES {
        variables.remove_alike(name);
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn push_line(setting: &Setting<'_>, lines: &mut Vec<u8>) {
    lines.extend_from_slice(setting.name);
    lines.push(b'=');
    for (at, part) in setting.value.split(|byte| *byte == b'\'').enumerate() {
        // Strings side by side are one string.
        lines.extend_from_slice(if at == 0 { b"'" } else { b"\"'\"'" });
        lines.extend_from_slice(part);
        lines.push(b'\'');
    }
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_setting_by_level() {
        let rows: [(Level, &str, &str); 5] = [
            (Level::PerDirectory, "memory_limit", "64M"),
            (Level::System, "open_basedir", "/a:/b;c"),
            (Level::PerDirectory, "x.y", "it's ${HOME}\n"),
            (Level::PerDirectory, "a b", "no"),
            (Level::System, "nul", "a\0b"),
        ];
        let settings: Vec<Setting<'_>> = rows
            .iter()
            .map(|(level, name, value)| Setting {
                level: *level,
                name: name.as_bytes(),
                value: value.as_bytes(),
            })
            .collect();
        let mut variables = Variables::new();
        assert_eq!(push_settings(&settings, &mut variables), 2);
        assert_eq!(
            variables.first(b"PHP_ADMIN_VALUE"),
            Some(&b"open_basedir='/a:/b;c'\n"[..])
        );
        assert_eq!(
            variables.first(b"PHP_VALUE"),
            Some(&b"memory_limit='64M'\nx.y='it'\"'\"'s ${HOME}\n'\n"[..])
        );
        variables.push(b"php-value", b"memory_limit=1G");
        variables.push(b"PHP_VALUES", b"1");
        variables.push(b"PHP_VALUE", b"memory_limit=2G");
        drop_settings(&mut variables);
        assert!(variables.iter().eq([(&b"PHP_VALUES"[..], &b"1"[..])]));
        let mut none = Variables::new();
        assert_eq!((push_settings(&[], &mut none), none.len()), (0, 0));
    }
}
