//! Between access and content: rules of folders, redirects of sections, folders and their index
//! files, types and handlers.

use crate::{
    content::content,
    early_hints,
    facts::RequestFacts,
    file_type::describe,
    kept, kept_content, listing, meta_variables,
    modules::{
        self,
        dir::{bare_folder, folder},
    },
    multiviews,
    proxy::call,
    redirect::redirect_with_query,
    response,
    rewriting::rewrite_folder,
    state::{peek, snapshot, state},
    verdict::Verdict,
    webdav,
    worker::ApacheRules,
};
use saker_ap_expr::{Evaluation, LimitReached, StringExpression};
use saker_apache_model::{dir_config::DirConfig, host::Host, modules::alias::Alias};
use saker_content_filters::catalog;
use saker_files::{Kind, Watcher};
use saker_pipeline::Exchange;
use std::sync::Arc;

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
    meta_variables::tell_logs(exchange, host);
    let Some(local) = peek(exchange).and_then(|state| state.local.clone()) else {
        return Verdict::Pass;
    };
    if peek(exchange).is_some_and(|state| state.is_decided) {
        return program(rules, exchange, host, watcher, &local);
    }
    if let Some(handler) = peek(exchange).and_then(|state| state.form_handler) {
        return modules::access::form::answer(rules, exchange, host, &local, handler);
    }
    if !is_proxied(exchange)
        && let Some(verdict) = kept_content::keep(exchange, &local)
    {
        return verdict;
    }
    if let Some(pause) = modules::session::load_of_user(exchange, host, &local) {
        return Verdict::Wait(pause);
    }
    modules::session::describe(exchange);
    of_file(rules, exchange, host, watcher, local)
}

/// The fixups of a request, unless another server answers it.
fn of_file(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: Arc<DirConfig>,
) -> Verdict {
    if is_proxied(exchange) {
        return proxied(rules, exchange, host, watcher, &local);
    }
    let is_webdav = webdav::takes(exchange);
    let negotiated = match is_webdav {
        true => None,
        false => multiviews::negotiate(rules, exchange, host, watcher, &local),
    };
    match negotiated {
        Some(Verdict::Pass) => return rest(rules, exchange, host, watcher, local),
        Some(verdict) => return verdict,
        None => {}
    }
    let bare = bare_directory(exchange, &local);
    let before = has_redirects(host, &local).then(|| exchange.path.clone());
    match rewrite_folder(rules, exchange, host, watcher, &local) {
        Verdict::Pass => {}
        Verdict::Restart => {
            // mod_alias sees the path that it was; the query is the new one.
            if let Some(before) = before {
                let rewritten = std::mem::replace(&mut exchange.path, before);
                if let Some(redirected) = section_redirect(exchange, host, watcher, &local) {
                    return redirected;
                }
                exchange.path = rewritten;
            }
            // mod_dir runs after mod_rewrite's fixup, and before the redirect that it asked for.
            if let Some(bare) = bare {
                exchange.path = bare;
                return modules::dir::add_slash(exchange, host, &local);
            }
            // Apache begins anew only after all fixups have run.
            modules::env::apply(&local.env, exchange);
            return Verdict::Restart;
        }
        verdict => return verdict,
    }
    if is_proxied(exchange) {
        return proxied(rules, exchange, host, watcher, &local);
    }
    modules::env::apply(&local.env, exchange);
    modules::ssl::fixups(exchange, &local);
    modules::usertrack::spot(exchange, &local);
    if let Some(redirected) = section_redirect(exchange, host, watcher, &local) {
        return redirected;
    }
    let folder = match is_webdav {
        true => bare_folder(exchange, host, &local),
        false => folder(rules, exchange, host, &local),
    };
    match folder {
        Verdict::Pass => {}
        verdict => return verdict,
    }
    if !is_webdav
        && let Some(corrected) = modules::speling::correct(exchange, host, watcher, &local)
    {
        return corrected;
    }
    rest(rules, exchange, host, watcher, local)
}

/// The path of a directory without the slash that mod_dir adds.
fn bare_directory(exchange: &Exchange, local: &DirConfig) -> Option<Vec<u8>> {
    let is_bare = !exchange.path.ends_with(b"/")
        && local.dir.slash != Some(false)
        && peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    is_bare.then(|| exchange.path.clone())
}

fn is_proxied(exchange: &Exchange) -> bool {
    peek(exchange).is_some_and(|state| state.proxied.is_some())
}

