//! WebDAV (RFC 4918): files below a document root that clients list, write, copy, move, and lock.
//!
//! Floor 4. Called by: the registry, which puts [`WebDavFiles`] in front of the handlers of scripts
//! and files. It answers where the settings in force have `webdav`, whichever front end made them.
//! Caveat: access rules have decided about the request before; those of a destination are asked by
//! a subrequest of its own.
//! Out of scope: versions (RFC 3253), access control lists (RFC 3744), searching (RFC 5323), and
//! quotas (RFC 4331).

mod copy_move;
mod dead_properties;
mod delete;
mod depth;
mod destination;
mod handler;
mod if_header;
mod live_properties;
mod lock_database;
mod lock_method;
mod locks;
mod members;
mod mkcol;
mod multistatus;
mod names;
mod operation;
mod options;
mod propfind;
mod proppatch;
mod put;
mod reply;
mod request_content;
mod resource;
mod tree;
mod unlock;
mod xml;

pub use handler::WebDavFiles;
