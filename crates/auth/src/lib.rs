//! Authentication and authorization: who the client is, and whether it may have the answer.
//!
//! Knows no configuration language. A front end fills [`AuthSettings`], answers [`AuthRequest`],
//! and turns the [`Access`] that [`decide`] returns into a response.
//!
//! Layers, from bottom to top: `settings`; password forms, password files and client names;
//! `directories`; `session`; `context`; look-ups (`providers`, `groups`, `sql`, `ldap`); `basic`, `digest` and `form`;
//! `requirements` and `host_rules`; `decide`.
//!
//! Called by: the access phase of a front end.
//! Caveat: look-ups that take time (password hashes, name servers, databases) are futures. A
//! decision that needs one returns [`Access::Wait`] and is made again when the future is ready.
//! Out of scope: forward authentication (gateway), TLS client certificates.

mod authenticate;
mod basic;
pub mod client_names;
mod context;
mod credentials;
mod decide;
mod digest;
mod directories;
mod fcgi;
mod fcgi_question;
mod fcgi_scheme;
pub mod form;
mod groups;
mod host_rules;
mod ldap;
mod one_time;
mod passwords;
mod providers;
mod records;
mod request;
mod requirements;
pub mod session;
pub mod settings;
mod sql;

pub use context::AuthContext;
pub use decide::{Access, decide};
pub use directories::{
    Directories, DirectoryAnswer, DirectoryAsked, DirectoryUser, EntryQuestion, LogIn,
};
pub use fcgi::requirement as fcgi_requirement;
pub use fcgi_question::{FcgiAnswer, FcgiQuestion, FcgiWord};
pub use ldap::without_marks;
pub use passwords::{check as check_password, is_same as is_same_text};
pub use records::{RecordFiles, Records};
pub use request::{AuthRequest, ContentOutcome, QueryOutcome, Replay};
pub use settings::{AuthSettings, Methods};
