//! Apache's rules in the pipeline's phases, for one worker.
//!
//! The list: `server_rewrite` (rules of the host, then redirects), `map_to_storage` (rewritten
//! file, alias or document root; the walk), `access`, `fixups` (rules of folders, redirects of
//! sections, folders and index files, types). Difficulty: the order is Apache's, and users'
//! configurations depend on it: rules of a folder run after access was decided, and what they make
//! begins anew.

use crate::verdict::{Verdict, settle};
use crate::{
    facts::{Seen, note_dependencies},
    fixups, homes,
    host::{Apache, Host},
    htaccess::HtaccessFiles,
    info,
    local::Local,
    memo::Memo,
    methods,
    modules::{
        self,
        alias::{self, Redirected},
        cache, forensic, log_debug,
        userdir::Place,
    },
    origin::{self, origin},
    own_page,
    proxy::{
        forward,
        pass::Encoding,
        remote,
        translate::{self, Proxied},
        workers::Found,
    },
    response,
    state::{State, Translated, peek, state},
    status::{self, Figures},
    walk::{self, Walked, Walker},
};
use saker_ap_expr::{GlobOptions, glob_matches};
use saker_auth::{RecordFiles, Records};
use saker_config::model::{PhpPools, SiteName};
use saker_files::{Kind, Stamp, Watcher};
use saker_http::{Method, Status};
use saker_pipeline::{
    Exchange, First, Mapped, Response, Rules, Step, TargetPolicy, methods::trace_answer,
    respond::built_in_page, to_https,
};
use saker_rewrite::{Action, Input, Outcome, TextMap, run_server};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

/// Whom URLs lead to.
type FoundWorkers = HashMap<Box<str>, Rc<Found>>;

/// A map, and what was looked at for it.
type ReadMap = (Arc<TextMap>, Box<[Stamp]>);

pub struct ApacheRules {
    apache: Arc<Apache>,
    watcher: Watcher,
    htaccess: RefCell<HtaccessFiles>,
    pub(crate) memo: RefCell<Memo>,
    /// Files of RewriteMap, as many as the configuration names, each until it changes.
    pub(crate) maps: RefCell<HashMap<PathBuf, ReadMap>>,
    /// Files of users and groups.
    records: RefCell<RecordFiles>,
    /// Whom URLs lead to, by host.
    pub(crate) found_workers: RefCell<HashMap<usize, FoundWorkers>>,
    figures: Rc<dyn Figures>,
    pub(crate) php: PhpPools,
}

impl ApacheRules {
    pub fn new(
        apache: Arc<Apache>,
        watcher: Watcher,
        figures: Rc<dyn Figures>,
        php: PhpPools,
    ) -> ApacheRules {
        ApacheRules {
            apache,
            watcher,
            htaccess: RefCell::default(),
            memo: RefCell::default(),
            maps: RefCell::default(),
            records: RefCell::default(),
            found_workers: RefCell::default(),
            figures,
            php,
        }
    }

    /// Pages about the server itself, by their handler.
    pub(crate) fn about_server(
        &self,
        exchange: &mut Exchange,
        host: &Host,
        local: &Local,
    ) -> Option<Response> {
        match exchange.handler.as_deref()? {
            "server-status" => status::answer(exchange, host, local, &*self.figures),
            "server-info" => info::answer(exchange, host, local, self.apache.info.as_ref()?),
            _ => None,
        }
    }

