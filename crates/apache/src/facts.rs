//! Facts for expressions and rewrite rules, from an exchange and the file system.
//!
//! Difficulty: every look at a file has to leave its stamps, so that an outcome that depended on it
//! is not kept beyond the next change.

use crate::{
    dbd::Question,
    homes,
    look_ahead::{self, SubRequest},
    map_programs,
    modules::ssl,
    origin,
    state::State,
    worker::ApacheRules,
};
use saker_ap_expr::{
    Dependencies, Dependency, Facts, FileFault, FileTest, LocalTime, RequestPart, RequestTest,
    Variable, Work,
};
use saker_apache_model::host::Host;
use saker_config::model::Origin;
use saker_database::dbm;
use saker_files::{
    ChangeToken, Kind, LinkPolicy, Metadata, Resolved, Watcher, cached_stat, resolve,
};
use saker_http::Version;
use saker_net::blocking::{Answer, Pause};
use saker_pipeline::{Exchange, TraceStep, request_conditions};
use saker_rewrite::{MapSource, RewriteContext, TextMap};
use saker_telemetry::{error_log, message};
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    net::IpAddr,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

/// One request as its rules see it.
pub struct RequestFacts<'e> {
    pub exchange: &'e Exchange,
    pub state: &'e State,
    pub host: &'e Host,
    pub watcher: &'e Watcher,
    /// Change tokens of the files that were looked at.
    pub stamps: RefCell<Vec<ChangeToken>>,
    /// The rules that a look-ahead runs; `None` where nothing may be looked up.
    pub rules: Option<(&'e ApacheRules, &'e Arc<Host>)>,
    /// Set once the rules have looked ahead: what a look-ahead depended on is not told apart.
    pub has_looked_ahead: Cell<bool>,
    /// A program of a map has not answered yet: what came of the rules counts for nothing.
    pub pause: RefCell<Option<Pause>>,
    /// Logs see the request that a page stands for, not the page.
    pub is_for_logs: bool,
}

impl<'e> RequestFacts<'e> {
    pub fn new(
        exchange: &'e Exchange,
        state: &'e State,
        host: &'e Host,
        watcher: &'e Watcher,
    ) -> RequestFacts<'e> {
        RequestFacts {
            exchange,
            state,
            host,
            watcher,
            stamps: RefCell::default(),
            rules: None,
            has_looked_ahead: Cell::default(),
            pause: RefCell::default(),
            is_for_logs: false,
        }
    }

    fn ahead(&self, path: &[u8], by_file: bool) -> Option<SubRequest> {
        let (rules, host) = self.rules?;
        self.has_looked_ahead.set(true);
        let look = if by_file {
            look_ahead::by_file
        } else {
            look_ahead::by_path
        };
        let mut found = match look(rules, self.exchange, host, self.watcher, path) {
            Ok(found) => found,
            Err(pause) => {
                let mut own = self.pause.borrow_mut();
                *own = pause.or(own.take());
                return None;
            }
        };
        self.stamps
            .borrow_mut()
            .append(&mut found.exchange.cache.change_tokens);
        Some(found)
    }

    fn open(&self, path: &[u8]) -> Option<Resolved> {
        resolve(
            self.watcher,
            Path::new("/"),
            &below_slash(path)?,
            LinkPolicy::Follow,
            &mut self.stamps.borrow_mut(),
        )
        .ok()
    }

    fn look(&self, path: &[u8], policy: LinkPolicy) -> Option<Metadata> {
        cached_stat(
            self.watcher,
            Path::new("/"),
            &below_slash(path)?,
            policy,
            &mut self.stamps.borrow_mut(),
        )
        .ok()
    }

    /// The path, or that of the page that stands for an error.
    fn path(&self) -> &[u8] {
        match &self.state.answered_as {
            Some((path, _)) if !self.is_for_logs => path,
            _ => &self.exchange.path,
        }
    }

    fn query(&self) -> Option<&[u8]> {
        match &self.state.answered_as {
            Some((_, query)) if !self.is_for_logs => query.as_deref(),
            _ => self.exchange.query.as_deref(),
        }
    }

    /// The type of the file, once it is known.
    fn media_type(&self) -> Option<&str> {
        self.state.local.as_ref()?;
        self.exchange.routing.settings.files.whole_type.as_deref()
    }

    fn start_line(&self) -> Vec<u8> {
        request_conditions::request_line(self.exchange.head.view())
    }
}

