//! A route in the making, and the routes of rules in front of it.
//!
//! Called by: `locations`.
//! Out of scope: the order of routes.

use super::{
    rewrites::{Effect, applied_once},
    text::quoted,
    upstream::Upstream,
};
use crate::tree::Directive;

/// A route in the making.
#[derive(Clone, Default)]
pub struct Route {
    /// The action.
    pub keys: String,
    /// Settings beside the action.
    pub shared: String,
    pub tables: String,
    /// The upstream gets the client's host.
    pub keeps_host: bool,
    /// Fields and variables of the upstream.
    pub upstream: Upstream,
    pub is_proxied: bool,
    /// The target without its path, where it has one.
    pub bare_target: Option<String>,
    /// `alias` of a name without a slash at its end, which is converted for the folder alone.
    pub is_folder: bool,
    pub is_closed: bool,
    /// Type of texts.
    pub default_type: String,
    /// Something answers all requests.
    pub answers: bool,
}

const INTERNAL: &str = "internal = true\n";

impl Route {
    /// A route that denies.
    pub fn closed() -> Route {
        Route {
            is_closed: true,
            ..Route::default()
        }
    }

    /// Returns true if nothing is left for index files.
    pub fn says_all(&self) -> bool {
        self.answers || self.is_closed || self.keys.contains("try_files = ")
    }

    /// The route for what a `rewrite` in front of this one matches, and the condition under which it
    /// does so. `None`: it cannot be said.
    pub fn after(
        &self,
        effect: Effect,
        is_overtaken: bool,
        directive: &Directive,
    ) -> Option<(Route, String)> {
        let (line, is_break) = match effect {
            Effect::Redirect(lines) => return Some((self.with(&lines, true), String::new())),
            // What comes behind it decides about the new path.
            Effect::Path { is_open: true, .. } if is_overtaken => return None,
            Effect::Path { line, is_break, .. } => (line, is_break),
        };
        if !is_break {
            return Some((self.with(&line, false), String::new()));
        }
        let has = |key: &str| self.keys.lines().any(|line| line.starts_with(key));
        if has("proxy = ") && !has("try_files = ") {
            return Some((self.proxied(&line), String::new()));
        }
        // The file is looked for in the folder of this location.
        let is_bare = self.keys.is_empty() || self.keys == INTERNAL;
        is_bare.then(|| (self.with(&line, false), applied_once(directive)))
    }

    /// Another action with the settings of this route.
    fn with(&self, line: &str, answers: bool) -> Route {
        let is_internal = self.keys.contains(INTERNAL);
        Route {
            keys: format!("{}{line}", if is_internal { INTERNAL } else { "" }),
            shared: self.shared.clone(),
            tables: self.tables.clone(),
            answers,
            ..Route::default()
        }
    }

    /// The same upstream with another path, which takes the place of the one in its URL.
    fn proxied(&self, line: &str) -> Route {
        let mut route = self.clone();
        if let Some(bare) = &self.bare_target {
            let lines = self.keys.lines();
            let others = lines.filter(|line| !line.starts_with("proxy = "));
            let others: String = others.map(|line| format!("{line}\n")).collect();
            route.keys = format!("proxy = {}\n{others}", quoted(bare));
        }
        route.keys.insert_str(0, line);
        route
    }
}
