//! Texts with variables, linked to the names of the whole configuration: `vars`, maps, and the
//! groups of path patterns. Also names of routes.
//!
//! Called by: `resolve::all`, when all files have been read, as a map may be in another file.
//! Caveat: a text is linked once for each route that inherits it; the same mistake is reported once.

use super::conditions::all_conditions;
use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity, quoted},
    directives::{
        map::{LocatedTemplate, MapDraft},
        read_route::RouteTemplates,
        request_edits::{Edit, RequestDraft},
        site::SiteDraft,
    },
    model::{
        Action, Edits, ErrorPage, Fallback, RequestEdits, Rewrite, RewriteTarget, Route, Settings,
        SettingsChange, Template,
    },
    source::{Location, Source},
    suggest,
};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_matchers::{Lookup, Matcher, Names, TemplateError, ValueMap, Variable};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

pub(super) fn resolve(configuration: &mut Configuration) {
    let mut linker = Linker {
        texts: std::mem::take(&mut configuration.texts),
        ..Linker::default()
    };
    let maps = Arc::new(linker.maps(std::mem::take(&mut configuration.maps)));
    let mut sites = std::mem::take(&mut configuration.sites);
    for site in &mut sites {
        linker.site(site, &maps);
    }
    configuration.sites = sites;
    configuration.diagnostics.append(&mut linker.diagnostics);
    configuration.texts = linker.texts;
}

#[derive(Default)]
struct Linker {
    texts: Vec<Arc<Source>>,
    diagnostics: Vec<Diagnostic>,
    /// Names of routes that error pages of the site name in vain, reported once: routes inherit
    /// error pages.
    unknown_pages: HashSet<Box<str>>,
    /// Places and messages of errors that have been reported.
    reported: HashSet<(usize, usize, String)>,
}

type Maps = BTreeMap<String, Arc<dyn Lookup>>;

impl Linker {
    fn error(&mut self, at: &Location, message: String, help: Option<String>) {
        let key = (at.source.order, at.span.start, message.clone());
        if self.reported.insert(key) {
            self.diagnostics
                .push(Diagnostic::new(Severity::Error, at, message, help));
        }
    }

    fn template_error(&mut self, at: &Location, text: &str, error: TemplateError) {
        self.error(&at.within(text, &error.at), error.message, error.help);
    }

    /// Links a text. One with an error stays as it is; the configuration will not be used.
    fn link(&mut self, template: &Template, at: &Location, names: &Names) -> Template {
        template.link(names).unwrap_or_else(|error| {
            self.template_error(at, template.text(), error);
            template.clone()
        })
    }

    fn reserved(&mut self, name: &str, at: &Location) {
        if Variable::from_name(name).is_some() {
            self.error(
                at,
                format!("`{name}` is a variable of requests"),
                Some("choose another name".into()),
            );
        }
    }

