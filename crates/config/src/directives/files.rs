//! Static files: index files, listings, symbolic links, entity tags, media types.
//!
//! Called by: `settings`, for sites and routes.
//! Out of scope: audio and video (`media`).

use crate::{
    context::{ROUTE, SITE},
    diagnostic::quoted,
    kind::{KeyKind, Kind, Word},
    model::{EntityTagParts, SendFiles, Settings, SymlinkPolicy},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use saker_http::chars;
use std::sync::Arc;

static FILE_NAME: Word = Word {
    expects: "the name of a file, without directories",
    pattern: "^[^/]+$",
    read: read_file_name,
};

pub static MEDIA_TYPE: Word = Word {
    expects: "a media type, such as \"text/html\"",
    pattern: "^[^/ ]+/[^/ ]+( ?;.*)?$",
    read: |text| media_type(text).map(Value::Text),
};

static MEDIA_TYPE_OR_NONE: Word = Word {
    expects: "a media type, such as \"text/plain\", or \"\" for none",
    pattern: "^([^/ ]+/[^/ ]+( ?;.*)?)?$",
    read: |text| {
        if text.is_empty() {
            Ok(Value::Text(String::new()))
        } else {
            media_type(text).map(Value::Text)
        }
    },
};

static CHARSET: Word = Word {
    expects: "the name of a charset, such as \"utf-8\", or \"\" for none",
    pattern: "^[^ ]*$",
    read: read_charset,
};

static EXTENSION: KeyKind = KeyKind {
    expects: "file extensions, such as \"webp\"",
    pattern: "^[^/.]+(\\.[^/.]+)*$",
    is_case_sensitive: false,
    read: read_extension,
};

const EVERYWHERE: crate::context::Contexts = SITE.or(ROUTE);

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "index",
        contexts: EVERYWHERE,
        kind: Kind::ListOf(&Kind::Word(&FILE_NAME)),
        default: Some("[\"index.html\", \"index.htm\"]"),
        summary: "Index files of a directory; the first that exists is served. Empty: none.",
        apache: Some("DirectoryIndex"),
        set: |settings, given| settings.files.index = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "listing",
        contexts: EVERYWHERE,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "List the contents of directories without an index file?",
        apache: Some("Options Indexes"),
        aliases: &["autoindex", "directory_listing", "browse"],
        set: |settings, given| settings.files.listing = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "hidden",
        contexts: EVERYWHERE,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Serve dotfiles and backup files? `/.well-known/` always is.",
        aliases: &["dotfiles"],
        set: |settings, given| settings.files.hidden = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "symlinks",
        contexts: EVERYWHERE,
        kind: Kind::Choice(&["inside", "follow", "owner", "never"]),
        default: Some("\"inside\""),
        summary: "Symbolic links to follow: those that stay inside the root, all, those whose \
                  owner owns the target, or none.",
        apache: Some("Options FollowSymLinks, Options SymLinksIfOwnerMatch"),
        aliases: &["disable_symlinks", "follow_symlink"],
        set: |settings, given| settings.files.symlinks = symlinks(&given.text()),
        ..Row::BASE
    },
    Row {
        name: "etag",
        contexts: EVERYWHERE,
        kind: Kind::ListOf(&Kind::Choice(&["mtime", "size", "inode"])),
        default: Some("[\"mtime\", \"size\"]"),
        summary: "Components of the ETag. Empty: no ETag. Omit `inode` if several machines serve \
                  the same files.",
        apache: Some("FileETag"),
        set: |settings, given| settings.files.entity_tag = entity_tag(&given.texts()),
        ..Row::BASE
    },
    Row {
        name: "precompressed",
        contexts: EVERYWHERE,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Serve the `.br`, `.zst` or `.gz` file next to the requested one, if the client \
                  accepts it?",
        aliases: &["gzip_static", "brotli_static"],
        set: |settings, given| settings.files.precompressed = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "charset",
        contexts: EVERYWHERE,
        kind: Kind::Word(&CHARSET),
        default: Some("\"utf-8\""),
        summary: "Charset added to text types. Empty: none.",
        apache: Some("AddDefaultCharset"),
        set: |settings, given| settings.files.charset = given.text(),
        ..Row::BASE
    },
    Row {
        name: "types",
        contexts: EVERYWHERE,
        kind: Kind::MapOf(&EXTENSION, &Kind::Word(&MEDIA_TYPE)),
        default: Some("{}"),
        example: Some("{ gpx = \"application/gpx+xml\" }"),
        summary: "Media types by file extension, overriding the built-in table.",
        apache: Some("AddType"),
        aliases: &["mime_types", "mimetypes"],
        set: |settings, given| {
            settings
                .files
                .types
                .extend(given.map().into_iter().map(|(key, one)| (key, one.text())))
        },
        ..Row::BASE
    },
    Row {
        name: "default_type",
        contexts: EVERYWHERE,
        kind: Kind::Word(&MEDIA_TYPE_OR_NONE),
        default: Some("\"application/octet-stream\""),
        summary: "Media type of files with an unknown extension. Empty: no Content-Type.",
        apache: Some("ForceType, DefaultType"),
        set: |settings, given| settings.files.default_type = given.text(),
        ..Row::BASE
    },
    Row {
        name: "send_files",
        contexts: EVERYWHERE,
        kind: Kind::ListOf(&Kind::Path),
        default: Some("[]"),
        example: Some("[\"/srv/protected\"]"),
        summary: "Directories of files that a program may have sent instead of its own response \
                  body, by `X-Sendfile: /srv/protected/file`; relative names are looked up in \
                  each. Responses of a server behind `proxy` are honored only with \
                  `internal_redirects`.",
        apache: Some("XSendFile, XSendFilePath"),
        aliases: &["x_sendfile", "xsendfile", "sendfile_roots"],
        since: "0.2",
        set: |settings, given| {
            let roots = given
                .list()
                .into_iter()
                .map(Spanned::path)
                .collect::<Vec<_>>();
            let files = SendFiles {
                roots,
                ..SendFiles::default()
            };
            settings.send_files = (!files.roots.is_empty()).then(|| Arc::new(files));
        },
        ..Row::BASE
    },
    Row {
        name: "ranges_max",
        contexts: EVERYWHERE,
        kind: Kind::Integer { min: 0, max: 1000 },
        default: Some("16"),
        summary: "Maximum number of ranges in a request; with more, the whole file is sent. 0: \
                  Range is ignored.",
        apache: Some("MaxRanges"),
        aliases: &["max_ranges"],
        set: |settings, given| settings.files.ranges_max = given.number() as u32,
        ..Row::BASE
    },
    Row {
        name: "encoded_slashes",
        contexts: EVERYWHERE,
        kind: Kind::Choice(&["refuse", "decode"]),
        default: Some("\"refuse\""),
        summary: "`%2F` in paths to files and scripts: 404, or the same as a slash. Routes with \
                  `proxy` to `http`, `h2`, `ajp`, `uwsgi` and `scgi` forward it unchanged. \
                  Patterns and access rules always see a slash; with `%2F` in a path, `.` and `..` \
                  segments get 404.",
        apache: Some("AllowEncodedSlashes"),
        since: "0.2",
        set: |settings, given| settings.files.decodes_slashes = given.text() == "decode",
        ..Row::BASE
    },
];

