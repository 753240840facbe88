//! Programs that are started for one request: everything that they do wrong, and that nothing is
//! left of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::bench::{Pieces, answer, content, exchange, until, upstream, with_gateway};
use saker_gateway::Gateway;
use saker_pipeline::{
    Body, BodyError, Exchange, Handled, ProcessManner, ProxyOptions, Response, Script,
    UpstreamRequest, UpstreamTarget,
};
use saker_testkit::TempDir;
use std::{cell::RefCell, fs, path::Path, rc::Rc, sync::Arc, time::Duration};

/// A request for a shell script.
/// Time for a program that answers: a shell may have to wait for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn request(folder: &TempDir, text: &str, outlives_client: bool) -> Exchange {
    request_within(PATIENCE, folder, text, outlives_client)
}

fn request_within(
    timeout: Duration,
    folder: &TempDir,
    text: &str,
    outlives_client: bool,
) -> Exchange {
    let number = fs::read_dir(folder).unwrap().count();
    let file = folder.write(&format!("{number}.sh"), text).unwrap();
    let mut exchange = exchange("GET", &upstream(Path::new("/")));
    // The shell reads it, so that no script has to be executable while other tests start programs.
    let manner = ProcessManner {
        interpreter: Some("/bin/sh".into()),
        ..ProcessManner::default()
    };
    let script = Script {
        filename: file.into_os_string().into_encoded_bytes(),
        path: b"/x".into(),
        ..Script::default()
    };
    let call = ProxyOptions {
        timeout: Some(timeout),
        outlives_client,
        ..ProxyOptions::default()
    };
    exchange.upstream.call = Some(Box::new(UpstreamRequest {
        to: UpstreamTarget::Process(Arc::new(manner)),
        target: b"/x".to_vec(),
        script: Some(Box::new(script)),
        manner: Arc::new(call),
        names: saker_pipeline::CallNames::default(),
    }));
    exchange
}

async fn fetch(gateway: &Gateway, exchange: &mut Exchange) -> (u16, Result<String, BodyError>) {
    let mut response = answer(gateway, exchange).await;
    let content = content(&mut response).await;
    (
        response.status.0,
        content.map(|bytes| String::from_utf8(bytes).unwrap()),
    )
}

/// Children of this process, ended ones that were not waited for among them.
fn children() -> usize {
    let own = std::process::id().to_string();
    let stats = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            stat.rsplit(')')
                .next()
                .is_some_and(|rest| rest.split_whitespace().nth(1) == Some(&own))
        })
        .count()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| state != "Z")
}

#[test]
fn what_scripts_do_wrong() {
    if saker_testkit::ran_in_own_process(module_path!(), "what_scripts_do_wrong") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-wrong").unwrap();
        let rows: [(&str, u16, Result<&str, ()>); 11] = [
            ("exit 0", 500, Ok("")),
            ("printf 'Content-Type: text/pl'", 500, Ok("")),
            (
                "printf 'Content-Type: text/plain\\n'; kill -9 $$",
                500,
                Ok(""),
            ),
            ("printf 'no field\\n\\nbody'", 500, Ok("")),
            ("sleep 20", 504, Ok("")),
            (
                "printf 'A: b\\nContent-Length: 10\\n\\nshort'",
                200,
                Err(()),
            ),
            (
                "printf 'A: b\\nContent-Length: 2\\n\\nlonger'",
                200,
                Ok("lo"),
            ),
            ("printf 'A: b\\n\\nbody'; sleep 20", 200, Err(())),
            ("printf 'A: b\\n\\nbody'; exit 3", 200, Ok("body")),
            (
                "printf 'A: b\\n\\nbody'; exec >&-; sleep 0.1",
                200,
                Ok("body"),
            ),
            (
                "printf 'A: b\\n\\n'; head -c 300000 /dev/zero | tr '\\0' x | wc -c",
                200,
                Ok("300000\n"),
            ),
        ];
        for (script, status, expected) in rows {
            let timeout = match script.contains("sleep 20") {
                true => Duration::from_secs(2),
                false => PATIENCE,
            };
            let mut request = request_within(timeout, &folder, script, false);
            let (found, body) = fetch(&gateway, &mut request).await;
            assert_eq!(
                (found, body.as_deref().map_err(drop)),
                (status, expected),
                "{script}"
            );
        }
        until("programs are left", || children() == 0).await;
    });
}

