//! Between access and content: rules of folders, redirects of sections, folders and their index
//! files, types and handlers.

use crate::verdict::Verdict;
use crate::{
    asis, cgi, content_filters,
    facts::{Seen, note_dependencies},
    host::Host,
    includes, listing,
    local::Local,
    magic,
    memo::Memo,
    methods,
    modules::{self, mime::Facts},
    multiviews, php,
    proxy::call,
    response,
    rules::{ApacheRules, answer, apply, may_ask, redirect, trace_level},
    state::{State, peek, state},
    type_map,
};
use saker_apache_syntax::options::{FOLLOW_SYM_LINKS, INDEXES, SYM_LINKS_IF_OWNER_MATCH};
use saker_files::{Kind, Watcher};
use saker_http::{Method, Status, path::normalise_with};
use saker_pipeline::{Exchange, Inner, NoBody, Response};
use saker_rewrite::{Action, Input, Settings, run_directory};
use saker_telemetry::{error_log, httpd_message, message};
use std::{rc::Rc, sync::Arc};

pub fn fixups(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
) -> Verdict {
    // What comes before it is behind us.
    if let Some(work) = peek(exchange).and_then(|state| state.listing.clone()) {
        return listing::go_on(rules, exchange, host, &work);
    }
    let Some(local) = peek(exchange).and_then(|state| state.local.clone()) else {
        return Verdict::Pass;
    };
    if is_proxied(exchange) {
        return proxied(rules, exchange, host, watcher, &local);
    }
    match multiviews::negotiate(rules, exchange, host, watcher, &local) {
        Some(Verdict::Pass) => return rest(rules, exchange, host, watcher, local),
        Some(verdict) => return verdict,
        None => {}
    }
    match rewrite_folder(rules, exchange, host, watcher, &local) {
        Verdict::Pass => {}
        Verdict::Restart => {
            // Apache begins anew only after all fixups have run.
            local.env.apply_to(exchange);
            return Verdict::Restart;
        }
        verdict => return verdict,
    }
    if is_proxied(exchange) {
        return proxied(rules, exchange, host, watcher, &local);
    }
    local.env.apply_to(exchange);
    modules::ssl::fixups(exchange, &local);
    modules::usertrack::spot(exchange, &local);
    if let Some(redirected) = section_redirect(exchange, host, &local) {
        return redirected;
    }
    match folder(rules, exchange, host, &local) {
        Verdict::Pass => {}
        verdict => return verdict,
    }
    if let Some(corrected) = modules::speling::correct(exchange, host, watcher, &local) {
        return corrected;
    }
    rest(rules, exchange, host, watcher, local)
}

fn is_proxied(exchange: &Exchange) -> bool {
    peek(exchange).is_some_and(|state| state.proxied.is_some())
}

/// What is passed on has no file: neither folders nor types have a say.
fn proxied(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<Local>,
) -> Verdict {
    // As in Apache this is done before SetEnv.
    call::find_path_info(exchange);
    local.env.apply_to(exchange);
    modules::ssl::fixups(exchange, local);
    if let Some(redirected) = section_redirect(exchange, host, local) {
        return redirected;
    }
    if peek(exchange).is_some_and(|state| state.is_subrequest) {
        // Whoever tries it wants to know only that somebody will answer.
        return Verdict::Pass;
    }
    response::request::edit(exchange, host, watcher, &local.headers.request, false);
    modules::access::fake_credentials(exchange, host, watcher, local);
    content_filters::wrap_request_body(exchange, host, watcher, local, &[]);
    response::encoding::choose(
        &mut rules.memo.borrow_mut(),
        exchange,
        host,
        watcher,
        local,
        None,
    );
    response::prepare(exchange, host, watcher, local);
    content(rules, exchange, host, watcher, local)
}

/// What follows once it is known which file answers.
fn rest(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: Arc<Local>,
) -> Verdict {
    let local = peek(exchange)
        .and_then(|state| state.local.clone())
        .unwrap_or(local);
    if is_proxied(exchange) {
        return proxied(rules, exchange, host, watcher, &local);
    }
    describe(
        &mut rules.memo.borrow_mut(),
        exchange,
        host,
        watcher,
        &local,
    );
    if !peek(exchange).is_some_and(|state| state.is_subrequest) {
        response::request::edit(exchange, host, watcher, &local.headers.request, false);
    }
    modules::access::fake_credentials(exchange, host, watcher, &local);
    response::prepare(exchange, host, watcher, &local);
    content(rules, exchange, host, watcher, &local)
}

