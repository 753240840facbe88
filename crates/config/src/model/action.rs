//! What a route does with a request.

use saker_http::Status;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve from the document root.
    Files,
    Redirect(Redirect),
    /// A fixed answer.
    Respond {
        status: Status,
        content_type: String,
        body: String,
    },
    /// 403.
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub status: Status,
    /// A path or an absolute URI. `$1`… stand for what the stars matched, `$host`, `$path` (as sent), `$query` (with its question
    /// mark, or nothing) for parts of the request, `$$` for a dollar.
    pub to: String,
}
