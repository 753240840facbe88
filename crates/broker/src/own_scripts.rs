//! Scripts that run as the server's own user (CGI): below the folders of the configuration, with an
//! environment that leads no loader, shell, or interpreter to other code.
//!
//! Called by: `grants`, for a server that is confined and has no other programs of its user.
//! Caveat: a script belongs to whom it may, as it did before; it is started by its path, which only
//! those can change who may write to its folder, and those decide what runs there anyway.
//! Out of scope: scripts of other users, which suEXEC's rules are for.

use crate::{
    grant::refuse,
    spawn_request::{SpawnRequest, matches},
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

/// Variables that suEXEC allows, in addition to fields of the HTTP request and those about TLS
/// (Apache's suexec, its list of safe variables).
const SAFE_NAMES: &str = "AUTH_TYPE CONTENT_LENGTH CONTENT_TYPE CONTEXT_DOCUMENT_ROOT CONTEXT_PREFIX DATE_GMT DATE_LOCAL DOCUMENT_ARGS DOCUMENT_NAME \
    DOCUMENT_PATH_INFO DOCUMENT_ROOT DOCUMENT_URI GATEWAY_INTERFACE HTTPS LAST_MODIFIED PATH_INFO PATH_TRANSLATED QUERY_STRING \
    QUERY_STRING_UNESCAPED REMOTE_ADDR REMOTE_HOST REMOTE_IDENT REMOTE_PORT REMOTE_USER REDIRECT_ERROR_NOTES REDIRECT_HANDLER \
    REDIRECT_QUERY_STRING REDIRECT_REMOTE_USER REDIRECT_SCRIPT_FILENAME REDIRECT_STATUS REDIRECT_URL REQUEST_METHOD \
    REQUEST_SCHEME REQUEST_URI SCRIPT_FILENAME SCRIPT_NAME SCRIPT_URI SCRIPT_URL SERVER_ADDR SERVER_ADMIN SERVER_NAME SERVER_PORT \
    SERVER_PROTOCOL SERVER_SIGNATURE SERVER_SOFTWARE TZ UNIQUE_ID USER_NAME";
/// Variables that come from the environment the server was started with.
const INHERITED: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
/// Variables by which loaders, libraries, shells, and interpreters find code or options.
const LEADING: &str = "ENV IFS CDPATH PS4 SHELL SHELLOPTS BASHOPTS PROMPT_COMMAND FPATH ZDOTDIR HOME CLASSPATH PHPRC PHP_INI_SCAN_DIR \
    GLIBC_TUNABLES GCONV_PATH GETCONF_DIR LOCPATH NLSPATH TCLLIBPATH TCL_LIBRARY TK_LIBRARY OCAMLRUNPARAM EDITOR VISUAL PAGER \
    BROWSER LESSOPEN LESSCLOSE AWKPATH AWKLIBPATH PSMODULEPATH CURL_HOME WGETRC R_HOME R_LIBS R_PROFILE R_ENVIRON";
const LEADING_PREFIXES: &str = "LD_ BASH_ PYTHON PERL RUBY GEM_ BUNDLE_ NODE_ NPM_ LUA_ JAVA_ JDK_ JVM_ _JAVA_ GIT_ GUILE_ ERL_ ELIXIR_ MIX_ MONO_ \
    DOTNET_ CORECLR_ COMPLUS_ OPENSSL_ MALLOC_ XDG_ CAML_ GHC_ JULIA_ DENO_ BUN_";

/// Folder of such scripts, and what may go with them.
#[derive(Debug)]
pub struct OwnScripts<'g> {
    /// A part of the path with a percent sign stands for any name.
    pub root: &'g Path,
    pub follows_links: bool,
    /// Variables that the configuration names, and their values, which may be patterns.
    pub environment: &'g [(OsString, OsString)],
}

