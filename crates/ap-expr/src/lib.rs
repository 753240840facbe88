//! Patterns and expressions as Apache's configuration has them: PCRE2 with httpd's defaults, and
//! the language of `<If>`, `Require expr`, `expr=` and `RewriteCond expr`.
//!
//! Performs no I/O: request data comes through the trait [`Facts`]; what an outcome depended on is
//! recorded in [`Dependencies`], so that the pipeline knows which outcomes can be cached. Text is
//! compiled once.
//! Caveat: request data must never make a pattern or an expression run for long, so patterns carry
//! limits inside, and trees have bounded depth.
//! Out of scope: subrequests, files and clocks, which the implementor of `Facts` provides.

mod cost;
mod depends;
mod evaluate;
mod evaluation;
mod expression;
mod facts;
mod glob;
mod parse;
mod pattern;
mod reach;
mod request_test;
mod subnet;
mod text;
mod tree;
mod variable;
pub mod words;
mod work;

pub use cost::{Cost, expression_cost};
pub use depends::{Dependencies, Dependency, DependencyMark};
pub use evaluate::{compare_by_length, number};
pub use evaluation::{Backreferences, Evaluation, EvaluationError};
pub use expression::{Expression, StringExpression};
pub use facts::{Facts, FileFault, FileTest, LocalTime};
pub use glob::{GlobOptions, glob_matches};
pub use parse::{ExpressionError, ExpressionOptions, STRING_BYTES_MAX};
pub use pattern::{
    LimitReached, NamedCaptures, PATTERNS_WEIGHT_MAX, Pattern, PatternError, PatternOptions,
    PatternsBounded, SPANS, Spans,
};
pub use request_test::{PartValue, Predicate, RequestPart, RequestTest, TextPredicate};
pub use subnet::{Subnet, SubnetError};
pub use text::{
    base64_decode, base64_encode, escape_uri, ldap_escape, md5, md5_hex, sha1_hex, unescape,
};
pub use variable::{API_VERSION, VARIABLES, Variable, VariableRow};
pub use work::{STEP_BYTES, STEPS_MAX, TEXT_BYTES_MAX, Work, WorkLimit, pattern_steps};
