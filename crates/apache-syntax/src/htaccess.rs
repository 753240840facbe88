//! One `.htaccess` file: read with what the main configuration left, in the bounds of
//! `AllowOverride`.
//!
//! Apache stops at the first thing it can't accept and answers 500 for the whole directory; so the
//! first error is what is told, with the sentence that goes into the error log.

use crate::{
    check::check,
    environment::Environment,
    files::Files,
    limits::{HTACCESS_BYTES_MAX, HTACCESS_NESTING_MAX, Limits},
    permission::Permission,
    read::Reading,
    tree::Tree,
};
use saker_config::{Diagnostic, model::Origin};

/// Bounds of an `.htaccess` file.
const LIMITS: Limits = Limits {
    nodes_max: 100_000,
    files_max: 0,
    macro_uses_max: 1_000,
    text_bytes_max: 4 * HTACCESS_BYTES_MAX,
    nesting_max: HTACCESS_NESTING_MAX,
};

/// A file that may be put in force.
#[derive(Debug)]
pub struct Htaccess {
    pub tree: Tree,
    pub warnings: Vec<Diagnostic>,
}

/// Reads the bytes of the file that is called `name` in messages. The error's `message` is Apache's
/// sentence.
pub fn parse_htaccess(
    bytes: &[u8],
    name: &str,
    environment: &Environment,
    permission: &Permission,
    files: &dyn Files,
) -> Result<Htaccess, Box<Diagnostic>> {
    if bytes.len() > HTACCESS_BYTES_MAX {
        let origin = Origin {
            file: name.into(),
            line: 0,
            column: 0,
        };
        return Err(Box::new(Diagnostic::without_source(
            origin,
            format!("the file is larger than {HTACCESS_BYTES_MAX} bytes"),
        )));
    }
    let mut reading = Reading::new(files, environment.clone(), Some(permission), LIMITS);
    reading.text(name.into(), bytes.into());
    let mut tree = Tree {
        nodes: reading.finish(),
    };
    if !reading.report.has_errors() {
        check(
            &mut tree.nodes,
            &reading.environment.modules,
            Some(permission),
            &mut reading.report,
        );
    }
    if let Some(error) = reading.report.first_error() {
        return Err(Box::new(error.clone()));
    }
    Ok(Htaccess {
        tree,
        warnings: reading.report.finish().0,
    })
}
