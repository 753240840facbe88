//! What later versions will do and this one refuses by name, with the version that brings it.
//!
//! An argument that is taken and ignored is worse than none: the user believes in a cache or an access rule that isn't there.

use super::arguments::{Serve, Switch};

pub const HTACCESS: &str =
    "--htaccess on: .htaccess files arrive with version 0.3; until then their rules are written as routes in saker.toml";
pub const PAGE_CACHE: &str = "--cache on: the page cache arrives with version 0.5; files are kept in memory without it";
pub const PURGE: &str = "purge: the page cache arrives with version 0.5, and changed files need no purge, they are watched";

/// Why this version can't do what was asked.
pub fn refuse_serve(serve: &Serve) -> Result<(), &'static str> {
    let asked = [(serve.htaccess == Switch::On, HTACCESS), (serve.cache == Switch::On, PAGE_CACHE)];
    asked.into_iter().find(|(asked, _)| *asked).map_or(Ok(()), |(_, sentence)| Err(sentence))
}
