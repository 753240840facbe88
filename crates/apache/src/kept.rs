//! State of a request that ProxyPass leads to an upstream, before the fixups, which other requests get
//! in place of the phases ([`KeptRules`]).
//!
//! Called by: `rules`, before the phase `fixups`.
//! Caveat: every part of the state is looked at, so that one that is added has to be decided about.
//! Facts of the request that sections, variables, and rules about access look at are recorded as its
//! tests; fields, variables, and the call itself are made by the fixups of each request.
//! Out of scope: hosts whose rules rewrite, which may have changed the query; files for programs.

use crate::{
    proxy::proxied::Proxied,
    state::{State, attach, peek},
};
use saker_apache_model::{dir_config::DirConfig, host::Host, proxy::pass::Encoding};
use saker_pipeline::{Exchange, Extensions, KeptRules, LogRules};
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
        local,
        url_local,
        base,
        filename,
        kind,
        path,
        query,
        led_from,
        context,
        home_of,
        is_script_alias,
        translated,
        proxied,
        is_forwarded,
        rewrite_ended,
        forced_handler,
        forced_type,
        cookies,
        vary,
        decided_by,
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
    let has_any = any!(is_script_alias is_forwarded rewrite_ended edits_ready_heads changes_content
        is_error_page is_ended_by_rule is_rewritten is_subrequest is_answered is_program forbids_storing
        has_hinted);
    let has_none = none!(base kind query led_from context home_of translated forced_handler forced_type
        authentication_info received rewritten_as looked_at_from page looked_up_file asked listing
        kept_content keeps_content answered_as session form form_handler);
    let is_empty = empty!(cookies content_lines output_filters negotiated);
    (!has_any && has_none && is_empty).then(|| {
        Some(Kept {
            local: Arc::clone(local.as_ref()?),
            url_local: url_local.clone(),
            filename: filename.as_slice().into(),
            path: path.as_slice().into(),
            proxied: proxied.clone()?,
            vary: vary.as_slice().into(),
            decided_by: decided_by.clone(),
        })
    })?
}

impl KeptRules for Kept {
    fn apply(&self, extensions: &mut Extensions, _: &mut LogRules) {
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
        attach(extensions, state);
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
