//! Routes and redirects of a site, made of the tables that were read.
//!
//! Called by: `site`, after all other keys of the site have been read.
//! Caveat: routes inside of a route come before it, inherit its settings, and match only what it
//! matches, too.
//! Out of scope: the keys (`route`, `redirect`); texts with variables, which `resolve/templates`
//! links.

use super::{
    logs::ReadAccessLog,
    map::LocatedTemplate,
    matcher::{self, NamedMatchers},
    request_edits::RequestDraft,
    route::RouteDraft,
    route_action,
};
use crate::{
    context::{Contexts, REDIRECT, ROUTE},
    model::{Action, Matcher, PathPattern, Route, Settings},
    preset,
    reader::{Reader, Table},
    source::Location,
};
use std::{collections::BTreeMap, sync::Arc};

/// Routes inside of each other.
const DEPTH_MAX: usize = 8;

/// Access logs that routes share.
pub type RouteLogs = Arc<Vec<ReadAccessLog>>;

/// Settings that a route inherits from the site, or from the route around it.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    pub settings: Arc<Settings>,
    pub vars: BTreeMap<String, LocatedTemplate>,
    patterns: Vec<PathPattern>,
    matcher: Option<Matcher>,
    /// Access logs instead of those of the site.
    access_logs: Option<RouteLogs>,
    is_internal: bool,
    depth: usize,
}

/// A route, and its texts that wait for the names of the whole configuration.
#[derive(Debug)]
pub struct ReadRoute {
    pub route: Route,
    pub templates: Arc<RouteTemplates>,
    /// Access logs instead of those of the site.
    pub access_logs: Option<RouteLogs>,
}

/// Locations of a route's texts with variables.
#[derive(Debug, Default)]
pub struct RouteTemplates {
    /// The text of `redirect` or `respond`.
    pub action: Option<Location>,
    /// The text of `rewrite`, or each element of `try_files`.
    pub rewrite: Vec<Location>,
    pub vars: BTreeMap<String, LocatedTemplate>,
    pub request: Option<RequestDraft>,
}

/// Reads one `[[site.route]]` and the routes inside of it, which come first. Returns nothing without
/// a valid pattern or action, which has been reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: Location,
    around: &Inherited,
    named: &NamedMatchers,
) -> Vec<ReadRoute> {
    let mut draft = RouteDraft::below(around);
    let preset = preset::source_of_route(reader, table);
    let of_preset = preset
        .as_ref()
        .map(|source| (source, preset::parsed(source, table)));
    if let Some((source, table)) = &of_preset {
        reader.within(source, |reader| {
            reader.fill(table, ROUTE, &header, &mut draft)
        });
    }
    reader.fill(table, ROUTE, &header, &mut draft);
    check_path(reader, table, &draft, &header, ROUTE);
    super::compression::check(reader, table, &draft.settings.compression);
    let own = super::when::read(reader, table, named);
    draft.settings.conditionals.extend(own);
    super::when::check_count(reader, draft.settings.conditionals.len(), &header);
    let access_logs = draft.own_logs(reader, named);
    let around = &Inherited {
        access_logs: access_logs.or(around.access_logs.clone()),
        ..around.clone()
    };
    let mut inner = reader.sections(table, "route", ROUTE);
    if let Some((source, table)) = &of_preset {
        inner = preset::around(inner, preset::routes(table, source), |(table, _)| table);
    }
    if inner.is_empty() {
        return finish(reader, draft, header, ROUTE, (around, named));
    }
    if around.depth + 1 >= DEPTH_MAX {
        let message = format!("routes are nested more than {DEPTH_MAX} deep");
        reader.error(&header, message, None);
        return Vec::new();
    }
    // The routes inside find their files below the same directory.
    if let Some(root) = route_action::root(reader, &draft) {
        draft.settings.root = Some(Arc::new(root));
        (draft.root, draft.alias) = (None, None);
    }
    let inherited = Inherited {
        settings: Arc::new(draft.settings.clone()),
        vars: draft.vars_below(around),
        patterns: draft.patterns_below(around),
        matcher: draft.matcher_below(reader, around, named),
        access_logs: around.access_logs.clone(),
        is_internal: draft.is_internal || around.is_internal,
        depth: around.depth + 1,
    };
    // The conditions were resolved, and complaints about them made.
    draft.matcher = None;
    let mut routes = Vec::new();
    for (table, at) in inner {
        let source = Arc::clone(&at.source);
        let read = reader.within(&source, |reader| read(reader, table, at, &inherited, named));
        routes.extend(read);
    }
    let own = Inherited {
        matcher: inherited.matcher.clone(),
        ..around.clone()
    };
    routes.extend(finish(reader, draft, header, ROUTE, (&own, named)));
    routes
}

