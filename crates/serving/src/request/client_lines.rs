//! Lines of the error log about clients that leave, in nginx's words.
//!
//! Called by: the drivers.
//! Caveat: only where the configuration is nginx's.
//! Out of scope: clients that leave in the middle of a response, which its source logs.

use saker_pipeline::{ClientAbort, Exchange};
use saker_telemetry::{
    error_log::{self, WithUpstream},
    message::{self, Level},
};

/// Logs that a client has left before its response began.
pub fn left(exchange: &Exchange) {
    if !error_log::speaks_nginx() {
        return;
    }
    let upstream = exchange.upstream.attempts.last_address();
    let context = WithUpstream {
        context: exchange,
        upstream: upstream.as_deref(),
    };
    let text = match exchange.upstream.client_abort.get() {
        ClientAbort::EndOfStream => {
            "epoll_wait() reported that client prematurely closed connection, so upstream \
             connection is closed too while sending request to upstream"
        }
        ClientAbort::EndOfStreamInDelay => {
            "client prematurely closed connection while delaying request"
        }
        _ => "client prematurely closed connection",
    };
    error_log::log_nginx(
        &message::CLIENT_LEFT,
        Level::Info,
        &context,
        format_args!("{text}"),
    );
}
