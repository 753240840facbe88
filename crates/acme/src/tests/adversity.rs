//! Authorities that refuse, limit, fall silent or fall over, and a server that dies in mid-order.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::authority::{
    Authority, Running,
    front::{Fate, Front, json},
    site, until,
};
use saker_acme::Event;
use serde_json::Value;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn record(authority: &Authority, name: &str) -> Value {
    serde_json::from_str(
        &fs::read_to_string(authority.certificates().join(format!("{name}.json"))).unwrap(),
    )
    .unwrap()
}

#[tokio::test]
async fn a_failure_is_remembered_over_a_restart() {
    let authority = Authority::new();
    let plan = authority.plan("challenges = [\"http-01\"]", &site(&["a.example"]));
    let mut running = Running::start(&authority, plan.clone(), false);
    let (reason, retry_at) = running.failed().await;
    assert!(
        reason.contains("a.example: ") && reason.contains("refused"),
        "{reason}"
    );
    assert!(
        (now() + 500..now() + 1500).contains(&retry_at),
        "{retry_at}"
    );
    running.crash().await;
    let mut again = Running::start(&authority, plan, true);
    assert_eq!(again.event_within(Duration::from_secs(3)).await, None);
    let record = record(&authority, "a.example");
    assert_eq!(
        (
            record["failures"].as_u64(),
            record["attempt_at"].as_u64(),
            &record["order"]
        ),
        (Some(1), Some(retry_at), &Value::Null)
    );
}

#[tokio::test]
async fn a_limit_is_obeyed() {
    let authority = Authority::new();
    let problem = "{\"type\": \"urn:ietf:params:acme:error:rateLimited\", \"detail\": \"too many\", \"status\": 429}";
    let front = Front::new(&authority, move |_, path| match path {
        "/order-plz" => Fate::Answer(json(
            "429 Too Many Requests",
            "Replay-Nonce: abc\r\nRetry-After: 7200\r\n",
            problem,
        )),
        _ => Fate::Pass,
    });
    let acme = format!(
        "directory = \"{}\"\nchallenges = [\"http-01\"]",
        front.directory()
    );
    let mut running = Running::start(
        &authority,
        authority.plan(&acme, &site(&["a.example"])),
        true,
    );
    let (reason, retry_at) = running.failed().await;
    assert!(reason.contains("too many (rateLimited)"), "{reason}");
    assert!(retry_at >= now() + 7190, "{retry_at}");
}

/// The first directory is not there, the second says nothing, the third gives the certificate.
#[tokio::test]
async fn directories_are_asked_in_order() {
    let authority = Authority::new();
    let silent = Front::new(&authority, |_, _| Fate::Hang);
    let nobody = saker_testkit::free_port().unwrap();
    let (second, third) = (silent.directory(), authority.directory());
    let acme = format!(
        "directory = [\"https://localhost:{nobody}/dir\", \"{second}\", \"{third}\"]\nchallenges = [\"http-01\"]"
    );
    let mut running = Running::start(
        &authority,
        authority.plan(&acme, &site(&["a.example"])),
        true,
    );
    for expected in [format!("https://localhost:{nobody}/dir"), second] {
        match running.event().await {
            Event::DirectoryFailed { directory, reason } => assert!(
                directory == expected && reason.contains("not reached"),
                "{reason}"
            ),
            other => panic!("{other}"),
        }
    }
    assert!(matches!(running.event().await, Event::Issued { directory, .. } if directory == third));
    assert_eq!(record(&authority, "a.example")["directory"], third);
}

/// Nothing is ordered from an authority without the profile that is asked for.
#[tokio::test]
async fn certificates_are_ordered_by_profile() {
    let authority = Authority::new();
    let front = Front::new(&authority, |_, _| Fate::Pass);
    let (without, with) = (authority.directory(), front.directory());
    let acme = format!(
        "directory = [{{ url = \"{without}\", profile = \"shortlived\" }}, {{ url = \"{with}\", profile = \"shortlived\" }}]\n\
         challenges = [\"http-01\"]"
    );
    let mut running = Running::start(
        &authority,
        authority.plan(&acme, &site(&["a.example"])),
        true,
    );
    match running.event().await {
        Event::DirectoryFailed { directory, reason } => assert!(
            directory == without && reason.contains("it offers no profiles, and not shortlived"),
            "{reason}"
        ),
        other => panic!("{other}"),
    }
    assert!(matches!(running.event().await, Event::Issued { directory, .. } if directory == with));
    let orders = front.orders.lock().unwrap();
    assert!(
        matches!(&**orders, [order] if order.contains("\"profile\":\"shortlived\"")),
        "{orders:?}"
    );
}

/// The process dies when the authority has been asked to sign; the next one goes on with the same
/// order and the same key.
#[tokio::test]
async fn an_order_goes_on_after_a_restart() {
    let authority = Authority::new();
    let hangs = Arc::new(AtomicBool::new(true));
    let also_hangs = hangs.clone();
    let front = Front::new(&authority, move |_, path| {
        if path.starts_with("/finalize-order/") && also_hangs.load(Ordering::SeqCst) {
            Fate::Hang
        } else {
            Fate::Pass
        }
    });
    let plan = authority.plan(
        &format!(
            "directory = \"{}\"\nchallenges = [\"http-01\"]",
            front.directory()
        ),
        &site(&["a.example"]),
    );
    let running = Running::start(&authority, plan.clone(), true);
    until("the order", || front.count("/finalize-order/") == 1).await;
    assert!(running.challenges.http01("anything").is_none());
    running.crash().await;
    let order = record(&authority, "a.example")["order"].clone();
    hangs.store(false, Ordering::SeqCst);
    let mut again = Running::start(&authority, plan, false);
    assert_eq!(again.issued().await, ["a.example"]);
    assert_eq!(front.count("/order-plz"), 1);
    let (_, _, key) = again.site.installed.lock().unwrap()[0].clone();
    assert_eq!(order["key"], key);
    assert_eq!(record(&authority, "a.example")["order"], Value::Null);
}

