//! Apache's rules for one worker: what it has read and merged, and the phases for subrequests.
//!
//! Called by: the phases; `rules`, which makes it.
//! Caveat: the phases are pointers, because subrequests run the list that is defined above them.

use crate::{htaccess::HtaccessFiles, memo::Memo, status::report::Figures, verdict::Verdict};
use saker_apache_model::{
    host::{Apache, Host},
    proxy::workers::Found,
};
use saker_auth::{Directories, RecordFiles, Records};
use saker_config::model::{PhpPools, Settings};
use saker_files::{ChangeToken, Watcher};
use saker_pipeline::Exchange;
use saker_rewrite::TextMap;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

/// Whom URLs lead to.
type FoundWorkers = HashMap<Box<str>, Rc<Found>>;

/// A map, and what was looked at for it.
type ReadMap = (Arc<TextMap>, Box<[ChangeToken]>);

/// Apache's rules for one worker, with what it has read and merged.
pub struct ApacheRules {
    pub(crate) apache: Arc<Apache>,
    pub(crate) watcher: Watcher,
    pub(crate) htaccess: RefCell<HtaccessFiles>,
    pub(crate) memo: RefCell<Memo>,
    /// Files of RewriteMap, as many as the configuration names, each until it changes.
    pub(crate) maps: RefCell<HashMap<PathBuf, ReadMap>>,
    /// Files of users and groups.
    pub(crate) records: RefCell<RecordFiles>,
    /// Directories of users.
    pub(crate) directories: Directories,
    /// Whom URLs lead to, by host.
    pub(crate) found_workers: RefCell<HashMap<usize, FoundWorkers>>,
    /// Changes of balancers that they have been found after.
    pub(crate) found_at_change: Cell<u64>,
    pub(crate) figures: Rc<dyn Figures>,
    pub(crate) php: PhpPools,
    /// Settings that saker.toml has for the path of a request to a native site.
    pub(crate) native_settings: NativeSettings,
    /// The phases that subrequests run through.
    pub(crate) phases: Phases,
}

/// Finds the settings of a native site, or of its route, for a subrequest. `None`: no file answers
/// for its path.
pub type NativeSettings = Box<dyn Fn(&mut Exchange) -> Option<Arc<Settings>>>;

/// The phases of a request, handed in from above: subrequests run the same ones.
pub struct Phases {
    /// Without waiting.
    pub server_rewrite: Phase,
    pub map_to_storage: Phase,
    pub access: Phase,
    pub fixups: Phase,
}

/// One phase.
pub type Phase = fn(&ApacheRules, &mut Exchange) -> Verdict;

impl ApacheRules {
    /// `kind`: as APR calls it. The error says why it can't be read.
    pub(crate) fn read_database(&self, kind: &str, path: &Path) -> Result<Rc<Records>, String> {
        self.records
            .borrow_mut()
            .read_dbm(&self.watcher, kind, path)
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// The number of sites that Apache's configuration has brought; they come first in the model.
    pub fn sites(&self) -> usize {
        self.apache.hosts.len()
    }

    pub(crate) fn host(&self, exchange: &Exchange) -> Option<Arc<Host>> {
        // A native site's requests get here only if they are under these rules.
        self.apache
            .host_of(exchange.routing.site_index, true)
            .cloned()
    }
}