/// Without empty components and dots.
fn below_slash(path: &[u8]) -> Option<Vec<u8>> {
    let components = path
        .strip_prefix(b"/")?
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    Some(components.collect::<Vec<_>>().join(&b'/'))
}

/// Dependencies of outcomes that are cached.
const CACHEABLE: &[Dependency] = &[
    Dependency::Configuration,
    Dependency::Path,
    Dependency::Host,
    Dependency::Scheme,
    Dependency::Files,
    Dependency::Environment,
];

/// Tells the exchange what an outcome depended on. The method counts for nothing here: only GET and
/// HEAD are ever answered from what is kept, and rules that tell them apart say so by the request
/// line.
pub fn note_dependencies(
    exchange: &mut Exchange,
    dependencies: &Dependencies,
    stamps: Vec<ChangeToken>,
) {
    exchange.cache.change_tokens.extend(stamps);
    exchange.depends_on_facts(dependencies);
}

/// Tells the explanation what a line made the outcome depend on: conditions on the request, or what
/// keeps the outcome off the route cache.
pub fn trace_dependencies(
    exchange: &mut Exchange,
    origin: Option<&Origin>,
    kinds: &[Dependency],
    tests: &[RequestTest],
) {
    if exchange.log.trace.is_none() {
        return;
    }
    let mut parts: Vec<String> = tests.iter().map(|test| test.part.to_string()).collect();
    if kinds.contains(&Dependency::Scheme) {
        parts.push(RequestPart::Secure.to_string());
    }
    parts.dedup();
    if !parts.is_empty() {
        exchange.trace(TraceStep::CONDITION, origin, || {
            format!("tests {}", parts.join(", "))
        });
    }
    for kind in kinds.iter().filter(|kind| !CACHEABLE.contains(kind)) {
        exchange.trace(TraceStep::NOT_CACHED, origin, || {
            format!("depends on the {kind}")
        });
    }
}

fn flag(on: bool) -> Cow<'static, [u8]> {
    Cow::Borrowed(if on { b"on" } else { b"off" })
}

fn owned(text: impl ToString) -> Option<Cow<'static, [u8]>> {
    Some(Cow::Owned(text.to_string().into_bytes()))
}

