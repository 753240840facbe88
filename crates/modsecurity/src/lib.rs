//! Requests and responses inspected by ModSecurity's rules (libmodsecurity).
//!
//! Floor 5. Called by: the phases `inspect_request` (the head, once it is known what is in force
//! and the client is within its limits) and `inspect_content`; `respond`, before filters. Caveat:
//! content has to be inspected before a handler gets any of it, so it is read here and replayed
//! (`gathered`). A response may be a part or a coding of what rules have to see: the handler that
//! makes it shows the whole ([`Exchange::show_whole`]). Out of scope: subrequests and error
//! documents, which belong to an inspected request; reading the rules (`saker-config`).

mod content;
mod gathered;
mod response;
mod screening;

pub use content::Offload;

use saker_files::BufferFiles;
use saker_http::{KnownField, Status, Version};
use saker_net::modsecurity::Transaction;
use saker_pipeline::{Exchange, Inspection, Inspector, LocalFuture, Response, Step};
use screening::{Screening, refuse};
use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

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
    fn request_head(&self, exchange: &mut Exchange) -> Option<Response> {
        request_head(exchange)
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

/// Connection, URI and fields.
fn request_head(exchange: &mut Exchange) -> Option<Response> {
    let wanted = exchange.routing.settings.modsecurity.clone()?;
    exchange.depends_on_request();
    // Without usable rules nothing passes.
    let Some(rules) = wanted.rules.clone() else {
        return Some(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    if exchange.log.trace.is_some() {
        exchange.trace("access", None, || {
            "ModSecurity's rules are asked; explain assumes that they let it pass".into()
        });
        return None;
    }
    // An internal redirect under the same rules has been inspected.
    if exchange
        .extensions
        .get::<Rc<Screening>>()
        .is_some_and(|screening| Arc::ptr_eq(&screening.rules, &rules))
    {
        return None;
    }
    let Some(mut transaction) = rules.transaction(&id(exchange)) else {
        return Some(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    describe(exchange, &mut transaction);
    transaction.request_head();
    let screening = Rc::new(Screening::new(exchange, &rules, transaction));
    exchange.extensions.insert(Rc::clone(&screening));
    exchange.access.inspection = Some(Rc::clone(&screening) as Rc<dyn Inspection>);
    screening
        .intervention()
        .map(|found| refuse(exchange, found))
}

fn describe(exchange: &Exchange, transaction: &mut Transaction) {
    let view = exchange.head.view();
    transaction.connection(exchange.client.address, exchange.client.local);
    let version = match view.version() {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
        // Rule sets that do not know HTTP/3 (Debian's) would refuse all of it; what rules look at
        // is the same.
        Version::Http2 | Version::Http3 => "2.0",
    };
    transaction.uri(view.target(), view.method_token(), version);
    view.fields()
        .for_each(|(name, value)| transaction.request_field(name, value));
    if !view.has(KnownField::Host) && !exchange.host.is_empty() {
        transaction.request_field(b"Host", &exchange.host);
    }
}

/// The id in the rules' own logs: mod_unique_id's if it is set.
fn id(exchange: &Exchange) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    match exchange.environment.first(b"UNIQUE_ID") {
        Some(id) => String::from_utf8_lossy(id).into_owned(),
        None => format!(
            "{:x}-{:x}-{:x}",
            exchange.now,
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ),
    }
}
