//! mod_proxy at request time: which requests other servers answer, and how they are called.
//!
//! `translate` decides before aliases and files, with settings of `<Proxy>` in place of the
//! folders'; `call`, among the fixups, prepares the call that the gateway carries out.
//!
//! Called by: the phases.
//! Out of scope: settings and workers (`proxy` of `saker_apache_model`); everything that happens on
//! a connection.

pub mod call;
pub mod forward;
pub mod interpolate;
pub mod manner;
pub mod proxied;
pub mod remote;
pub mod told;
pub mod translate;
