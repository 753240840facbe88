//! Work that blocks, on a thread of its own.
//!
//! Not on the runtime's pool: a runtime that stops waits for its pool, and a server that stops must
//! not wait for an authority that is silent. Threads that nobody waits for any more end with their
//! time limit, or with the process.

use std::{io, thread};
use tokio::sync::oneshot;

pub async fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = oneshot::channel();
    // That nobody hears the answer any more is no error.
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || drop(answer.send(work())))?;
    answered.await.map_err(|_| io::Error::other("interrupted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_runtime_that_stops_does_not_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let begun = Instant::now();
        let long = run("test", || thread::sleep(Duration::from_secs(20)));
        assert!(
            runtime
                .block_on(async { tokio::time::timeout(Duration::from_millis(50), long).await })
                .is_err()
        );
        assert_eq!(runtime.block_on(run("test", || 7)).unwrap(), 7);
        drop(runtime);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
