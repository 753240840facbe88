//! Faults of backends and their outcome: a status, or a response that visibly breaks off; the next
//! request succeeds.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::bench::*;
use saker_config::model::{Balance, Tuning, Upstream};
use saker_pipeline::{Body, BodyError, ProxyOptions};
use std::{
    cell::RefCell,
    future::poll_fn,
    io::Write,
    path::Path,
    rc::Rc,
    sync::{Arc, Barrier, atomic::Ordering, mpsc},
    task::Poll,
    thread,
    time::Duration,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_socket_that_is_not_there_and_then_is() {
    with_gateway(1, |gateway| async move {
        let folder = saker_testkit::TempDir::new("gateway-late").unwrap();
        let path = folder.join("late.sock");
        let upstream = upstream(&path);
        let response = get(&gateway, &upstream).await;
        assert_eq!(response.status.0, 503);
        assert!(response.fields().has("Retry-After"));
        listen(&path, always(OK));
        // The only member is asked although it has failed a moment ago.
        assert_eq!(fetch(&gateway, &upstream).await, (200, Ok(b"ok".to_vec())));
    });
}

fn impatiently(path: &Path) -> Arc<Upstream> {
    Arc::new(Upstream::new("silent", vec![member(path, impatient())]))
}

#[test]
fn no_word_in_time() {
    with_gateway(1, |gateway| async move {
        let silent = script(|mut stream, _| {
            read_request(&mut stream);
            hold(&mut stream);
        });
        assert_eq!(fetch(&gateway, &impatiently(&silent.path)).await.0, 504);
    });
}

#[test]
fn half_a_head_garbage_and_nothing() {
    with_gateway(1, |gateway| async move {
        let rows: [&'static [u8]; 4] = [
            b"HTTP/1.1 200 OK\r\nContent-Le",
            b"220 mail.example ESMTP\r\n",
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ];
        for response in rows {
            let backend = script(once(response));
            assert_eq!(
                fetch(&gateway, &upstream(&backend.path)).await.0,
                502,
                "{}",
                response.escape_ascii()
            );
        }
    });
}

#[test]
fn a_head_without_end_is_bounded() {
    with_gateway(1, |gateway| async move {
        let backend = script(|mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while stream
                .write_all(&[b"X: ", [b'x'; 4000].as_slice(), b"\r\n"].concat())
                .is_ok()
            {}
        });
        assert_eq!(fetch(&gateway, &upstream(&backend.path)).await.0, 502);
    });
}

#[test]
fn content_that_breaks_off_is_seen_to() {
    with_gateway(1, |gateway| async move {
        let rows: [&'static [u8]; 3] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde",
        ];
        for response in rows {
            let backend = script(once(response));
            assert_eq!(
                fetch(&gateway, &upstream(&backend.path)).await,
                (200, Err(BodyError::Source)),
                "{}",
                response.escape_ascii()
            );
        }
        let silent = script(|mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
            hold(&mut stream);
        });
        assert_eq!(
            fetch(&gateway, &impatiently(&silent.path)).await,
            (200, Err(BodyError::Source))
        );
    });
}

