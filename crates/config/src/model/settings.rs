//! Settings that may differ by path: the site's, overridden by a route's.
//!
//! Called by: all phases and handlers, by way of the matched route.
//! Caveat: shared by `Arc`; a route has its own copy.

use super::{
    AccessControl, AuthRules, Authorize, CacheUse, ContentRules, Links, Matcher, ModSecurity,
    Origin, PhpUse, ProgramUser, RequestFieldAction, RequestFieldEdit, Template, Throttle,
    UserDirectories, Visitors, WebDav,
};
use saker_http::{Status, conditional::DateRule, range::RangeRules};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub files: Files,
    pub compression: Compression,
    pub fields: Vec<FieldEdit>,
    pub error_pages: BTreeMap<u16, ErrorPage>,
    /// Content-Type of error pages that are texts; `None`: guessed from the text.
    pub error_text_type: Option<String>,
    pub throttle: Throttle,
    /// Access rules; `None`: everyone has access.
    pub guard: Option<Arc<AccessControl>>,
    pub links: Links,
    pub visitors: Visitors,
    /// ModSecurity rules.
    pub modsecurity: Option<Arc<ModSecurity>>,
    /// Rules of the page cache; shared by all paths with the same rules.
    pub cache: Arc<CacheUse>,
    /// Streaming of audio and video files.
    pub media: super::Media,
    /// The way PHP files are served.
    pub php: PhpUse,
    /// Names of CGI programs, with `*` for any part.
    pub cgi: Vec<String>,
    /// User that PHP and programs run as; `None`: the server's user.
    pub program_user: Option<ProgramUser>,
    /// Files that programs may have sent (X-Sendfile).
    pub send_files: Option<Arc<SendFiles>>,
    /// Answer TRACE (RFC 9110 section 9.3.8)? Off by default.
    pub trace: bool,
    /// Authorization server to ask.
    pub authorize: Option<Arc<Authorize>>,
    /// Overrides `limits.body_bytes_max`.
    pub body_bytes_max: Option<u64>,
    pub underscores: Underscores,
    /// Document root of a route, instead of the site's.
    pub root: Option<Arc<RouteRoot>>,
    /// Edits of the request fields that programs and upstreams get.
    pub upstream_fields: Vec<RequestFieldEdit>,
    /// Variables that programs get in addition; the last of a name wins.
    pub variables: Vec<ProgramVariable>,
    /// Name of the field with the id of a request; `None`: requests get no id.
    pub request_id: Option<Box<str>>,
    /// Rules of `.htaccess` files.
    pub htaccess: Htaccess,
    /// Processing of content; `None`: none.
    pub content: Option<Arc<ContentRules>>,
    /// Changes of these settings for some requests, in order.
    pub conditionals: Vec<Conditional>,
    /// Log-in with a user name and a password; `None`: everyone has access.
    pub auth: Option<Arc<AuthRules>>,
    /// Set for the route of users' pages.
    pub user_directories: Option<Arc<UserDirectories>>,
    /// WebDAV; `None`: files are read-only.
    pub webdav: Option<Arc<WebDav>>,
}

impl Settings {
    /// Returns the rules of WebDAV, if clients may use it.
    pub fn webdav_in_use(&self) -> Option<&Arc<WebDav>> {
        self.webdav.as_ref().filter(|webdav| webdav.is_on)
    }
}

/// A variable for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramVariable {
    pub name: Box<str>,
    pub value: Template,
    pub origin: Origin,
}

/// Application of `.htaccess` files at a path of a native site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Htaccess {
    /// They are not looked for.
    #[default]
    Off,
    On,
    /// On where one lies on the way from the root to the requested path.
    Auto,
}

/// Document root of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRoot {
    pub folder: Arc<Path>,
    /// Removed from the beginning of paths (`alias`), with its last slash; empty for `root`.
    pub prefix: Box<str>,
    /// The file that the route's one path stands for.
    pub file: Option<Box<[u8]>>,
}

impl RouteRoot {
    /// Returns a decoded path's file, relative to the folder. `None`: the path has another prefix,
    /// as after an internal redirect.
    pub fn relative<'p>(&'p self, path: &'p [u8]) -> Option<&'p [u8]> {
        match &self.file {
            Some(file) => (path == self.prefix.as_bytes()).then_some(file),
            None => {
                let rest = path.strip_prefix(self.prefix.as_bytes())?;
                Some(rest.strip_prefix(b"/").unwrap_or(rest))
            }
        }
    }
}

