//! Connections that wait for their clients without a task: a descriptor, a deadline, and the owner's
//! value each, known to the kernel by an epoll of their own.
//!
//! Called by: a worker, for connections that have been idle for a while. A connection on the event
//! loop keeps a task, tokio's registration, and buffers' owners; most connections of a server wait
//! for clients that read a page, and need none of that.
//! Caveat: whatever leaves is taken out of the epoll first, because a descriptor may have been
//! duplicated and would go on telling of a connection that is gone.

use crate::{RawStream, Readiness};
use rustix::event::{Timespec, epoll};
use slab::Slab;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io, iter,
    mem::MaybeUninit,
    os::fd::OwnedFd,
};

/// Connections that are looked at in one turn.
const WOKEN_MAX: usize = 64;

pub struct IdleStreams<T> {
    /// `None` if there was no descriptor left for it.
    epoll: Option<OwnedFd>,
    /// Set while [`run`](IdleStreams::run) does; nothing is taken otherwise.
    is_running: Cell<bool>,
    all: RefCell<Slab<IdleStream<T>>>,
}

/// A connection that waits.
pub struct IdleStream<T> {
    pub stream: RawStream,
    /// Its deadline; the owner looks at it.
    pub until_ms: u64,
    pub value: T,
}

impl<T> Default for IdleStreams<T> {
    fn default() -> Self {
        IdleStreams {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).ok(),
            is_running: Cell::new(false),
            all: RefCell::new(Slab::new()),
        }
    }
}

impl<T> IdleStreams<T> {
    /// Gives it back if the kernel does not take it, or nothing runs that would wake it.
    pub fn add(&self, idle: IdleStream<T>) -> Result<(), IdleStream<T>> {
        let Some(epoll) = self.epoll.as_ref().filter(|_| self.is_running.get()) else {
            return Err(idle);
        };
        let mut all = self.all.borrow_mut();
        let place = all.vacant_entry();
        let data = epoll::EventData::new_u64(place.key() as u64);
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        match epoll::add(epoll, &idle.stream, data, wanted) {
            Ok(()) => {
                place.insert(idle);
                Ok(())
            }
            Err(_) => Err(idle),
        }
    }

    /// Hands over every connection whose client says something or leaves, for as long as it is
    /// polled; all of them, before it ends, if the kernel refuses. Must be polled inside a tokio
    /// runtime.
    pub async fn run(&self, mut wake: impl FnMut(IdleStream<T>)) {
        if let Some(epoll) = &self.epoll {
            let _ = self.wake_those_of(epoll, &mut wake).await;
        }
        self.is_running.set(false);
        self.take_if(|_| true).for_each(wake);
    }

    async fn wake_those_of(
        &self,
        epoll: &OwnedFd,
        wake: &mut impl FnMut(IdleStream<T>),
    ) -> io::Result<()> {
        let readiness = Readiness::new(epoll)?;
        self.is_running.set(true);
        let mut has_more = false;
        loop {
            if !std::mem::replace(&mut has_more, true) {
                poll_fn(|cx| readiness.poll_take(cx)).await?;
            }
            let mut events = [MaybeUninit::uninit(); WOKEN_MAX];
            let now = Some(&Timespec::default());
            let (events, _) = match epoll::wait(epoll, &mut events, now) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for event in &*events {
                if let Some(idle) = self.take(event.data.u64() as usize) {
                    wake(idle);
                }
            }
            has_more = events.len() == WOKEN_MAX;
            if has_more {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes out those that `leaves` says of.
    pub fn take_if(
        &self,
        mut leaves: impl FnMut(&mut IdleStream<T>) -> bool,
    ) -> impl Iterator<Item = IdleStream<T>> {
        let mut all = self.all.borrow_mut();
        let keys: Vec<usize> = all
            .iter_mut()
            .filter_map(|(key, idle)| leaves(idle).then_some(key))
            .collect();
        let mut keys = keys.into_iter();
        iter::from_fn(move || keys.by_ref().find_map(|key| self.take(key)))
    }

    fn take(&self, key: usize) -> Option<IdleStream<T>> {
        let mut all = self.all.borrow_mut();
        let idle = all.try_remove(key)?;
        if let Some(epoll) = &self.epoll {
            let _ = epoll::delete(epoll, &idle.stream);
        }
        if all.is_empty() {
            all.shrink_to_fit();
        }
        Some(idle)
    }

    pub fn len(&self) -> usize {
        self.all.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stream::Family;
    use std::{io::Write, os::fd::AsFd, os::unix::net::UnixStream, rc::Rc, time::Duration};

    fn pair() -> (RawStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (RawStream::new(ours.into(), Family::Unix), theirs)
    }

    fn idle(stream: RawStream, value: u32) -> IdleStream<u32> {
        IdleStream {
            stream,
            until_ms: u64::from(value),
            value,
        }
    }

    fn running() -> Rc<IdleStreams<u32>> {
        let all = IdleStreams::default();
        all.is_running.set(true);
        Rc::new(all)
    }

    /// Runs until so many were woken.
    fn woken(all: &Rc<IdleStreams<u32>>, count: usize) -> Vec<u32> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let seen = RefCell::new(Vec::new());
        let is_full = Cell::new(false);
        runtime.block_on(async {
            let run = all.run(|idle| {
                seen.borrow_mut().push(idle.value);
                is_full.set(seen.borrow().len() == count);
            });
            let full = async {
                while !is_full.get() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                _ = run => {}
                () = full => {}
                () = tokio::time::sleep(Duration::from_secs(20)) => {}
            }
        });
        seen.into_inner()
    }

    #[test]
    fn nothing_is_taken_that_nothing_would_wake() {
        let all = IdleStreams::default();
        assert!(all.add(idle(pair().0, 1)).is_err() && all.is_empty());
    }

    #[test]
    fn those_that_say_something_or_leave_are_woken() {
        let all = running();
        let mut others = Vec::new();
        for value in 0..200 {
            let (ours, theirs) = pair();
            assert!(all.add(idle(ours, value)).is_ok());
            others.push(theirs);
        }
        for (value, other) in others.iter_mut().enumerate().skip(1) {
            if value % 2 == 0 {
                other.write_all(b"x").unwrap();
            } else {
                other.shutdown(std::net::Shutdown::Both).unwrap();
            }
        }
        let mut seen = woken(&all, 199);
        seen.sort_unstable();
        assert_eq!(seen, (1..200).collect::<Vec<_>>());
        assert_eq!(all.len(), 1);
        others[0].write_all(b"x").unwrap();
        assert_eq!(woken(&all, 1), [0]);
        assert!(all.is_empty());
    }

    #[test]
    fn what_was_taken_is_not_woken_even_if_its_descriptor_lives() {
        let all = running();
        let (ours, mut theirs) = pair();
        let (kept, mut teller) = pair();
        let copy = ours.as_fd().try_clone_to_owned().unwrap();
        assert!(all.add(idle(ours, 1)).is_ok() && all.add(idle(kept, 2)).is_ok());
        let taken: Vec<u32> = all
            .take_if(|idle| idle.until_ms <= 1)
            .map(|idle| idle.value)
            .collect();
        assert_eq!((taken, all.len()), (vec![1], 1));
        // The next one gets its key.
        let (next, _silent) = pair();
        assert!(all.add(idle(next, 3)).is_ok());
        theirs.write_all(b"x").unwrap();
        teller.write_all(b"x").unwrap();
        assert_eq!(woken(&all, 1), [2]);
        assert_eq!(all.len(), 1);
        drop(copy);
    }
}
