//! The life of a request, the same for every protocol: phases down to a handler, filters back up, loggers at the end.
//!
//! Floor 4: knows no handler and no socket. `server` drives it (`Exchange` in, `Response` out) and registers handlers, filters
//! and loggers; `handlers` implement [`Handler`] and [`Reusable`].

pub mod body;
pub mod exchange;
pub mod response;
pub mod traits;

pub use body::{Body, BodyError, Chunk, RequestBody};
pub use exchange::{Client, Exchange};
pub use response::{ReadyHead, Response, ResponseHead};
pub use traits::{Filter, Handled, Handler, LocalFuture, Reusable};