    /// `kind`: as APR calls it. The error says why it can't be read.
    pub(crate) fn read_database(&self, kind: &str, path: &Path) -> Result<Rc<Records>, String> {
        self.records
            .borrow_mut()
            .read_dbm(&self.watcher, kind, path)
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// A path that can't be a file's may be another server's, as it was received.
    fn unreadable(&self, exchange: &mut Exchange, host: &Arc<Host>, status: Status) -> Verdict {
        begin_round(exchange, host);
        translate::translate_encoded(exchange, host);
        if state(exchange).proxied.is_none() {
            return Verdict::Answer(Response::new(status));
        }
        exchange.path = translate::path_of(exchange).to_vec();
        exchange.encoded_slash = false;
        if exchange.is_as_received() {
            modules::remoteip::find_client(exchange, host);
        }
        // Where a name has to be waited for, it is done without.
        if modules::access::look_up(exchange, host.defaults.core.lookups).is_none() {
            self.set_variables(exchange, host);
        }
        Verdict::Pass
    }

    /// The number of sites that Apache's configuration has brought; they come first in the model.
    pub fn sites(&self) -> usize {
        self.apache.hosts.len()
    }

    fn host(&self, exchange: &Exchange) -> Option<Arc<Host>> {
        self.apache.hosts.get(exchange.site_index).cloned()
    }

    /// In force until the walk has found the file's own: errors before it have their pages, too.
    fn settings_of_host(&self, exchange: &mut Exchange, host: &Arc<Host>) {
        let mut memo = self.memo.borrow_mut();
        let local = walk::locations(
            &mut memo,
            host,
            Arc::clone(&host.defaults),
            &exchange.path,
            &mut Vec::new(),
        );
        exchange.settings = memo.settings(&local, host, &cache::url_path(exchange));
    }

    /// Variables that follow from the server's configuration, the client and the head.
    fn set_variables(&self, exchange: &mut Exchange, host: &Host) {
        if host.process.names_requests {
            modules::unique_id::name(exchange);
        }
        modules::geo::of_server(exchange, host);
        modules::setenvif::of_server(exchange, host, &self.watcher);
    }

    fn walk(
        &self,
        exchange: &mut Exchange,
        host: &Host,
        filename: &[u8],
    ) -> Result<Walked, Status> {
        let (mut htaccess, mut memo) = (self.htaccess.borrow_mut(), self.memo.borrow_mut());
        let host_index = exchange.site_index;
        let stamps = std::mem::take(&mut exchange.stamps);
        let mut walker = Walker {
            apache: &self.apache,
            host,
            host_index,
            watcher: &self.watcher,
            htaccess: &mut htaccess,
            memo: &mut memo,
            stamps,
            about: exchange,
            uri: &exchange.path,
        };
        let walked = walker.folders(filename);
        exchange.stamps = walker.stamps;
        walked
    }
}

/// How far the translation of a path has got, where it has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Translation {
    Begin,
    /// The client's address is known; its name is not.
    Name,
    /// The client is known; rules of the host come next.
    Rewrite,
}

impl Rules for ApacheRules {
    fn target_policy(&self) -> TargetPolicy {
        TargetPolicy::LeftToRules
    }

    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let mut at = Translation::Begin;
        settle(exchange, move |exchange| {
            self.try_server_rewrite(exchange, &mut at)
        })
    }

    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        settle(exchange, |exchange| self.try_map_to_storage(exchange))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        settle(exchange, |exchange| self.try_access(exchange))
    }

    fn fixups<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        settle(exchange, |exchange| self.try_fixups(exchange))
    }

    fn binds_path(&self) -> bool {
        true
    }

    fn keeps_error_document_head(&self) -> bool {
        true
    }

    fn adopt_error_document(&self, exchange: &mut Exchange, page: &mut Exchange) {
        if let Some(state) = page.extensions.remove::<State>() {
            exchange.extensions.insert(state);
        }
    }

    fn error_document(&self, exchange: &Exchange, page: &mut Exchange, status: Status) {
        if let Some(value) = exchange.head.view().first("authorization") {
            modules::access::set_authorization(page, value);
        }
        page.user.clone_from(&exchange.user);
        let local = peek(exchange).and_then(|state| state.local.as_deref());
        let host = self.host(exchange);
        let url = host
            .as_ref()
            .map(|host| origin::of_redirect(exchange, host, local, &exchange.path));
        let mut environment = exchange.environment.clone();
        if let Some(uri) = host.as_ref().and_then(|host| script_uri(exchange, host)) {
            environment.set(b"SCRIPT_URI", &uri);
        }
        environment.set(b"REQUEST_METHOD", exchange.head.view().method_token());
        page.environment = modules::env::redirected(&environment, status.0);
        let own = state(page);
        own.decided_by = peek(exchange).and_then(|state| state.decided_by.clone());
        own.is_error_page = true;
        own.led_from = Some((
            url.unwrap_or_else(|| exchange.path.clone()),
            exchange.query.clone(),
        ));
    }

    fn own_page(&self, exchange: &Exchange, response: Response) -> Response {
        match self.host(exchange) {
            Some(host) => own_page::own_page(exchange, &host, response),
            None => built_in_page(response),
        }
    }
}

