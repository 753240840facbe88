//! The request for a page, and what the page may do.
//!
//! Called by: `includes`, which makes it; `run`, `world` and `inside`, which read it.

use crate::{includes::shared::Shared, state::State};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_apache_syntax::options::{INCLUDES as INCLUDES_OPTION, INCLUDES_EXEC};
use saker_files::Watcher;
use saker_pipeline::Exchange;
use std::{rc::Rc, sync::Arc};

/// The request for a page, kept for the requests that its elements make.
pub struct Origin {
    pub exchange: Exchange,
    pub state: Rc<State>,
    pub host: Arc<Host>,
    pub local: Arc<DirConfig>,
    pub watcher: Watcher,
    pub shared: Rc<Shared>,
}

/// Returns whether pages are parsed here, and whether they may run programs.
pub fn options(local: &DirConfig) -> (bool, bool) {
    let options = local.core.options.in_force();
    (
        options.contains(INCLUDES_OPTION),
        options.contains(INCLUDES_EXEC),
    )
}