/// Reports a route without a path or a condition.
pub(super) fn check_path(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    draft: &RouteDraft,
    header: &Location,
    context: Contexts,
) {
    let (path, regex) = match context == REDIRECT {
        true => ("from", "from_regex"),
        false => ("path", "path_regex"),
    };
    let has = |name| reader.is_mentioned(table, name, context);
    if has(path) && has(regex) && draft.patterns.len() > 1 {
        let at = draft.patterns.last().map_or(header, |(_, at)| at).clone();
        let message = format!("both `{path}` and `{regex}`");
        reader.error(&at, message, Some("keep one of them".into()));
        return;
    }
    if has(path) || has(regex) || has("match") || (context == ROUTE && has("name")) {
        return;
    }
    let example = if context == REDIRECT {
        "/old/*"
    } else {
        "/img/*"
    };
    reader.error(
        header,
        format!("missing `{path}` {}", context.location()),
        Some(format!("add {path} = \"{example}\"")),
    );
}

pub(super) fn finish(
    reader: &mut Reader<'_>,
    mut draft: RouteDraft,
    header: Location,
    context: Contexts,
    (around, named): (&Inherited, &NamedMatchers),
) -> Vec<ReadRoute> {
    route_action::check(reader, &draft);
    let (action, rewrite) = (
        route_action::action(reader, &draft),
        route_action::rewrite(reader, &draft),
    );
    let only = match draft.patterns.as_slice() {
        [(pattern, _)] => Some(pattern.clone()),
        _ => None,
    };
    if let Some(root) = route_action::root(reader, &draft) {
        draft.settings.root = Some(Arc::new(root));
    }
    super::signed_urls::apply_default_prefix(&mut draft.settings.links.signed, only.as_ref());
    if context == REDIRECT && action == Action::Files {
        return Vec::new();
    }
    let is_named_only =
        draft.name.is_some() && draft.patterns.is_empty() && draft.matcher.is_none();
    let matcher = draft.matcher_below(reader, around, named);
    let mut patterns = draft.patterns_below(around);
    if patterns.is_empty() {
        if matcher.is_none() && !is_named_only {
            return Vec::new();
        }
        patterns.push(PathPattern::Prefix(String::new()));
    }
    let templates = Arc::new(RouteTemplates {
        action: draft
            .redirect
            .as_ref()
            .or(draft.respond.as_ref())
            .map(|(_, at)| at.clone()),
        rewrite: route_action::locations(&draft),
        vars: draft.vars_below(around),
        request: draft.request.take(),
    });
    let settings = Arc::new(draft.settings);
    let rewrite = rewrite.map(Arc::new);
    let route = |(at, pattern)| ReadRoute {
        route: Route {
            name: draft
                .name
                .as_ref()
                .filter(|_| at == 0)
                .map(|(name, _)| name.as_str().into()),
            is_named_only,
            matcher: matcher.clone(),
            rewrite: rewrite.clone(),
            is_internal: draft.is_internal || around.is_internal,
            ..Route::new(
                pattern,
                action.clone(),
                Arc::clone(&settings),
                header.origin(),
            )
        },
        templates: Arc::clone(&templates),
        access_logs: around.access_logs.clone(),
    };
    patterns.into_iter().enumerate().map(route).collect()
}

impl Inherited {
    /// The start of all routes of a site.
    pub fn of_site(
        settings: Arc<Settings>,
        vars: impl IntoIterator<Item = (String, LocatedTemplate)>,
    ) -> Inherited {
        Inherited {
            settings,
            vars: vars.into_iter().collect(),
            ..Inherited::default()
        }
    }
}

impl RouteDraft {
    pub(super) fn below(around: &Inherited) -> RouteDraft {
        RouteDraft {
            settings: Settings::clone(&around.settings),
            ..RouteDraft::default()
        }
    }

    /// The access logs of the route itself, with their conditions.
    fn own_logs(&mut self, reader: &mut Reader<'_>, named: &NamedMatchers) -> Option<RouteLogs> {
        let mut logs = self.access_logs.take()?;
        logs.iter_mut().for_each(|log| log.resolve(reader, named));
        Some(Arc::new(logs))
    }

    fn vars_below(&self, around: &Inherited) -> BTreeMap<String, LocatedTemplate> {
        let mut vars = around.vars.clone();
        vars.extend(self.vars.iter().cloned());
        vars
    }

    fn patterns_below(&self, around: &Inherited) -> Vec<PathPattern> {
        match self.patterns.is_empty() {
            true => around.patterns.clone(),
            false => self
                .patterns
                .iter()
                .map(|(pattern, _)| pattern.clone())
                .collect(),
        }
    }

    /// The own conditions and those around. A route with a path of its own must also match a path
    /// of the route around it.
    fn matcher_below(
        &self,
        reader: &mut Reader<'_>,
        around: &Inherited,
        named: &NamedMatchers,
    ) -> Option<Matcher> {
        let mut all: Vec<Matcher> = around.matcher.iter().cloned().collect();
        if !self.patterns.is_empty() && !around.patterns.is_empty() {
            all.push(Matcher::Path(around.patterns.clone().into()));
        }
        if let Some((tree, at)) = &self.matcher {
            all.push(matcher::resolve(reader, tree.clone(), at, named));
        }
        match all.len() {
            0 => None,
            1 => all.pop(),
            _ => Some(Matcher::All(all.into())),
        }
    }
}