impl Facts for RequestFacts<'_> {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        let (exchange, client) = (self.exchange, &self.exchange.client);
        let view = exchange.head.view();
        Some(match variable {
            Variable::ServerSoftware => Cow::Borrowed(b"Saker"),
            Variable::ApiVersion => Cow::Borrowed(saker_ap_expr::API_VERSION.as_bytes()),
            Variable::RequestMethod => Cow::Borrowed(view.method_token()),
            Variable::RequestScheme => {
                Cow::Borrowed(if client.secure { b"https" } else { b"http" })
            }
            Variable::RequestUri | Variable::DocumentUri => Cow::Borrowed(self.path()),
            Variable::RequestFilename | Variable::ScriptFilename
                if self.state.filename.is_empty() =>
            {
                Cow::Borrowed(&exchange.path)
            }
            Variable::RequestFilename | Variable::ScriptFilename => {
                Cow::Borrowed(&self.state.filename)
            }
            Variable::RemoteHost if client.name().is_some() => {
                Cow::Borrowed(client.name()?.as_bytes())
            }
            Variable::RemoteAddr | Variable::RemoteHost => Cow::Borrowed(client.text().as_bytes()),
            // A proxy that names the client (mod_remoteip) is the connection's peer all the same.
            Variable::ConnRemoteAddr => return owned(client.connection_address().ip()),
            Variable::RemotePort => return owned(client.connection_address().port()),
            Variable::RemoteUser => Cow::Borrowed(exchange.access.user.as_deref()?.as_bytes()),
            Variable::ServerAdmin => Cow::Borrowed(self.host.server_admin.as_deref()?.as_bytes()),
            Variable::ServerName => Cow::Owned(origin::name(self.exchange, self.host)),
            Variable::ServerPort => return owned(origin::port(self.exchange, self.host)),
            Variable::ServerAddr => return owned(client.local.ip().to_canonical()),
            Variable::ServerProtocol => Cow::Borrowed(view.version().as_str().as_bytes()),
            Variable::PathInfo => Cow::Borrowed(&exchange.routing.path_info),
            Variable::QueryString => Cow::Borrowed(self.query().unwrap_or_default()),
            Variable::ContentType => Cow::Borrowed(self.media_type()?.as_bytes()),
            Variable::IsSubreq => Cow::Borrowed(if self.state.is_subrequest {
                b"true"
            } else {
                b"false"
            }),
            Variable::ContextDocumentRoot if self.state.context.is_some() => {
                Cow::Borrowed(&self.state.context.as_ref()?.1)
            }
            Variable::ContextPrefix if self.state.context.is_some() => {
                Cow::Borrowed(&self.state.context.as_ref()?.0)
            }
            Variable::DocumentRoot | Variable::ContextDocumentRoot => {
                Cow::Borrowed(homes::own_root(self.exchange, self.host))
            }
            Variable::ContextPrefix => Cow::Borrowed(b""),
            Variable::TheRequest => Cow::Owned(self.start_line()),
            Variable::Handler => Cow::Borrowed(exchange.routing.handler.as_deref()?.as_bytes()),
            Variable::Https => flag(client.secure),
            Variable::Ipv6 => flag(client.ip().is_ipv6()),
            Variable::Http2 => flag(view.version() == Version::Http2),
            Variable::ScriptUser => {
                // By number: names would be one more file to watch.
                return owned(self.look(&self.state.filename, LinkPolicy::Follow)?.uid);
            }
            _ => return None,
        })
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let name = std::str::from_utf8(name).ok()?;
        request_conditions::joined_by_commas(self.exchange.head.view(), name)
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        // As in Apache, the page of an error is a request of its own.
        let page = self.exchange.log.error_document.as_deref();
        let environment = page
            .filter(|_| !self.is_for_logs)
            .map(|page| &page.environment);
        let environment = environment.unwrap_or(&self.exchange.environment);
        environment.first(name).map(Cow::Borrowed)
    }

    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        std::env::var_os(std::ffi::OsStr::from_bytes(name))
            .map(|value| Cow::Owned(value.into_vec()))
    }

    fn tls_variable(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        if name.starts_with(b"SSL_") {
            return ssl::variable(self.exchange, self.state, std::str::from_utf8(name).ok()?);
        }
        // mod_ssl knows those of the request too, over TLS or not.
        let row = Variable::from_name(name).filter(|row| row.in_rewrite)?;
        let value = match row.request_field {
            Some(field) => self.request_field(field.as_bytes()),
            None => self.variable(row.variable),
        };
        value.filter(|value| !value.is_empty())
    }

    fn peer_extensions(&self, object_id: &[u8]) -> Vec<Vec<u8>> {
        let session = self
            .exchange
            .client
            .session
            .as_ref()
            .zip(std::str::from_utf8(object_id).ok());
        let values = session
            .map(|(session, id)| session.client_extensions(id))
            .unwrap_or_default();
        values.into_iter().map(String::into_bytes).collect()
    }

    fn work(&self) -> Option<&Work> {
        Some(self.exchange.budget().work())
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(self.exchange.client.ip())
    }

    fn is_as_received(&self, part: &RequestPart) -> bool {
        let head = &self.exchange.head;
        !head.is_edited()
            && (*part != RequestPart::Query
                || self.query() == request_conditions::query(head.view().target()))
    }

    fn local_time(&self) -> LocalTime {
        crate::time::local(self.exchange.now)
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        if test == FileTest::Link {
            // What is no link can be had without following any.
            let (followed, bare) = (
                self.look(path, LinkPolicy::Follow).is_some(),
                self.look_without_last_link(path),
            );
            return followed && !bare;
        }
        let Some(found) = self.look(path, LinkPolicy::Follow) else {
            return false;
        };
        match test {
            FileTest::Directory => found.kind == Kind::Directory,
            FileTest::Regular => found.kind == Kind::File,
            FileTest::NotEmpty => found.kind == Kind::File && found.size > 0,
            FileTest::Executable => found.mode & 0o111 != 0,
            FileTest::Exists | FileTest::Link => true,
        }
    }

    fn uri_status(&self, uri: &[u8]) -> Option<u16> {
        self.ahead(uri, false).map(|ahead| ahead.status.0)
    }

    fn file_status(&self, path: &[u8]) -> Option<u16> {
        self.ahead(path, true).map(|ahead| ahead.status.0)
    }

    fn file_bytes(&self, path: &[u8]) -> Option<u64> {
        self.look(path, LinkPolicy::Follow)
            .filter(|found| found.kind == Kind::File)
            .map(|found| found.size)
    }

    fn file_modified_us(&self, path: &[u8]) -> Option<i64> {
        let metadata = self.look(path, LinkPolicy::Follow)?;
        Some(metadata.mtime_s * 1_000_000 + i64::from(metadata.mtime_ns / 1000))
    }

    fn file_content(&self, path: &[u8], bytes_max: usize) -> Result<Vec<u8>, FileFault> {
        let found = self
            .open(path)
            .filter(|found| found.metadata.kind == Kind::File)
            .ok_or(FileFault::Open)?;
        if found.metadata.size > bytes_max as u64 {
            return Err(FileFault::TooLarge);
        }
        let mut content = vec![0; found.metadata.size as usize];
        found
            .file
            .read_exact_at(&mut content, 0)
            .map_err(|_| FileFault::Read)?;
        Ok(content)
    }
}