/// RFC 9110 section 8.3.1: token "/" token, and parameters.
pub fn media_type(text: &str) -> Result<String, ValueError> {
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let names = essence.trim_end().split_once('/');
    let good = names.is_some_and(|(kind, subtype)| {
        chars::is_token(kind.as_bytes()) && chars::is_token(subtype.as_bytes())
    });
    match good && !parameters.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(ValueError::plain(None)),
    }
}

fn read_file_name(text: &str) -> Result<Value, ValueError> {
    match text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']) {
        true => Err(ValueError::plain(None)),
        false => Ok(Value::Text(text.to_owned())),
    }
}

fn read_charset(text: &str) -> Result<Value, ValueError> {
    match text.is_empty() || chars::is_token(text.as_bytes()) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    }
}

fn read_extension(text: &str) -> Result<String, ValueError> {
    if let Some(rest) = text.strip_prefix("*.").or_else(|| text.strip_prefix('.')) {
        return Err(ValueError::plain(Some(format!("write {}", quoted(rest)))));
    }
    match text.is_empty() || text.contains(['/', '\0']) {
        true => Err(ValueError::plain(None)),
        false => Ok(text.to_ascii_lowercase()),
    }
}

fn symlinks(word: &str) -> SymlinkPolicy {
    match word {
        "follow" => SymlinkPolicy::Follow,
        "owner" => SymlinkPolicy::OwnerMatch,
        "inside" => SymlinkPolicy::Inside,
        _ => SymlinkPolicy::Never,
    }
}

fn entity_tag(parts: &[String]) -> EntityTagParts {
    let has = |name: &str| parts.iter().any(|part| part == name);
    EntityTagParts {
        inode: has("inode"),
        mtime: has("mtime"),
        size: has("size"),
    }
}
