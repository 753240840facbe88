//! Sites with `.htaccess` files or content rules: native rules first, then those of directories.
//!
//! Called by: the phases, through [`Rules`], for native sites with `htaccess`, `ssi`, `substitute`,
//! or `negotiation`.
//! Caveat: routes with an action of their own come first. What is served from the document root is
//! under the rules of the files, which are those of an Apache configuration with `AllowOverride
//! All`; the settings of the route or site lie below theirs.
//! Out of scope: the rules themselves (`saker_apache`, handed in as `files`).

use crate::{
    NativeRules,
    conditional_settings::{self, Variants},
    routes,
};
use saker_config::model::{Action, Htaccess, Route, Settings};
use saker_files::{Kind, LinkPolicy, ResolveError, Watcher, cached_stat};
use saker_http::Status;
use saker_pipeline::{Exchange, Response, Rules, Step, Verdict, file_routes};
use std::{rc::Rc, sync::Arc};

/// The file that is looked for in each directory.
const NAME: &[u8] = b".htaccess";

/// Directories of a path in which a file is looked for; as many as rules walk through.
const DEPTH_MAX: usize = 200;

/// The decision for a request.
struct UnderFiles {
    /// The rules of the files apply to it.
    applies: bool,
    /// Settings of saker.toml, before any file has changed them. `None`: of an error document, which
    /// has not been routed yet.
    own: Option<Arc<Settings>>,
}

/// Native rules with those of `.htaccess` files below them.
pub struct HtaccessRules {
    native: Rc<NativeRules>,
    /// The rules of the files.
    files: Rc<dyn Rules>,
    watcher: Watcher,
}

impl HtaccessRules {
    pub fn new(native: Rc<NativeRules>, files: Rc<dyn Rules>, watcher: Watcher) -> HtaccessRules {
        HtaccessRules {
            native,
            files,
            watcher,
        }
    }

    /// Decides whether the files' rules apply. A request that they have led elsewhere stays under
    /// them.
    fn decide(&self, exchange: &mut Exchange) -> bool {
        let was_under = is_under(exchange);
        let is_for_files = *exchange.action() == Action::Files
            && (exchange.routing.site.root.is_some() || exchange.routing.settings.root.is_some());
        let settings = &exchange.routing.settings;
        let applies = is_for_files
            && match settings.htaccess {
                _ if settings.processes_content() => true,
                Htaccess::Off => false,
                Htaccess::On => true,
                Htaccess::Auto => was_under || self.has_file(exchange),
            };
        let own = Some(Arc::clone(&exchange.routing.settings));
        exchange.extensions.insert(UnderFiles { applies, own });
        applies
    }

    /// Looks for a file on the way from the root to the path. What can't be looked at counts as
    /// one: the rules refuse it.
    fn has_file(&self, exchange: &mut Exchange) -> bool {
        let own = exchange.routing.settings.root.clone();
        let below_own = own
            .as_ref()
            .and_then(|own| Some((&*own.folder, own.relative(&exchange.path)?)));
        let site_root = exchange.routing.site.root.clone();
        let below_site = || {
            let path = exchange.path.strip_prefix(b"/").unwrap_or(&exchange.path);
            Some((site_root.as_deref()?, path))
        };
        let Some((root, relative)) = below_own.or_else(below_site) else {
            return false;
        };
        let tokens = &mut exchange.cache.change_tokens;
        let mut stat = |path: &[u8]| match cached_stat(
            &self.watcher,
            root,
            path,
            LinkPolicy::Follow,
            tokens,
        ) {
            Ok(metadata) => Some(metadata.kind),
            Err(ResolveError::NotFound) => None,
            Err(_) => Some(Kind::Other),
        };
        if stat(NAME).is_some() {
            return true;
        }
        let ends = relative.iter().enumerate();
        let slashes = ends.filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for at in slashes.take(DEPTH_MAX) {
            let folder = relative.get(..at).unwrap_or_default();
            if stat(folder) != Some(Kind::Directory) {
                return false;
            }
            if stat(&[folder, b"/", NAME].concat()).is_some() {
                return true;
            }
        }
        // A directory under its name without the slash.
        !relative.is_empty()
            && !relative.ends_with(b"/")
            && stat(relative) == Some(Kind::Directory)
            && stat(&[relative, b"/", NAME].concat()).is_some()
    }

    /// Leads a request for what is below a file to the route of that file, if it is another one.
    fn follow_file(&self, exchange: &mut Exchange) -> Option<Verdict> {
        let (path_info, mapped) = (
            &exchange.routing.path_info,
            exchange.routing.mapped.as_ref()?,
        );
        if path_info.is_empty() || !exchange.path.ends_with(path_info) {
            return None;
        }
        let (root, name) = (Arc::clone(&mapped.root), mapped.relative.clone());
        let (bytes_behind, policy) = (path_info.len(), LinkPolicy::Follow);
        let tokens = &mut exchange.cache.change_tokens;
        let found = cached_stat(&self.watcher, &root, &name, policy, tokens);
        if matches!(found, Err(ResolveError::NotFound)) {
            return None;
        }
        match file_routes::follow_file(exchange, &self.watcher, bytes_behind) {
            Ok(false) => None,
            Ok(true) => Some(Verdict::Restart),
            Err(refused) => Some(Verdict::Answer(refused)),
        }
    }
}

/// Returns the look-up of the settings of a subrequest's path, with the changes of its `when`
/// tables. `None`: something else answers for the path, or a condition took too long.
pub fn settings_of(watcher: Watcher) -> impl Fn(&mut Exchange) -> Option<Arc<Settings>> {
    let variants = Variants::default();
    move |exchange| {
        exchange.routing.settings = unchanged_settings(exchange)?;
        conditional_settings::apply(exchange, &watcher, &variants).ok()?;
        Some(Arc::clone(&exchange.routing.settings))
    }
}

