//! A thread for writes that may block: log programs, terminals, pipes, the error log.
//!
//! Called by: workers, which hand over a copy of their lines and continue. If the queue is full
//! they learn it at once and count the lines as dropped. Memory is limited in bytes, not in
//! entries.
//! Caveat: on drop the thread writes the queue and ends. A stuck reader does not delay the server,
//! because [`QueueWriter::flush`] limits the wait.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Small: the thread only writes.
const STACK_BYTES: usize = 128 * 1024;

/// Destination of a queue.
pub(crate) trait Outlet: Send {
    /// Writes the lines; may block.
    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Stalled>;
}

/// The outlet cannot continue now: this many bytes are written, try the rest after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stalled {
    pub written_bytes: usize,
    pub retry: Duration,
}

pub(crate) struct QueueWriter {
    shared: Arc<Shared>,
    queued_bytes_max: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Something was queued, or the end.
    filled: Condvar,
    /// Signaled when everything is written.
    drained: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    queued_bytes: usize,
    writing: bool,
    closed: bool,
}

enum Job {
    Lines(Vec<u8>),
    Replace(Box<dyn Outlet>),
}

impl std::fmt::Debug for QueueWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueWriter")
            .field("queued_bytes_max", &self.queued_bytes_max)
            .finish_non_exhaustive()
    }
}

impl QueueWriter {
    pub(crate) fn spawn(
        name: &str,
        outlet: Box<dyn Outlet>,
        queued_bytes_max: usize,
    ) -> io::Result<QueueWriter> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&of_thread, outlet))?;
        Ok(QueueWriter {
            shared,
            queued_bytes_max,
        })
    }

    /// False if the queue is full; the lines are then lost.
    pub(crate) fn push(&self, lines: Vec<u8>) -> bool {
        let mut queue = self.shared.lock();
        let fits = queue.queued_bytes.saturating_add(lines.len()) <= self.queued_bytes_max;
        if fits && !lines.is_empty() {
            queue.queued_bytes += lines.len();
            queue.jobs.push_back(Job::Lines(lines));
            self.shared.filled.notify_one();
        }
        fits
    }

    /// Replaces the outlet; lines queued so far still go to the old one.
    pub(crate) fn replace(&self, outlet: Box<dyn Outlet>) {
        self.shared.lock().jobs.push_back(Job::Replace(outlet));
        self.shared.filled.notify_one();
    }

    /// Waits until the queue is written, or the time is over.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut queue = self.shared.lock();
        while queue.writing || !queue.jobs.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = wait(&self.shared.drained, queue, left);
        }
        true
    }
}

impl Drop for QueueWriter {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic elsewhere leaves the queue whole: no step below stops halfway.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` at the end.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        queue.writing = false;
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.writing = true;
                return Some(job);
            }
            self.drained.notify_all();
            if queue.closed {
                return None;
            }
            queue = self
                .filled
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before a retry; false if the end came meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut queue = self.lock();
        while !queue.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            queue = wait(&self.filled, queue, left);
        }
        false
    }
}

fn wait<'a>(
    condition: &Condvar,
    queue: MutexGuard<'a, Queue>,
    time: Duration,
) -> MutexGuard<'a, Queue> {
    condition
        .wait_timeout(queue, time)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

fn run(shared: &Shared, mut outlet: Box<dyn Outlet>) {
    while let Some(job) = shared.next() {
        match job {
            Job::Lines(lines) => {
                write(shared, outlet.as_mut(), &lines);
                // Only now is the memory free again.
                shared.lock().queued_bytes -= lines.len();
            }
            Job::Replace(new) => outlet = new,
        }
    }
}

fn write(shared: &Shared, outlet: &mut dyn Outlet, lines: &[u8]) {
    let mut rest = lines;
    while let Err(stalled) = outlet.write_lines(rest) {
        rest = rest.get(stalled.written_bytes..).unwrap_or_default();
        if !shared.pause(stalled.retry) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Writes when the test allows it; `Err` stalls.
    struct Gated {
        orders: Receiver<Result<(), Stalled>>,
        written: Sender<Vec<u8>>,
    }

    impl Outlet for Gated {
        fn write_lines(&mut self, lines: &[u8]) -> Result<(), Stalled> {
            let order = self.orders.recv().unwrap_or(Ok(()));
            let _ = self.written.send(lines.to_vec());
            order
        }
    }

    fn gated(
        queued_bytes_max: usize,
    ) -> (QueueWriter, Sender<Result<(), Stalled>>, Receiver<Vec<u8>>) {
        let (order, orders) = channel();
        let (written, received) = channel();
        let writer = QueueWriter::spawn(
            "test",
            Box::new(Gated { orders, written }),
            queued_bytes_max,
        )
        .expect("thread");
        (writer, order, received)
    }

    #[test]
    fn a_stuck_outlet_never_blocks_and_memory_is_bounded() {
        let (writer, order, received) = gated(10);
        assert!(writer.push(b"12345".to_vec()));
        assert!(writer.push(b"67890".to_vec()));
        assert!(!writer.push(b"x".to_vec()), "full at the limit");
        assert!(!writer.flush(Duration::from_millis(10)));
        order.send(Ok(())).expect("thread");
        order.send(Ok(())).expect("thread");
        assert!(writer.flush(Duration::from_secs(10)));
        assert!(writer.push(b"x".to_vec()));
        drop(order);
        drop(writer);
        assert_eq!(
            received.iter().collect::<Vec<_>>(),
            [b"12345".to_vec(), b"67890".to_vec(), b"x".to_vec()],
            "drop writes the rest"
        );
    }

    #[test]
    fn a_stall_is_tried_again_from_where_it_stopped() {
        let (writer, order, received) = gated(100);
        writer.push(b"one\ntwo\n".to_vec());
        order
            .send(Err(Stalled {
                written_bytes: 4,
                retry: Duration::ZERO,
            }))
            .expect("thread");
        order.send(Ok(())).expect("thread");
        assert!(writer.flush(Duration::from_secs(10)));
        assert_eq!(
            received.try_iter().collect::<Vec<_>>(),
            [b"one\ntwo\n".to_vec(), b"two\n".to_vec()]
        );
    }

    #[test]
    fn the_end_ends_a_stall() {
        let (writer, order, received) = gated(100);
        writer.push(b"one\n".to_vec());
        order
            .send(Err(Stalled {
                written_bytes: 0,
                retry: Duration::from_secs(3600),
            }))
            .expect("thread");
        drop(writer);
        assert_eq!(received.iter().count(), 1);
    }
}