impl ApacheRules {
    /// For a look-ahead, which ends where it would have to wait.
    pub(crate) fn look_up_rewrite(&self, exchange: &mut Exchange) -> Verdict {
        self.try_server_rewrite(exchange, &mut Translation::Begin)
    }

    /// `at`: how far an earlier run has got, if it had to wait.
    fn try_server_rewrite(&self, exchange: &mut Exchange, at: &mut Translation) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        if *at == Translation::Begin {
            forensic::begin(exchange, &host);
        }
        let verdict = self.translate(exchange, &host, at);
        if host.has_log_messages && !matches!(verdict, Verdict::Wait(_)) {
            let local = walk::locations(
                &mut self.memo.borrow_mut(),
                &host,
                Arc::clone(&host.defaults),
                &exchange.path,
                &mut Vec::new(),
            );
            log_debug::translated(exchange, &host, &self.watcher, &local);
        }
        verdict
    }

    pub(crate) fn try_map_to_storage(&self, exchange: &mut Exchange) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        let verdict = self.map(exchange, &host);
        if !matches!(verdict, Verdict::Wait(_)) {
            log_debug::mapped(exchange, &host, &self.watcher);
        }
        verdict
    }

    pub(crate) fn try_access(&self, exchange: &mut Exchange) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        let verdict = forward::as_proxy(exchange, |exchange| {
            modules::access::access(
                exchange,
                &host,
                &self.watcher,
                &mut self.records.borrow_mut(),
            )
        });
        if !matches!(verdict, Verdict::Wait(_)) {
            log_debug::admitted(exchange, &host, &self.watcher, &verdict);
        }
        verdict
    }

    pub(crate) fn try_fixups(&self, exchange: &mut Exchange) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        let verdict = fixups::fixups(self, exchange, &host, &self.watcher);
        if !matches!(verdict, Verdict::Wait(_)) {
            log_debug::fixed_up(exchange, &host, &self.watcher, &verdict);
        }
        verdict
    }
}

impl ApacheRules {
    /// From the path to what it means: rules of the host, aliases, redirects.
    fn translate(
        &self,
        exchange: &mut Exchange,
        host: &Arc<Host>,
        at: &mut Translation,
    ) -> Verdict {
        if *at == Translation::Begin {
            if let Some(verdict) = self.begin_translation(exchange, host) {
                return verdict;
            }
            *at = Translation::Name;
        }
        if *at == Translation::Name {
            if let Some(verdict) = self.identify_client(exchange, host) {
                return verdict;
            }
            *at = Translation::Rewrite;
        }
        match rewrite_host(self, exchange, host) {
            Verdict::Pass => {}
            verdict => return verdict,
        }
        if state(exchange).translated.is_some() || state(exchange).proxied.is_some() {
            return Verdict::Pass;
        }
        translate::translate(exchange, host);
        if state(exchange).proxied.is_none() {
            remote::express(self, exchange, host);
        }
        if state(exchange).proxied.is_some() {
            return Verdict::Pass;
        }
        if let Some(redirected) = host
            .defaults
            .alias
            .redirect(&exchange.path, exchange.query.as_deref())
        {
            return redirect(exchange, host, redirected);
        }
        match homes::place(exchange, host, &self.watcher) {
            Some(Place::Redirect(location)) => redirect(
                exchange,
                host,
                Redirected {
                    status: 302,
                    location: Some(location),
                    is_relative: false,
                },
            ),
            _ => Verdict::Pass,
        }
    }