#[test]
fn what_is_said_behind_a_response_is_nobodys() {
    with_gateway(1, |gateway| async move {
        let backend = script(always(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"));
        let upstream = upstream(&backend.path);
        for _ in 0..3 {
            assert_eq!(fetch(&gateway, &upstream).await, (200, Ok(b"ok".to_vec())));
        }
        assert_eq!(
            backend.accepted.load(Ordering::SeqCst),
            3,
            "a connection with bytes left over must not be used again"
        );
    });
}

#[test]
fn connections_are_kept_and_fresh_ones_made_where_they_ended() {
    with_gateway(1, |gateway| async move {
        let backend = script(always(OK));
        let one = upstream(&backend.path);
        for _ in 0..5 {
            assert_eq!(fetch(&gateway, &one).await, (200, Ok(b"ok".to_vec())));
        }
        assert_eq!(backend.accepted.load(Ordering::SeqCst), 1);
        // Ends each connection with the second request, unanswered.
        let unreliable = script(|mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(OK);
            read_request(&mut stream);
        });
        let other = upstream(&unreliable.path);
        for _ in 0..4 {
            assert_eq!(fetch(&gateway, &other).await, (200, Ok(b"ok".to_vec())));
        }
        // What may have had an effect is not asked twice.
        assert_eq!(
            answer(&gateway, &mut exchange("POST", &other))
                .await
                .status
                .0,
            502
        );
    });
}

#[test]
fn one_connection_for_many_requests_and_a_queue_with_an_end() {
    with_gateway(1, |gateway| async move {
        // Each response needs a permit.
        let (permits, permitted) = mpsc::channel();
        let permitted = std::sync::Mutex::new(permitted);
        let backend = script(move |mut stream, _| {
            while read_request(&mut stream).is_some() {
                permitted.lock().unwrap().recv().unwrap();
                let _ = stream.write_all(OK);
            }
        });
        let limited = |queue_max| {
            let tuning = Tuning {
                connections_max: 1,
                queue_max,
                ..tuning()
            };
            Arc::new(Upstream::new(
                "limited",
                vec![member(&backend.path, tuning)],
            ))
        };
        let patient = limited(10);
        let all: Vec<_> = (0..4)
            .map(|_| {
                let (gateway, upstream) = (gateway.clone(), Arc::clone(&patient));
                tokio::task::spawn_local(async move { fetch(&gateway, &upstream).await.0 })
            })
            .collect();
        for one in all {
            permits.send(()).unwrap();
            assert_eq!(one.await.unwrap(), 200);
        }
        assert_eq!(backend.accepted.load(Ordering::SeqCst), 1);
        let impatient = limited(1);
        let mut busy: Vec<_> = (0..3)
            .map(|_| {
                let (gateway, upstream) = (gateway.clone(), Arc::clone(&impatient));
                tokio::task::spawn_local(async move { get(&gateway, &upstream).await.status.0 })
            })
            .collect();
        let last = busy.pop().unwrap();
        assert_eq!(last.await.unwrap(), 503, "refused while the others wait");
        for one in busy {
            permits.send(()).unwrap();
            assert_eq!(one.await.unwrap(), 200);
        }
    });
}

#[test]
fn as_many_connections_are_kept_as_the_load_needs() {
    const CLIENTS: usize = 100;
    with_gateway(1, |gateway| async move {
        let all_are_here = Arc::new(Barrier::new(CLIENTS));
        let backend = script(move |mut stream, _| {
            while read_request(&mut stream).is_some() {
                all_are_here.wait();
                if stream.write_all(OK).is_err() {
                    return;
                }
            }
        });
        let upstream = upstream(&backend.path);
        for _ in 0..3 {
            let busy: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let (gateway, upstream) = (gateway.clone(), Arc::clone(&upstream));
                    tokio::task::spawn_local(async move { get(&gateway, &upstream).await.status.0 })
                })
                .collect();
            for one in busy {
                assert_eq!(one.await.unwrap(), 200);
            }
        }
        assert_eq!(backend.accepted.load(Ordering::SeqCst), CLIENTS);
    });
}

/// A backend that says whether it could write its 8 MB.
fn talkative() -> (Script, mpsc::Receiver<bool>) {
    let (done, is_done) = mpsc::channel();
    let done = std::sync::Mutex::new(done);
    let backend = script(move |mut stream, _| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n");
        let whole = (0..1000).all(|_| stream.write_all(&[b'x'; 8000]).is_ok());
        let _ = done.lock().unwrap().send(whole);
    });
    (backend, is_done)
}

#[test]
fn a_backend_is_free_although_its_client_does_not_read() {
    with_gateway(1, |gateway| async move {
        for is_promised in [false, true] {
            let (backend, is_done) = talkative();
            let mut response = get(&gateway, &upstream(&backend.path)).await;
            let Body::Stream(stream) = &mut response.body else {
                panic!("it is too long for memory")
            };
            if is_promised {
                stream.promise_read_ahead();
            }
            let first = poll_fn(|cx| stream.poll_chunk(cx)).await.unwrap().unwrap();
            let mut waited = 0;
            while is_done.try_recv() != Ok(true) {
                waited += 1;
                assert!(waited < 500, "the backend has to wait for the client");
                let reader = poll_fn(|cx| {
                    stream.read_ahead(cx);
                    Poll::<()>::Pending
                });
                let _ = tokio::time::timeout(Duration::from_millis(10), reader).await;
            }
            let rest = content(&mut response).await.unwrap();
            assert_eq!(first.len() + rest.len(), 8_000_000);
            assert!(first.bytes().iter().chain(&rest).all(|byte| *byte == b'x'));
        }
    });
}

/// A reader that keeps up needs no memory and no file, and one that is late for a moment no file.
#[test]
fn a_client_that_keeps_up_needs_no_file() {
    with_gateway(1, |gateway| async move {
        let (backend, is_done) = talkative();
        let mut response = get(&gateway, &upstream(&backend.path)).await;
        let Body::Stream(mut stream) = std::mem::take(&mut response.body) else {
            panic!("it is too long for memory")
        };
        stream.promise_read_ahead();
        let mut bytes = 0;
        for at in 0.. {
            // Seldom enough that it has caught up in between, however small the pieces are.
            if at % 64 == 0 {
                poll_fn(|cx| {
                    stream.read_ahead(cx);
                    Poll::Ready(())
                })
                .await;
            }
            match poll_fn(|cx| stream.poll_chunk(cx)).await {
                Some(chunk) => bytes += chunk.unwrap().len(),
                None => break,
            }
            assert_eq!(gateway.buffer_files().bytes(), 0, "a file is used");
        }
        assert_eq!((bytes, is_done.recv()), (8_000_000, Ok(true)));
    });
}

