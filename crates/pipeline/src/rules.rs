//! Rules that decide from request to request, as a front-end other than our own has them
//! (Apache's).
//!
//! Defined here, implemented above: the phases of the same names ask them, for the sites that have
//! them, in place of the native routes. Where the difficulty is: such rules may change the path and
//! let everything begin again, which is counted and bounded.

use crate::{Exchange, Response};
use saker_http::Status;
use std::{future::Future, pin::Pin};

/// What a step makes of a request.
pub enum Verdict {
    /// On to the next phase.
    Pass,
    Answer(Response),
    /// The path (or query) of the exchange has been changed: begin again behind the choice of the
    /// host.
    Restart,
    /// The step can't tell yet: wait for this, then ask it again.
    Wait(Pin<Box<dyn Future<Output = ()>>>),
}

impl From<Option<Response>> for Verdict {
    fn from(answer: Option<Response>) -> Verdict {
        answer.map_or(Verdict::Pass, Verdict::Answer)
    }
}

/// The rules of one worker, for all sites that have some. Whatever they look at besides listener,
/// host, path and files they say by [`Exchange::depends_on_request`]; of files they leave stamps.
pub trait Rules {
    /// Whether they are in force for a site, by its index.
    fn apply_to(&self, site_index: usize) -> bool;

    /// After the host has been chosen: rewriting by the whole server's and the host's rules.
    fn server_rewrite(&self, exchange: &mut Exchange) -> Verdict;

    /// From the path to a file ([`Exchange::mapped`]) and the settings in force there
    /// ([`Exchange::settings`]).
    fn map_to_storage(&self, exchange: &mut Exchange) -> Verdict;

    /// Who may see it.
    fn access(&self, exchange: &mut Exchange) -> Verdict;

    /// Everything that comes between access and content: rewriting by a folder's rules, index
    /// files, types, handlers.
    fn fixups(&self, exchange: &mut Exchange) -> Verdict;

    /// What the server itself says of an error or a redirect, where no page of the site does.
    fn own_page(&self, exchange: &Exchange, response: Response) -> Response;

    /// Before `page` descends as the error document of `exchange`: what it has to know of it.
    fn error_document(&self, exchange: &Exchange, page: &mut Exchange, status: Status);
}
