//! State of a request that other requests get in place of the phases ([`KeptRules`]): of one that
//! ProxyPass leads to an upstream, before the fixups; and of one whose file is for a program, at that
//! point of the fixups where this is known.
//!
//! Called by: `rules`, before the phase `fixups`, and `fixups`.
//! Caveat: every part of the state is looked at, so that one that is added has to be decided about.
//! Facts of the request that sections, variables, rules of folders, and rules about access look at are
//! recorded as its tests; fields, and the call itself, are made by the fixups of each request.
//! Out of scope: hosts whose rules rewrite what ProxyPass leads on, which may have changed the query.

use crate::{
    proxy::proxied::Proxied,
    state::{State, attach, peek},
};
use saker_apache_model::{dir_config::DirConfig, host::Host, proxy::pass::Encoding};
use saker_pipeline::{Environment, Exchange, KeptRules, LogRules, OriginalRequest, RuleParts};
use std::{any::Any, rc::Rc, sync::Arc};

struct Kept {
    local: Arc<DirConfig>,
    url_local: Option<Arc<DirConfig>>,
    filename: Box<[u8]>,
    path: Box<[u8]>,
    proxied: Box<Proxied>,
    vary: Box<[String]>,
    decided_by: Option<(Arc<DirConfig>, Box<[u8]>)>,
}

macro_rules! any {
    ($($part:ident)*) => { $(*$part)||* };
}

macro_rules! none {
    ($($part:ident)*) => { $($part.is_none())&&* };
}

macro_rules! empty {
    ($($part:ident)*) => { $($part.is_empty())&&* };
}

/// Returns the state, unless it has something of the request besides its path.
pub fn kept(exchange: &Exchange, host: &Host) -> Option<Rc<dyn KeptRules>> {
    let state = peek(exchange)?;
    let proxied = state.proxied.as_ref()?;
    let rules = host.rewrite.as_ref();
    if rules.is_some_and(|rules| rules.is_enabled())
        // The query is no part of a URL that is kept.
        || proxied.encoding == Encoding::Whole
        || exchange.routing.has_written_query
        || proxied.url.contains(&b'?')
        || exchange.log.rules != LogRules::default()
    {
        return None;
    }
    Some(Rc::new(of_path(state)?))
}

/// Returns the state, if every other part is as it is in a new one. Questions about users may be
/// left, whose requests leave no decision.
fn of_path(state: &State) -> Option<Kept> {
    let State {
        local: _,
        url_local: _,
        base,
        filename: _,
        kind,
        path: _,
        query,
        led_from,
        context,
        home_of,
        is_script_alias,
        translated,
        proxied: _,
        is_forwarded,
        is_decided,
        rewrite_ended,
        forced_handler,
        forced_type,
        cookies,
        vary: _,
        decided_by: _,
        authentication_info,
        received,
        edits_ready_heads,
        content_lines,
        output_filters,
        changes_content,
        negotiated,
        is_error_page,
        answered_as,
        is_ended_by_rule,
        is_rewritten,
        rewritten_as,
        looked_at_from,
        is_subrequest,
        is_candidate,
        is_answered,
        page,
        looked_up_file,
        asked,
        questions: _,
        listing,
        is_program,
        kept_content,
        keeps_content,
        session,
        form,
        form_handler,
        forbids_storing,
        has_hinted,
    } = state;
    let has_any = any!(is_script_alias is_forwarded is_decided rewrite_ended edits_ready_heads changes_content is_error_page
        is_ended_by_rule is_rewritten is_subrequest is_candidate is_answered is_program forbids_storing has_hinted);
    let has_none = none!(base kind query led_from context home_of translated forced_handler forced_type
        authentication_info received rewritten_as looked_at_from page looked_up_file asked listing
        kept_content keeps_content answered_as session form form_handler);
    let is_empty = empty!(cookies content_lines output_filters negotiated);
    (!has_any && has_none && is_empty).then(|| parts_of(state))?
}

fn parts_of(state: &State) -> Option<Kept> {
    Some(Kept {
        local: Arc::clone(state.local.as_ref()?),
        url_local: state.url_local.clone(),
        filename: state.filename.as_slice().into(),
        path: state.path.as_slice().into(),
        proxied: state.proxied.clone()?,
        vary: state.vary.as_slice().into(),
        decided_by: state.decided_by.clone(),
    })
}

impl KeptRules for Kept {
    fn apply(&self, parts: RuleParts<'_>) {
        let state = State {
            local: Some(Arc::clone(&self.local)),
            url_local: self.url_local.clone(),
            filename: self.filename.to_vec(),
            path: self.path.to_vec(),
            proxied: Some(self.proxied.clone()),
            vary: self.vary.to_vec(),
            decided_by: self.decided_by.clone(),
            ..State::default()
        };
        attach(parts.extensions, state);
    }