    /// Links maps, which may use each other, in rounds: each links those that use only linked ones.
    fn maps(&mut self, mut open: Vec<(String, MapDraft, Location)>) -> Maps {
        let mut maps = Maps::new();
        let mut places: HashMap<String, Location> = HashMap::new();
        for (name, _, at) in &open {
            self.reserved(name, at);
            if let Some(first) = places.insert(name.clone(), at.clone()) {
                let help = format!("the first is at {}", first.origin());
                self.error(at, format!("duplicate map `{name}`"), Some(help));
            }
        }
        while !open.is_empty() {
            let names: HashSet<String> = open.iter().map(|(name, ..)| name.clone()).collect();
            let is_ready = |(_, map, _): &(String, MapDraft, Location)| {
                !templates_of(map)
                    .any(|(template, _)| template.names().any(|(name, _)| names.contains(name)))
            };
            let (ready, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(is_ready);
            if ready.is_empty() {
                for (name, _, at) in &rest {
                    self.error(at, format!("map `{name}` uses itself"), None);
                }
                break;
            }
            for (name, map, _) in ready {
                let linked = self.map(&map, &maps);
                maps.insert(name, Arc::new(linked) as Arc<dyn Lookup>);
            }
            open = rest;
        }
        maps
    }

    fn map(&mut self, map: &MapDraft, maps: &Maps) -> ValueMap {
        let names = Names {
            maps: Arc::new(maps.clone()),
            ..Names::default()
        };
        let mut located = |template: &Option<LocatedTemplate>| {
            template
                .as_ref()
                .map(|(template, at)| self.link(template, at, &names))
                .unwrap_or_default()
        };
        let (source, default) = (located(&map.source), located(&map.default));
        let mut values = |list: &[(String, LocatedTemplate)]| -> Vec<(String, Template)> {
            list.iter()
                .map(|(key, (template, at))| (key.clone(), self.link(template, at, &names)))
                .collect()
        };
        let exact = values(&map.exact);
        let (prefixes, suffixes) = (values(&map.prefix), values(&map.suffix));
        let mut patterns = Vec::with_capacity(map.regex.len());
        for (text, (template, at)) in &map.regex {
            // The key's grammar has compiled it before.
            let Ok(pattern) = Pattern::compile(text, PatternOptions::HTTPD) else {
                continue;
            };
            let names = Names {
                groups: pattern.groups(),
                group_names: pattern
                    .names()
                    .map(|(group, name)| (group, name.to_owned()))
                    .collect(),
                ..names.clone()
            };
            let value = self.link(template, at, &names);
            patterns.push((pattern, value));
        }
        let mut entries = HashMap::with_capacity(exact.len());
        for (key, value) in exact {
            // The first line of a text counts.
            entries
                .entry(key.into_bytes().into_boxed_slice())
                .or_insert(value);
        }
        ValueMap::new(source, entries, prefixes, suffixes, patterns, default)
    }

    fn site(&mut self, site: &mut SiteDraft, maps: &Arc<Maps>) {
        let site_vars = site.vars.iter().cloned().collect();
        let names = self.vars(Names::default(), &site_vars, maps);
        self.fields(&mut site.settings, &names);
        self.texts(&mut site.settings, &names);
        self.conditionals(&mut site.settings, &names);
        let route_names: Vec<Box<str>> = site
            .routes
            .iter()
            .filter_map(|route| route.name.clone())
            .collect();
        self.duplicate_routes(site);
        self.unknown_pages.clear();
        self.error_pages(&site.settings, &site.at, &route_names);
        for (route, templates) in site.routes.iter_mut().zip(&site.route_templates) {
            self.route(route, templates, maps, &route_names, &site.at);
        }
        self.variable_tests(site, maps);
    }

    /// Links variables, which may use each other.
    fn vars(
        &mut self,
        mut names: Names,
        vars: &BTreeMap<String, LocatedTemplate>,
        maps: &Arc<Maps>,
    ) -> Names {
        names.maps = Arc::clone(maps);
        let mut open: Vec<(&String, &LocatedTemplate)> = vars.iter().collect();
        for (name, (_, at)) in &open {
            self.reserved(name, at);
            if maps.contains_key(*name) {
                self.error(at, format!("`{name}` is the name of a map, too"), None);
            }
        }
        while !open.is_empty() {
            let unlinked: HashSet<&str> = open.iter().map(|(name, _)| name.as_str()).collect();
            let (ready, rest): (Vec<_>, Vec<_>) = open
                .iter()
                .copied()
                .partition(|(_, (one, _))| !one.names().any(|(name, _)| unlinked.contains(name)));
            if ready.is_empty() {
                for (name, (_, at)) in &rest {
                    self.error(at, format!("variable `{name}` uses itself"), None);
                }
                break;
            }
            for (name, (template, at)) in ready {
                let linked = self.link(template, at, &names);
                names.vars.insert(name.clone(), Arc::new(linked));
            }
            open = rest;
        }
        names
    }

    fn route(
        &mut self,
        route: &mut Route,
        templates: &RouteTemplates,
        maps: &Arc<Maps>,
        routes: &[Box<str>],
        site_at: &Location,
    ) {
        let groups = Names {
            groups: route.pattern.stars(),
            group_names: route
                .pattern
                .names()
                .into_iter()
                .map(|(group, name)| (group, name.to_owned()))
                .collect(),
            ..Names::default()
        };
        for (_, name) in &groups.group_names {
            if Variable::from_name(name).is_some() {
                self.error(
                    &self.location_of(&route.origin).unwrap_or(site_at.clone()),
                    format!("the group `{name}` has the name of a variable"),
                    Some("choose another name".into()),
                );
            }
        }
        let names = self.vars(groups, &templates.vars, maps);
        if let (Action::Redirect(redirect), Some(at)) = (&mut route.action, &templates.action) {
            redirect.to = self.link(&redirect.to, at, &names);
        }
        if let (Action::Respond { body, .. }, Some(at)) = (&mut route.action, &templates.action) {
            *body = self.link(body, at, &names);
        }
        let mut captures = false;
        if let Some(rewrite) = &mut route.rewrite {
            let linked = self.rewrite(rewrite, &templates.rewrite, &names, routes);
            captures = !matches!(route.action, Action::Files);
            *rewrite = Arc::new(linked);
        }
        if let Some(request) = &templates.request {
            let edits = self.request(request, &names);
            captures |= !edits.fields.is_empty()
                || !edits.parameters.is_empty()
                || !edits.cookies.is_empty();
            route.request = Some(Arc::new(edits));
        }
        let has_fields = route
            .settings
            .fields
            .iter()
            .any(|edit| edit.template.is_some());
        if has_fields {
            self.fields(Arc::make_mut(&mut route.settings), &names);
        }
        if !route.settings.conditionals.is_empty() {
            self.conditionals(Arc::make_mut(&mut route.settings), &names);
        }
        if route.settings.has_texts() {
            let settings = Arc::make_mut(&mut route.settings);
            self.texts(settings, &names);
            settings.visit_texts(|text, _| captures |= text.uses_captures());
        }
        route.keeps_captures = captures && route.pattern.stars() > 0;
        self.error_pages(&route.settings, site_at, routes);
    }

    /// Links the names that conditions test.
    fn variable_tests(&mut self, site: &SiteDraft, maps: &Arc<Maps>) {
        let names = Names {
            maps: Arc::clone(maps),
            ..Names::default()
        };
        for conditions in all_conditions(site) {
            let at = self
                .location_of(conditions.origin)
                .unwrap_or(site.at.clone());
            conditions.matcher.visit(&mut |inner| {
                let Matcher::Variable(test) = inner else {
                    return;
                };
                let linked = Template::parse(&format!("${{{}}}", test.name))
                    .and_then(|template| template.link(&names));
                match linked {
                    Ok(template) if template.uses_user() && !conditions.is_of_log => {
                        let name = &test.name;
                        let message = format!("`{name}` is unknown when conditions are tested");
                        let help = "users log in later: `users`, `groups`, and `claims` of [site.route.auth] decide";
                        self.error(&at, message, Some(help.into()));
                    }
                    Ok(template) => test.attach(template),
                    Err(error) => self.error(&at, error.message, error.help),
                }
            });
        }
    }

    fn rewrite(
        &mut self,
        rewrite: &Rewrite,
        places: &[Location],
        names: &Names,
        routes: &[Box<str>],
    ) -> Rewrite {
        match rewrite {
            Rewrite::To(target) => match places.first() {
                Some(at) => Rewrite::To(self.target(target, at, names)),
                None => rewrite.clone(),
            },
            Rewrite::TryFiles {
                candidates,
                fallback,
            } => {
                let mut candidates = candidates.clone();
                for (candidate, at) in candidates.iter_mut().zip(places) {
                    candidate.path = self.link(&candidate.path, at, names);
                    self.refuse_encoded(&candidate.path, at);
                }
                let fallback = match (fallback, places.last()) {
                    (Fallback::Target(target), Some(at)) => {
                        Fallback::Target(self.target(target, at, names))
                    }
                    (Fallback::Route(name), Some(at)) => {
                        self.known_route(name, at, routes);
                        fallback.clone()
                    }
                    _ => fallback.clone(),
                };
                Rewrite::TryFiles {
                    candidates,
                    fallback,
                }
            }
        }
    }

    fn request(&mut self, request: &RequestDraft, names: &Names) -> RequestEdits {
        let mut edits = |list: &[Edit]| -> Edits {
            list.iter()
                .map(|(name, value)| {
                    let value = value
                        .as_ref()
                        .map(|(template, at)| self.link(template, at, names));
                    (name.as_str().into(), value)
                })
                .collect()
        };
        RequestEdits {
            fields: edits(&request.headers),
            parameters: edits(&request.query),
            cookies: edits(&request.cookies),
            method: request.method.as_deref().map(Into::into),
        }
    }

    fn target(&mut self, target: &RewriteTarget, at: &Location, names: &Names) -> RewriteTarget {
        let path = self.link(&target.path, at, names);
        self.refuse_encoded(&path, at);
        RewriteTarget {
            path,
            query: target
                .query
                .as_ref()
                .map(|query| self.link(query, at, names)),
        }
    }

    /// File paths are decoded; a percent sign in them is the character itself.
    fn refuse_encoded(&mut self, path: &Template, at: &Location) {
        if path.uses_encoded() {
            self.error(
                at,
                "a value that is percent-encoded in a decoded path".into(),
                Some(
                    "write `$uri` for the path, and `$args` behind a `?`: `$uri?$args` is the \
                     decoded form of `$request_uri`"
                        .into(),
                ),
            );
        }
    }

    fn fields(&mut self, settings: &mut Settings, names: &Names) {
        for edit in &mut settings.fields {
            let Some(template) = edit.template.take() else {
                continue;
            };
            let linked = match self.location_of(&edit.origin) {
                Some(at) => self.link(&template, &at, names),
                None => template
                    .link(names)
                    .unwrap_or_else(|_| Template::clone(&template)),
            };
            match (linked.constant(), edit.action.value_mut()) {
                (Some(text), Some(value)) => text.clone_into(value),
                _ => edit.template = Some(Arc::new(linked)),
            }
        }
    }

    fn texts(&mut self, settings: &mut Settings, names: &Names) {
        settings.visit_texts(|text, origin| match self.location_of(origin) {
            Some(at) => *text = self.link(text, &at, names),
            None => {
                if let Ok(linked) = text.link(names) {
                    *text = linked;
                }
            }
        });
    }

    /// Reports errors in the texts of conditional changes, and links these texts whenever a change
    /// is applied.
    fn conditionals(&mut self, settings: &mut Settings, names: &Names) {
        if settings.conditionals.is_empty() {
            return;
        }
        let shared = Arc::new(names.clone());
        for conditional in &mut settings.conditionals {
            let mut changed = Settings::default();
            conditional.change.apply(&mut changed);
            self.fields(&mut changed, names);
            self.texts(&mut changed, names);
            let (change, names) = (conditional.change.clone(), Arc::clone(&shared));
            conditional.change = SettingsChange::new(move |settings| {
                change.apply(settings);
                link_all(settings, &names);
            });
        }
    }

    fn location_of(&self, origin: &crate::model::Origin) -> Option<Location> {
        let source = self
            .texts
            .iter()
            .find(|source| source.name == origin.file)?;
        source.locate(origin)
    }

    fn known_route(&mut self, name: &str, at: &Location, routes: &[Box<str>]) {
        if routes.iter().any(|known| **known == *name) {
            return;
        }
        let near = suggest::nearest(name, routes.iter().map(|name| &**name));
        let help = near.map_or_else(
            || format!("add name = {} to a [[site.route]]", quoted(name)),
            |near| format!("did you mean \"@{near}\"?"),
        );
        self.error(at, format!("unknown route \"@{name}\""), Some(help));
    }

    fn error_pages(&mut self, settings: &Settings, at: &Location, routes: &[Box<str>]) {
        for page in settings.error_pages.values() {
            if let ErrorPage::Route(name) = page
                && !routes.contains(name)
                && self.unknown_pages.insert(name.clone())
            {
                self.known_route(name, at, routes);
            }
        }
    }

    fn duplicate_routes(&mut self, site: &SiteDraft) {
        let mut seen: HashMap<&str, &Route> = HashMap::new();
        for route in &site.routes {
            let Some(name) = &route.name else { continue };
            if let Some(first) = seen.insert(name, route) {
                let help = format!("the first is at {}", first.origin);
                let at = self.location_of(&route.origin).unwrap_or(site.at.clone());
                self.error(&at, format!("duplicate route name `{name}`"), Some(help));
            }
        }
    }
}

/// Links the texts of settings that have been checked. Texts that are linked already stay as they
/// are.
fn link_all(settings: &mut Settings, names: &Names) {
    for edit in &mut settings.fields {
        let Some(Ok(linked)) = edit.template.as_ref().map(|template| template.link(names)) else {
            continue;
        };
        match (linked.constant(), edit.action.value_mut()) {
            (Some(text), Some(value)) => {
                text.clone_into(value);
                edit.template = None;
            }
            _ => edit.template = Some(Arc::new(linked)),
        }
    }
    settings.visit_texts(|text, _| {
        if let Ok(linked) = text.link(names) {
            *text = linked;
        }
    });
}

fn templates_of(map: &MapDraft) -> impl Iterator<Item = &LocatedTemplate> {
    let lists = [&map.exact, &map.prefix, &map.suffix, &map.regex];
    let values = lists.into_iter().flatten().map(|(_, value)| value);
    map.source.iter().chain(&map.default).chain(values)
}
