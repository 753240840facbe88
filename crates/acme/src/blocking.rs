//! Runs blocking work on a thread of its own.
//!
//! Not on the runtime's pool: a stopping runtime waits for its pool, and a stopping server must not
//! wait for an authority that does not answer. Abandoned threads end at their timeout, or with the
//! process.

use std::{io, thread};
use tokio::sync::oneshot;

pub async fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = oneshot::channel();
    // The receiver may be gone; that is no error.
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || drop(answer.send(work())))?;
    answered.await.map_err(|_| io::Error::other("interrupted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    #[test]
    fn a_runtime_that_stops_does_not_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        // Work that ends with the test, which is later than the runtime.
        let (release, released) = mpsc::channel::<()>();
        let long = run("test", move || {
            let _ = released.recv();
        });
        assert!(
            runtime
                .block_on(async { tokio::time::timeout(Duration::from_millis(50), long).await })
                .is_err()
        );
        assert_eq!(runtime.block_on(run("test", || 7)).unwrap(), 7);
        drop(runtime);
        drop(release);
    }
}
