//! mod_autoindex's directives: how folders without an index file are shown. The page itself is made
//! in `listing/`.
//!
//! Difficulty: options with signs change what is in force outside, those without replace it, and
//! lists of icons, texts and descriptions are searched from the inside out.

use crate::{
    arguments::texts,
    reading::{Place, Reading, Set, said},
};
use saker_apache_syntax::Node;

pub const FANCY: u32 = 1;

pub const FOLDERS_FIRST: u32 = 1 << 1;

pub const TABLE: u32 = 1 << 2;

pub const ICONS_ARE_LINKS: u32 = 1 << 3;

pub const IGNORE_CASE: u32 = 1 << 4;

pub const IGNORE_CLIENT: u32 = 1 << 5;

pub const SCAN_TITLES: u32 = 1 << 6;

pub const SHOW_FORBIDDEN: u32 = 1 << 7;

pub const NO_SORTING: u32 = 1 << 8;

pub const NO_DESCRIPTION: u32 = 1 << 9;

pub const NO_PREAMBLE: u32 = 1 << 10;

pub const NO_ICON: u32 = 1 << 11;

pub const NO_MODIFIED: u32 = 1 << 12;

pub const NO_SIZE: u32 = 1 << 13;

pub const NO_RULES: u32 = 1 << 14;

pub const TRACK_MODIFIED: u32 = 1 << 15;

pub const VERSION_SORT: u32 = 1 << 16;

pub const XHTML: u32 = 1 << 17;

pub const OLD_DATES: u32 = 1 << 18;

const ADD_ALT_CLASS: u32 = 1 << 19;

const NONE: u32 = 1 << 31;

const OPTIONS: &[(&str, u32)] = &[
    ("fancyindexing", FANCY),
    ("foldersfirst", FOLDERS_FIRST),
    ("htmltable", TABLE),
    ("iconsarelinks", ICONS_ARE_LINKS),
    ("ignorecase", IGNORE_CASE),
    ("ignoreclient", IGNORE_CLIENT),
    ("scanhtmltitles", SCAN_TITLES),
    ("showforbidden", SHOW_FORBIDDEN),
    ("suppresscolumnsorting", NO_SORTING),
    ("suppressdescription", NO_DESCRIPTION),
    ("suppresshtmlpreamble", NO_PREAMBLE),
    ("suppressicon", NO_ICON),
    ("suppresslastmodified", NO_MODIFIED),
    ("suppresssize", NO_SIZE),
    ("suppressrules", NO_RULES),
    ("trackmodified", TRACK_MODIFIED),
    ("versionsort", VERSION_SORT),
    ("xhtml", XHTML),
    ("useolddateformat", OLD_DATES),
    ("addaltclass", ADD_ALT_CLASS),
];

const ICON_WIDTH: u32 = 20;

const ICON_HEIGHT: u32 = 22;

/// Width of names and descriptions, in characters.
pub const COLUMN_WIDTH: usize = 23;

/// The width of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Fixed(usize),
    /// As wide as its widest entry.
    Fitting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Path,
    Type,
    Encoding,
}

/// An icon or a text for what matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub by: By,
    pub pattern: Box<str>,
    /// The folder of the files, with a slash at its end.
    pub folder: Box<str>,
    pub value: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub pattern: Box<str>,
    pub full_path: bool,
    /// Else it is a part of the name.
    pub is_glob: bool,
    pub text: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Autoindex {
    options: u32,
    added: u32,
    removed: u32,
    pub name_width: Option<Width>,
    pub description_width: Option<Width>,
    pub icon_width: Option<u32>,
    pub icon_height: Option<u32>,
    pub charset: Option<Box<str>>,
    pub media_type: Option<Box<str>>,
    pub default_icon: Option<Box<str>>,
    pub style_sheet: Option<Box<str>>,
    pub head_insert: Option<Box<str>>,
    /// `N`, `M`, `S` or `D`, and whether it descends.
    pub order: Option<(u8, bool)>,
    pub icons: Vec<Item>,
    pub alternatives: Vec<Item>,
    pub descriptions: Vec<Description>,
    pub ignored: Vec<Item>,
    pub ignored_reset: bool,
    pub headers: Vec<Item>,
    pub readmes: Vec<Item>,
}