#[test]
fn without_a_buffer_the_backend_waits_for_its_client() {
    with_gateway(1, |gateway| async move {
        let backend = script(|mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n");
            let _ = (0..1000).all(|_| stream.write_all(&[b'x'; 8000]).is_ok());
        });
        let upstream = upstream(&backend.path);
        let mut exchange = exchange("GET", &upstream);
        let mut unbuffered = call(&upstream);
        unbuffered.manner = Arc::new(ProxyOptions {
            is_unbuffered: true,
            ..ProxyOptions::default()
        });
        exchange.upstream.call = Some(Box::new(unbuffered));
        let mut response = answer(&gateway, &mut exchange).await;
        assert_eq!(content(&mut response).await.unwrap().len(), 8_000_000);
    });
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    with_gateway(1, |gateway| async move {
        let (gone, is_gone) = mpsc::channel();
        let gone = std::sync::Mutex::new(gone);
        let backend = script(move |mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            while stream.write_all(b"1\r\nx\r\n").is_ok() {}
            let _ = gone.lock().unwrap().send(());
        });
        let response = get(&gateway, &upstream(&backend.path)).await;
        drop(response);
        until("the end of the request", || is_gone.try_recv().is_ok()).await;
    });
}

/// It says nothing more, so nothing but the client's leave can end it.
#[test]
fn a_client_that_goes_takes_a_silent_request_along() {
    with_gateway(1, |gateway| async move {
        let (gone, is_gone) = mpsc::channel();
        let gone = std::sync::Mutex::new(gone);
        let backend = script(move |mut stream, _| {
            read_request(&mut stream);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
            let _ = gone
                .lock()
                .unwrap()
                .send(read_request(&mut stream).is_none());
        });
        let patient = Tuning {
            timeout_ms: 600_000,
            ..tuning()
        };
        let upstream = Arc::new(Upstream::new(
            "silent",
            vec![member(&backend.path, patient)],
        ));
        let Body::Stream(mut body) = get(&gateway, &upstream).await.body else {
            panic!("a body of another kind")
        };
        let piece = poll_fn(|cx| body.poll_chunk(cx)).await.unwrap();
        assert_eq!(piece.unwrap().bytes(), b"x");
        drop(body);
        until("the end of the request", || is_gone.try_recv() == Ok(true)).await;
    });
}

/// Longer than its time limit: that a program had to wait for its client is not its silence.
#[test]
fn a_program_that_waits_for_its_client_is_not_late() {
    with_gateway(1, |gateway| async move {
        let backend = script(|mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n");
            let _ = stream.write_all(&vec![b'x'; 3_999_999]);
            thread::sleep(Duration::from_millis(200));
            let _ = stream.write_all(b"x");
        });
        let small = Tuning {
            buffer_memory_bytes: 64 << 10,
            buffer_disk_bytes: 0,
            ..tuning()
        };
        let upstream = Arc::new(Upstream::new("small", vec![member(&backend.path, small)]));
        let mut response = get(&gateway, &upstream).await;
        tokio::time::sleep(Duration::from_millis(1000)).await;
        assert_eq!(content(&mut response).await.unwrap().len(), 4_000_000);
    });
}

#[test]
fn answers_that_come_before_the_request_is_over() {
    with_gateway(1, |gateway| async move {
        let backend = script(|mut stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
        });
        let upstream = upstream(&backend.path);
        let mut exchange = exchange("POST", &upstream);
        exchange.body = Box::new(Pieces {
            left: RefCell::new(vec![vec![0; 60_000]; 100]),
            length: Some(6_000_000),
            fails: false,
        });
        let mut response = answer(&gateway, &mut exchange).await;
        assert_eq!(
            (response.status.0, content(&mut response).await),
            (413, Ok(b"big".to_vec()))
        );
    });
}

#[test]
fn content_that_its_client_does_not_finish() {
    with_gateway(1, |gateway| async move {
        let backend = script(once(OK));
        let upstream = upstream(&backend.path);
        let mut exchange = exchange("POST", &upstream);
        exchange.body = Box::new(Pieces {
            left: RefCell::new(vec![vec![0; 10]]),
            length: Some(100),
            fails: true,
        });
        assert_eq!(answer(&gateway, &mut exchange).await.status.0, 400);
        // That was not the backend's fault.
        assert_eq!(fetch(&gateway, &upstream).await.0, 200);
    });
}

