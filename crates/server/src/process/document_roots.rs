//! Warnings about document roots that do not exist, or lie in the state directory.
//!
//! Called by: the start and each reload.
//! Caveat: only certain cases are reported; a root that can't be examined may exist for the users
//! that programs run as.

use saker_config::Model;
use saker_telemetry::{error_log, message};
use std::{fs, io::ErrorKind, path::Path};

/// Logs every site whose document root does not exist, or has files that are never served.
pub fn report_unusable(model: &Model) {
    let state_dir = model.server.state_dir.canonicalize().ok();
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
        let is_private = |state_dir: &Path| {
            root.canonicalize()
                .is_ok_and(|root| root.starts_with(state_dir))
        };
        if state_dir.as_deref().is_some_and(is_private) {
            let facts = format_args!("{} ({})", root.display(), site.origin);
            error_log::log(&message::ROOT_PRIVATE, facts);
        }
    }
}