impl OwnScripts<'_> {
    /// The environment that the script gets.
    ///
    /// # Errors
    /// The refusal, for the server's log; or the kernel's.
    pub fn allow(&self, request: &SpawnRequest) -> io::Result<Vec<(OsString, OsString)>> {
        let shown = request.file.display();
        let Some(root) = root_of(self.root, &request.file) else {
            return refuse(format!("the configuration has no programs there ({shown})"));
        };
        let is_as_planned = request.file.parent() == Some(&request.folder)
            && request.file.file_name() == Some(&request.name);
        if !is_as_planned {
            return refuse(format!("invalid command ({shown})"));
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = openat(CWD, &request.file, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return refuse(format!("not a file ({shown})"));
        }
        if !self.follows_links {
            let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            if !path.starts_with(std::fs::canonicalize(root)?) {
                return refuse(format!("a link leads out of its folder ({shown})"));
            }
        }
        let given = request.environment.iter();
        Ok(given
            .filter_map(|variable| self.variable(variable))
            .collect())
    }

    /// The variable as the script gets it; `None`: it does not.
    fn variable(&self, (name, value): &(OsString, OsString)) -> Option<(OsString, OsString)> {
        let is_configured = self
            .environment
            .iter()
            .any(|(known, pattern)| known == name && matches(pattern, value));
        if is_configured || is_safe(name) || !leads_to_code(name) {
            return Some((name.clone(), value.clone()));
        }
        let is_inherited = INHERITED.iter().any(|inherited| name == inherited);
        let own = is_inherited.then(|| std::env::var_os(name))??;
        Some((name.clone(), own))
    }
}

/// The beginning of the path that the root stands for, if the file is below it.
fn root_of(root: &Path, file: &Path) -> Option<PathBuf> {
    let mut parts = file.components();
    let mut found = PathBuf::new();
    for wanted in root.components() {
        let part = parts.next()?;
        let is_any =
            wanted.as_os_str().as_bytes().contains(&b'%') && matches!(part, Component::Normal(_));
        if part != wanted && !is_any {
            return None;
        }
        found.push(part);
    }
    let mut rest = parts.peekable();
    rest.peek()?;
    rest.all(|part| matches!(part, Component::Normal(_)))
        .then_some(found)
}

/// Variables that suEXEC lets through.
pub fn is_safe(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b"HTTP_")
        || bytes.starts_with(b"SSL_")
        || SAFE_NAMES.split(' ').any(|safe| safe.as_bytes() == bytes)
}

fn leads_to_code(name: &OsStr) -> bool {
    let bytes = name.as_bytes().to_ascii_uppercase();
    INHERITED.iter().any(|one| one.as_bytes() == bytes)
        || LEADING.split(' ').any(|one| one.as_bytes() == bytes)
        || LEADING_PREFIXES
            .split(' ')
            .any(|one| bytes.starts_with(one.as_bytes()))
        // As shells export functions.
        || bytes.iter().any(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_suexec_lets_through() {
        for (name, is_let) in [
            ("HTTP_ACCEPT", true),
            ("SSL_PROTOCOL", true),
            ("QUERY_STRING", true),
            ("LD_PRELOAD", false),
            ("PATH", false),
        ] {
            assert_eq!(is_safe(OsStr::new(name)), is_let, "{name}");
        }
    }

    #[test]
    fn roots_of_scripts() {
        for (root, file, found) in [
            ("/srv/a", "/srv/a/x.cgi", Some("/srv/a")),
            ("/srv/a", "/srv/a/b/x.cgi", Some("/srv/a")),
            ("/etc/../srv", "/etc/../srv/x.cgi", Some("/etc/../srv")),
            ("/srv/%0/www", "/srv/a.test/www/x", Some("/srv/a.test/www")),
            ("/srv/%0/www", "/srv/../www/x", None),
            ("/srv/%0/www", "/srv/a/b/www/x", None),
            ("/srv/a", "/srv/a", None),
            ("/srv/a", "/srv/ab/x", None),
            ("/srv/a", "/srv/a/../b/x", None),
            ("/srv/a", "/bin/sh", None),
        ] {
            let root = root_of(Path::new(root), Path::new(file));
            assert_eq!(root.as_deref(), found.map(Path::new), "{file}");
        }
    }
}
