//! Rules of the server or virtual host: from a path to a file, another path, or a URL (httpd's
//! `hook_uri2file`).
//!
//! Called by: front ends, in server_rewrite.
//! Caveat: a result may be a path of the file system or of the site; httpd checks whether its first
//! segment exists, and since 2.4.60 accepts that only if the rule itself names it.
//! Out of scope: mapping paths to files; the outcome says which mapping follows.

use super::{
    Run, Shown,
    list::{Listed, Ran},
};
use crate::{Action, Input, Outcome, RewriteContext, Settings, uri};
use saker_ap_expr::{Dependency, FileTest, Variable};

/// Flag bit that httpd's trace shows for a rule with UnsafePrefixStat.
const STATOK: u32 = 1 << 22;

/// Runs a server's rules.
pub fn run_server(settings: &Settings, context: &dyn RewriteContext, input: &Input<'_>) -> Outcome {
    let mut run = Run::new(settings, context, input, None);
    if !settings.is_enabled() || settings.idle {
        return run.finish(Action::Pass);
    }
    if input.ended {
        run.trace(8, false, |_| {
            "Declining, no further rewriting due to END flag".to_owned()
        });
        return run.finish(Action::Pass);
    }
    if !settings.options().allow_any_uri && (input.not_a_path || input.uri.first() != Some(&b'/')) {
        run.trace(8, false, |_| {
            format!(
                "Declining, request-URI '{}' is not a URL-path. Consult the manual entry for the RewriteOptions directive for options \
                 and caveats about matching other strings.",
                Shown(input.uri)
            )
        });
        return run.finish(Action::Pass);
    }
    run.effects.script_environment = true;
    run.trace(2, false, |run| match input.filename {
        None => format!(
            "init rewrite engine with requested uri {}",
            Shown(&run.filename)
        ),
        Some(name) => format!(
            "init rewrite engine with passed filename {}. Original uri = {}",
            Shown(name),
            Shown(input.uri)
        ),
    });
    let ran = run.run_list(&settings.rules);
    let action = run.server_action(settings, ran);
    run.finish(action)
}

