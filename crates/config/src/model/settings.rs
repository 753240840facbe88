//! Settings that may differ from path to path: the site's, with a route's (later: a directory's, a
//! .htaccess file's) laid over.

use super::{
    Authorize, CacheUse, Guard, Links, ModSecurity, Origin, PhpUse, ProgramUser, Throttle, Visitors,
};
use saker_http::Status;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub files: Files,
    pub compression: Compression,
    pub fields: Vec<FieldEdit>,
    pub error_pages: BTreeMap<u16, ErrorPage>,
    /// Content-Type of error pages that are texts; `None`: by what the text looks like.
    pub error_text_type: Option<String>,
    pub throttle: Throttle,
    /// Who is answered; `None`: everybody.
    pub guard: Option<Arc<Guard>>,
    pub links: Links,
    pub visitors: Visitors,
    /// Rules that requests are put to.
    pub modsecurity: Option<Arc<ModSecurity>>,
    /// What the page cache does; shared by all paths for which it does the same.
    pub cache: Arc<CacheUse>,
    /// What is done with audio and video files.
    pub media: super::Media,
    /// Who runs PHP files.
    pub php: PhpUse,
    /// Names of files that are run for a request (CGI), with `*` for any part.
    pub cgi: Vec<String>,
    /// Whom PHP and programs run as; `None`: the server's user.
    pub program_user: Option<ProgramUser>,
    /// Files that programs may have sent (X-Sendfile).
    pub send_files: Option<Arc<SendFiles>>,
    /// Answer TRACE (RFC 9110 section 9.3.8)? Off by default.
    pub trace: bool,
    /// Who is asked whether a request may pass.
    pub authorize: Option<Arc<Authorize>>,
    /// Overrides `limits.body_bytes_max`.
    pub body_bytes_max: Option<u64>,
    pub underscores: Underscores,
}

/// Fate of request fields whose names have anything but letters, digits and hyphens, on the way to
/// programs and servers. A program can't tell `X_User` from `X-User`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Underscores {
    /// Dropped, as by nginx.
    #[default]
    Drop,
    /// Servers asked over HTTP get them, programs don't (Apache).
    Servers,
    /// Passed on, unless the request has a field of the same variable with a plain name.
    Pass,
}

/// Which files a program may have sent in place of its own content, and what of its own stays.
/// (mod_xsendfile's settings.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendFiles {
    /// Folders with all that is below them.
    pub roots: Vec<PathBuf>,
    /// The script's own folder is one of them.
    pub beside_script: bool,
    /// Links lead anywhere; else they are followed as those of the site's own files are.
    pub follows_links: bool,
    /// The name is escaped as in a URL.
    pub is_escaped: bool,
    pub keeps_entity_tag: bool,
    pub keeps_last_modified: bool,
    pub keeps_encoding: bool,
    /// Where the program says no type there is none; else the file's name tells it.
    pub keeps_no_type: bool,
    /// Responses with other statuses than 200 are not looked at.
    pub is_for_success: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Follow any link (Apache's FollowSymLinks).
    Follow,
    /// Follow links whose owner is the owner of what they point to (SymLinksIfOwnerMatch).
    OwnerMatch,
    /// Follow links that stay inside the document root.
    Inside,
    /// Follow none: 403.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTagParts {
    pub inode: bool,
    pub mtime: bool,
    pub size: bool,
}

/// Static files.
#[derive(Clone, Debug)]
pub struct Files {
    pub index: Vec<String>,
    /// Show the entries of a folder that has no index file.
    pub listing: bool,
    /// Serve names that begin with a dot (`/.well-known/` always is), and backup and editor
    /// leftovers (`~`, `.bak`, `.swp`, `#…#`…)?
    pub hidden: bool,
    pub symlinks: SymlinkPolicy,
    pub entity_tag: EntityTagParts,
    /// Take `.br`, `.zst`, `.gz` siblings.
    pub precompressed: bool,
    /// Added to types that take one; empty adds none.
    pub charset: String,
    /// Extension (lower case, no dot) to media type, over the built-in table.
    pub types: BTreeMap<String, String>,
    /// Where nothing is known about the extension; empty sends no Content-Type.
    pub default_type: String,
    /// POST is answered as GET is.
    pub takes_post: bool,
    /// The Content-Type of everything, charset included, whatever its extension says; empty sends
    /// none.
    pub whole_type: Option<String>,
    /// Parts of one multipart/byteranges answer; more are answered with the whole.
    pub ranges_max: u32,
}

impl Default for Files {
    fn default() -> Self {
        Files {
            index: vec!["index.html".into(), "index.htm".into()],
            listing: false,
            hidden: false,
            symlinks: SymlinkPolicy::Inside,
            entity_tag: EntityTagParts {
                inode: false,
                mtime: true,
                size: true,
            },
            precompressed: true,
            charset: "utf-8".into(),
            types: BTreeMap::new(),
            default_type: "application/octet-stream".into(),
            takes_post: false,
            whole_type: None,
            ranges_max: 16,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionCoding {
    Gzip,
    Brotli,
    Zstd,
}

/// What the entity tag of a coded body has besides that of the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodedTags {
    /// Coding and level: another level makes other bytes.
    Level,
    /// The coding alone (Apache's `AddSuffix`).
    Coding,
    /// Nothing (`NoChange`).
    Same,
    /// There is none (`Remove`).
    Absent,
}

/// Compression on the fly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// In the server's order of preference; empty switches it off.
    pub codings: Vec<CompressionCoding>,
    pub min_bytes: u64,
    /// Larger bodies go out as they are.
    pub max_bytes: u64,
    pub gzip_level: u32,
    pub brotli_quality: u32,
    pub zstd_level: u32,
    /// Media types beyond the built-in list.
    pub types: Vec<String>,
    /// Whatever the type.
    pub every_type: bool,
    /// Coded bodies are sent even where they are no smaller (Apache does that).
    pub even_if_larger: bool,
    /// Pages for errors, too.
    pub errors: bool,
    pub tags: CodedTags,
}

impl Default for Compression {
    fn default() -> Self {
        Compression {
            codings: vec![
                CompressionCoding::Brotli,
                CompressionCoding::Zstd,
                CompressionCoding::Gzip,
            ],
            min_bytes: 1024,
            max_bytes: 4 << 20,
            gzip_level: 6,
            brotli_quality: 5,
            zstd_level: 6,
            types: Vec::new(),
            every_type: false,
            even_if_larger: false,
            errors: true,
            tags: CodedTags::Level,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldEditAction {
    /// Replaces lines of that name.
    Set(String),
    /// Adds a line.
    Append(String),
    /// Only where the response has none.
    SetIfAbsent(String),
    Remove,
}

/// One edit of the response fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldEdit {
    pub name: String,
    pub action: FieldEditAction,
    /// On error responses too (nginx' `always`).
    pub always: bool,
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorPage {
    /// A path of the same site, served with the error's status.
    Path(String),
    /// Text to send as it is (HTML if it starts with `<`).
    Text(String),
    /// 302 to another place (an absolute URI).
    Redirect(String),
}

impl Settings {
    pub fn error_page(&self, status: Status) -> Option<&ErrorPage> {
        self.error_pages.get(&status.0)
    }
}
