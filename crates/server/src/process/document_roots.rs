//! Warnings about document roots that do not exist.
//!
//! Called by: the start and each reload.
//! Caveat: only certain cases are reported; a root that can't be examined may exist for the users
//! that programs run as.

use saker_config::Model;
use saker_telemetry::{error_log, message};
use std::{fs, io::ErrorKind};

/// Logs every site whose document root does not exist.
pub fn report_missing(model: &Model) {
    let roots = model
        .sites
        .iter()
        .filter_map(|site| Some((site, site.root.as_ref()?)));
    for (site, root) in roots {
        let missing = fs::metadata(root).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if missing {
            let facts = format_args!("{} ({})", root.display(), site.origin);
            error_log::log(&message::ROOT_MISSING, facts);
        }
    }
}
