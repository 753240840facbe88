//! Options that are declared and not supported; they are refused by name.
//!
//! Called by: `start`.
//! Caveat: an option that is accepted and ignored would be worse: the user would rely on it.

use crate::arguments::{Serve, Switch};

pub const HTACCESS: &str = "--htaccess on: `saker serve` reads no .htaccess files; `saker run --apache FILE` does, by the configuration that Apache had";

/// Reason why this version does not support the request.
pub fn refuse_serve(serve: &Serve) -> Result<(), &'static str> {
    if serve.htaccess == Switch::On {
        Err(HTACCESS)
    } else {
        Ok(())
    }
}
