//! Values of `Options`, and the options that `AllowOverride Options=` leaves to `.htaccess`.
//!
//! The difficulty is that an option is more than one bit: `Includes` is reading and running,
//! `IncludesNOEXEC` is reading only.

/// A set of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionSet(pub u16);

pub const INDEXES: OptionSet = OptionSet(1);
pub const INCLUDES: OptionSet = OptionSet(1 << 1);
pub const FOLLOW_SYM_LINKS: OptionSet = OptionSet(1 << 2);
pub const EXEC_CGI: OptionSet = OptionSet(1 << 3);
/// Server-side includes may run programs.
pub const INCLUDES_EXEC: OptionSet = OptionSet(1 << 4);
pub const SYM_LINKS_IF_OWNER_MATCH: OptionSet = OptionSet(1 << 5);
pub const MULTI_VIEWS: OptionSet = OptionSet(1 << 6);
/// The options of `All`: MultiViews is not among them.
pub const ALL_OPTIONS: OptionSet = OptionSet(0b1_1111);
/// Whatever can be set.
pub const ANY_OPTION: OptionSet = OptionSet(0b111_1111);

impl OptionSet {
    pub const fn or(self, other: OptionSet) -> OptionSet {
        OptionSet(self.0 | other.0)
    }

    pub const fn without(self, other: OptionSet) -> OptionSet {
        OptionSet(self.0 & !other.0)
    }

    pub const fn contains(self, other: OptionSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// An option by its name, without sign.
    pub fn named(name: &[u8]) -> Option<OptionSet> {
        let names: [(&str, OptionSet); 9] = [
            ("Indexes", INDEXES),
            ("Includes", INCLUDES.or(INCLUDES_EXEC)),
            ("IncludesNOEXEC", INCLUDES),
            ("FollowSymLinks", FOLLOW_SYM_LINKS),
            ("SymLinksIfOwnerMatch", SYM_LINKS_IF_OWNER_MATCH),
            ("ExecCGI", EXEC_CGI),
            ("MultiViews", MULTI_VIEWS),
            ("RunScripts", MULTI_VIEWS.or(EXEC_CGI)),
            ("None", OptionSet(0)),
        ];
        let all = name.eq_ignore_ascii_case(b"All").then_some(ALL_OPTIONS);
        all.or_else(|| {
            names
                .iter()
                .find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
                .map(|(_, set)| *set)
        })
    }
}

/// One `Options` line: what it begins with, then its signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionsChange {
    /// Words without a sign: instead of what was in force. `None`: every word has a sign, or there
    /// is no word.
    pub set: Option<OptionSet>,
    /// With signs: to what is in force. Nothing is both added and removed.
    pub add: OptionSet,
    pub remove: OptionSet,
}

const MIXED: &str = "Either all Options must start with + or -, or no Option may.";

/// Reads the arguments of `Options`; `permitted` are those that may be changed here. The error in
/// Apache's words.
///
/// Signs may follow words without one only after `All` and `None` (core.c, `set_options`): `All
/// -Indexes`, `None +FollowSymLinks`.
pub fn parse_options(words: &[Vec<u8>], permitted: OptionSet) -> Result<OptionsChange, String> {
    let mut change = OptionsChange::default();
    let (mut signed, mut is_all_or_none) = (false, false);
    for (index, word) in words.iter().enumerate() {
        let (sign, name) = match word.split_first() {
            Some((sign @ (b'+' | b'-'), name)) => (Some(*sign), name),
            _ => (None, word.as_slice()),
        };
        let is_mixed = if sign.is_some() {
            !signed && index > 0 && !is_all_or_none
        } else {
            signed
        };
        if is_mixed {
            return Err(MIXED.into());
        }
        signed = sign.is_some();
        let option = checked(name, sign, index, permitted)?;
        is_all_or_none |= is_whole(name);
        match sign {
            Some(b'-') => {
                (change.add, change.remove) = (change.add.without(option), change.remove.or(option))
            }
            Some(_) => {
                (change.add, change.remove) = (change.add.or(option), change.remove.without(option))
            }
            None => change.set = Some(change.set.unwrap_or_default().or(option)),
        }
    }
    Ok(change)
}

fn is_whole(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"All") || name.eq_ignore_ascii_case(b"None")
}