#[test]
fn of_two_members_the_one_that_lives_answers_everything() {
    with_gateway(1, |gateway| async move {
        let folder = saker_testkit::TempDir::new("gateway-two").unwrap();
        let alive = script(always(OK));
        for balance in [
            Balance::Requests,
            Balance::Traffic,
            Balance::Busyness,
            Balance::RandomTwo,
            Balance::ClientAddress,
            Balance::Target,
        ] {
            let members = vec![
                member(&folder.join("dead.sock"), tuning()),
                member(&alive.path, tuning()),
            ];
            let upstream = Arc::new(Upstream {
                balance,
                ..Upstream::new("two", members)
            });
            for _ in 0..20 {
                assert_eq!(fetch(&gateway, &upstream).await.0, 200, "{balance:?}");
            }
        }
    });
}

#[test]
fn shares_are_those_of_the_weights() {
    with_gateway(1, |gateway| async move {
        let (one, three) = (script(once(OK)), script(once(OK)));
        let mut heavy = member(&three.path, tuning());
        heavy.weight = 300;
        let upstream = Arc::new(Upstream::new(
            "weights",
            vec![member(&one.path, tuning()), heavy],
        ));
        for _ in 0..40 {
            assert_eq!(fetch(&gateway, &upstream).await.0, 200);
        }
        assert_eq!(
            (
                one.accepted.load(Ordering::SeqCst),
                three.accepted.load(Ordering::SeqCst)
            ),
            (10, 30)
        );
    });
}

/// A member with answers several times as long is asked less often.
#[test]
fn shares_by_traffic() {
    with_gateway(1, |gateway| async move {
        let answer: &'static [u8] = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: {}\r\n\r\nok",
            "x".repeat(500)
        )
        .into_bytes()
        .leak();
        let (long, short) = (script(once(answer)), script(once(OK)));
        let members = vec![member(&long.path, tuning()), member(&short.path, tuning())];
        let upstream = Arc::new(Upstream {
            balance: Balance::Traffic,
            ..Upstream::new("traffic", members)
        });
        for _ in 0..40 {
            assert_eq!(fetch(&gateway, &upstream).await.0, 200);
        }
        let (long, short) = (
            long.accepted.load(Ordering::SeqCst),
            short.accepted.load(Ordering::SeqCst),
        );
        assert!(
            long * 2 < short && long > 0,
            "{long} of the long ones, {short} of the short ones"
        );
    });
}

#[test]
fn nothing_is_left_open() {
    if saker_testkit::ran_in_own_process(module_path!(), "nothing_is_left_open") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let before = sockets();
        let rows: [&'static [u8]; 4] = [
            OK,
            b"garbage\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            b"",
        ];
        for response in rows {
            let backend = script(once(response));
            let upstream = upstream(&backend.path);
            for _ in 0..50 {
                let _ = fetch(&gateway, &upstream).await;
            }
        }
        // The listeners of four scripts stay.
        until("as few sockets as before", || sockets() <= before + 8).await;
    });
}

#[test]
fn a_breaker_refuses_without_asking() {
    with_gateway(1, |gateway| async move {
        let backend = script(once(b""));
        let members = vec![member(
            &backend.path,
            Tuning {
                retry_ms: 2_000,
                ..tuning()
            },
        )];
        let upstream = Arc::new(Upstream {
            breaks: true,
            failures_max: 2,
            ..Upstream::new("breaks", members)
        });
        for status in [502, 502, 503, 503] {
            let response = get(&gateway, &upstream).await;
            assert_eq!(
                (response.status.0, response.fields().has("Retry-After")),
                (status, status == 503)
            );
        }
        assert_eq!(backend.accepted.load(Ordering::SeqCst), 2);
        tokio::time::sleep(Duration::from_millis(2_050)).await;
        assert_eq!(get(&gateway, &upstream).await.status.0, 502);
        assert_eq!(upstream.members[0].state.figures(), (0, 3, 3));
    });
}

#[test]
fn a_member_whose_queue_is_full_is_passed_over() {
    with_gateway(1, |gateway| async move {
        // The busy one closes without a response when it is told to.
        let (release, released) = mpsc::channel();
        let released = std::sync::Mutex::new(released);
        let (busy, free) = (
            script(move |mut stream, _| {
                read_request(&mut stream);
                released.lock().unwrap().recv().unwrap();
            }),
            script(always(OK)),
        );
        let full = Tuning {
            connections_max: 1,
            queue_max: 0,
            ..tuning()
        };
        let members = vec![member(&busy.path, full), member(&free.path, tuning())];
        let upstream = Arc::new(Upstream::new("full", members));
        let (own, other) = (Rc::clone(&gateway), Arc::clone(&upstream));
        let first = tokio::task::spawn_local(async move { fetch(&own, &other).await.0 });
        until("the first request", || {
            busy.accepted.load(Ordering::SeqCst) == 1
        })
        .await;
        for _ in 0..3 {
            assert_eq!(fetch(&gateway, &upstream).await.0, 200);
        }
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), 502);
    });
}