impl RequestFacts<'_> {
    /// Returns whether the last component exists and is no link.
    fn look_without_last_link(&self, path: &[u8]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let Some(at) = path.iter().rposition(|byte| *byte == b'/') else {
            return false;
        };
        let (folder, name) = (
            path.get(..at.max(1)).unwrap_or_default(),
            path.get(at + 1..).unwrap_or_default(),
        );
        let folder = Path::new(std::ffi::OsStr::from_bytes(folder));
        resolve(
            self.watcher,
            folder,
            name,
            LinkPolicy::Never,
            &mut self.stamps.borrow_mut(),
        )
        .is_ok()
    }
}

impl RequestFacts<'_> {
    /// A map as it was read before, as long as its file stays the same.
    fn kept_map(
        &self,
        file: &Path,
        read: impl Fn(&Self) -> Option<Arc<TextMap>>,
    ) -> Option<Arc<TextMap>> {
        let Some((rules, _)) = self.rules else {
            return read(self);
        };
        let now_ms = self.watcher.now_ms();
        if let Some((map, stamps)) = rules
            .maps
            .borrow()
            .get(file)
            .filter(|(_, stamps)| stamps.iter().all(|stamp| stamp.is_current(now_ms)))
        {
            self.stamps.borrow_mut().extend(stamps.iter().cloned());
            return Some(Arc::clone(map));
        }
        let before = self.stamps.borrow().len();
        let map = read(self)?;
        let stamps = self
            .stamps
            .borrow()
            .get(before..)
            .unwrap_or_default()
            .into();
        rules
            .maps
            .borrow_mut()
            .insert(file.to_owned(), (Arc::clone(&map), stamps));
        Some(map)
    }

    /// As `httxt2dbm` makes them.
    fn read_database(&self, kind: &str, file: &Path) -> Option<Arc<TextMap>> {
        use std::os::unix::ffi::OsStrExt;
        let name = file.as_os_str().as_bytes();
        let content = |ending: &str| {
            let content = self.file_content(&[name, ending.as_bytes()].concat(), MAP_BYTES_MAX);
            content.map_err(|_| "it can't be read".to_owned())
        };
        dbm::read(kind, content, |pairs| Arc::new(TextMap::of_pairs(pairs))).ok()
    }

    fn read_map(&self, file: &Path) -> Option<Arc<TextMap>> {
        use std::os::unix::ffi::OsStrExt;
        let content = self
            .file_content(file.as_os_str().as_bytes(), MAP_BYTES_MAX)
            .ok()?;
        Some(Arc::new(TextMap::parse(&content)))
    }
}