    fn is_same(&self, other: &dyn KeptRules) -> bool {
        // The memo of the rules gives the same merged settings again.
        other.as_any().downcast_ref::<Kept>().is_some_and(|other| {
            self.filename == other.filename
                && self.path == other.path
                && self.proxied == other.proxied
                && self.vary == other.vary
                && Arc::ptr_eq(&self.local, &other.local)
        })
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        let folder = self
            .decided_by
            .as_ref()
            .map_or(0, |(_, folder)| folder.len());
        let vary = self
            .vary
            .iter()
            .map(|name| size_of::<String>() + name.len());
        size_of::<Kept>()
            + size_of::<Proxied>()
            + self.filename.len()
            + self.path.len()
            + self.proxied.url.len()
            + folder
            + vary.sum::<usize>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The facts of a request whose file is for a program.
struct Program {
    /// Without what belongs to the request alone.
    state: State,
    /// The state has the client's query.
    has_own_query: bool,
    handler: Option<Box<str>>,
    path_info: Vec<u8>,
    environment: Environment,
    original: Option<Box<OriginalRequest>>,
    log_rules: LogRules,
}

/// Returns the state of a request that has got as far as its handler, unless it has something of the
/// request besides its path and its query.
pub fn before_program(exchange: &Exchange) -> Option<Rc<dyn KeptRules>> {
    let state = peek(exchange)?;
    let queries = [
        Some(&state.query),
        state.led_from.as_ref().map(|(_, query)| query),
        Some(&exchange.query),
    ];
    let received = exchange.received_query();
    let has_written_query = exchange.routing.has_written_query;
    let mut all = queries.into_iter().flatten();
    let is_plain = is_of_program(state)
        && (has_written_query || all.all(|query| query.as_deref() == received));
    is_plain.then(|| {
        Rc::new(Program {
            state: State {
                questions: Rc::default(),
                is_decided: true,
                ..state.clone()
            },
            has_own_query: !has_written_query,
            handler: exchange.routing.handler.clone(),
            path_info: exchange.routing.path_info.clone(),
            environment: exchange.environment.clone(),
            original: exchange.log.original.clone(),
            log_rules: exchange.log.rules.clone(),
        }) as Rc<dyn KeptRules>
    })
}

/// Returns true if the parts that tell more of the request than its path are as in a new state.
fn is_of_program(state: &State) -> bool {
    let State {
        local,
        url_local: _,
        base,
        filename: _,
        kind: _,
        path: _,
        query: _,
        led_from: _,
        context: _,
        home_of: _,
        is_script_alias: _,
        translated,
        proxied,
        is_forwarded,
        is_decided,
        rewrite_ended: _,
        forced_handler: _,
        forced_type: _,
        cookies,
        vary: _,
        decided_by: _,
        authentication_info,
        received,
        edits_ready_heads,
        content_lines: _,
        output_filters: _,
        changes_content: _,
        negotiated,
        is_error_page,
        answered_as,
        is_ended_by_rule,
        is_rewritten: _,
        rewritten_as: _,
        looked_at_from,
        is_subrequest,
        is_candidate,
        is_answered,
        page,
        looked_up_file,
        asked,
        questions: _,
        listing,
        is_program,
        kept_content,
        keeps_content,
        session,
        form,
        form_handler,
        forbids_storing,
        has_hinted,
    } = state;
    let has_any = any!(is_forwarded is_decided edits_ready_heads is_error_page is_ended_by_rule is_subrequest
        is_candidate is_answered is_program forbids_storing has_hinted);
    let has_none = none!(base translated proxied authentication_info received looked_at_from page
        looked_up_file asked listing kept_content keeps_content answered_as session form form_handler);
    let is_empty = empty!(cookies negotiated);
    local.is_some() && !has_any && has_none && is_empty
}

impl KeptRules for Program {
    fn apply(&self, parts: RuleParts<'_>) {
        let mut state = self.state.clone();
        state.questions = Rc::default();
        let mut original = self.original.clone();
        if self.has_own_query {
            state.query = parts.query.map(Into::into);
            if let Some((_, query)) = &mut state.led_from {
                *query = parts.query.map(Into::into);
            }
            if let Some(original) = &mut original {
                original.query = parts.query.map(Into::into);
            }
        }
        parts.handler.clone_from(&self.handler);
        parts.path_info.clone_from(&self.path_info);
        parts.environment.clone_from(&self.environment);
        *parts.original = original;
        parts.log_rules.clone_from(&self.log_rules);
        attach(parts.extensions, state);
    }

    fn is_same(&self, other: &dyn KeptRules) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Program>() else {
            return false;
        };
        let (one, two) = (&self.state, &other.state);
        let has_same_local = match (&one.local, &two.local) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        let path = |state: &State| state.led_from.as_ref().map(|(path, _)| path.clone());
        let redirected = |program: &Program| program.original.as_ref().map(|one| one.path.clone());
        has_same_local
            && one.filename == two.filename
            && one.kind == two.kind
            && one.path == two.path
            && path(one) == path(two)
            && one.context == two.context
            && one.home_of == two.home_of
            && one.is_script_alias == two.is_script_alias
            && one.rewrite_ended == two.rewrite_ended
            && one.vary == two.vary
            && one.content_lines == two.content_lines
            && one.output_filters == two.output_filters
            && self.has_own_query == other.has_own_query
            && self.handler == other.handler
            && self.path_info == other.path_info
            && self.environment == other.environment
            && redirected(self) == redirected(other)
            && self.log_rules == other.log_rules
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        let variables = [
            Some(&self.environment),
            self.original.as_ref().map(|one| &one.environment),
        ];
        let variables = variables.into_iter().flatten().flat_map(Environment::iter);
        let texts = [&self.state.filename, &self.state.path, &self.path_info];
        size_of::<Program>()
            + texts.iter().map(|text| text.len()).sum::<usize>()
            + self
                .state
                .vary
                .iter()
                .map(|name| size_of::<String>() + name.len())
                .sum::<usize>()
            + variables
                .map(|(name, value)| 16 + name.len() + value.len())
                .sum::<usize>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