/// Treatment of request fields whose names contain characters other than letters, digits, and
/// hyphens, on the way to programs and upstreams. A program cannot distinguish `X_User` from
/// `X-User`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Underscores {
    /// Dropped, as in nginx.
    #[default]
    Drop,
    /// Forwarded to HTTP upstreams, not to programs (as in Apache).
    Servers,
    /// Forwarded, unless the request has a field with the regular name of the same variable.
    Pass,
}

/// Files that a program may have sent instead of its own response body, and which of its fields
/// remain (settings of mod_xsendfile).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendFiles {
    /// Directories, including everything below.
    pub roots: Vec<PathBuf>,
    /// The script's own directory is included.
    pub beside_script: bool,
    /// Follows all symbolic links; otherwise as for the site's own files.
    pub follows_links: bool,
    /// The name is URL-encoded.
    pub is_escaped: bool,
    pub keeps_entity_tag: bool,
    pub keeps_last_modified: bool,
    pub keeps_encoding: bool,
    /// Sends no Content-Type if the program sets none; otherwise by the file name.
    pub keeps_no_type: bool,
    /// Only responses with status 200 are considered.
    pub is_for_success: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Follow all links (Apache's FollowSymLinks).
    Follow,
    /// Follow links whose owner owns the target (SymLinksIfOwnerMatch).
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
    /// List directories without an index file.
    pub listing: bool,
    /// Serve dotfiles (`/.well-known/` always is), and backup and editor files (`~`, `.bak`,
    /// `.swp`, `#…#`…)?
    pub hidden: bool,
    pub symlinks: SymlinkPolicy,
    pub entity_tag: EntityTagParts,
    /// Serve `.br`, `.zst`, `.gz` files next to the requested one.
    pub precompressed: bool,
    /// Added to text types; empty: none.
    pub charset: String,
    /// Media types by extension (lowercase, no dot), overriding the built-in table.
    pub types: BTreeMap<String, String>,
    /// The built-in table is not used; set by nginx's configuration only.
    pub types_are_complete: bool,
    /// For unknown extensions; empty: no Content-Type.
    pub default_type: String,
    /// `%2F` in a path stands for a slash; otherwise such paths are refused.
    pub decodes_slashes: bool,
    /// POST is answered like GET.
    pub takes_post: bool,
    /// Content-Type of all files, including the charset, regardless of the extension; empty: none.
    pub whole_type: Option<String>,
    /// Maximum number of ranges in a multipart/byteranges response; with more, the whole file is
    /// sent.
    pub ranges_max: u32,
    /// Set by nginx's configuration only.
    pub modified_since: DateRule,
    /// Set by nginx's configuration only.
    pub range_rules: RangeRules,
    /// Tags and dates of files that were changed just now are as good as others. Set by nginx's
    /// configuration only.
    pub trusts_young_files: bool,
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
            types_are_complete: false,
            default_type: "application/octet-stream".into(),
            decodes_slashes: false,
            takes_post: false,
            whole_type: None,
            ranges_max: 16,
            modified_since: DateRule::Before,
            range_rules: RangeRules::Joined,
            trusts_young_files: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionCoding {
    Gzip,
    Brotli,
    Zstd,
}

/// The suffix that the entity tag of a compressed body adds to the original tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodedTags {
    /// Coding and level, as another level makes other bytes.
    Level,
    /// The coding alone (Apache's `AddSuffix`).
    Coding,
    /// Nothing (`NoChange`).
    Same,
    /// No entity tag (`Remove`).
    Absent,
}

/// Dynamic compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// In the server's order of preference; empty: off.
    pub codings: Vec<CompressionCoding>,
    pub min_bytes: u64,
    /// Larger bodies are not compressed.
    pub max_bytes: u64,
    pub gzip_level: u32,
    pub brotli_quality: u32,
    pub zstd_level: u32,
    /// Media types in addition to the built-in list.
    pub types: Vec<String>,
    /// The built-in list is not used; set by nginx's configuration only.
    pub types_are_complete: bool,
    /// Regardless of the type.
    pub every_type: bool,
    /// Sends compressed bodies even if they are no smaller (as Apache does).
    pub even_if_larger: bool,
    /// Compresses error pages too.
    pub errors: bool,
    /// The statuses of responses that are compressed, in place of `errors`; empty: no such list. Set
    /// by nginx's configuration only.
    pub statuses: &'static [u16],
    pub tags: CodedTags,
    /// Responses that depend on `Accept-Encoding` say so in `Vary`; off by nginx's configuration
    /// only.
    pub varies: bool,
    /// Files and stored pages are compressed with dictionaries that clients have (RFC 9842).
    pub dictionaries: bool,
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
            types_are_complete: false,
            every_type: false,
            even_if_larger: false,
            errors: true,
            statuses: &[],
            tags: CodedTags::Level,
            varies: true,
            dictionaries: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldEditAction {
    /// Replaces all lines of this name.
    Set(String),
    /// Adds a line.
    Append(String),
    /// Sets the field only if the response does not have it.
    SetIfAbsent(String),
    Remove,
}