/// What is answered in the place of a file.
fn content(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<Local>,
) -> Verdict {
    if let Some(proxied) = peek(exchange).and_then(|state| state.proxied.clone()) {
        return call::pass_on(rules, exchange, host, local, &proxied);
    }
    if let Some(url) = exchange
        .handler
        .clone()
        .as_deref()
        .and_then(|handler| handler.strip_prefix("proxy:"))
    {
        return call::by_handler(rules, exchange, host, local, url);
    }
    let is_lookup = peek(exchange).is_some_and(|state| state.is_subrequest && !state.is_answered);
    if exchange.handler.as_deref() == Some("cgi-script") {
        return if is_lookup {
            Verdict::Pass
        } else {
            cgi::answer(rules, exchange, host, local)
        };
    }
    if !is_lookup && let Some(led_on) = cgi::lead_on(exchange, host, local) {
        return led_on;
    }
    if let Some(handler) = exchange
        .handler
        .clone()
        .filter(|handler| local.actions.action(handler).is_none())
        && let Some(asked) = php::asked(
            &handler,
            &peek(exchange)
                .map(|state| state.filename.clone())
                .unwrap_or_default(),
        )
    {
        return php::answer(rules, exchange, host, local, asked);
    }
    if exchange
        .handler
        .as_deref()
        .is_some_and(|handler| is_program(handler) && local.actions.action(handler).is_none())
    {
        let (handler, filename) = (
            exchange.handler.clone().unwrap_or_default(),
            peek(exchange).map(|state| state.filename.clone()),
        );
        let filename =
            String::from_utf8_lossy(filename.as_deref().unwrap_or_default()).into_owned();
        error_log::log_about(
            &message::HANDLER_NOT_THERE,
            exchange,
            format_args!("{filename}: {handler}: its source is not shown"),
        );
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    }
    if peek(exchange).is_some_and(|state| state.is_subrequest && !state.is_answered) {
        return after_path(exchange, local);
    }
    if exchange.handler.as_deref() == Some("type-map") {
        return type_map::answer(exchange, watcher, local);
    }
    if exchange.handler.as_deref() == Some("send-as-is") {
        return Verdict::Answer(asis::answer(
            exchange,
            watcher,
            local.core.options.in_force(),
        ));
    }
    if let Some(page) = rules.about_server(exchange, host, local) {
        return Verdict::Answer(page);
    }
    match methods::answer(exchange, host) {
        Some(response) => Verdict::Answer(response),
        None if is_unlistable(exchange) => Verdict::Answer(Response::new(Status::NOT_FOUND)),
        None if is_listed(exchange, local) => listing::begin(exchange, watcher, local),
        None => {
            complain_of_folder(exchange, local);
            after_path(exchange, local)
        }
    }
}

/// A folder that has no index file, and must not be listed.
fn complain_of_folder(exchange: &Exchange, local: &Local) {
    let Some(own) = peek(exchange).filter(|own| own.kind == Some(Kind::Directory)) else {
        return;
    };
    if exchange.handler.is_some() {
        return;
    }
    let (folder, names) = (
        String::from_utf8_lossy(&own.filename),
        local.dir.index_names().collect::<Vec<_>>().join(","),
    );
    let why = "and server-generated directory index forbidden by Options directive";
    let text = format_args!(
        "Cannot serve directory {}/: No matching DirectoryIndex ({names}) found, {why}",
        folder.trim_end_matches('/')
    );
    error_log::log_httpd(&httpd_message::DIRECTORY_FORBIDDEN, None, exchange, text);
}

/// Folders that nothing else answers for; other methods than GET and HEAD have been answered.
fn is_listed(exchange: &Exchange, local: &Local) -> bool {
    let is_folder = peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    is_folder && exchange.handler.is_none() && local.core.options.in_force().contains(INDEXES)
}

/// Only GET asks for listings.
fn is_unlistable(exchange: &Exchange) -> bool {
    let is_folder = peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    is_folder && exchange.head.view().method() == Method::Post
}

