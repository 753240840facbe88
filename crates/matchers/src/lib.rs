//! Matchers of requests, and texts with variables: what routes, redirects, fields, and logs of a
//! configuration say about requests, compiled once.
//!
//! Performs no I/O: request data comes through the trait [`RequestFacts`]. What an outcome depended
//! on is recorded in [`Evaluation::dependencies`], so that the pipeline knows which outcomes can be
//! cached, and under which conditions.
//! Caveat: a matcher that cannot be evaluated (a pattern that takes too many steps) is an error,
//! never "does not match": it may guard something.
//! Out of scope: the keys of a configuration language, and the actions of routes.

mod client_set;
mod evaluation;
mod matcher;
mod parameters;
mod part_test;
mod path_index;
mod path_pattern;
mod sink;
mod template;
#[cfg(test)]
mod tests;
mod time_window;
mod value_map;
mod variable;
mod variable_test;

pub use client_set::ClientSet;
pub use evaluation::{Captures, Evaluation, FileKind, MatchError, Repeated, RequestFacts};
pub use matcher::{FileTest, Matcher};
pub use parameters::{ParameterEdit, edit_parameters, without_edited};
pub use part_test::{PartTest, Source, ValueTest};
pub use path_index::PathIndex;
pub use path_pattern::PathPattern;
pub use sink::{
    BodySink, BodySyntax, FieldSink, Nature, PathSink, QuerySink, Sink, TextSink, UrlSink,
    encode_component,
};
pub use template::{Lookup, Names, Template, TemplateError};
pub use time_window::{TimeWindow, parse_days, parse_hours};
pub use value_map::{MapPatterns, ValueMap};
pub use variable::Variable;
pub use variable_test::VariableTest;
