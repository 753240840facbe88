//! Pages with server-side includes (mod_include): the filter INCLUDES.
//!
//! Place in the walk: on the way up, before all other filters, on whatever body there is; what a
//! page includes goes down the walk itself, as a request inside of this one, access rules and all.
//! [`run`] drives the machine of `saker_ssi`, [`world`] answers what it asks in passing.
//! Difficulty: a page is sent while it is made, when its exchange is long gone; so what later
//! requests need of it is taken along ([`Origin`]). Absent on purpose: keeping what comes out. It
//! depends on more than files.

pub mod inside;
pub mod origin;
pub mod run;
pub mod shared;
pub mod world;

use crate::{
    content_filters::filter::{ContentFilter, Passage},
    includes::{
        origin::{Origin, options},
        shared::Shared,
    },
    meta_variables,
    state::{State, peek, snapshot},
    walk::link_policy,
};
use saker_apache_model::{dir_config::DirConfig, modules::include::XBitHack};
use saker_content_filters::{Stage, as_stream, catalog, made::Made};
use saker_files::{Kind, Metadata, Watcher, resolve};
use saker_http::{Method, Status, date::format_date};
use saker_pipeline::{Body, Exchange, LocalFuture};
use saker_ssi::{Lazy, Variables};
use saker_telemetry::{error_log, message};
use std::{cell::RefCell, path::Path, rc::Rc, sync::Arc};

pub const INCLUDES: Includes = Includes;

pub const NAME: &str = catalog::INCLUDES.name;

/// The handler of pages, as old configurations name it.
const HANDLER: &str = "server-parsed";

pub struct Includes;

impl ContentFilter for Includes {
    fn name(&self) -> &str {
        NAME
    }

    fn stage(&self) -> Stage {
        catalog::INCLUDES.stage
    }

