//! The handler `webdav`: which operation a request asks for.
//!
//! Called by: the pipeline's content phase, before the handlers of scripts, so that the source of a
//! script is written and not run.
//! Caveat: GET, HEAD, and POST are left to the other handlers, but for reserved names, which exist
//! for no client. What changes files goes on if the client disconnects.
//! Out of scope: access rules, which have decided before.

use crate::{
    copy_move::{self, Transfer},
    delete,
    depth::{Depth, depth, overwrite, timeout_s},
    destination,
    if_header::IfHeader,
    lock_database::LockDatabase,
    lock_method,
    locks::Claim,
    members, mkcol, names,
    operation::{Failure, Operation, Outcome},
    options, propfind, proppatch, put,
    reply::Reply,
    request_content,
    resource::{Resource, locate},
    tree, unlock,
};
use saker_config::model::{Action, WebDav};
use saker_files::Watcher;
use saker_http::{
    KnownField, Status,
    conditional::{self, Precondition, Validators},
    date::parse_date,
    entity_tag::EntityTag,
};
use saker_net::jobs::{self, Cancel, JobError, JobKind};
use saker_pipeline::{
    ChangedPath, ChangedPaths, ClientAbort, Exchange, Handled, Handler, LocalFuture, Response,
    Services,
};
use saker_static_files::{document_root, entity_tag};
use saker_telemetry::error_log;
use std::{
    fs::File,
    path::{Path, PathBuf},
    rc::Weak,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Name of the lock database in the state directory.
const LOCK_DATABASE: &str = "webdav-locks";

/// Fields that make a PUT depend on the file that it replaces.
const PRECONDITIONS: [&str; 4] = ["if-match", "if-none-match", "if-unmodified-since", "if"];

/// Answers WebDAV's methods.
pub struct WebDavFiles {
    watcher: Watcher,
    lock_database: PathBuf,
    /// Ask the rules of destinations.
    services: Weak<Services>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WebDavMethod {
    Options,
    PropFind,
    PropPatch,
    MkCol,
    Put,
    Delete,
    Copy,
    Move,
    Lock,
    Unlock,
}

impl WebDavMethod {
    fn of(token: &[u8]) -> Option<WebDavMethod> {
        Some(match token {
            b"OPTIONS" => WebDavMethod::Options,
            b"PROPFIND" => WebDavMethod::PropFind,
            b"PROPPATCH" => WebDavMethod::PropPatch,
            b"MKCOL" => WebDavMethod::MkCol,
            b"PUT" => WebDavMethod::Put,
            b"DELETE" => WebDavMethod::Delete,
            b"COPY" => WebDavMethod::Copy,
            b"MOVE" => WebDavMethod::Move,
            b"LOCK" => WebDavMethod::Lock,
            b"UNLOCK" => WebDavMethod::Unlock,
            _ => return None,
        })
    }

    /// True if the method changes files or properties.
    fn writes(self) -> bool {
        !matches!(
            self,
            WebDavMethod::Options
                | WebDavMethod::PropFind
                | WebDavMethod::Lock
                | WebDavMethod::Unlock
        )
    }

    /// True for methods that HTTP's own preconditions guard.
    fn is_conditional(self) -> bool {
        self.writes() || self == WebDavMethod::Lock
    }
}

impl WebDavFiles {
    /// One per worker. `state_dir` has the locks of sites that name no database.
    pub fn new(watcher: Watcher, state_dir: &Path, services: Weak<Services>) -> WebDavFiles {
        WebDavFiles {
            watcher,
            lock_database: state_dir.join(LOCK_DATABASE),
            services,
        }
    }

    fn database(&self, webdav: &WebDav) -> LockDatabase {
        LockDatabase::new(
            webdav
                .lock_database
                .as_deref()
                .unwrap_or(&self.lock_database),
        )
    }

    async fn answer(
        &self,
        exchange: &mut Exchange,
        webdav: Arc<WebDav>,
        method: WebDavMethod,
    ) -> Response {
        let resource = match self.resource(exchange, &webdav) {
            Ok(resource) => resource,
            Err(status) => return Response::new(status),
        };
        let outcome = match check_conditions(exchange, &resource, method) {
            Ok(()) => self.carry_out(exchange, webdav, method, &resource).await,
            Err(status) => Err(status.into()),
        };
        let reply = match outcome {
            Ok(reply) => reply,
            Err(failure) => {
                if let Some((line, facts)) = &failure.log {
                    error_log::log_about(line, &*exchange, format_args!("{facts}"));
                }
                failure.status.into()
            }
        };
        let has_allow = reply.status != Status::METHOD_NOT_ALLOWED;
        match has_allow {
            true => reply.into_response(),
            // RFC 9110 section 15.5.6.
            false => {
                let has_trace = exchange.routing.settings.trace;
                let allow = options::allow(&resource, has_trace);
                reply.with("Allow", allow).into_response()
            }
        }
    }

    fn resource(&self, exchange: &Exchange, webdav: &WebDav) -> Result<Resource, Status> {
        let base = webdav.base_path.as_deref().unwrap_or_default();
        if !exchange.path.starts_with(base.as_bytes()) {
            return Err(Status::BAD_REQUEST);
        }
        locate(&self.watcher, exchange)
    }

    async fn carry_out(
        &self,
        exchange: &mut Exchange,
        webdav: Arc<WebDav>,
        method: WebDavMethod,
        resource: &Resource,
    ) -> Outcome {
        let operation = self.operation(exchange, Arc::clone(&webdav))?;
        let own = resource.clone();
        match method {
            WebDavMethod::Options => Ok(options::run(&operation, resource)),
            WebDavMethod::PropFind => self.propfind(exchange, operation, own).await,
            WebDavMethod::PropPatch => {
                let content = request_content::whole(exchange, webdav.xml_bytes_max).await?;
                let changes = proppatch::changes(&content)?;
                note(exchange, &resource.url, false);
                job(exchange, move |_| {
                    proppatch::run(&operation, &own, &changes)
                })
                .await
            }
            WebDavMethod::MkCol => {
                // RFC 4918 section 9.3: content that is not understood.
                if request_content::is_there(exchange).await? {
                    return Err(Status::UNSUPPORTED_MEDIA_TYPE.into());
                }
                note(exchange, &resource.url, false);
                let url = exchange.path.clone();
                job(exchange, move |_| mkcol::run(&operation, &own, &url)).await
            }
            WebDavMethod::Put => upload(exchange, operation, own).await,
            WebDavMethod::Delete => {
                let depth = depth(exchange.head.view())?;
                if depth != Depth::Infinity && resource.collection().is_some() {
                    return Err(Status::BAD_REQUEST.into());
                }
                self.check_members(exchange, resource, resource.own_tree())
                    .await?;
                note(exchange, &resource.url, true);
                job(exchange, move |cancel| {
                    delete::run(&operation, &own, cancel)
                })
                .await
            }
            WebDavMethod::Copy | WebDavMethod::Move => {
                let is_move = method == WebDavMethod::Move;
                self.transfer(exchange, operation, own, is_move).await
            }
            WebDavMethod::Lock => self.lock(exchange, operation, own).await,
            WebDavMethod::Unlock => {
                let token = unlock::token(exchange.head.view().first("lock-token"))?;
                job(exchange, move |_| unlock::run(&operation, &own, &token)).await
            }
        }
    }

    fn operation(&self, exchange: &Exchange, webdav: Arc<WebDav>) -> Result<Operation, Status> {
        let view = exchange.head.view();
        let lines: Vec<&[u8]> = view.all("if").collect();
        let if_header = match lines.is_empty() {
            true => None,
            false => Some(IfHeader::parse(&lines.join(&b' '))?),
        };
        let tokens = if_header
            .iter()
            .flat_map(IfHeader::tokens)
            .map(str::to_owned)
            .collect();
        let scheme: &[u8] = if exchange.client.secure {
            b"https://"
        } else {
            b"http://"
        };
        let origin = match view.known(KnownField::Host) {
            Some(host) if !host.is_empty() => [scheme, host].concat(),
            _ => Vec::new(),
        };
        let date = view.first("date").filter(|_| webdav.keeps_times);
        let date = date.and_then(|date| parse_date(date, exchange.now));
        let modified = date
            .and_then(|date| u64::try_from(date).ok())
            .map(|date| UNIX_EPOCH + Duration::from_secs(date));
        Ok(Operation {
            modified,
            database: self.database(&webdav),
            webdav,
            settings: Arc::clone(&exchange.routing.settings),
            if_header,
            claim: Claim {
                tokens,
                user: exchange.access.user.as_deref().map(str::to_owned),
            },
            now_s: exchange.now,
            origin,
        })
    }

    async fn propfind(
        &self,
        exchange: &mut Exchange,
        operation: Operation,
        resource: Resource,
    ) -> Outcome {
        let depth = depth(exchange.head.view())?;
        let is_whole_tree = depth == Depth::Infinity && resource.collection().is_some();
        if is_whole_tree && !operation.webdav.depth_infinity {
            let content = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
                           <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
            return Ok(Reply::xml(Status::FORBIDDEN, content.to_owned()));
        }
        let content = request_content::whole(exchange, operation.webdav.xml_bytes_max).await?;
        let wanted = propfind::wanted(&content)?;
        let refused = match is_whole_tree {
            true => self.refused_members(exchange, &resource).await?,
            false => Vec::new(),
        };
        run_job(exchange, move |cancel| {
            let asked = propfind::Asked {
                depth,
                wanted: &wanted,
                refused: &refused,
            };
            propfind::run(&operation, &resource, &asked, cancel)
        })
        .await
    }

    /// Refuses a request about a tree that has collections with stricter rules. `walked`: the
    /// resource's directory, if the request goes into it. Returns the collections.
    async fn check_members(
        &self,
        exchange: &mut Exchange,
        resource: &Resource,
        walked: Option<&Arc<File>>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(directory) = walked else {
            return Ok(Vec::new());
        };
        let collections = collections(exchange, resource, directory).await?;
        self.check_rules(exchange, collections.clone()).await?;
        Ok(collections)
    }

    /// Refuses a request if the rules of one of the collections do.
    async fn check_rules(
        &self,
        exchange: &mut Exchange,
        collections: Vec<Vec<u8>>,
    ) -> Result<(), Failure> {
        let services = self.services.upgrade().ok_or(Status::SERVICE_UNAVAILABLE)?;
        let refused = members::refused(exchange, &services, collections).await;
        match refused.is_empty() {
            true => Ok(()),
            false => Err(Status::FORBIDDEN.into()),
        }
    }

    /// Returns the collections below one that the client may not use with this method.
    async fn refused_members(
        &self,
        exchange: &mut Exchange,
        resource: &Resource,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(directory) = resource.collection() else {
            return Ok(Vec::new());
        };
        let collections = collections(exchange, resource, directory).await?;
        let services = self.services.upgrade().ok_or(Status::SERVICE_UNAVAILABLE)?;
        Ok(members::refused(exchange, &services, collections).await)
    }

    /// LOCK: a client locks no collection that it may not use, not with one above it either.
    async fn lock(
        &self,
        exchange: &mut Exchange,
        operation: Operation,
        resource: Resource,
    ) -> Outcome {
        let view = exchange.head.view();
        let (depth, timeout_s) = (depth(view)?, timeout_s(view));
        if depth == Depth::One {
            return Err(Status::BAD_REQUEST.into());
        }
        let content = request_content::whole(exchange, operation.webdav.xml_bytes_max).await?;
        let info = lock_method::lock_info(&content)?;
        let is_deep = depth == Depth::Infinity;
        let walked = resource.collection().filter(|_| is_deep && info.is_some());
        self.check_members(exchange, &resource, walked).await?;
        job(exchange, move |_| match &info {
            Some(info) => lock_method::lock(&operation, &resource, info, is_deep, timeout_s),
            None => lock_method::refresh(&operation, &resource, timeout_s),
        })
        .await
    }

    /// Asks the rules of all collections that a COPY or MOVE reads, creates, and replaces.
    async fn check_transfer(
        &self,
        exchange: &mut Exchange,
        (source, destination): (&Resource, &Resource),
        (is_move, is_deep): (bool, bool),
    ) -> Result<(), Failure> {
        // A link is moved itself, while a copy has what it leads to.
        let walked = match is_move {
            true => source.own_tree(),
            false => source.collection(),
        };
        let walked = walked.filter(|_| is_deep);
        let below = self.check_members(exchange, source, walked).await?;
        let created = copy_move::mapped(&below, &source.url, &destination.url);
        self.check_rules(exchange, created).await?;
        self.check_members(exchange, destination, destination.own_tree())
            .await?;
        Ok(())
    }

    async fn transfer(
        &self,
        exchange: &mut Exchange,
        operation: Operation,
        source: Resource,
        is_move: bool,
    ) -> Outcome {
        let view = exchange.head.view();
        let (depth, overwrites) = (depth(view)?, overwrite(view)?);
        // RFC 4918 sections 9.8.3 and 9.9.2.
        let is_refused = match is_move {
            true => depth != Depth::Infinity && source.collection().is_some(),
            false => depth == Depth::One,
        };
        if is_refused {
            return Err(Status::BAD_REQUEST.into());
        }
        if source.found.is_none() {
            return Err(Status::NOT_FOUND.into());
        }
        let url = destination::path(exchange)?;
        if names::is_reserved_path(&url) {
            return Err(Status::FORBIDDEN.into());
        }
        let services = self.services.upgrade().ok_or(Status::SERVICE_UNAVAILABLE)?;
        let (inner, webdav) = destination::admitted(exchange, &services, url.clone()).await?;
        if self.database(&webdav) != operation.database {
            return Err(Status::BAD_GATEWAY.into());
        }
        let destination = self.resource(&inner, &webdav)?;
        if names::is_protected(&webdav, &destination.name) {
            return Err(Status::FORBIDDEN.into());
        }
        let is_deep = depth == Depth::Infinity;
        self.check_transfer(exchange, (&source, &destination), (is_move, is_deep))
            .await?;
        note(exchange, &url, true);
        if is_move {
            note(exchange, &source.url, true);
        }
        let transfer = Transfer {
            source,
            destination,
            destination_url: url,
            is_move,
            is_deep,
            overwrites,
        };
        job(exchange, move |cancel| {
            copy_move::run(&operation, &transfer, cancel)
        })
        .await
    }
}

/// Returns the URLs of all collections below one.
async fn collections(
    exchange: &Exchange,
    resource: &Resource,
    directory: &Arc<File>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let (own, directory) = (resource.clone(), Arc::clone(directory));
    let collections = run_job(exchange, move |cancel| {
        tree::collections(&directory, &own.url, members::COLLECTIONS_MAX, cancel)
            .map_err(|error| Failure::of_file(&own.path, &error))
    })
    .await?;
    Ok(collections.ok_or(Status::INSUFFICIENT_STORAGE)?)
}

/// HTTP's own preconditions (RFC 9110 section 13).
fn check_conditions(
    exchange: &Exchange,
    resource: &Resource,
    method: WebDavMethod,
) -> Result<(), Status> {
    if !method.is_conditional() {
        return Ok(());
    }
    let metadata = resource.found.as_ref().map(|found| found.metadata);
    let tag = metadata
        .and_then(|metadata| entity_tag(&exchange.routing.settings, &metadata, exchange.now));
    let validators = metadata.map(|metadata| Validators {
        entity_tag: tag.as_deref().and_then(EntityTag::parse),
        last_modified: Some(metadata.mtime_s),
        now: exchange.now,
    });
    match conditional::evaluate(exchange.head.view(), validators.as_ref()) {
        Precondition::Failed => Err(Status::PRECONDITION_FAILED),
        Precondition::Proceed | Precondition::NotModified => Ok(()),
    }
}

/// PUT: each piece of content is written by a job of its own, so that a slow client holds no
/// thread.
async fn upload(exchange: &mut Exchange, operation: Operation, resource: Resource) -> Outcome {
    // RFC 9110 section 14.5: content for a part of a file must not replace all of it.
    if exchange.head.view().first("content-range").is_some() {
        return Err(Status::BAD_REQUEST.into());
    }
    let view = exchange.head.view();
    let mut preconditions = PRECONDITIONS.iter();
    let is_conditional = preconditions.any(|name| view.first(name).is_some());
    let (operation, resource) = (Arc::new(operation), Arc::new(resource));
    let (own, place) = (Arc::clone(&operation), Arc::clone(&resource));
    let mut file = run_job(exchange, move |_| put::begin(&own, &place)).await?;
    loop {
        let piece = request_content::piece(exchange).await?;
        if piece.is_empty() {
            break;
        }
        let place = Arc::clone(&resource);
        file = run_job(exchange, move |_| match file.write(&piece) {
            Ok(()) => Ok(file),
            Err(error) => Err(Failure::of_file(&place.path, &error)),
        })
        .await?;
    }
    note(exchange, &resource.url, false);
    job(exchange, move |_| {
        put::finish(&operation, &resource, is_conditional, file)
    })
    .await
}

/// Notes a path that is about to change, and the collection that it is in.
fn note(exchange: &mut Exchange, url: &[u8], is_tree: bool) {
    let bare = url.strip_suffix(b"/").unwrap_or(url);
    let parent = match bare.iter().rposition(|byte| *byte == b'/') {
        Some(at) => bare.get(..=at).unwrap_or_default(),
        None => b"/",
    };
    let changed = exchange.extensions.get_or_default::<ChangedPaths>();
    for (path, is_tree) in [(url, is_tree), (parent, false)] {
        changed.0.push(ChangedPath {
            path: path.to_vec(),
            is_tree,
        });
    }
}

/// Runs a job that changes something: it is completed even if the client disconnects.
async fn job(
    exchange: &mut Exchange,
    work: impl FnOnce(&Cancel) -> Outcome + Send + 'static,
) -> Outcome {
    exchange.upstream.client_abort.set(ClientAbort::Ignored);
    let outcome = run_job(exchange, work).await;
    exchange.upstream.client_abort.set(ClientAbort::Hangup);
    outcome
}

async fn run_job<T: Send + 'static>(
    exchange: &Exchange,
    work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let site = exchange.routing.site_index;
    match jobs::run(JobKind::WebDav, Some(site), work).await {
        Ok(outcome) => outcome,
        Err(JobError::Busy | JobError::Late) => Err(Status::SERVICE_UNAVAILABLE.into()),
        Err(JobError::Failed) => Err(Status::INTERNAL_SERVER_ERROR.into()),
    }
}

impl Handler for WebDavFiles {
    fn name(&self) -> &'static str {
        "webdav"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        let Some(webdav) = exchange.routing.settings.webdav_in_use().cloned() else {
            return Handled::Declined.ready();
        };
        let is_for_files = *exchange.action() == Action::Files
            && exchange.upstream.internal_redirect.is_none()
            && document_root::root(exchange).is_some();
        if !is_for_files {
            return Handled::Declined.ready();
        }
        if names::is_reserved_path(&exchange.path) {
            return Handled::Answered(Response::new(Status::FORBIDDEN)).ready();
        }
        let is_stand_in = exchange.log.stands_in_for.is_some() || exchange.routing.nesting > 0;
        let method = WebDavMethod::of(exchange.head.view().method_token());
        let Some(method) = method.filter(|_| !is_stand_in) else {
            return Handled::Declined.ready();
        };
        exchange.depends_on_request();
        Box::pin(async move { Handled::Answered(self.answer(exchange, webdav, method).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_told_by_their_exact_names() {
        assert_eq!(WebDavMethod::of(b"LOCK"), Some(WebDavMethod::Lock));
        for token in ["lock", "GET", "HEAD", "POST", "PATCH", "REPORT"] {
            assert_eq!(WebDavMethod::of(token.as_bytes()), None, "{token}");
        }
        assert!(WebDavMethod::Put.writes() && !WebDavMethod::PropFind.writes());
        assert!(WebDavMethod::Lock.is_conditional() && !WebDavMethod::Unlock.is_conditional());
    }
}