/// The settings of the path of a subrequest: the site's, or those of the route that serves files
/// there. `None`: something else answers for the path.
fn unchanged_settings(exchange: &Exchange) -> Option<Arc<Settings>> {
    let site = &exchange.routing.site;
    let route = site
        .routes
        .candidates(&exchange.path)
        .filter_map(|at| site.routes.get(at))
        .find(|route| !matches!(route.pattern.is_match(&exchange.path), Ok(false)));
    match route {
        None => Some(Arc::clone(&site.settings)),
        // Whether further conditions hold is not known here.
        Some(Route {
            action: Action::Files,
            matcher: None,
            rewrite: None,
            settings,
            ..
        }) => Some(Arc::clone(settings)),
        Some(_) => None,
    }
}

fn is_under(exchange: &Exchange) -> bool {
    exchange
        .extensions
        .get::<UnderFiles>()
        .is_some_and(|under| under.applies)
}

/// True if the error document for a status is one that a file names, and not saker.toml.
fn is_page_of_file(exchange: &Exchange, status: Status) -> bool {
    let under = exchange.extensions.get::<UnderFiles>();
    let own = under.and_then(|under| under.own.as_deref());
    own.is_none_or(|own| own.error_page(status) != exchange.routing.settings.error_page(status))
}

/// The route of saker.toml for a path with a slash behind it, if that is another one than the
/// request's: its rules are not those that were checked.
fn folder_route(exchange: &Exchange) -> Option<usize> {
    let site = &exchange.routing.site;
    if exchange.path.ends_with(b"/") || site.routes.is_empty() {
        return None;
    }
    let folder = [&exchange.path, &b"/"[..]].concat();
    let mut candidates = site.routes.candidates(&folder);
    candidates.find(|at| {
        let route = site.routes.get(*at);
        let may_match = |route: &Route| !matches!(route.pattern.is_match(&folder), Ok(false));
        Some(*at) != exchange.routing.route && route.is_some_and(may_match)
    })
}

/// True if files have a folder answered under its name without the slash (`DirectorySlash Off`).
fn is_bare_folder(exchange: &Exchange) -> bool {
    let mapped = exchange.routing.mapped.as_ref();
    !exchange.path.ends_with(b"/") && mapped.is_some_and(|at| at.relative.ends_with(b"/"))
}

impl Rules for HtaccessRules {
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        if let Some(response) = routes::select(exchange, &self.watcher, &self.native.variants) {
            return Some(response).into();
        }
        match self.decide(exchange) {
            true => self.files.server_rewrite(exchange),
            false => Step::PASS,
        }
    }

    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match is_under(exchange) {
            true => self.files.map_to_storage(exchange),
            false => self.native.map_to_storage(exchange),
        }
    }

    /// Both have to allow it.
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        if !is_under(exchange) {
            return self.native.access(exchange);
        }
        if !self.native.decides_access(exchange) {
            return self.files.access(exchange);
        }
        Step::Pending(Box::pin(async move {
            match self.native.access(exchange).verdict().await {
                Verdict::Pass => {
                    let user = exchange.access.user.clone();
                    let verdict = self.files.access(exchange).verdict().await;
                    // Files without rules of their own know no user; pages stay this one's.
                    if exchange.access.user.is_none() {
                        exchange.access.user = user;
                    }
                    verdict
                }
                decided => decided,
            }
        }))
    }

    /// A route's `rewrite`, `try_files`, and edits of the request, then the rules of the files.
    fn fixups<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        if !is_under(exchange) {
            return self.native.fixups(exchange);
        }
        if let Some(decided) = self.follow_file(exchange) {
            return decided.into();
        }
        let edits = exchange
            .routing
            .route
            .and_then(|at| exchange.routing.site.routes.get(at))
            .is_some_and(|route| route.rewrite.is_some() || route.request.is_some())
            || (exchange.routing.settings.fields)
                .iter()
                .any(|edit| edit.template.is_some());
        let folder_route = folder_route(exchange);
        if !edits && folder_route.is_none() {
            return self.files.fixups(exchange);
        }
        Step::Pending(Box::pin(async move {
            if edits {
                match self.native.fixups(exchange).verdict().await {
                    Verdict::Pass => {}
                    decided => return decided,
                }
            }
            match self.files.fixups(exchange).verdict().await {
                Verdict::Pass if folder_route.is_some() && is_bare_folder(exchange) => {
                    Verdict::Answer(Response::new(Status::FORBIDDEN))
                }
                decided => decided,
            }
        }))
    }

    fn binds_path(&self) -> bool {
        true
    }

    fn own_page(&self, exchange: &Exchange, response: Response) -> Response {
        self.native.own_page(exchange, response)
    }

    fn keeps_error_document_head(&self) -> bool {
        self.files.keeps_error_document_head()
    }

    fn error_document(&self, exchange: &Exchange, page: &mut Exchange, status: Status) {
        if is_under(exchange) {
            page.access.is_named_by_file = is_page_of_file(exchange, status);
            let (applies, own) = (true, None);
            page.extensions.insert(UnderFiles { applies, own });
            self.files.error_document(exchange, page, status);
        }
    }

    fn adopt_error_document(&self, exchange: &mut Exchange, page: &mut Exchange) {
        if is_under(exchange) && is_under(page) {
            self.files.adopt_error_document(exchange, page);
        }
    }
}