#[test]
fn what_can_not_be_started() {
    if saker_testkit::ran_in_own_process(module_path!(), "what_can_not_be_started") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-none").unwrap();
        let mut exchange = request(&folder, "", false);
        let call = exchange.upstream.call.as_mut().unwrap();
        call.to = UpstreamTarget::Process(Arc::new(ProcessManner {
            interpreter: Some("/no/such/program".into()),
            ..ProcessManner::default()
        }));
        assert_eq!(
            fetch(&gateway, &mut exchange).await,
            (500, Ok(String::new()))
        );
        let mut plain = request(&folder, "not executable", false);
        plain.upstream.call.as_mut().unwrap().to = UpstreamTarget::Process(Arc::default());
        assert_eq!(fetch(&gateway, &mut plain).await, (500, Ok(String::new())));
    });
}

#[test]
fn a_client_that_goes_ends_the_program_and_its_children() {
    if saker_testkit::ran_in_own_process(
        module_path!(),
        "a_client_that_goes_ends_the_program_and_its_children",
    ) {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-gone").unwrap();
        let script = "sleep 100 & echo $! >child; echo $$ >own; printf 'A: b\\n\\nbody'; wait";
        let response = answer(&gateway, &mut request(&folder, script, false)).await;
        assert!(matches!(response.body, Body::Stream(_)));
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let (own, child) = (read("own"), read("child"));
        assert!(is_running(&own) && is_running(&child));
        drop(response);
        until("the program goes on", || {
            !is_running(&own) && !is_running(&child)
        })
        .await;
        until("nobody waited for it", || children() == 0).await;
    });
}

#[test]
fn a_client_that_goes_before_the_head() {
    if saker_testkit::ran_in_own_process(module_path!(), "a_client_that_goes_before_the_head") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-early").unwrap();
        let mut exchange = request(&folder, "echo $$ >own; sleep 100", false);
        let asked = tokio::time::timeout(
            Duration::from_millis(200),
            super::bench::forward(&gateway, &mut exchange),
        )
        .await;
        assert!(asked.is_err());
        until("programs are left", || children() == 0).await;
        assert!(!is_running(
            &fs::read_to_string(folder.join("own")).unwrap()
        ));
    });
}

#[test]
fn a_program_may_outlive_its_client() {
    if saker_testkit::ran_in_own_process(module_path!(), "a_program_may_outlive_its_client") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-outlive").unwrap();
        let script = "printf 'A: b\\n\\nbody'; sleep 0.2; echo more; sleep 0.1; echo done >end";
        drop(answer(&gateway, &mut request(&folder, script, true)).await);
        until("it was ended", || folder.join("end").exists()).await;
    });
}

#[test]
fn what_a_program_leaves_in_the_background_goes_on() {
    if saker_testkit::ran_in_own_process(
        module_path!(),
        "what_a_program_leaves_in_the_background_goes_on",
    ) {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-background").unwrap();
        let script =
            "printf 'A: b\\n\\nbody'; (sleep 0.3; echo done >end) >/dev/null 2>&1 </dev/null &";
        assert_eq!(
            fetch(&gateway, &mut request(&folder, script, false)).await,
            (200, Ok("body".into()))
        );
        until("it was ended", || folder.join("end").exists()).await;
    });
}