/// The same, with an authority that has forgotten the order meanwhile.
#[tokio::test]
async fn a_forgotten_order_is_made_anew() {
    let mut authority = Authority::new();
    let hangs = Arc::new(AtomicBool::new(true));
    let also_hangs = hangs.clone();
    let front = Front::new(&authority, move |_, path| {
        if path.starts_with("/finalize-order/") && also_hangs.load(Ordering::SeqCst) {
            Fate::Hang
        } else {
            Fate::Pass
        }
    });
    let plan = authority.plan(
        &format!(
            "directory = \"{}\"\nchallenges = [\"tls-alpn-01\"]",
            front.directory()
        ),
        &site(&["a.example"]),
    );
    let running = Running::start(&authority, plan.clone(), true);
    until("the order", || front.count("/finalize-order/") == 1).await;
    let site = running.crash().await;
    authority.stop();
    authority.start().unwrap();
    hangs.store(false, Ordering::SeqCst);
    authority.tls_port = saker_testkit::free_port().unwrap();
    authority.http_port = saker_testkit::free_port().unwrap();
    authority.stop();
    authority.start().unwrap();
    let mut again = Running::start(&authority, plan, true);
    assert_eq!(again.issued().await, ["a.example"]);
    assert!(front.count("/order-plz") >= 2 && site.installed_names().is_empty());
}

fn window(start: &str, end: &str) -> Fate {
    let body = format!("{{\"suggestedWindow\": {{\"start\": \"{start}\", \"end\": \"{end}\"}}}}");
    Fate::Answer(json("200 OK", "Retry-After: 21600\r\n", &body))
}

#[tokio::test]
async fn renewal_in_the_window_of_the_authority() {
    let authority = Authority::new();
    let front = Front::new(&authority, |_, path| match path.starts_with("/renewal/") {
        true => window("2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z"),
        false => Fate::Pass,
    });
    let plan = authority.plan(
        &format!(
            "directory = \"{}\"\nchallenges = [\"http-01\"]",
            front.directory()
        ),
        &site(&["a.example"]),
    );
    let mut running = Running::start(&authority, plan, true);
    running.issued().await;
    until("the record", || {
        record(&authority, "a.example")["renew_at"].is_u64()
    })
    .await;
    let record = record(&authority, "a.example");
    let (renew_at, check_at) = (
        record["renew_at"].as_u64().unwrap(),
        record["check_at"].as_u64().unwrap(),
    );
    // A clock beyond the window would make it the hour after the issue.
    let window = 1_796_083_200..=1_796_169_600;
    assert!(
        window.contains(&renew_at) || renew_at >= now() + 3500,
        "{renew_at}"
    );
    assert!(
        (now() + 21_000..now() + 22_000).contains(&check_at),
        "{check_at}"
    );
}

#[tokio::test]
async fn renewal_when_the_authority_says_now() {
    let authority = Authority::new();
    let front = Front::new(&authority, |_, path| match path.starts_with("/renewal/") {
        true => window("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
        false => Fate::Pass,
    });
    let plan = authority.plan(
        &format!(
            "directory = \"{}\"\nchallenges = [\"http-01\"]",
            front.directory()
        ),
        &site(&["a.example"]),
    );
    let mut running = Running::start(&authority, plan.clone(), true);
    running.issued().await;
    until("the record", || {
        record(&authority, "a.example")["renew_at"].is_u64()
    })
    .await;
    assert_eq!(
        running.event_within(Duration::from_secs(2)).await,
        None,
        "not within the hour after the issue"
    );
    let first = running.site.installed.lock().unwrap()[0].1.clone();
    running.crash().await;
    let mut old = record(&authority, "a.example");
    (old["issued_at"], old["renew_at"], old["check_at"]) =
        ((now() - 7200).into(), Value::Null, 0.into());
    fs::write(
        authority.certificates().join("a.example.json"),
        old.to_string(),
    )
    .unwrap();
    let mut authority = authority;
    authority.stop();
    (authority.http_port, authority.tls_port) = (
        saker_testkit::free_port().unwrap(),
        saker_testkit::free_port().unwrap(),
    );
    authority.start().unwrap();
    let mut again = Running::start(&authority, plan, true);
    assert_eq!(again.issued().await, ["a.example"]);
    let installed = again.site.installed.lock().unwrap();
    assert!(installed.len() == 2 && installed[0].1 == first && installed[1].1 != first);
}

/// From a trial to the real thing: the configuration names another directory.
#[tokio::test]
async fn another_directory_issues_anew() {
    let authority = Authority::new();
    let trial = Front::new(&authority, |_, _| Fate::Pass);
    let plan = |directory: &str| {
        authority.plan(
            &format!("directory = \"{directory}\"\nchallenges = [\"http-01\"]"),
            &site(&["a.example"]),
        )
    };
    let mut running = Running::start(&authority, plan(&trial.directory()), true);
    running.issued().await;
    running.handle.set_plan(plan(&trial.directory()));
    assert_eq!(
        running.event_within(Duration::from_secs(1)).await,
        None,
        "the same directory"
    );
    running.handle.set_plan(plan(&authority.directory()));
    assert!(
        matches!(running.event().await, Event::Issued { directory, .. } if directory == authority.directory())
    );
    assert_eq!(
        running.event_within(Duration::from_secs(1)).await,
        None,
        "and then it is done"
    );
}