impl Autoindex {
    pub const DIRECTIVES: &'static [(&'static str, Set<Autoindex>)] = &[
        ("AddIcon", |node, autoindex, reading| {
            add_icons(node, autoindex, reading, By::Path)
        }),
        ("AddIconByType", |node, autoindex, reading| {
            add_icons(node, autoindex, reading, By::Type)
        }),
        ("AddIconByEncoding", |node, autoindex, reading| {
            add_icons(node, autoindex, reading, By::Encoding)
        }),
        ("AddAlt", |node, autoindex, reading| {
            add_alternatives(node, autoindex, reading, By::Path)
        }),
        ("AddAltByType", |node, autoindex, reading| {
            add_alternatives(node, autoindex, reading, By::Type)
        }),
        ("AddAltByEncoding", |node, autoindex, reading| {
            add_alternatives(node, autoindex, reading, By::Encoding)
        }),
        ("AddDescription", add_descriptions),
        ("IndexOptions", set_options),
        ("IndexOrderDefault", set_order),
        ("IndexIgnore", add_ignored),
        ("IndexIgnoreReset", |node, autoindex, _| {
            let mut on = None;
            crate::arguments::set_flag(node, &mut on)?;
            autoindex.ignored_reset = on.unwrap_or_default();
            Ok(())
        }),
        ("HeaderName", |node, autoindex, reading| {
            add_name(node, reading, &mut autoindex.headers)
        }),
        ("ReadmeName", |node, autoindex, reading| {
            add_name(node, reading, &mut autoindex.readmes)
        }),
        ("FancyIndexing", |_, _, _| {
            Err("The FancyIndexing directive is no longer supported. Use IndexOptions FancyIndexing.".into())
        }),
        ("DefaultIcon", |node, autoindex, _| {
            set_text(node, &mut autoindex.default_icon)
        }),
        ("IndexStyleSheet", |node, autoindex, _| {
            set_text(node, &mut autoindex.style_sheet)
        }),
        ("IndexHeadInsert", |node, autoindex, _| {
            set_text(node, &mut autoindex.head_insert)
        }),
    ];

    /// True if a directive about listings is in force.
    pub fn is_said(&self) -> bool {
        *self != Autoindex::default()
    }

    pub fn merge(&self, over: &Autoindex) -> Autoindex {
        fn joined<T: Clone>(outside: &[T], over: &[T]) -> Vec<T> {
            over.iter().chain(outside).cloned().collect()
        }
        let (options, added, removed) = self.options_under(over);
        Autoindex {
            options,
            added,
            removed,
            name_width: over.name_width.or(self.name_width),
            description_width: over.description_width.or(self.description_width),
            icon_width: over.icon_width.or(self.icon_width),
            icon_height: over.icon_height.or(self.icon_height),
            charset: said(&self.charset, &over.charset),
            media_type: said(&self.media_type, &over.media_type),
            default_icon: said(&self.default_icon, &over.default_icon),
            style_sheet: said(&self.style_sheet, &over.style_sheet),
            head_insert: said(&self.head_insert, &over.head_insert),
            order: over.order.or(self.order),
            icons: joined(&self.icons, &over.icons),
            alternatives: joined(&self.alternatives, &over.alternatives),
            descriptions: joined(&self.descriptions, &over.descriptions),
            ignored: if over.ignored_reset {
                over.ignored.clone()
            } else {
                joined(&self.ignored, &over.ignored)
            },
            ignored_reset: false,
            headers: joined(&self.headers, &over.headers),
            readmes: joined(&self.readmes, &over.readmes),
        }
    }

    fn options_under(&self, over: &Autoindex) -> (u32, u32, u32) {
        if over.options & NONE != 0 {
            return (NONE, 0, 0);
        }
        if over.options != 0 {
            return (over.options, over.added, over.removed);
        }
        let added = (self.added | over.added) & !over.removed;
        let removed = self.removed | over.removed;
        ((self.options & !removed) | added, added, removed)
    }

    pub fn options(&self) -> u32 {
        ((self.options & !NONE) | self.added) & !self.removed
    }
}

fn set_text(node: &Node, slot: &mut Option<Box<str>>) -> Result<(), String> {
    *slot = texts(node).into_iter().next().map(Into::into);
    Ok(())
}

/// The folder that the directive stands in; empty outside of folders.
fn folder(reading: &Reading<'_>) -> Box<str> {
    match &reading.place {
        Place::Directory(Some(path)) | Place::Htaccess(path) => path.clone(),
        _ => "".into(),
    }
}