impl RequestFacts<'_> {
    /// Looks a key up in the database; of several rows one by chance. A database that does not
    /// answer knows no value, as in Apache, and the log says why.
    fn database_map(&self, query: &str, is_cached: bool, key: &[u8]) -> Option<Vec<u8>> {
        let (dbd, asked) = self.host.dbd.as_deref().zip(self.state.asked.as_ref())?;
        // What is no text is no key.
        let text = std::str::from_utf8(key).ok()?;
        if let Some(value) = is_cached.then(|| dbd.kept(query, key)).flatten() {
            return Some(value);
        }
        let found = match asked.ask(dbd, Question::of(query, &[text], false)) {
            Answer::Known(Ok(found)) => found,
            Answer::Known(Err(why)) => {
                error_log::log_about(
                    &message::REWRITE,
                    self.exchange,
                    format_args!("rewritemap: querying for {text} failed: {why}"),
                );
                return None;
            }
            Answer::Wait(pause) => {
                *self.pause.borrow_mut() = Some(pause);
                return None;
            }
            Answer::Busy => return None,
        };
        let first = found
            .rows
            .get(self.pick(found.rows.len()))?
            .first()
            .inspect_err(|why| {
                error_log::log_about(
                    &message::REWRITE,
                    self.exchange,
                    format_args!("rewritemap: the first column for {text} {why}"),
                );
            });
        let value = first.ok()??.as_bytes().to_vec();
        if is_cached {
            dbd.keep(query, key, &value);
        }
        Some(value)
    }
}

impl RewriteContext for RequestFacts<'_> {
    fn text_map(&self, file: &Path) -> Option<Arc<TextMap>> {
        self.kept_map(file, |seen| seen.read_map(file))
    }

    fn external_map(&self, _name: &str, source: &MapSource, key: &[u8]) -> Option<Vec<u8>> {
        match source {
            MapSource::Dbm { kind, file } => self
                .kept_map(file, |seen| seen.read_database(kind, file))?
                .value(key)
                .map(<[u8]>::to_vec),
            MapSource::Program { arguments, .. } => match map_programs::ask(arguments, key) {
                Answer::Known(value) => value,
                Answer::Wait(pause) => {
                    *self.pause.borrow_mut() = Some(pause);
                    None
                }
                Answer::Busy => None,
            },
            MapSource::Dbd { query, cached } => self.database_map(query, *cached, key),
            _ => None,
        }
    }

    fn pick(&self, count: usize) -> usize {
        crate::time::chance() as usize % count.max(1)
    }

    fn look_ahead<'w>(&'w self, path: &[u8], by_file: bool) -> Option<Box<dyn Facts + 'w>> {
        Some(Box::new(self.ahead(path, by_file)?))
    }

    /// As Apache: by the port of ServerName, which most hosts do not say.
    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        self.host.server_port == Some(port)
            && host.eq_ignore_ascii_case(&origin::name(self.exchange, self.host))
    }

    fn home_folder(&self, _user: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn as_facts(&self) -> &dyn Facts {
        self
    }
}

/// Bytes of a text map.
const MAP_BYTES_MAX: usize = 64 << 20;

fn seen_in<T>(ahead: &SubRequest, look: impl FnOnce(&RequestFacts<'_>) -> T) -> T {
    look(&RequestFacts::new(
        &ahead.exchange,
        &ahead.state,
        &ahead.host,
        &ahead.watcher,
    ))
}

fn detached(text: Option<Cow<'_, [u8]>>) -> Option<Cow<'static, [u8]>> {
    text.map(|text| Cow::Owned(text.into_owned()))
}

impl Facts for SubRequest {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        seen_in(self, |seen| detached(seen.variable(variable)))
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        seen_in(self, |seen| detached(seen.request_field(name)))
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        seen_in(self, |seen| detached(seen.environment(name)))
    }

    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        seen_in(self, |seen| detached(seen.process_environment(name)))
    }

    fn work(&self) -> Option<&Work> {
        Some(self.exchange.budget().work())
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(self.exchange.client.ip())
    }

    fn local_time(&self) -> LocalTime {
        seen_in(self, |seen| seen.local_time())
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        seen_in(self, |seen| seen.file_test(path, test))
    }
}