    /// Only where permissions say that the page is as old as its file.
    fn keeps_validators(
        &self,
        exchange: &mut Exchange,
        watcher: &Watcher,
        local: &DirConfig,
    ) -> bool {
        local.include.x_bit_hack == Some(XBitHack::Full)
            && file(exchange, watcher, local).is_some_and(|file| file.mode & 0o010 != 0)
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        start(passage);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Returns whether a file is such a page without a filter being named: by its handler, or by its
/// permissions (the Apache manual, XBitHack). With the handler and the type that then are left.
pub fn page(
    exchange: &mut Exchange,
    watcher: &Watcher,
    local: &DirConfig,
    handler: Option<Box<str>>,
    media_type: Option<Box<str>>,
) -> (bool, Option<Box<str>>, Option<Box<str>>) {
    if handler.as_deref() == Some(HANDLER) {
        return (true, None, media_type.or_else(|| Some("text/html".into())));
    }
    let is_wanted = local
        .include
        .x_bit_hack
        .is_some_and(|hack| hack != XBitHack::Off);
    let is_page = is_wanted
        && media_type
            .as_deref()
            .is_some_and(|media_type| media_type.starts_with("text/html"))
        && file(exchange, watcher, local).is_some_and(|file| file.mode & 0o100 != 0);
    (is_page, handler, media_type)
}

fn start(passage: &mut Passage<'_>) {
    let (is_allowed, may_run) = options(passage.local);
    if !is_allowed {
        let path = String::from_utf8_lossy(&passage.exchange.path).into_owned();
        if passage.local.include.entity_tag != Some(true) {
            passage.response.fields_mut().remove("ETag");
        }
        let facts =
            format_args!("{path}: Options Includes is not set here, the page goes out as it is");
        return error_log::log_about(&message::INCLUDES, passage.exchange, facts);
    }
    if peek(passage.exchange).is_none() {
        return;
    }
    let state = snapshot(passage.exchange);
    let file = file(passage.exchange, passage.watcher, passage.local);
    describe(passage, file.as_ref());
    if passage.exchange.head.view().method() == Method::Head && !state.is_subrequest {
        // No client sees it, and it might run programs. Its length is not known.
        passage.response.body = Body::Stream(Box::new(Made::by(|_| std::future::pending())));
        return;
    }
    let exchange = inside::copy(passage.exchange);
    let shared = match &state.page {
        Some(shared) => {
            query_variables(
                exchange.query.as_deref(),
                &mut shared.variables.borrow_mut(),
            );
            Rc::clone(shared)
        }
        None => Rc::new(shared(&exchange, passage, &state, file.as_ref())),
    };
    let origin = Origin {
        exchange,
        state,
        host: Arc::clone(passage.host),
        local: Arc::clone(passage.local),
        watcher: passage.watcher.clone(),
        shared,
    };
    let page = saker_ssi::Page::new(passage.local.include.settings(may_run));
    let source = as_stream(std::mem::take(&mut passage.response.body));
    let inside = passage.inside.clone();
    passage.response.body = Body::Stream(Box::new(Made::by(|out| {
        run::run(page, source, origin, inside, out)
    })));
}

/// The file behind a request, if there is one.
fn file(exchange: &mut Exchange, watcher: &Watcher, local: &DirConfig) -> Option<Metadata> {
    let state = peek(exchange)?;
    let relative = state
        .filename
        .strip_prefix(b"/")
        .filter(|_| state.kind == Some(Kind::File))?
        .to_vec();
    let policy = link_policy(local.core.options.in_force());
    resolve(
        watcher,
        Path::new("/"),
        &relative,
        policy,
        &mut exchange.cache.change_tokens,
    )
    .ok()
    .map(|found| found.metadata)
}

/// The output has another length, and other validators: none, unless the configuration says that it
/// has.
fn describe(passage: &mut Passage<'_>, file: Option<&Metadata>) {
    let include = &passage.local.include;
    let is_full = include.x_bit_hack == Some(XBitHack::Full)
        && file.is_some_and(|file| file.mode & 0o010 != 0);
    let (keeps_time, keeps_tag) = (
        include.last_modified == Some(true),
        include.entity_tag == Some(true),
    );
    let fields = passage.response.fields_mut();
    fields.remove("Content-Length");
    if !keeps_tag {
        fields.remove("ETag");
    }
    match file {
        Some(file) if is_full || keeps_time && !fields.has("Last-Modified") => {
            fields.set("Last-Modified", format_date(file.mtime_s).to_vec());
        }
        _ if keeps_time => {}
        _ => {
            fields.remove("Last-Modified");
        }
    }
}

/// The variables that a page begins with.
fn shared(
    exchange: &Exchange,
    passage: &Passage<'_>,
    state: &State,
    file: Option<&Metadata>,
) -> Shared {
    let mut variables = Variables::default();
    for (name, value) in meta_variables::of(exchange, state, passage.host, passage.watcher).iter() {
        variables.set(name, value);
    }
    let lazy = |name: &str| Lazy::ALL.into_iter().find(|(known, _)| *known == name);
    for (name, lazy) in ["DATE_LOCAL", "DATE_GMT", "LAST_MODIFIED"]
        .into_iter()
        .filter_map(lazy)
    {
        variables.set_lazy(name.as_bytes(), lazy);
    }
    variables.set(b"DOCUMENT_URI", &exchange.path);
    if !exchange.routing.path_info.is_empty() {
        variables.set(b"DOCUMENT_PATH_INFO", &exchange.routing.path_info);
    }
    if let Some(query) = &exchange.query {
        variables.set(b"DOCUMENT_ARGS", query);
    }
    variables.set_lazy(b"USER_NAME", Lazy::UserName);
    let name = state
        .filename
        .rsplit(|byte| *byte == b'/')
        .next()
        .filter(|_| !state.filename.is_empty());
    variables.set(b"DOCUMENT_NAME", name.unwrap_or(&exchange.path));
    query_variables(exchange.query.as_deref(), &mut variables);
    Shared {
        variables: RefCell::new(variables),
        modified_s: file.map_or(exchange.now, |file| file.mtime_s),
        owner: file.map_or(u32::MAX, |file| file.uid),
    }
}

/// A page that is included with a query of its own leaves it to all of them, as in Apache.
fn query_variables(query: Option<&[u8]>, variables: &mut Variables) {
    if let Some(query) = query {
        variables.set(b"QUERY_STRING", query);
        variables.set(
            b"QUERY_STRING_UNESCAPED",
            &meta_variables::shell_escaped(&saker_ap_expr::unescape(query, false).0),
        );
    }
}