fn items(words: &[String], value: &str, by: By, reading: &Reading<'_>) -> Vec<Item> {
    let one = |word: &String| {
        let word = if word == "**DIRECTORY**" {
            "^^DIRECTORY^^"
        } else {
            word.as_str()
        };
        let is_bare = by == By::Path && !word.contains(['*', '?']);
        let pattern = match by {
            By::Encoding => word.to_ascii_lowercase(),
            _ if is_bare => format!("*{word}"),
            _ => word.to_owned(),
        };
        Item {
            by,
            pattern: pattern.into(),
            folder: folder(reading),
            value: value.into(),
        }
    };
    words.iter().map(one).collect()
}

/// `(ALT,url)` or a URL.
fn add_icons(
    node: &Node,
    autoindex: &mut Autoindex,
    reading: &mut Reading<'_>,
    by: By,
) -> Result<(), String> {
    let words = texts(node);
    let (icon, rest) = words
        .split_first()
        .map_or(("", &words[..]), |(icon, rest)| (icon.as_str(), rest));
    let icon = match icon.strip_prefix('(') {
        None => icon,
        Some(pair) => {
            let (alternative, url) = pair
                .split_once(')')
                .ok_or("missing closing paren")?
                .0
                .split_once(',')
                .unwrap_or((pair, ""));
            let mut more = items(rest, alternative, by, reading);
            autoindex.alternatives.append(&mut more);
            url
        }
    };
    autoindex.icons.append(&mut items(rest, icon, by, reading));
    Ok(())
}

fn add_alternatives(
    node: &Node,
    autoindex: &mut Autoindex,
    reading: &mut Reading<'_>,
    by: By,
) -> Result<(), String> {
    let words = texts(node);
    if let Some((text, rest)) = words.split_first() {
        autoindex
            .alternatives
            .append(&mut items(rest, text, by, reading));
    }
    Ok(())
}

fn add_descriptions(
    node: &Node,
    autoindex: &mut Autoindex,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let words = texts(node);
    let Some((text, rest)) = words.split_first() else {
        return Ok(());
    };
    for word in rest {
        let full_path = word.contains('/');
        let is_glob = full_path || word.contains(['*', '?', '[']);
        let pattern = match (is_glob, full_path) {
            (true, true) => format!("*/{word}*"),
            (true, false) => format!("*{word}*"),
            (false, _) => word.clone(),
        };
        autoindex.descriptions.push(Description {
            pattern: pattern.into(),
            full_path,
            is_glob,
            text: text.as_str().into(),
        });
    }
    Ok(())
}

fn add_ignored(
    node: &Node,
    autoindex: &mut Autoindex,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    for word in texts(node) {
        // Only the last component is compared.
        let pattern = word.rsplit('/').next().unwrap_or_default().into();
        autoindex.ignored.push(Item {
            by: By::Path,
            pattern,
            folder: folder(reading),
            value: "".into(),
        });
    }
    Ok(())
}

fn add_name(node: &Node, reading: &Reading<'_>, list: &mut Vec<Item>) -> Result<(), String> {
    let name = texts(node).into_iter().next().unwrap_or_default();
    list.push(Item {
        by: By::Path,
        pattern: "".into(),
        folder: folder(reading),
        value: name.into(),
    });
    Ok(())
}

fn set_order(node: &Node, autoindex: &mut Autoindex, _: &mut Reading<'_>) -> Result<(), String> {
    let words: Vec<String> = texts(node)
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let descends = match words.first().map(String::as_str) {
        Some("ascending") => false,
        Some("descending") => true,
        _ => return Err("First keyword must be 'Ascending' or 'Descending'".into()),
    };
    let key = match words.get(1).map(String::as_str) {
        Some("name") => b'N',
        Some("date") => b'M',
        Some("size") => b'S',
        Some("description") => b'D',
        _ => return Err("Second keyword must be 'Name', 'Date', 'Size', or 'Description'".into()),
    };
    autoindex.order = Some((key, descends));
    Ok(())
}

