//! The place of a directive while it is read: context of setters besides the text.

use saker_ap_expr::ExpressionOptions;
use saker_apache_syntax::{Node, Tree};
use saker_auth::{Methods, settings::FcgiDuty};
use saker_config::Diagnostic;
use std::path::{Path, PathBuf};

/// The kind of section (or file) in which directives are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The server, or a virtual host.
    Server,
    /// `<Directory>`; with its path and a slash at its end, where it has one path.
    Directory(Option<Box<str>>),
    /// `<Location>` and its kin.
    Location,
    /// `<Files>`, `<If>` and their kin.
    Inner,
    /// The folder that it lies in, with a slash at its end.
    Htaccess(Box<str>),
}

/// Names that a configuration gives to providers (`<AuthnProviderAlias>`, `<AuthzProviderAlias>`)
/// and filters.
#[derive(Clone, Debug, Default)]
pub struct ProviderNames {
    pub authn: Vec<Box<str>>,
    pub authz: Vec<Box<str>>,
    /// Names of ExtFilterDefine.
    pub filters: Vec<Box<str>>,
}

impl ProviderNames {
    pub fn of(tree: &Tree) -> ProviderNames {
        let mut names = ProviderNames::default();
        tree.walk(&mut |node| {
            if node.canonical_name() == "ExtFilterDefine" {
                names.filters.extend(
                    node.arguments()
                        .first()
                        .map(|name| String::from_utf8_lossy(name).into()),
                );
            }
            if node.canonical_name() == "AuthnzFcgiDefineProvider" {
                names.add_fcgi(&node.arguments());
            }
            let of_kind = match node.canonical_name() {
                "<AuthnProviderAlias" => &mut names.authn,
                "<AuthzProviderAlias" => &mut names.authz,
                _ => return,
            };
            of_kind.extend(
                node.arguments()
                    .get(1)
                    .map(|name| String::from_utf8_lossy(name).into()),
            );
        });
        names
    }

    /// Type and name of a FastCGI authorizer.
    fn add_fcgi(&mut self, words: &[Vec<u8>]) {
        let text = |at: usize| {
            let word = words.get(at).map(Vec::as_slice).unwrap_or_default();
            String::from_utf8_lossy(word).into_owned()
        };
        let name: Box<str> = text(1).into();
        let duty = FcgiDuty::named(&text(0));
        if matches!(duty, Some(FcgiDuty::Users | FcgiDuty::Both)) {
            self.authn.push(name.clone());
        }
        if matches!(duty, Some(FcgiDuty::Requirements | FcgiDuty::Both)) {
            self.authz.push(name);
        }
    }
}

/// Puts one directive into the settings of its module. The error is the message, in Apache's words.
pub type Set<S> = fn(&Node, &mut S, &mut Reading<'_>) -> Result<(), String>;

/// Puts one directive of the server or a virtual host into a draft. The path is ServerRoot.
pub type ServerSet<D> = fn(&Node, &mut D, &Path) -> Result<(), String>;

/// `over` where something was said, else what was said outside.
pub fn said<T: Clone>(outside: &Option<T>, over: &Option<T>) -> Option<T> {
    over.as_ref().or(outside.as_ref()).cloned()
}

pub struct Reading<'r> {
    pub server_root: &'r Path,
    pub place: Place,
    /// Name or pattern of the section around it, where that is no single directory or path: modules
    /// of Apache see it in the place of a directory.
    pub inner: Option<Box<str>>,
    /// The path of the `<Location>` around it, where that is one.
    pub section: Option<Box<str>>,
    /// Methods of `<Limit>` and `<LimitExcept>` around it.
    pub methods: Methods,
    pub aliases: &'r ProviderNames,
    pub diagnostics: &'r mut Vec<Diagnostic>,
}

impl Reading<'_> {
    /// Options of an expression that stands here: those of `.htaccess` files may not read files
    /// (httpd 2.4, `AP_EXPR_FLAG_RESTRICTED`), whose authors see the answer, while the server may
    /// read more than they. The one place that decides it.
    pub fn expression_options(&self) -> ExpressionOptions {
        ExpressionOptions {
            in_htaccess: matches!(self.place, Place::Htaccess(_)),
            ..ExpressionOptions::default()
        }
    }

    /// A path as Apache takes it: relative ones are below ServerRoot.
    pub fn server_path(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.server_root.join(std::ffi::OsStr::from_bytes(path))
    }

    pub fn warn(&mut self, node: &Node, message: impl Into<String>) {
        self.diagnostics.push(node.warning(message, None));
    }
}
