//! mod_rewrite: RewriteEngine, RewriteOptions, RewriteBase, RewriteCond, RewriteRule, and
//! RewriteMap, compiled once and run for requests.
//!
//! Called by: front ends: [`run_server`] when paths are mapped to files (server_rewrite),
//! [`run_directory`] after the directory walk (fixups). Pure: the request comes through
//! [`RewriteContext`], and an [`Outcome`] says what should happen. Names are httpd's. Steps, bytes,
//! and patterns of a run have limits.
//! Caveat: httpd's rules work on one variable, `filename`, which is a URL path in server context
//! and a file in directory context; operators rely on the order of its changes.
//! Out of scope: carrying actions out, running map programs, and caching outcomes.

mod arguments;
mod condition;
mod context;
mod cost;
mod directive;
mod map;
mod rule;
mod run;
mod settings;
mod template;
mod uri;

pub use context::{
    Action, Cause, Cookie, Effects, Input, LogLine, Outcome, RewriteContext, TraceLine,
};
pub use cost::{Cost, condition_cost, rule_cost};
pub use directive::{DirectiveError, Notice, Place, SourceLine};
pub use map::{InternalMap, Map, MapSource, TextMap};
pub use run::{run_directory, run_server, script_environment};
pub use settings::{Options, Settings};

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_rewrite;
#[cfg(test)]
mod tests;
