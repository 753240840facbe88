//! Requests and responses inspected by ModSecurity's rules (libmodsecurity).
//!
//! Floor 5. Called by: the phases `inspect_request` (the head, once it is known what is in force
//! and the client is within its limits) and `inspect_content`; `respond`, before filters. Caveat:
//! content has to be inspected before a handler gets any of it, so it is read here and replayed
//! (`gathered`). A response may be a part or a coding of what rules have to see: the handler that
//! makes it shows the whole ([`Exchange::show_whole`]). Out of scope: subrequests and error
//! documents, which belong to an inspected request; reading the rules (`saker-config`).

mod arguments;
mod content;
mod gathered;
mod head;
mod response;
mod screening;

pub use content::Offload;

use saker_files::BufferFiles;
use saker_pipeline::{Exchange, Inspector, LocalFuture, Response, Step};
use std::sync::Arc;

/// The inspector of one worker.
pub struct ModSecurityInspector {
    /// Space for request content that is read ahead.
    buffer_files: Arc<BufferFiles>,
    offload: Offload,
}

impl ModSecurityInspector {
    pub fn new(buffer_files: Arc<BufferFiles>, offload: Offload) -> ModSecurityInspector {
        ModSecurityInspector {
            buffer_files,
            offload,
        }
    }
}

impl Inspector for ModSecurityInspector {
    fn request_head<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        head::request_head(exchange, self.offload)
    }

    fn request_content<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        content::request_content(exchange, &self.buffer_files, self.offload)
    }

    fn response<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, Option<Response>> {
        Box::pin(response::response(exchange, response, self.offload))
    }
}