/// SCRIPT_URL and SCRIPT_URI, which the engine adds to the environment of requests.
pub fn script_environment(
    context: &dyn RewriteContext,
    input: &Input<'_>,
) -> [(&'static str, Vec<u8>); 2] {
    let url = script_url(context, input);
    let uri = [own_origin(context), url.clone()].concat();
    [("SCRIPT_URL", url), ("SCRIPT_URI", uri)]
}

/// Value of one of these variables, computed only when a rule reads it.
pub(super) fn script_variable(
    context: &dyn RewriteContext,
    input: &Input<'_>,
    name: &[u8],
) -> Option<Vec<u8>> {
    match name {
        b"SCRIPT_URL" => Some(script_url(context, input)),
        b"SCRIPT_URI" => Some([own_origin(context), script_url(context, input)].concat()),
        _ => None,
    }
}

/// The requested path, before internal redirects.
fn script_url(context: &dyn RewriteContext, input: &Input<'_>) -> Vec<u8> {
    let facts = context.as_facts();
    facts
        .environment(b"REDIRECT_SCRIPT_URL")
        .map_or_else(|| input.uri.to_vec(), std::borrow::Cow::into_owned)
}

fn own_origin(context: &dyn RewriteContext) -> Vec<u8> {
    let variable = |variable| {
        context
            .as_facts()
            .variable(variable)
            .unwrap_or_default()
            .into_owned()
    };
    let (scheme, port) = (
        variable(Variable::RequestScheme),
        variable(Variable::ServerPort),
    );
    let mut origin = [scheme.as_slice(), b"://", &variable(Variable::ServerName)].concat();
    if port != super::default_port(&scheme).to_string().as_bytes() {
        origin.push(b':');
        origin.extend_from_slice(&port);
    }
    origin
}

impl Run<'_> {
    fn server_action(&mut self, settings: &Settings, ran: Ran) -> Action {
        if let Some(action) = self.early_action(&ran, "AH10410") {
            if action == Action::Pass {
                self.trace(1, false, |run| {
                    format!("pass through {}", Shown(&run.filename))
                });
            }
            return action;
        }
        let no_escape = ran.listed == Listed::Changed { no_escape: true };
        // A scheme that came from a group does not make a proxy request: only `[P]` does.
        if ran.proxy && !ran.pass_through {
            return self.proxy(no_escape, true);
        }
        if !ran.pass_through && uri::scheme(&self.filename).is_some() {
            return self.redirect(no_escape, ran.redirect);
        }
        if ran.pass_through {
            return Action::PassThrough(std::mem::take(&mut self.filename));
        }
        self.local(settings, &ran)
    }

    /// Returns the action that both hooks check for first.
    pub(super) fn early_action(&mut self, ran: &Ran, id: &'static str) -> Option<Action> {
        if ran.listed == Listed::Unchanged {
            return Some(Action::Pass);
        }
        let is_url = !ran.pass_through && !ran.proxy && uri::scheme(&self.filename).is_some();
        let will_escape = is_url && ran.listed != Listed::Changed { no_escape: true };
        if !will_escape && self.query_is_unsafe() {
            self.complain(
                id,
                "Rewritten query string contains control characters or spaces".to_owned(),
            );
            return Some(Action::Status(403));
        }
        match ran.listed {
            Listed::Status(status) => Some(Action::Status(status)),
            _ => None,
        }
    }

    pub(super) fn proxy(&mut self, no_canonical: bool, with_path_info: bool) -> Action {
        if !self.input.proxy_available {
            let (id, url) = (
                if with_path_info { "AH00669" } else { "AH10160" },
                Shown(&self.filename).to_string(),
            );
            self.complain(id, format!("attempt to make remote request from mod_rewrite without proxy enabled: proxy:{url}"));
            return Action::Status(403);
        }
        let mut url = std::mem::take(&mut self.filename);
        if with_path_info {
            url.extend_from_slice(self.input.path_info);
        }
        if no_canonical && let Some(query) = &self.query {
            url.push(b'?');
            url.extend_from_slice(query);
        }
        self.trace(1, !with_path_info, |_| {
            format!("go-ahead with proxy request proxy:{} [OK]", Shown(&url))
        });
        Action::Proxy { url, no_canonical }
    }

    pub(super) fn redirect(&mut self, no_escape: bool, status: Option<u16>) -> Action {
        let perdir = self.directory.is_some();
        let mut location = std::mem::take(&mut self.filename);
        if !no_escape && let Some(scheme) = uri::scheme(&location) {
            self.trace(1, perdir, |_| {
                format!("escaping {} for redirect", Shown(&location))
            });
            location = uri::escape_absolute(&location, scheme);
        }
        if self.query.as_deref() == self.input.query {
            self.depends_on_query();
        }
        if let Some(query) = self.query.clone() {
            // A query that came so goes so.
            let as_it_is = no_escape || self.input.query == Some(&query);
            let escaped = if as_it_is {
                query.clone()
            } else {
                saker_ap_expr::escape_uri(&query)
            };
            location.push(b'?');
            location.extend_from_slice(&escaped);
            let what = if as_it_is { "copying" } else { "escaping" };
            self.trace(1, perdir, |_| {
                let result = if as_it_is {
                    ""
                } else {
                    &String::from_utf8_lossy(&escaped)
                };
                format!(
                    "{what} {} to query string for redirect {result}",
                    Shown(&query)
                )
            });
        }
        let status = status
            .filter(|status| (300..400).contains(status))
            .unwrap_or(302);
        self.trace(1, perdir, |_| {
            format!("redirect to {} [REDIRECT/{status}]", Shown(&location))
        });
        Action::Redirect { status, location }
    }

    fn local(&mut self, settings: &Settings, ran: &Ran) -> Action {
        self.expand_home();
        self.trace(2, false, |run| {
            format!("local path result: {}", Shown(&run.filename))
        });
        if self.filename.first() != Some(&b'/') {
            return Action::Status(400);
        }
        let below_root = !self.is_file_path(settings, ran)
            || ran.reduced && !settings.options().legacy_prefix_docroot;
        let path = std::mem::take(&mut self.filename);
        if self.input.trace_level > 0 {
            self.trace_local(&path, below_root);
        }
        if below_root {
            Action::Translate(path)
        } else {
            Action::Filename(path)
        }
    }

    /// The document root is prepended by the code that applies the action; the trace already shows
    /// it.
    fn trace_local(&mut self, path: &[u8], below_root: bool) {
        let mut file = path.to_vec();
        if below_root {
            let extra = path
                .iter()
                .take_while(|byte| **byte == b'/')
                .count()
                .saturating_sub(1);
            file = [
                self.context_variable(Variable::DocumentRoot),
                path[extra..].to_vec(),
            ]
            .concat();
            self.trace(2, false, |_| {
                format!("prefixed with document_root to {}", Shown(&file))
            });
        }
        self.trace(1, false, |_| format!("go-ahead with {} [OK]", Shown(&file)));
    }

    /// `/~user`
    fn expand_home(&mut self) {
        let Some(rest) = self.filename.strip_prefix(b"/~") else {
            return;
        };
        let end = rest
            .iter()
            .position(|byte| *byte == b'/')
            .unwrap_or(rest.len());
        let (user, path) = rest.split_at(end);
        if user.is_empty() {
            return;
        }
        let Some(home) = self.context.home_folder(user) else {
            return;
        };
        let home = if path.is_empty() {
            &home[..]
        } else {
            home.strip_suffix(b"/").unwrap_or(&home)
        };
        self.filename = [home, path].concat();
    }

    /// True if the result is a path of the file system: its first segment is there, and the
    /// administrator meant it.
    fn is_file_path(&mut self, settings: &Settings, ran: &Ran) -> bool {
        let path = self.filename.clone();
        let segment = path
            .iter()
            .skip_while(|byte| **byte == b'/')
            .take_while(|byte| **byte != b'/')
            .copied();
        let top: Vec<u8> = std::iter::once(b'/').chain(segment).collect();
        self.dependencies.add(Dependency::Files);
        if top == b"/.." || !self.context.as_facts().file_test(&top, FileTest::Exists) {
            return false;
        }
        let Some(rule) = ran
            .last
            .as_ref()
            .filter(|_| !settings.options().unsafe_prefix_stat)
        else {
            self.trace(3, false, |_| {
                format!("prefix_stat no lastsub subst prefix {}", Shown(&top))
            });
            return true;
        };
        let trusted = rule.flags.unsafe_prefix_stat;
        self.trace(3, false, |_| {
            let output = Shown(&rule.output);
            format!(
                "prefix_stat compare statpath {} and lastsub output {output} STATOK {} ",
                Shown(&top),
                if trusted { STATOK } else { 0 }
            )
        });
        trusted || self.starts_with(&rule.output, &top) || self.is_below_roots(&path)
    }

    fn is_below_roots(&mut self, path: &[u8]) -> bool {
        let root = self.context_variable(Variable::DocumentRoot);
        if self.starts_with(path, &root) {
            return true;
        }
        let context_root = self.context_variable(Variable::ContextDocumentRoot);
        context_root != root && self.starts_with(path, &context_root)
    }

    fn starts_with(&mut self, path: &[u8], prefix: &[u8]) -> bool {
        let starts = path.starts_with(prefix);
        self.trace(5, false, |_| {
            format!(
                "prefix_stat startsWith({}, {}) {}",
                Shown(path),
                Shown(prefix),
                u8::from(starts)
            )
        });
        starts
    }
}
