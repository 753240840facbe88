use super::*;
use std::sync::mpsc::{Sender, channel};
use tokio::runtime::{Builder, Runtime};

/// A hang is no longer than that.
const PATIENCE: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .unwrap()
}

/// A job that goes on until it is cancelled, and says so.
fn endless(begun: Sender<()>, ended: Sender<()>) -> impl FnOnce(&Cancel) + Send {
    move |cancel| {
        let _ = begun.send(());
        let start = Instant::now();
        while !cancel.is_cancelled() && start.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert!(start.elapsed() < PATIENCE, "it was not cancelled");
        let _ = ended.send(());
    }
}

#[test]
fn a_job_ends_with_whoever_waits_for_it() {
    let (begun, is_begun) = channel();
    let (ended, is_ended) = channel();
    runtime().block_on(async {
        let waiting = run(JobKind::Media, Some(1), endless(begun, ended));
        let mut waiting = Box::pin(waiting);
        while is_begun.try_recv().is_err() {
            assert!(
                timeout(Duration::from_millis(5), &mut waiting)
                    .await
                    .is_err()
            );
        }
        drop(waiting);
        is_ended.recv_timeout(PATIENCE).unwrap();
    });
}

#[test]
fn jobs_end_with_their_worker() {
    let (begun, is_begun) = channel();
    let (ended, is_ended) = channel();
    std::thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(async {
            let mut waiting = Box::pin(run(JobKind::Media, None, endless(begun, ended)));
            while is_begun.try_recv().is_err() {
                assert!(
                    timeout(Duration::from_millis(5), &mut waiting)
                        .await
                        .is_err()
                );
            }
            end();
            waiting.await.unwrap();
        });
    });
    is_ended.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn one_kind_leaves_the_others_their_places() {
    runtime().block_on(async {
        let (begun, _is_begun) = channel();
        let (ended, _is_ended) = channel();
        // As many as there are places for, and more, of one kind.
        let mut waiting: Vec<_> = (0..6)
            .map(|owner| {
                Box::pin(run(
                    JobKind::Listing,
                    Some(owner),
                    endless(begun.clone(), ended.clone()),
                ))
            })
            .collect();
        for one in &mut waiting {
            assert!(timeout(Duration::from_millis(1), one).await.is_err());
        }
        for kind in [
            JobKind::Media,
            JobKind::Encoding,
            JobKind::PageCache,
            JobKind::Program,
            JobKind::Inspection,
        ] {
            assert_eq!(
                timeout(PATIENCE, run(kind, None, |_| 7)).await,
                Ok(Ok(7)),
                "{kind:?}"
            );
        }
    });
}

#[test]
fn an_owner_leaves_others_a_place_and_waits_in_bounds() {
    runtime().block_on(async {
        let first = place(JobKind::Listing, Some(1)).await.unwrap();
        let bounds = JobKind::Listing.bounds();
        let mut waiting: Vec<_> = (0..bounds.waiting_of_owner_max)
            .map(|_| Box::pin(place(JobKind::Listing, Some(1))))
            .collect();
        for one in &mut waiting {
            assert!(
                timeout(Duration::from_millis(1), one).await.is_err(),
                "an owner has one place"
            );
        }
        assert!(
            matches!(place(JobKind::Listing, Some(1)).await, Err(JobError::Busy)),
            "beyond the bound"
        );
        let other = place(JobKind::Listing, Some(2)).await.unwrap();
        assert!(
            timeout(Duration::from_millis(1), place(JobKind::Listing, Some(3)))
                .await
                .is_err(),
            "two at a time in all"
        );
        drop(other);
        drop(waiting.pop());
        drop(first);
        timeout(PATIENCE, waiting.swap_remove(0))
            .await
            .unwrap()
            .unwrap();
    });
}

/// However many inspections of one client wait, the next one of another has a place.
#[test]
fn a_client_leaves_others_a_place_for_inspections() {
    runtime().block_on(async {
        let first = place(JobKind::Inspection, Some(1)).await.unwrap();
        let mut waiting: Vec<_> = (0..50)
            .map(|_| Box::pin(place(JobKind::Inspection, Some(1))))
            .collect();
        for one in &mut waiting {
            assert!(timeout(Duration::from_millis(1), one).await.is_err());
        }
        timeout(PATIENCE, run(JobKind::Inspection, Some(2), |_| ()))
            .await
            .unwrap()
            .unwrap();
        drop(first);
    });
}

#[test]
fn a_place_is_held_until_the_job_is_done() {
    runtime().block_on(async {
        let (go, may_go) = channel::<()>();
        let mut waiting = Box::pin(run(JobKind::Media, Some(5), move |_| {
            let _ = may_go.recv();
        }));
        assert!(
            timeout(Duration::from_millis(5), &mut waiting)
                .await
                .is_err()
        );
        drop(waiting);
        assert!(
            timeout(Duration::from_millis(5), place(JobKind::Media, Some(5)))
                .await
                .is_err(),
            "it does not look whether it is cancelled"
        );
        go.send(()).unwrap();
        timeout(PATIENCE, place(JobKind::Media, Some(5)))
            .await
            .unwrap()
            .unwrap();
    });
}

#[test]
fn a_panic_is_an_error_and_gives_its_place_back() {
    runtime().block_on(async {
        for _ in 0..5 {
            let failed = run(JobKind::Media, Some(1), |_| {
                std::panic::resume_unwind(Box::new("x"))
            })
            .await;
            assert_eq!(failed, Err::<(), _>(JobError::Failed));
        }
    });
}

#[test]
fn deadlines() {
    let cancel = |deadline| Cancel {
        abandoned: Arc::default(),
        ending: Arc::default(),
        deadline,
    };
    assert!(cancel(Instant::now()).is_cancelled());
    assert_eq!(
        cancel(Instant::now()).check().unwrap_err().kind(),
        io::ErrorKind::TimedOut
    );
    let later = cancel(Instant::now() + PATIENCE);
    assert!(!later.is_cancelled() && later.check().is_ok());
    later.ending.store(true, Ordering::Relaxed);
    assert!(later.is_cancelled());
}
