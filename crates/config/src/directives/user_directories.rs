//! `[site.user_directories]`: pages of users in their homes, at `/~user/`.
//!
//! Called by: `site`, which makes a route of it, behind denials at the beginning of the site.
//! Caveat: root has no pages, and users of the system (number below 1000) only if they are named.
//! Scripts of users are not run unless `php` is set, because they would run with the rights of the
//! site's PHP.
//! Out of scope: finding a user's home (`native`).

use super::php;
use crate::{
    context::USER_DIRECTORIES,
    kind::{Kind, TableKind, Word},
    model::{
        Action, Htaccess, PathPattern, PhpUse, Route, Settings, SymlinkPolicy, UserDirectories,
    },
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Value, ValueError},
};
use std::sync::Arc;

static FOLDER: Word = Word {
    expects: "the name of a directory in a home, such as \"public_html\"",
    pattern: "^[^./][^/]*(/[^./][^/]*)*$",
    read: |text| {
        let is_name = |part: &str| !part.is_empty() && !part.starts_with('.');
        match text.split('/').all(is_name) && !text.chars().any(char::is_control) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::with_help(
                "it must be a path below the home, without hidden directories and `..`",
                "write for example \"public_html\"",
            )),
        }
    },
};

static USER: Word = Word {
    expects: "a user name",
    pattern: "^[^/:]+$",
    read: |text| match text {
        "root" => Err(ValueError::new("root has no pages")),
        "" => Err(ValueError::new("it must not be empty")),
        name if name.contains(['/', ':']) => Err(ValueError::plain(None)),
        name => Ok(Value::Text(name.to_owned())),
    },
};

/// Rules while they are read.
#[derive(Clone, Debug, Default)]
pub struct UserDirectoriesDraft {
    rules: UserDirectories,
    php: Option<PhpUse>,
}

impl Draft for UserDirectoriesDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub static TABLE: TableKind = TableKind {
    context: USER_DIRECTORIES,
    read: read_table,
};

pub const ROWS: &[Row<UserDirectoriesDraft>] = &[
    Row {
        name: "folder",
        contexts: USER_DIRECTORIES,
        kind: Kind::Word(&FOLDER),
        default: Some("\"public_html\""),
        summary: "Directory in the home of a user.",
        apache: Some("UserDir"),
        since: "0.2",
        aliases: &["directory", "dir", "path"],
        set: |draft, given| draft.rules.folder = given.text(),
        ..Row::BASE
    },
    Row {
        name: "users",
        contexts: USER_DIRECTORIES,
        kind: Kind::ListOf(&Kind::Word(&USER)),
        default: Some("[]"),
        example: Some("[\"ann\", \"bob\"]"),
        summary: "Users that have pages. Empty: all with a number from 1000 on, except `nobody`.",
        apache: Some("UserDir"),
        since: "0.2",
        aliases: &["enabled", "allow"],
        set: |draft, given| draft.rules.users = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "deny",
        contexts: USER_DIRECTORIES,
        kind: Kind::ListOf(&Kind::Word(&USER)),
        default: Some("[]"),
        example: Some("[\"guest\"]"),
        summary: "Users that have no pages.",
        apache: Some("UserDir"),
        since: "0.2",
        aliases: &["disabled", "except"],
        set: |draft, given| draft.rules.deny = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "php",
        contexts: USER_DIRECTORIES,
        kind: Kind::Word(&php::USE),
        default: Some("\"off\""),
        example: Some("\"auto\""),
        summary: "PHP for the pages of users, as `php` of a site. All users' scripts run with the \
                  same rights; `off` never sends their source.",
        since: "0.2",
        set: |draft, given| draft.php = php::parse_use(&given.text()).ok(),
        ..Row::BASE
    },
];

fn read_table(_: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = UserDirectoriesDraft::default();
    draft.fill(fields);
    Some(Value::parsed(draft))
}

/// The route of the pages, with the settings of the site as far as users may have them.
pub fn route(draft: &UserDirectoriesDraft, at: &Location, site: &Settings) -> Route {
    let mut settings = site.clone();
    settings.user_directories = Some(Arc::new(draft.rules.clone()));
    settings.php = draft.php.clone().unwrap_or_default();
    settings.cgi.clear();
    settings.content = None;
    settings.htaccess = Htaccess::Off;
    settings.send_files = Default::default();
    if settings.files.symlinks == SymlinkPolicy::Follow {
        settings.files.symlinks = SymlinkPolicy::OwnerMatch;
    }
    Route::new(
        PathPattern::Prefix("/~".to_owned()),
        Action::Files,
        Arc::new(settings),
        at.origin(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stay_below_the_home() {
        for text in ["", "/srv", "..", "a/../b", "a//b", ".ssh", "a/.b", "a/"] {
            assert!((FOLDER.read)(text).is_err(), "{text}");
        }
        for text in ["public_html", "www/public", "a.b"] {
            assert!((FOLDER.read)(text).is_ok(), "{text}");
        }
    }
}