/// Handlers that run what the file holds: where they are missing, it is shown to nobody.
fn is_program(handler: &str) -> bool {
    let lower = handler.to_ascii_lowercase();
    lower.starts_with("proxy:")
        || lower.contains("php")
        || matches!(
            &*lower,
            "cgi-script"
                | "fcgid-script"
                | "fastcgi-script"
                | "wsgi-script"
                | "perl-script"
                | "modperl"
                | "python-program"
                | "mod_python"
                | "jakarta-servlet"
                | "mono"
                | "lua-script"
                | "lsapi-script"
        )
}

/// Types by which PHP's modules and those of panels are called.
fn is_program_type(media_type: &str) -> bool {
    let lower = media_type.to_ascii_lowercase();
    lower.starts_with("application/x-httpd-") || lower.contains("lsphp")
}

/// Rules in directory context.
fn rewrite_folder(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Local,
) -> Verdict {
    let Some(section) = local.rewrite.section.as_ref() else {
        return Verdict::Pass;
    };
    let server = host
        .rewrite
        .clone()
        .unwrap_or_else(|| Arc::new(Settings::server()));
    let settings = server.for_directories().merge(section);
    if !settings.is_enabled() {
        return Verdict::Pass;
    }
    may_ask(exchange, host);
    let snapshot = peek(exchange).cloned().unwrap_or_default();
    let options = local.core.options.in_force();
    let (outcome, stamps, has_looked_ahead, pause) = {
        let seen = Seen {
            rules: Some((rules, host)),
            ..Seen::new(exchange, &snapshot, host, watcher)
        };
        let input = Input {
            filename: Some(&snapshot.filename),
            path_info: &exchange.path_info,
            query: exchange.query.as_deref(),
            ended: snapshot.rewrite_ended,
            is_subrequest: snapshot.is_subrequest,
            follows_links: options.contains(FOLLOW_SYM_LINKS)
                || options.contains(SYM_LINKS_IF_OWNER_MATCH),
            proxy_available: true,
            request_time_s: exchange.now,
            trace_level: trace_level(exchange, local),
            ..Input::new(&exchange.path)
        };
        let outcome = run_directory(&settings, &server, &seen, &input);
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
    match apply(exchange, host, outcome) {
        Action::Pass | Action::Stay => Verdict::Pass,
        Action::InternalRedirect(path)
        | Action::PassThrough(path)
        | Action::Translate(path)
        | Action::Filename(path) => {
            let own = state(exchange);
            (own.is_rewritten, own.rewritten_as) = (true, own.kind);
            internal_redirect(exchange, host, &path)
        }
        other => answer(exchange, host, other),
    }
}

/// To another path of the site, read as one from a client would be.
fn internal_redirect(exchange: &mut Exchange, host: &Host, path: &[u8]) -> Verdict {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut read = Vec::with_capacity(path.len());
    if let Err(error) = normalise_with(path, host.slashes, &mut read) {
        return Verdict::Answer(Response::new(methods::status_of(error)));
    }
    exchange.path = read;
    Verdict::Restart
}

/// Redirect and RedirectMatch of folders, files and locations; the host's own came before.
fn section_redirect(exchange: &Exchange, host: &Host, local: &Local) -> Option<Verdict> {
    let own = local
        .alias
        .redirects
        .len()
        .saturating_sub(host.defaults.alias.redirects.len());
    let mut of_sections = local.alias.clone();
    of_sections.redirects.truncate(own);
    of_sections
        .redirect(&exchange.path, exchange.query.as_deref())
        .map(|redirected| redirect(exchange, host, redirected))
}

/// mod_dir: the slash behind a folder, its index file, and what answers for what is not there.
fn folder(rules: &ApacheRules, exchange: &mut Exchange, host: &Host, local: &Local) -> Verdict {
    let kind = peek(exchange).and_then(|state| state.kind);
    if kind != Some(Kind::Directory) {
        return if kind.is_none() && !has_handler(exchange, host, local) {
            fallback(exchange, local)
        } else {
            Verdict::Pass
        };
    }
    if !exchange.path.ends_with(b"/") {
        if local.dir.slash == Some(false) {
            as_if_with_slash(exchange);
            return Verdict::Pass;
        }
        // Two slashes at the beginning would make a host of the first component.
        let slashes = exchange
            .path
            .iter()
            .take_while(|byte| **byte == b'/')
            .count();
        let mut location = saker_ap_expr::escape_uri(
            exchange
                .path
                .get(slashes.saturating_sub(1)..)
                .unwrap_or_default(),
        );
        location.push(b'/');
        if let Some(query) = &exchange.query {
            location.push(b'?');
            location.extend_from_slice(query);
            exchange.depends_on_request();
        }
        return redirect(
            exchange,
            host,
            crate::modules::alias::Redirected {
                status: 301,
                location: Some(location),
                is_relative: false,
            },
        );
    }
    if !matches!(
        exchange.head.view().method(),
        Method::Get | Method::Head | Method::Post | Method::Options
    ) {
        return Verdict::Pass;
    }
    if local.core.set_handler.as_ref().is_some_and(Option::is_some)
        && local.dir.check_handler == Some(true)
    {
        return Verdict::Pass;
    }
    let (mut refusal, is_only) = (None, local.dir.index_names().count() == 1);
    for name in local.dir.index_names() {
        if exchange.is_over_budget() {
            return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        match index(rules, exchange, host, local, name) {
            // One that may not be seen is passed over as long as there are others; if there is
            // none, nothing else is shown either.
            Verdict::Answer(response) if response.status.is_error() && !is_only => {
                refusal = Some(response)
            }
            // Taken over.
            Verdict::Pass
                if peek(exchange).is_some_and(|state| {
                    state.kind == Some(Kind::File) || state.proxied.is_some()
                }) =>
            {
                return Verdict::Pass;
            }
            Verdict::Pass => {}
            verdict => return verdict,
        }
    }
    if let Some(refusal) = refusal {
        return Verdict::Answer(refusal);
    }
    fallback(exchange, local)
}

/// What has a handler of its own is that one's business, there or not (mod_dir).
fn has_handler(exchange: &Exchange, host: &Host, local: &Local) -> bool {
    let Some(own) = peek(exchange) else {
        return false;
    };
    let is_set = own.forced_handler.is_some()
        || local.core.set_handler.as_ref().is_some_and(Option::is_some);
    is_set
        || local
            .mime
            .facts(&own.filename, &host.types)
            .handler
            .is_some()
}

/// A folder under its name without the slash may be listed, or refused, under that name.
fn as_if_with_slash(exchange: &mut Exchange) {
    if let Some(mapped) = exchange
        .mapped
        .as_mut()
        .filter(|mapped| !mapped.relative.is_empty())
    {
        mapped.relative.push(b'/');
    }
}

/// An index file is a request of its own, which has to get as far as being answered.
fn index(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &Local,
    name: &str,
) -> Verdict {
    let path = match name.strip_prefix('/') {
        Some(_) => name.as_bytes().to_vec(),
        None => [exchange.path.as_slice(), name.as_bytes()].concat(),
    };
    let path = without_detours(path, host);
    let Some(mut inner) = subrequest(exchange, path.clone(), Inner::Lookup) else {
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    let outcome = descend(rules, &mut inner);
    exchange.stamps.append(&mut inner.stamps);
    if inner.request_dependent {
        exchange.depends_on_request();
    }
    let refused = match outcome {
        Verdict::Pass => None,
        Verdict::Answer(response) => Some(response),
        // Rules lead on from what is there; what is not there is no index file, wherever they would
        // lead.
        Verdict::Restart
            if peek(&inner).is_some_and(|state| state.rewritten_as == Some(Kind::File)) =>
        {
            adopt(exchange, inner);
            return Verdict::Restart;
        }
        Verdict::Restart => return Verdict::Pass,
        // This step is asked again, and tries again.
        other => return other,
    };
    exchange.user = inner.user.take().or(exchange.user.take());
    let found =
        peek(&inner).is_some_and(|state| state.kind == Some(Kind::File) || state.proxied.is_some());
    match refused {
        None if found => {}
        Some(response) if response.status.0 >= 300 && response.status.0 < 400 => {
            return Verdict::Answer(response);
        }
        Some(response) if response.status.is_error() && response.status != Status::NOT_FOUND => {
            return Verdict::Answer(response);
        }
        _ => return Verdict::Pass,
    }
    if let Some(Some(status)) = local.dir.index_redirect {
        let location = saker_ap_expr::escape_uri(&path);
        return redirect(
            exchange,
            host,
            crate::modules::alias::Redirected {
                status,
                location: Some(location),
                is_relative: false,
            },
        );
    }
    adopt(exchange, inner);
    Verdict::Pass
}

/// A path that a name with `.` or `..` in it may have been put to.
fn without_detours(path: Vec<u8>, host: &Host) -> Vec<u8> {
    if !path.windows(2).any(|two| two == b"/.") {
        return path;
    }
    let mut read = Vec::with_capacity(path.len());
    match normalise_with(&saker_ap_expr::escape_uri(&path), host.slashes, &mut read) {
        Ok(()) => read,
        Err(_) => path,
    }
}

/// The phases behind the choice of the host, up to an answer or to its content.
pub fn descend(rules: &ApacheRules, inner: &mut Exchange) -> Verdict {
    loop {
        if let Some(verdict) = round(rules, inner) {
            return verdict;
        }
        if inner.redirects >= inner.redirects_max {
            return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        inner.redirects += 1;
    }
}

/// `None`: from the beginning.
fn round(rules: &ApacheRules, inner: &mut Exchange) -> Option<Verdict> {
    let phases: [fn(&ApacheRules, &mut Exchange) -> Verdict; 4] = [
        ApacheRules::look_up_rewrite,
        ApacheRules::try_map_to_storage,
        ApacheRules::try_access,
        ApacheRules::try_fixups,
    ];
    for phase in phases {
        let verdict = phase(rules, inner);
        if inner.is_over_budget() {
            return Some(Verdict::Answer(Response::new(
                Status::INTERNAL_SERVER_ERROR,
            )));
        }
        match verdict {
            Verdict::Pass => {}
            Verdict::Restart if peek(inner).is_some_and(|state| state.is_rewritten) => {
                return Some(Verdict::Restart);
            }
            Verdict::Restart => return None,
            other => return Some(other),
        }
    }
    Some(Verdict::Pass)
}

/// A GET for another path of the same site by the same client. `None`: too deep inside of other
/// requests, or one too many; the error log says so. Not on the stack, which those that are tried
/// inside of each other share.
pub fn subrequest(exchange: &Exchange, path: Vec<u8>, kind: Inner) -> Option<Box<Exchange>> {
    exchange.may_nest(kind).then(|| nested(exchange, path))
}

/// The same for an entry of a listing, of which there are no more than a folder has.
pub fn nested(exchange: &Exchange, path: Vec<u8>) -> Box<Exchange> {
    let mut inner = Box::new(Exchange::new(
        exchange.client.clone(),
        exchange.head.clone(),
        Box::new(NoBody),
        Arc::clone(&exchange.site),
        exchange.now,
    ));
    inner.host.clone_from(&exchange.host);
    inner.query.clone_from(&exchange.query);
    inner.environment = exchange.environment.clone();
    inner.user.clone_from(&exchange.user);
    inner.site_index = exchange.site_index;
    inner.log_id = Rc::clone(&exchange.log_id);
    inner.share_budget(exchange);
    inner.nesting = exchange.nesting.saturating_add(1);
    inner.path = path;
    let own = peek(exchange);
    let inherited = state(&mut inner);
    inherited.is_subrequest = true;
    inherited.rewrite_ended = own.is_some_and(|state| state.rewrite_ended);
    inner
}

/// The request goes on as what was tried.
pub fn adopt(exchange: &mut Exchange, inner: Box<Exchange>) {
    let mut inner = *inner;
    exchange.path = inner.path;
    exchange.query = inner.query;
    exchange.path_info = inner.path_info;
    exchange.mapped = inner.mapped;
    exchange.settings = inner.settings;
    exchange.environment = inner.environment;
    exchange.handler = inner.handler;
    let own = std::mem::take(state(exchange));
    if let Some(tried) = inner.extensions.remove::<State>() {
        exchange.extensions.insert(tried);
    }
    let adopted = state(exchange);
    (
        adopted.is_subrequest,
        adopted.is_answered,
        adopted.is_program,
    ) = (own.is_subrequest, own.is_answered, own.is_program);
    adopted.page = own.page;
}

/// FallbackResource: a path of the site that answers for what is not there.
fn fallback(exchange: &mut Exchange, local: &Local) -> Verdict {
    let Some(Some(target)) = &local.dir.fallback else {
        return Verdict::Pass;
    };
    let path = match target.strip_prefix('/') {
        Some(_) => target.as_bytes().to_vec(),
        None => {
            let folder = exchange
                .path
                .iter()
                .rposition(|byte| *byte == b'/')
                .map_or(0, |at| at + 1);
            [
                exchange.path.get(..folder).unwrap_or_default(),
                target.as_bytes(),
            ]
            .concat()
        }
    };
    if path == exchange.path {
        return Verdict::Pass;
    }
    exchange.path = path;
    // Apache takes this for the request itself: its variables keep their names.
    state(exchange).path.clear();
    Verdict::Restart
}

/// Type, charset, handler.
fn describe(
    memo: &mut Memo,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &Local,
) {
    let Some(own) = peek(exchange) else { return };
    let mut stamps = Vec::new();
    let facts = match local.mime.use_path_info {
        Some(true) => {
            let name = [own.filename.as_slice(), &exchange.path_info].concat();
            magic::facts(local, host, watcher, &name, &own.filename, &mut stamps)
        }
        _ => magic::facts(
            local,
            host,
            watcher,
            &own.filename,
            &own.filename,
            &mut stamps,
        ),
    };
    let handler = own
        .forced_handler
        .clone()
        .or_else(|| local.core.set_handler.clone().flatten())
        .or(facts.handler.clone());
    let is_program = own.is_program;
    let media_type = local
        .core
        .force_type
        .clone()
        .flatten()
        .or_else(|| own.forced_type.clone())
        .or_else(|| facts.content_type());
    // The old way to PHP: where no handler is named, the type is the handler's name.
    // Last of all, ScriptAlias.
    let handler = if is_program {
        Some("cgi-script".into())
    } else {
        handler.or_else(|| own.is_script_alias.then(|| "cgi-script".into()))
    };
    let (is_page, handler, media_type) =
        includes::page(exchange, watcher, local, handler, media_type);
    exchange.stamps.append(&mut stamps);
    exchange.handler = handler.or_else(|| {
        media_type
            .clone()
            .filter(|media_type| is_program_type(media_type))
    });
    let own = state(exchange);
    own.content_lines = content_lines(&facts);
    own.output_filters = facts.output_filters.clone();
    if is_page
        && !own
            .output_filters
            .iter()
            .any(|name| name.eq_ignore_ascii_case(includes::NAME))
    {
        own.output_filters.push(includes::NAME.into());
    }
    let content_type = media_type.map(|media_type| local.core.with_default_charset(&media_type));
    exchange.settings = memo.typed(&exchange.settings, content_type.as_deref());
    response::encoding::choose(
        memo,
        exchange,
        host,
        watcher,
        local,
        content_type.as_deref(),
    );
    if peek(exchange).is_some_and(|own| !own.is_subrequest) {
        content_filters::wrap_request_body(exchange, host, watcher, local, &facts.input_filters);
    }
}

/// Language and coding of a file's content.
fn content_lines(facts: &Facts) -> Vec<(Box<str>, Box<[u8]>)> {
    let line = |name: &str, values: &[Box<str>]| {
        (!values.is_empty()).then(|| (name.into(), values.join(", ").into_bytes().into()))
    };
    [
        line("Content-Language", &facts.languages),
        line("Content-Encoding", &facts.codings),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Handlers of ours that are no files; every other name that we don't know stands for a file, as in
/// Apache.
fn takes_path_info(handler: &str) -> bool {
    matches!(
        handler,
        "server-status" | "server-info" | "type-map" | "send-as-is" | "imap-file" | "hls-streaming"
    )
}

/// Files have nothing below them unless a handler says so.
fn after_path(exchange: &mut Exchange, local: &Local) -> Verdict {
    if exchange.path_info.is_empty()
        || local.core.accept_path_info == Some(true)
        || exchange.handler.as_deref().is_some_and(takes_path_info)
    {
        return Verdict::Pass;
    }
    if let Some(own) = peek(exchange) {
        let (filename, rest) = (
            String::from_utf8_lossy(&own.filename),
            String::from_utf8_lossy(&exchange.path_info),
        );
        let text = format_args!("File does not exist: {filename}{rest}");
        let is_missing = own.kind.is_none();
        let message = if is_missing {
            &httpd_message::FILE_DOES_NOT_EXIST
        } else {
            &httpd_message::PATH_INFO_REFUSED
        };
        error_log::log_httpd(message, None, exchange, text);
    }
    Verdict::Answer(Response::new(Status::NOT_FOUND))
}
