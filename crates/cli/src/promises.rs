//! What later versions will do and this one refuses by name, with the version that brings it.
//!
//! An argument that is taken and ignored is worse than none: the user believes in a cache or an
//! access rule that isn't there.

use crate::arguments::{Serve, Switch};

pub const HTACCESS: &str = "--htaccess on: `saker serve` reads no .htaccess files; `saker run --apache FILE` does, by the configuration that Apache had";

/// Why this version can't do what was asked.
pub fn refuse_serve(serve: &Serve) -> Result<(), &'static str> {
    if serve.htaccess == Switch::On {
        Err(HTACCESS)
    } else {
        Ok(())
    }
}