/// Fixups of a proxied request: it has no file, so neither folders nor types have a say.
fn proxied(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<DirConfig>,
) -> Verdict {
    // As in Apache this is done before SetEnv.
    call::find_path_info(exchange);
    modules::env::apply(&local.env, exchange);
    modules::ssl::fixups(exchange, local);
    if let Some(redirected) = section_redirect(exchange, host, watcher, local) {
        return redirected;
    }
    if peek(exchange).is_some_and(|state| state.is_subrequest) {
        // The lookup only has to know that the request would be answered.
        return Verdict::Pass;
    }
    if local.proxy_html.is_on() {
        let filters = &mut state(exchange).output_filters;
        if !filters
            .iter()
            .any(|name| **name == *catalog::PROXY_HTML.name)
        {
            filters.push(catalog::PROXY_HTML.name.into());
        }
    }
    if let Err(pause) =
        response::request::edit(rules, exchange, host, &local.headers.request, false)
    {
        return Verdict::Wait(pause);
    }
    crate::modules::access::fake::fake_credentials(exchange, host, watcher, local);
    crate::content_filters::input::wrap_request_body(exchange, host, watcher, local, &[]);
    response::encoding::choose(
        &mut rules.memo.borrow_mut(),
        exchange,
        host,
        watcher,
        local,
        None,
    );
    response::prepare(exchange, host, watcher, local);
    early_hints::send(exchange, local);
    content(rules, exchange, host, watcher, local)
}

/// The fixups that follow once it is known which file answers.
fn rest(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: Arc<DirConfig>,
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
    if exchange.routing.handler.is_some() {
        exchange.keep_before_program(kept::before_program);
    }
    program(rules, exchange, host, watcher, &local)
}

/// The fixups of each request for a file whose handler is known: edits, and the handler itself.
fn program(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<DirConfig>,
) -> Verdict {
    if !peek(exchange).is_some_and(|state| state.is_subrequest)
        && let Err(pause) =
            response::request::edit(rules, exchange, host, &local.headers.request, false)
    {
        return Verdict::Wait(pause);
    }
    crate::modules::access::fake::fake_credentials(exchange, host, watcher, local);
    if exchange.environment.has_repeated() && is_told_variables(exchange, local) {
        exchange.environment.settle();
    }
    response::prepare(exchange, host, watcher, local);
    early_hints::send(exchange, local);
    match call::again(rules, exchange, host, local) {
        true => Verdict::Pass,
        false => content(rules, exchange, host, watcher, local),
    }
}

/// True if a program or a page with includes answers: from then on its variables are all that is
/// known, as in Apache.
fn is_told_variables(exchange: &Exchange, local: &DirConfig) -> bool {
    let handler = exchange.routing.handler.as_deref();
    let is_program = handler.is_some_and(|name| {
        matches!(name, "cgi-script" | "server-parsed")
            || name.contains("php")
            || name.contains("fcgi:")
    });
    let set = local.filters.set.iter().flatten();
    let own = peek(exchange).map_or(&[][..], |own| &own.output_filters);
    let is_include = |name: &str| name.eq_ignore_ascii_case(catalog::INCLUDES.name);
    is_program || own.iter().chain(set).any(|name| is_include(name))
}

/// The number of redirects that sections add to the host's own.
fn own_redirects(host: &Host, local: &DirConfig) -> usize {
    let all = local.alias.redirects.len();
    all.saturating_sub(host.defaults.alias.redirects.len())
}

fn has_redirects(host: &Host, local: &DirConfig) -> bool {
    own_redirects(host, local) > 0
}

/// Redirect and RedirectMatch of folders, files and locations; the host's own came before.
fn section_redirect(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) -> Option<Verdict> {
    let own = own_redirects(host, local);
    if own == 0 {
        return None;
    }
    let mut of_sections = local.alias.clone();
    of_sections.redirects.truncate(own);
    redirect_of(exchange, host, watcher, &of_sections)
}

/// `Redirect URL` of locations: as in Apache, before the host's own redirects.
pub fn location_redirect(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
) -> Option<Verdict> {
    let local = peek(exchange)?.url_local.clone()?;
    let own = own_redirects(host, &local);
    if own == 0 {
        return None;
    }
    let mut of_sections = local.alias.clone();
    of_sections.redirects.truncate(own);
    let of_sections = of_sections.of_section_alone();
    if of_sections.redirects.is_empty() {
        return None;
    }
    let sections = host.locations.iter();
    for section in sections.filter(|section| section.is_for_path(&exchange.path) == Ok(true)) {
        for (name, value) in section.named_captures(&exchange.path) {
            exchange.environment.set_known(name.as_bytes(), &value);
        }
    }
    redirect_of(exchange, host, watcher, &of_sections)
}

fn redirect_of(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    of_sections: &Alias,
) -> Option<Verdict> {
    let mut redirects = of_sections.redirects.iter();
    if redirects.any(|redirect| redirect.expression.is_some()) {
        exchange.depends_on_request();
    }
    let evaluate = |expression: &StringExpression| {
        let state = snapshot(exchange);
        let seen = RequestFacts::new(exchange, &state, host, watcher);
        expression.evaluate(&mut Evaluation::new(&seen)).ok()
    };
    let redirected = of_sections.redirect(&exchange.path, exchange.query.as_deref(), evaluate);
    match redirected {
        Ok(redirected) => Some(redirect_with_query(exchange, host, redirected?)),
        Err(LimitReached) => {
            exchange.budget().work().give_up();
            None
        }
    }
}
