//! The life of a request, top to bottom. Each entry is a function in the file of its name.
//!
//! A phase either lets the request pass (`None`) or answers it, which ends the descent. No phase calls an earlier one.

mod access;
mod content;
mod map_to_storage;
mod post_read;
mod select_host;
mod server_rewrite;

pub use access::body_bytes_max;

use crate::{Exchange, Response, Services, throttle::Admission};
use std::time::Duration;

pub struct Phase {
    pub name: &'static str,
    pub run: fn(&mut Exchange, &Services) -> Option<Response>,
}

/// What happens before content is looked for, in order.
pub const PHASES: &[Phase] = &[
    Phase { name: "post_read", run: post_read::post_read },
    Phase { name: "select_host", run: select_host::select_host },
    Phase { name: "server_rewrite", run: server_rewrite::server_rewrite },
    Phase { name: "map_to_storage", run: map_to_storage::map_to_storage },
    Phase { name: "access", run: access::access },
];

/// Runs the list, then the content phase, which may wait.
pub async fn run(exchange: &mut Exchange, services: &Services) -> Response {
    for phase in PHASES {
        if let Some(response) = (phase.run)(exchange, services) {
            exchange.trace(phase.name, None, || format!("answers {}", response.status.0));
            return response;
        }
    }
    if let Some(Admission::Delay(wait_ns)) = exchange.admission.take() {
        (services.sleep)(Duration::from_nanos(wait_ns)).await;
    }
    content::content(exchange, services).await
}

/// The part of the list that an internal redirect (an error page) runs again: the path is known, the host chosen.
pub async fn run_again(exchange: &mut Exchange, services: &Services) -> Response {
    if let Some(response) = server_rewrite::server_rewrite(exchange, services) {
        return response;
    }
    content::content(exchange, services).await
}