    /// What host, connection and head decide. `None`: go on.
    fn begin_translation(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Option<Verdict> {
        self.settings_of_host(exchange, host);
        if let Some(refused) = before_the_path(exchange, host) {
            return Some(Verdict::Answer(refused));
        }
        exchange.redirects_max = host.redirects_max.unwrap_or(exchange.redirects_max);
        exchange.nesting_max = host.nesting_max.unwrap_or(exchange.nesting_max);
        if let Err(status) = methods::read_path(exchange, host) {
            return Some(self.unreadable(exchange, host, status));
        }
        let is_subrequest = begin_round(exchange, host);
        if let Some(file) = state(exchange).looked_up_file.clone() {
            state(exchange).translated = Some(Translated::File(file));
            return Some(Verdict::Pass);
        }
        if exchange.is_as_received() && !is_subrequest {
            response::request::edit(
                exchange,
                host,
                &self.watcher,
                &host.defaults.headers.request,
                true,
            );
            modules::remoteip::find_client(exchange, host);
        }
        None
    }

    /// The client's name and variables, then URLs that are for other servers as they were received.
    /// `None`: go on.
    fn identify_client(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Option<Verdict> {
        if !state(exchange).is_subrequest {
            if let Some(pause) = modules::access::look_up(exchange, host.defaults.core.lookups) {
                return Some(Verdict::Wait(pause));
            }
            self.set_variables(exchange, host);
            if exchange.is_as_received()
                && let Some(verdict) = forward::detect(exchange, host)
            {
                return Some(verdict);
            }
        }
        if state(exchange).proxied.is_none() {
            translate::translate_encoded(exchange, host);
        }
        state(exchange).proxied.is_some().then_some(Verdict::Pass)
    }

    /// Where the path leads, and what is in force there.
    fn map(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Verdict {
        if let Some(proxied) = state(exchange).proxied.clone() {
            return translate::settings(self, exchange, host, &proxied);
        }
        if exchange.head.view().method() == Method::Trace {
            let refused = || methods::with_methods(Status::METHOD_NOT_ALLOWED, host);
            // RFC 9110 section 15.5.6: a 405 says what would have been allowed (Apache's does not
            // here).
            return Verdict::Answer(if host.trace_enabled {
                trace_answer(exchange)
            } else {
                refused()
            });
        }
        let alias::Mapped {
            file: filename,
            is_script,
            context,
        } = filename(exchange, host, &self.watcher);
        let walked = match self.walk(exchange, host, &filename) {
            Ok(walked) => walked,
            Err(status) => return Verdict::Answer(Response::new(status)),
        };
        let Walked {
            local,
            filename,
            kind,
            path_info,
            mut captures,
        } = walked;
        let local = walk::locations(
            &mut self.memo.borrow_mut(),
            host,
            local,
            &exchange.path,
            &mut captures,
        );
        for (name, value) in &captures {
            exchange.environment.set(name.as_bytes(), value);
        }
        exchange.path_info = path_info;
        exchange.mapped = Some(mapped(&filename, kind));
        let (path, query) = (exchange.path.clone(), exchange.query.clone());
        let own = state(exchange);
        (own.filename, own.kind, own.path, own.query) = (filename, kind, path, query);
        (own.is_script_alias, own.context) = (is_script, context);
        let local = walk::conditions(
            &mut self.memo.borrow_mut(),
            exchange,
            host,
            &self.watcher,
            local,
        );
        exchange.settings =
            self.memo
                .borrow_mut()
                .settings(&local, host, &cache::url_path(exchange));
        exchange.trace("map_to_storage", Some(&host.origin), || {
            "mapped by Apache's rules".into()
        });
        if !state(exchange).is_subrequest {
            modules::geo::of_section(exchange, host, &local);
            modules::setenvif::of_section(exchange, host, &self.watcher, &local);
        }
        state(exchange).local = Some(local);
        Verdict::Pass
    }
}

/// What a round before found out is not true of this one's path. Whether it is a request inside of
/// another one.
fn begin_round(exchange: &mut Exchange, host: &Host) -> bool {
    let mut kept = std::mem::take(state(exchange));
    if !kept.path.is_empty() && !kept.is_subrequest {
        let first = || First {
            path: kept.path.as_slice().into(),
            query: exchange.query.as_deref().map(Into::into),
            environment: exchange.environment.clone(),
        };
        exchange.first = exchange.first.take().or_else(|| Some(Box::new(first())));
        let url = origin::of_redirect(exchange, host, kept.local.as_deref(), &kept.path);
        name_uri(exchange, host);
        exchange.environment = modules::env::redirected(&exchange.environment, Status::OK.0);
        // Rules of a folder change the query of the request that they lead on from.
        let query = if kept.is_rewritten {
            exchange.query.clone()
        } else {
            kept.query.clone()
        };
        kept.led_from = Some((url, query));
    }
    *state(exchange) = kept.for_another_round();
    exchange.mapped = None;
    exchange.path_info.clear();
    exchange.handler = None;
    exchange.call = None;
    // Handlers are named by directives.
    exchange.scripts_by_name = false;
    state(exchange).is_subrequest
}

/// What mod_rewrite tells of the URL that was asked for: the path before any rule, in this request
/// or the one that led to it.
fn name_path(exchange: &mut Exchange) {
    let known = exchange
        .environment
        .first(b"REDIRECT_SCRIPT_URL")
        .map(<[u8]>::to_vec);
    let is_known = known.is_none() && exchange.environment.first(b"SCRIPT_URL").is_some();
    if !(is_known && peek(exchange).is_some_and(|own| own.is_subrequest)) {
        let path = known.unwrap_or_else(|| exchange.path.clone());
        exchange.environment.set(b"SCRIPT_URL", &path);
    }
}

/// The same with scheme, name and port. Those are the client's to say, so that it is put together
/// when somebody is told.
pub fn name_uri(exchange: &mut Exchange, host: &Host) {
    if let Some(uri) = script_uri(exchange, host) {
        exchange.environment.set(b"SCRIPT_URI", &uri);
    }
}

fn script_uri(exchange: &Exchange, host: &Host) -> Option<Vec<u8>> {
    Some(
        [
            origin(exchange, host).as_slice(),
            exchange.environment.first(b"SCRIPT_URL")?,
        ]
        .concat(),
    )
}

/// What host and connection alone decide: MDRequireHttps, StrictHostCheck, HttpProtocolOptions, and
/// names of handshakes.
fn before_the_path(exchange: &mut Exchange, host: &Host) -> Option<Response> {
    let is_stranger = host.known_names_only && !is_named(exchange);
    let refusal = is_stranger
        .then_some(Status::BAD_REQUEST)
        .or_else(|| methods::refusal(exchange, host));
    let refusal = refusal.or_else(|| modules::ssl::refusal_of_name(exchange, host));
    to_https(exchange).or_else(|| refusal.map(Response::new))
}

/// The folder that the walk has been through, and what is in it: links above have been judged,
/// component by component.
fn mapped(filename: &[u8], kind: Option<Kind>) -> Mapped {
    let is_folder = kind == Some(Kind::Directory) && filename.ends_with(b"/");
    let at = if is_folder {
        filename.len()
    } else {
        filename
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1)
    };
    let (folder, name) = filename.split_at(at);
    Mapped {
        root: Path::new(OsStr::from_bytes(folder)).into(),
        relative: name.to_vec(),
    }
}

/// StrictHostCheck: whether the host says that it has this name.
pub fn is_named(exchange: &Exchange) -> bool {
    let (site, host) = (&exchange.site, exchange.host.as_slice());
    let by_name = site.names.iter().any(|name| match name {
        SiteName::Exact(name) => name.as_bytes() == host,
        SiteName::Wildcard(name) => host
            .strip_suffix(name.as_bytes())
            .is_some_and(|before| before.ends_with(b".") && before.len() > 1),
        SiteName::Any => true,
    });
    by_name
        || site
            .patterns
            .iter()
            .any(|pattern| glob_matches(pattern.as_bytes(), host, GlobOptions::default()))
}

/// Rules in server context.
fn rewrite_host(all: &ApacheRules, exchange: &mut Exchange, host: &Arc<Host>) -> Verdict {
    let Some(rules) = host.rewrite.as_ref().filter(|rules| rules.is_enabled()) else {
        return Verdict::Pass;
    };
    name_path(exchange);
    may_ask(exchange, host);
    let snapshot = peek(exchange).cloned().unwrap_or_default();
    let (outcome, stamps, has_looked_ahead, pause) = {
        let seen = Seen {
            rules: Some((all, host)),
            ..Seen::new(exchange, &snapshot, host, &all.watcher)
        };
        let input = Input {
            query: exchange.query.as_deref(),
            ended: snapshot.rewrite_ended,
            is_subrequest: snapshot.is_subrequest,
            proxy_available: true,
            request_time_s: exchange.now,
            trace_level: trace_level(exchange, &host.defaults),
            ..Input::new(&exchange.path)
        };
        let outcome = run_server(rules, &seen, &input);
        (
            outcome,
            seen.stamps.take(),
            seen.has_looked_ahead.get(),
            seen.pause.take(),
        )
    };
    if let Some(pause) = pause {
        return Verdict::Wait(pause);
    }
    note_dependencies(exchange, &outcome.dependencies, stamps);
    if has_looked_ahead {
        exchange.depends_on_request();
    }
    let action = apply(exchange, host, outcome);
    match action {
        Action::Pass | Action::Stay => Verdict::Pass,
        Action::Filename(file) => {
            state(exchange).translated = Some(Translated::File(file));
            Verdict::Pass
        }
        Action::Translate(path) => {
            state(exchange).translated = Some(Translated::BelowRoot(path));
            Verdict::Pass
        }
        Action::PassThrough(path) | Action::InternalRedirect(path) => {
            exchange.path = path;
            Verdict::Pass
        }
        other => answer(exchange, host, other),
    }
}

/// Where there is a database, what is asked of it belongs to the request.
pub fn may_ask(exchange: &mut Exchange, host: &Host) {
    if host.dbd.is_some() {
        state(exchange).asked.get_or_insert_default();
    }
}

/// Whoever wants an explanation wants to see conditions, too.
pub fn trace_level(exchange: &Exchange, local: &Local) -> u8 {
    const EXPLAINED: u8 = 4;
    if exchange.trace.is_some() {
        EXPLAINED
    } else {
        local.loglevel.rewrite_trace()
    }
}

/// To whoever asked for an explanation, or into the error log, a line as mod_rewrite writes it: who
/// asked, which host and request, what happened.
fn trace(exchange: &mut Exchange, host: &Host, outcome: &Outcome) {
    if exchange.trace.is_some() {
        outcome
            .trace
            .iter()
            .for_each(|line| exchange.trace("rewrite", None, || line.to_string()));
        return;
    }
    if outcome.trace.is_empty() {
        return;
    }
    let name = String::from_utf8_lossy(&crate::origin::name(exchange, host)).into_owned();
    let kind = if peek(exchange).is_some_and(|state| state.is_subrequest) {
        "subreq"
    } else {
        "initial"
    };
    let is_detour =
        exchange.first.is_some() || peek(exchange).is_some_and(|state| state.is_error_page);
    let detour = if is_detour {
        format!("/redir#{}", exchange.redirects)
    } else {
        String::new()
    };
    let user = exchange.user.as_deref().unwrap_or("-");
    let (site, request) = (
        std::ptr::from_ref(host) as usize,
        std::ptr::from_ref(&exchange.head) as usize,
    );
    for line in &outcome.trace {
        let facts = format_args!(
            "{} - {user} [{name}/sid#{site:x}][rid#{request:x}/{kind}{detour}] {line}",
            exchange.client.text()
        );
        error_log::trace("rewrite", line.level, exchange, facts);
    }
}

/// What a run of rules leaves besides its action.
pub fn apply(exchange: &mut Exchange, host: &Host, outcome: Outcome) -> Action {
    for line in &outcome.log {
        error_log::log_about(
            &message::REWRITE,
            exchange,
            format_args!("{} {}", line.id, line.text),
        );
    }
    for (name, value) in &outcome.effects.environment {
        match value {
            Some(value) => exchange.environment.set(name, value),
            None => exchange.environment.unset(name),
        }
    }
    trace(exchange, host, &outcome);
    if outcome.action != Action::Pass {
        exchange.query.clone_from(&outcome.query);
    }
    if outcome.discard_path_info {
        exchange.path_info.clear();
    }
    let own = state(exchange);
    own.rewrite_ended |= outcome.effects.end;
    let text = |bytes: Vec<u8>| {
        String::from_utf8_lossy(&bytes)
            .into_owned()
            .into_boxed_str()
    };
    own.forced_handler = outcome
        .effects
        .forced_handler
        .map(text)
        .or(own.forced_handler.take());
    own.forced_type = outcome
        .effects
        .forced_type
        .map(text)
        .or(own.forced_type.take());
    for cookie in outcome.effects.cookies {
        if !own.cookies.iter().any(|(name, _)| *name == cookie.name) {
            own.cookies.push((cookie.name, cookie.field_value));
        }
    }
    own.vary.extend(outcome.effects.vary);
    outcome.action
}

/// Actions that end the descent.
pub fn answer(exchange: &mut Exchange, host: &Host, action: Action) -> Verdict {
    match action {
        Action::Redirect { status, location } => redirect(
            exchange,
            host,
            Redirected {
                status,
                location: Some(location),
                is_relative: false,
            },
        ),
        // A rule that ends with success has a page of the server's own.
        Action::Status(status @ 200..=299) => {
            Verdict::Answer(built_in_page(Response::new(Status(status))))
        }
        Action::Status(status) => Verdict::Answer(Response::new(Status(status))),
        Action::Proxy { url, no_canonical } => {
            let encoding = if no_canonical {
                Encoding::Whole
            } else {
                Encoding::Decoded
            };
            state(exchange).proxied = Some(Box::new(Proxied { url, encoding }));
            Verdict::Pass
        }
        _ => Verdict::Pass,
    }
}

/// Locations that begin with a slash are made whole, as Apache does unless RedirectRelative is on.
pub fn redirect(exchange: &Exchange, host: &Host, redirected: Redirected) -> Verdict {
    let mut response = Response::new(Status(redirected.status));
    if let Some(location) = redirected.location {
        let whole = match location.first() {
            Some(b'/') if !redirected.is_relative => {
                [origin(exchange, host).as_slice(), &location].concat()
            }
            _ => location,
        };
        response.fields_mut().set("Location", whole);
    }
    Verdict::Answer(response)
}

/// The file that a path stands for.
fn filename(exchange: &mut Exchange, host: &Host, watcher: &Watcher) -> alias::Mapped {
    let plain = |file| alias::Mapped {
        file,
        ..alias::Mapped::default()
    };
    state(exchange).home_of = None;
    let translated = state(exchange).translated.take();
    let path = match translated {
        Some(Translated::File(file)) => return plain(file),
        Some(Translated::BelowRoot(path)) => path,
        None => match (
            homes::place(exchange, host, watcher),
            by_alias(exchange, host),
        ) {
            (Some(Place::File(file)), _) => {
                state(exchange).home_of = homes::owner(exchange, host);
                return plain(file);
            }
            (_, Some(found)) => return found,
            _ => exchange.path.clone(),
        },
    };
    if let Some(folder) = homes::scripts(exchange, host) {
        let below = path.strip_prefix(b"/cgi-bin").unwrap_or_default();
        return alias::Mapped {
            file: [folder.as_slice(), below].concat(),
            is_script: true,
            ..alias::Mapped::default()
        };
    }
    let named = homes::document_root(exchange, host);
    let root = named
        .as_deref()
        .unwrap_or(host.document_root.as_os_str().as_bytes());
    plain([root.strip_suffix(b"/").unwrap_or(root), &path].concat())
}

/// Of sections for the path first, then of the host.
fn by_alias(exchange: &Exchange, host: &Host) -> Option<alias::Mapped> {
    let of_section = host
        .locations
        .iter()
        .rev()
        .filter(|section| section.is_for_path(&exchange.path))
        .find_map(|section| {
            let name = match &section.matcher {
                crate::sections::Matcher::Exact(name) => Some(&**name),
                _ => None,
            };
            section.local.alias.map(&exchange.path, name)
        });
    of_section.or_else(|| host.defaults.alias.map(&exchange.path, None))
}