fn set_options(
    node: &Node,
    autoindex: &mut Autoindex,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let settings = autoindex;
    for word in texts(node) {
        let (sign, name) = match word.strip_prefix(['+', '-']) {
            Some(name) => (word.bytes().next(), name),
            None => (None, word.as_str()),
        };
        let lower = name.to_ascii_lowercase();
        let option = match OPTIONS.iter().find(|(known, _)| *known == lower) {
            Some((_, option)) => *option,
            None if lower == "none" && sign.is_some() => {
                return Err("Cannot combine '+' or '-' with 'None' keyword".into());
            }
            None if lower == "none" => NONE,
            None => {
                valued(settings, name, &lower, sign == Some(b'-'))?;
                0
            }
        };
        match sign {
            None => {
                (settings.options, settings.added, settings.removed) =
                    (settings.options | option, 0, 0)
            }
            Some(b'+') => {
                (settings.added, settings.removed) =
                    (settings.added | option, settings.removed & !option)
            }
            Some(_) => {
                (settings.added, settings.removed) =
                    (settings.added & !option, settings.removed | option)
            }
        }
    }
    if settings.options & NONE != 0 && settings.options & !NONE != 0 {
        return Err("Cannot combine other IndexOptions keywords with 'None'".into());
    }
    if settings.options() & ADD_ALT_CLASS != 0 {
        reading.warn(node, "AddAltClass has no effect");
    }
    Ok(())
}

/// Options with a value, and their bare forms.
fn valued(
    settings: &mut Autoindex,
    name: &str,
    lower: &str,
    takes_away: bool,
) -> Result<(), String> {
    let (key, value) = lower
        .split_once('=')
        .map_or((lower, None), |(key, value)| (key, Some(value)));
    let own = name
        .split_once('=')
        .map(|(_, value)| value)
        .unwrap_or_default();
    let shown = name.split('=').next().unwrap_or_default();
    let number = value.map(|value| value.trim_start_matches('+').parse::<u32>().unwrap_or(0));
    match (key, number) {
        (_, Some(_)) if takes_away => return Err(format!("Cannot combine '-' with {shown}=n")),
        ("iconwidth", _) => {
            settings.icon_width = Some(number.unwrap_or(if takes_away { 0 } else { ICON_WIDTH }))
        }
        ("iconheight", _) => {
            settings.icon_height = Some(number.unwrap_or(if takes_away { 0 } else { ICON_HEIGHT }))
        }
        ("namewidth", _) => {
            settings.name_width = Some(width("NameWidth", value, number, 5, takes_away)?)
        }
        ("descriptionwidth", _) => {
            settings.description_width =
                Some(width("DescriptionWidth", value, number, 12, takes_away)?)
        }
        ("charset", Some(_)) => settings.charset = Some(own.into()),
        ("type", Some(_)) => settings.media_type = Some(own.into()),
        _ => return Err("Invalid directory indexing option".into()),
    }
    Ok(())
}

fn width(
    name: &str,
    value: Option<&str>,
    number: Option<u32>,
    min: u32,
    takes_away: bool,
) -> Result<Width, String> {
    match (value, number) {
        (None, _) if takes_away => Ok(Width::Fixed(COLUMN_WIDTH)),
        (None, _) => Err(format!("{name} with no value may only appear as '-{name}'")),
        (Some("*"), _) => Ok(Width::Fitting),
        (_, Some(number)) if number != 0 && number < min => {
            Err(format!("{name} value must be greater than {min}"))
        }
        (_, number) => Ok(Width::Fixed(number.unwrap_or_default() as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_change_what_is_in_force_outside() {
        let said = |options, added, removed| Autoindex {
            options,
            added,
            removed,
            ..Autoindex::default()
        };
        let outside = said(FANCY, 0, 0);
        let cases = [
            (said(0, TABLE, 0), FANCY | TABLE),
            (said(0, 0, FANCY), 0),
            (said(NO_ICON, 0, 0), NO_ICON),
            (said(NONE, 0, 0), 0),
            (Autoindex::default(), FANCY),
        ];
        for (over, expected) in cases {
            assert_eq!(outside.merge(&over).options(), expected, "{over:?}");
        }
    }

    #[test]
    fn widths() {
        let mut settings = Autoindex::default();
        assert_eq!(
            valued(&mut settings, "NameWidth=2", "namewidth=2", false),
            Err("NameWidth value must be greater than 5".into())
        );
        assert_eq!(
            valued(&mut settings, "bogus", "bogus", false),
            Err("Invalid directory indexing option".into())
        );
        assert_eq!(
            valued(&mut settings, "NameWidth=*", "namewidth=*", false),
            Ok(())
        );
        assert_eq!(settings.name_width, Some(Width::Fitting));
        assert_eq!(
            valued(&mut settings, "IconWidth", "iconwidth", false),
            Ok(())
        );
        assert_eq!(settings.icon_width, Some(20));
    }
}
