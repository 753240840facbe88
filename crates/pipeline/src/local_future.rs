//! Futures of a worker, which never cross threads.
//!
//! Called by: every role that may wait.
//! Caveat: boxing a future that holds nothing does not allocate; [`done`] relies on that.
//! Out of scope: running them (drivers).

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// A future that stays on its worker.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Returns the future of a filter that has finished. Does not allocate.
pub fn done<'a>() -> LocalFuture<'a, ()> {
    struct Done;
    impl Future for Done {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }
    Box::pin(Done)
}