/// One edit of the response fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldEdit {
    pub name: String,
    pub action: FieldEditAction,
    /// Also on error responses (nginx's `always`).
    pub always: bool,
    /// The value with variables, which route selection replaces by a text. An edit that still has
    /// one is not applied.
    pub template: Option<Arc<Template>>,
    /// Depends on more of the request than host and path, so it is no part of a stored page.
    pub is_per_request: bool,
    pub origin: Origin,
}

impl FieldEditAction {
    /// The value of the edit; `None` for a removal.
    pub fn value_mut(&mut self) -> Option<&mut String> {
        match self {
            FieldEditAction::Set(value)
            | FieldEditAction::Append(value)
            | FieldEditAction::SetIfAbsent(value) => Some(value),
            FieldEditAction::Remove => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorPage {
    /// A path of the same site, served with the error's status.
    Path(String),
    /// Text to send unchanged (HTML if it starts with `<`).
    Text(String),
    /// 302 to an absolute URI.
    Redirect(String),
    /// The route with this name, served with the error's status.
    Route(Box<str>),
}

/// For traces and the log.
impl fmt::Display for ErrorPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorPage::Path(path) => f.write_str(path),
            ErrorPage::Text(_) => f.write_str("a text"),
            ErrorPage::Redirect(to) => f.write_str(to),
            ErrorPage::Route(name) => write!(f, "@{name}"),
        }
    }
}

impl Settings {
    /// Calls `visit` for each text that is evaluated for the request as it goes on: fields and
    /// variables for upstreams and programs, keys of limits.
    pub fn visit_texts(&mut self, mut visit: impl FnMut(&mut Template, &Origin)) {
        for edit in &mut self.upstream_fields {
            match &mut edit.action {
                RequestFieldAction::Set(text)
                | RequestFieldAction::Append(text)
                | RequestFieldAction::SetIfAbsent(text) => visit(text, &edit.origin),
                RequestFieldAction::Remove => {}
            }
        }
        for variable in &mut self.variables {
            visit(&mut variable.value, &variable.origin);
        }
        for limit in &mut self.throttle.by_key {
            visit(&mut limit.key, &limit.origin);
        }
    }

    /// Returns true if the settings, alone or with one of their conditional changes, pass a test.
    pub fn may(&self, test: impl Fn(&Settings) -> bool) -> bool {
        let changed = |conditional: &Conditional| {
            let mut settings = self.clone();
            conditional.change.apply(&mut settings);
            settings
        };
        test(self) || self.conditionals.iter().any(|one| test(&changed(one)))
    }

    /// Visits the settings, and those that each of their conditional changes makes.
    pub fn each(&self, visit: &mut dyn FnMut(&Settings)) {
        visit(self);
        for conditional in &self.conditionals {
            let mut settings = self.clone();
            conditional.change.apply(&mut settings);
            visit(&settings);
        }
    }

    /// Returns true if [`Settings::visit_texts`] has anything to visit.
    pub fn has_texts(&self) -> bool {
        let edits = self.upstream_fields.len() + self.variables.len();
        edits + self.throttle.by_key.len() > 0
    }

    /// Returns true if files are served under the rules of directories (`.htaccess`, filters,
    /// negotiation) instead of directly.
    pub fn needs_directory_rules(&self) -> bool {
        self.htaccess != Htaccess::Off || self.processes_content()
    }

    /// Returns true if content is filtered, or chosen among variants.
    pub fn processes_content(&self) -> bool {
        self.content.as_ref().is_some_and(|rules| !rules.is_idle())
    }

    pub fn error_page(&self, status: Status) -> Option<&ErrorPage> {
        self.error_pages.get(&status.0)
    }
}

/// Maximum number of conditional changes that apply to one path.
pub const CONDITIONALS_MAX: usize = 64;

/// A change of settings for some requests.
#[derive(Clone, Debug)]
pub struct Conditional {
    pub matcher: Matcher,
    pub change: SettingsChange,
    pub origin: Origin,
}

/// A change of settings.
#[derive(Clone)]
pub struct SettingsChange(Arc<dyn Fn(&mut Settings) + Send + Sync>);

impl SettingsChange {
    pub fn new(change: impl Fn(&mut Settings) + Send + Sync + 'static) -> SettingsChange {
        SettingsChange(Arc::new(change))
    }

    pub fn apply(&self, settings: &mut Settings) {
        (self.0)(settings);
    }
}

impl fmt::Debug for SettingsChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SettingsChange")
    }
}
