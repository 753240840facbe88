//! A bounded number of concurrent places, and the queue for them. Shared by all workers.
//!
//! Called by: the limits on upstream requests.
//! Caveat: a waiter that is woken may have left the queue (its client is gone, its time is up). A
//! leaving waiter therefore wakes the next, so that no slot stays unused while others wait.
//! Out of scope: the length of the queue, which the caller bounds.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// The places of one client or site.
#[derive(Debug, Default)]
pub struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    taken: u64,
    /// Waiting requests, in the order of arrival.
    line: VecDeque<(u64, Waker)>,
    next: u64,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

/// A waiter in the queue.
pub struct Waiting {
    places: Arc<Places>,
    max: u64,
    number: Option<u64>,
}

impl Places {
    /// A place of `max`, if one is free and no one is queued for it.
    pub fn try_enter(self: &Arc<Self>, max: u64) -> Option<Place> {
        let mut state = self.state();
        (state.taken < max && state.line.is_empty()).then(|| {
            state.taken += 1;
            Place(Arc::clone(self))
        })
    }

    /// A place of `max`, in order of arrival.
    pub fn enter(self: &Arc<Self>, max: u64) -> Waiting {
        Waiting {
            places: Arc::clone(self),
            max,
            number: None,
        }
    }

    pub fn taken(&self) -> u64 {
        self.state().taken
    }

    /// Nothing that holds the lock can panic half way.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call_first(&self) {
        let first = self.state().line.front().map(|(_, waker)| waker.clone());
        first.iter().for_each(Waker::wake_by_ref);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.state().taken -= 1;
        self.0.call_first();
    }
}

impl Future for Waiting {
    type Output = Place;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Place> {
        let places = Arc::clone(&self.places);
        let mut state = places.state();
        let is_first = state.line.front().map(|(number, _)| *number) == self.number;
        if is_first && state.taken < self.max {
            state.taken += 1;
            state.line.pop_front();
            self.number = None;
            drop(state);
            // There may be room for the next, too.
            places.call_first();
            return Poll::Ready(Place(places));
        }
        match self
            .number
            .and_then(|own| state.line.iter_mut().find(|(number, _)| *number == own))
        {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let number = state.next;
                state.next += 1;
                state.line.push_back((number, cx.waker().clone()));
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(own) = self.number {
            self.places
                .state()
                .line
                .retain(|(number, _)| *number != own);
            self.places.call_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
        task::Wake,
    };

    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Someone(Pin<Box<Waiting>>, Arc<Calls>);

    impl Someone {
        fn new(places: &Arc<Places>, max: u64) -> Someone {
            Someone(Box::pin(places.enter(max)), Arc::default())
        }

        fn poll(&mut self) -> Option<Place> {
            let waker = Waker::from(Arc::clone(&self.1));
            match self.0.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(place) => Some(place),
                Poll::Pending => None,
            }
        }

        fn calls(&self) -> usize {
            self.1.0.load(Relaxed)
        }
    }

    #[test]
    fn first_come_first_served() {
        let places = Arc::<Places>::default();
        let held = places.try_enter(1).unwrap();
        assert!(places.try_enter(1).is_none());
        let (mut one, mut other) = (Someone::new(&places, 1), Someone::new(&places, 1));
        assert!(one.poll().is_none() && other.poll().is_none());
        drop(held);
        assert_eq!((one.calls(), other.calls()), (1, 0));
        assert!(places.try_enter(1).is_none(), "nobody overtakes the line");
        assert!(other.poll().is_none());
        let held = one.poll().unwrap();
        assert!(other.poll().is_none());
        drop(held);
        assert!(other.calls() >= 1 && other.poll().is_some());
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn whoever_leaves_the_line_calls_the_next() {
        let places = Arc::<Places>::default();
        let held = places.try_enter(1).unwrap();
        let (mut one, mut other) = (Someone::new(&places, 1), Someone::new(&places, 1));
        assert!(one.poll().is_none() && other.poll().is_none());
        drop(held);
        drop(one);
        assert!(other.calls() >= 1 && other.poll().is_some());
    }

    #[test]
    fn a_larger_number_of_places_lets_more_in() {
        let places = Arc::<Places>::default();
        let _held = places.try_enter(1).unwrap();
        let mut one = Someone::new(&places, 1);
        assert!(one.poll().is_none());
        let mut other = Someone::new(&places, 3);
        assert!(other.poll().is_none(), "behind him");
        drop(one);
        assert!(other.poll().is_some());
    }
}
