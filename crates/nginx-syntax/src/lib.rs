//! The language of nginx configurations: text to a checked tree, and the table of directives.
//!
//! `lexer` splits a file into words and marks, `read` builds the tree, follows `include`, and checks
//! each directive against its row (`rows`): context, number of arguments, block or none. All
//! diagnostics of a configuration are reported at once, in nginx's words, because tools parse them.
//!
//! Called by: `saker-nginx-model`, which turns the tree into settings, and the command line.
//! Caveat: arguments keep their variables; `$` means something only to the setter of a directive.
//! Out of scope: the meaning of arguments (`saker-nginx-model`).

mod arguments;
mod completion;
pub mod convert;
mod files;
mod lexer;
mod read;
mod reference;
mod report;
pub mod row;
pub mod rows;
mod tree;

pub use arguments::{IGNORED_FIELDS, is_flag};
pub use completion::complete;
pub use files::{Files, OnDisk, wildcard_matches};
pub use lexer::{LexError, Lexer, Token, Word};
pub use read::{Tree, read};
pub use reference::reference_markdown;
pub use report::{Emergency, Report};
pub use row::{Row, Support};
pub use rows::{row, rows};
pub use tree::Directive;