#[test]
fn both_directions_at_once() {
    if saker_testkit::ran_in_own_process(module_path!(), "both_directions_at_once") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-both").unwrap();
        for (script, expected) in [
            ("printf 'A: b\\n\\n'; exec cat", 1_000_000),
            ("printf 'A: b\\n\\n'; exec head -c 100", 100),
        ] {
            let mut exchange = request(&folder, script, false);
            let left = RefCell::new(vec![vec![b'x'; 10_000]; 100]);
            exchange.body = Box::new(Pieces {
                left,
                length: Some(1_000_000),
                fails: false,
            });
            let (status, body) = fetch(&gateway, &mut exchange).await;
            assert_eq!(
                (status, body.map(|body| body.len())),
                (200, Ok(expected)),
                "{script}"
            );
        }
        // A client that breaks off is not taken for one that has said all.
        let mut exchange = request(
            &folder,
            "cat >got; printf 'A: b\\n\\n'; echo whole >whole",
            false,
        );
        exchange.body = Box::new(Pieces {
            left: RefCell::new(vec![vec![b'x'; 10]]),
            length: Some(100),
            fails: true,
        });
        assert_eq!(fetch(&gateway, &mut exchange).await.0, 400);
        assert!(!folder.join("whole").exists());
    });
}

/// One place per worker where there are as many workers as places.
#[test]
fn no_more_than_there_is_room_for() {
    if saker_testkit::ran_in_own_process(module_path!(), "no_more_than_there_is_room_for") {
        return;
    }
    with_gateway(256, |gateway| async move {
        let folder = Rc::new(TempDir::new("programs-queue").unwrap());
        let requests: Vec<_> = (0..8)
            .map(|_| {
                let (gateway, mut exchange) = (
                    Rc::clone(&gateway),
                    request(&folder, "sleep 0.05; printf 'A: b\\n\\nran'", false),
                );
                tokio::task::spawn_local(async move {
                    let response: Response =
                        match super::bench::forward(&gateway, &mut exchange).await {
                            Handled::Answered(response) => response,
                            _ => panic!("not answered"),
                        };
                    (response.status.0, response.fields().has("Retry-After"))
                })
            })
            .collect();
        let mut found = Vec::new();
        for request in requests {
            found.push(request.await.unwrap());
        }
        // One runs, four wait.
        assert_eq!(
            found.iter().filter(|one| **one == (200, false)).count(),
            5,
            "{found:?}"
        );
        assert_eq!(
            found.iter().filter(|one| **one == (503, true)).count(),
            3,
            "{found:?}"
        );
    });
}

#[test]
fn a_thousand_leave_nothing() {
    if saker_testkit::ran_in_own_process(module_path!(), "a_thousand_leave_nothing") {
        return;
    }
    with_gateway(1, |gateway| async move {
        let folder = TempDir::new("programs-many").unwrap();
        let scripts = [
            "printf 'A: b\\n\\nbody'",
            "echo complaint >&2",
            "printf 'A: b\\nContent-Length: 9\\n\\nshort'",
            "kill -9 $$",
        ];
        // Whatever is made once has been made after the first.
        assert_eq!(
            fetch(&gateway, &mut request(&folder, scripts[0], false))
                .await
                .0,
            200
        );
        until("programs are left", || children() == 0).await;
        let before = descriptors();
        for round in 0..250 {
            let mut all: Vec<_> = scripts
                .iter()
                .map(|script| request(&folder, script, false))
                .collect();
            let [a, b, c, d] = all.as_mut_slice() else {
                panic!("four scripts")
            };
            let (a, b, c, d) = tokio::join!(
                fetch(&gateway, a),
                fetch(&gateway, b),
                fetch(&gateway, c),
                fetch(&gateway, d)
            );
            assert_eq!(
                (a, b.0, c.1.is_err(), d.0),
                ((200, Ok("body".into())), 500, true, 500),
                "round {round}"
            );
        }
        until("programs are left", || children() == 0).await;
        until("descriptors are left", || descriptors() <= before).await;
    });
}
