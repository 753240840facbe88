//! mod_rewrite: what RewriteEngine, RewriteOptions, RewriteBase, RewriteCond, RewriteRule and
//! RewriteMap say, compiled once and run for requests.
//!
//! Place in the walk: [`run_server`] stands where paths are mapped to files (server_rewrite),
//! [`run_directory`] behind the directory walk (fixups). Pure: the request and the world come
//! through [`World`], and an [`Outcome`] says what should happen. Names are httpd's. Difficulty:
//! httpd's rules work on one variable, `filename`, which is a URL path in server context and a file
//! in directory context; the order of its changes is the behaviour that users know. Bounded: steps,
//! bytes and pattern limits of one run have maxima. Absent on purpose: carrying actions out,
//! running map programs, and the decision to keep an outcome.

mod arguments;
mod condition;
mod map;
mod rule;
mod run;
mod settings;
mod template;
mod uri;
mod world;

pub use map::{InternalMap, Map, MapSource, TextMap};
pub use run::{run_directory, run_server, script_environment};
pub use settings::{Options, Place, Settings};
pub use world::{
    Action, Cookie, DirectiveError, Effects, Input, LogLine, Notice, Outcome, TraceLine, World,
};

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_rewrite;
#[cfg(test)]
mod tests;