fn checked(
    name: &[u8],
    sign: Option<u8>,
    index: usize,
    permitted: OptionSet,
) -> Result<OptionSet, String> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    let option = OptionSet::named(name).ok_or_else(|| format!("Illegal option {}", shown()))?;
    if name.eq_ignore_ascii_case(b"None") && index > 0 {
        return Err("'Options None' must be the first Option given.".into());
    }
    if name.eq_ignore_ascii_case(b"All") && index > 0 {
        return Err("'Options All' must be the first option given.".into());
    }
    if sign.is_some() && is_whole(name) {
        let name = if name.eq_ignore_ascii_case(b"All") {
            "All"
        } else {
            "None"
        };
        return Err(format!(
            "You may not use 'Options +{name}' or 'Options -{name}'."
        ));
    }
    if permitted.contains(option) {
        Ok(option)
    } else {
        Err(format!("Option {} not allowed here", shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, permitted: OptionSet) -> Result<OptionsChange, String> {
        parse_options(&crate::word::words(line.as_bytes()), permitted)
    }

    #[test]
    fn lines() {
        let set = |set| {
            Ok(OptionsChange {
                set: Some(set),
                ..OptionsChange::default()
            })
        };
        assert_eq!(parsed("", ANY_OPTION), Ok(OptionsChange::default()));
        assert_eq!(parsed("None", ANY_OPTION), set(OptionSet(0)));
        assert_eq!(
            parsed("all MultiViews", ANY_OPTION),
            set(ANY_OPTION
                .without(SYM_LINKS_IF_OWNER_MATCH)
                .or(INCLUDES_EXEC))
        );
        assert_eq!(
            parsed("Indexes followsymlinks", ANY_OPTION),
            set(INDEXES.or(FOLLOW_SYM_LINKS))
        );
        let merge = |add, remove| {
            Ok(OptionsChange {
                set: None,
                add,
                remove,
            })
        };
        assert_eq!(
            parsed("+Indexes -ExecCGI", ANY_OPTION),
            merge(INDEXES, EXEC_CGI)
        );
        assert_eq!(
            parsed("-Indexes +Indexes", ANY_OPTION),
            merge(INDEXES, OptionSet(0))
        );
        let mixed = |set, add, remove| {
            Ok(OptionsChange {
                set: Some(set),
                add,
                remove,
            })
        };
        assert_eq!(
            parsed("All -Indexes", ANY_OPTION),
            mixed(ALL_OPTIONS, OptionSet(0), INDEXES)
        );
        assert_eq!(
            parsed("None -Indexes +ExecCGI", ANY_OPTION),
            mixed(OptionSet(0), EXEC_CGI, INDEXES)
        );
        assert_eq!(
            parsed("All MultiViews -Indexes", ANY_OPTION),
            mixed(ALL_OPTIONS.or(MULTI_VIEWS), OptionSet(0), INDEXES)
        );
    }

    #[test]
    fn what_apache_refuses() {
        for (line, error) in [
            (
                "Indexes +FollowSymLinks",
                "Either all Options must start with + or -, or no Option may.",
            ),
            (
                "+Indexes FollowSymLinks",
                "Either all Options must start with + or -, or no Option may.",
            ),
            (
                "None -Indexes FollowSymLinks",
                "Either all Options must start with + or -, or no Option may.",
            ),
            (
                "None -Indexes All",
                "Either all Options must start with + or -, or no Option may.",
            ),
            ("+All", "You may not use 'Options +All' or 'Options -All'."),
            (
                "-none",
                "You may not use 'Options +None' or 'Options -None'.",
            ),
            (
                "-Indexes +None",
                "'Options None' must be the first Option given.",
            ),
            (
                "Indexes None",
                "'Options None' must be the first Option given.",
            ),
            (
                "Indexes All",
                "'Options All' must be the first option given.",
            ),
            ("Bogus", "Illegal option Bogus"),
            ("Indexes ExecCGI", "Option ExecCGI not allowed here"),
        ] {
            assert_eq!(
                parsed(line, INDEXES.or(FOLLOW_SYM_LINKS)),
                Err(error.to_owned()),
                "{line}"
            );
        }
    }

    #[test]
    fn all_is_everything_but_views_and_owners() {
        assert!(
            !ALL_OPTIONS.contains(MULTI_VIEWS)
                && !ALL_OPTIONS.contains(SYM_LINKS_IF_OWNER_MATCH)
                && ALL_OPTIONS.contains(INCLUDES_EXEC)
        );
    }
}
