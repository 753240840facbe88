use super::*;

const ANSWER_MS: u64 = 1000;

fn table(known: usize, missing: usize) -> Table {
    Table::new(&Settings {
        answer_ms: ANSWER_MS,
        missing_ms: 100,
        stale_ms: 10_000,
        entries_max: known,
        missing_max: missing,
        ..Settings::default()
    })
}

fn host(user: &str) -> Result<LookupResult, ()> {
    Ok(LookupResult::Known(HostRow {
        user: Some(user.into()),
        ..HostRow::default()
    }))
}

/// The user of the cached host, `-` for a missing host, `!` if nothing is cached; and whether a
/// query is to be sent.
fn now(table: &Table, name: &str, now_ms: u64, is_away: bool) -> (Option<String>, bool) {
    let (found, asks) = table.find(name, now_ms, is_away);
    match found {
        Found::Now(answer) => (Some(shown(&answer)), asks),
        Found::Later(_) => (None, asks),
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Known(host, _) => host.user.as_deref().unwrap_or_default().to_owned(),
        Answer::Missing(_) => "-".into(),
        Answer::Refused => "refused".into(),
        Answer::Away => "!".into(),
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_question_is_asked_once_and_all_who_wait_hear_the_answer() {
    let table = table(100, 100);
    let (Found::Later(mut first), true) = table.find("a", 0, false) else {
        panic!("the first asks")
    };
    let (Found::Later(mut second), false) = table.find("a", 0, false) else {
        panic!("the second waits")
    };
    table.settle("a", host("bob"), 1);
    assert_eq!(
        [&mut first, &mut second].map(|waiting| shown(&waiting.try_recv().unwrap())),
        ["bob", "bob"]
    );
    assert_eq!(now(&table, "a", 2, false), (some("bob"), false));
}

#[test]
fn ages() {
    let table = table(100, 100);
    table.find("a", 0, false);
    table.settle("a", host("bob"), 0);
    assert_eq!(now(&table, "a", 749, false), (some("bob"), false), "fresh");
    assert_eq!(
        now(&table, "a", 750, false),
        (some("bob"), true),
        "ripe: it is asked beside"
    );
    assert_eq!(now(&table, "a", 760, false), (some("bob"), false), "once");
    table.settle("a", host("bob"), 770);
    assert_eq!(
        now(&table, "a", 1500, false),
        (some("bob"), false),
        "extended"
    );
    assert_eq!(
        now(&table, "a", 1770, false),
        (None, true),
        "old: wait for it"
    );
    table.settle("a", Err(()), 1771);
    assert_eq!(
        now(&table, "a", 1772, true),
        (some("bob"), false),
        "the database is away"
    );
    assert_eq!(
        now(&table, "a", 11_000, true),
        (some("bob"), false),
        "stale"
    );
    assert_eq!(now(&table, "a", 11_771, false), (None, true), "too old");
    table.settle("a", Err(()), 11_772);
    assert_eq!(now(&table, "a", 11_773, true), (some("!"), false));
    assert_eq!(now(&table, "a", 12_773, true), (None, true));
}

#[test]
fn who_waits_for_a_database_that_hangs_gets_what_was_known() {
    let table = table(100, 100);
    table.find("a", 0, false);
    table.settle("a", host("bob"), 0);
    let (Found::Later(mut waiting), true) = table.find("a", 5000, false) else {
        panic!("it is old")
    };
    table.let_go("a", 5500);
    assert_eq!(shown(&waiting.try_recv().unwrap()), "bob");
    assert_eq!(now(&table, "a", 5600, true), (some("bob"), false));
    let (Found::Later(mut first), true) = table.find("b", 5600, true) else {
        panic!("nothing is known of it")
    };
    table.let_go("b", 5700);
    assert!(first.try_recv().is_err(), "there is nothing to give");
    table.settle("b", Err(()), 5800);
    assert_eq!(shown(&first.try_recv().unwrap()), "!");
}

#[test]
fn outcomes_hold_as_long_as_the_same_is_said() {
    let table = table(100, 100);
    table.find("a", 0, false);
    table.settle("a", host("bob"), 0);
    let (Found::Now(Answer::Known(_, lease)), _) = table.find("a", 1, false) else {
        panic!("known")
    };
    let stamp = lease.token();
    assert!(stamp.is_current(749) && !stamp.is_current(750));
    assert_eq!(now(&table, "a", 800, false), (some("bob"), true));
    table.settle("a", host("bob"), 800);
    assert!(stamp.is_current(1500));
    assert_eq!(now(&table, "a", 1600, false), (some("bob"), true));
    table.settle("a", host("eve"), 1600);
    assert!(!stamp.is_current(1601));
    assert_eq!(now(&table, "a", 1601, false), (some("eve"), false));
}

#[test]
fn what_is_missing_is_soon_asked_again() {
    let table = table(100, 100);
    table.find("a", 0, false);
    table.settle("a", Ok(LookupResult::Missing), 0);
    assert_eq!(now(&table, "a", 50, false), (some("-"), false));
    assert_eq!(now(&table, "a", 100, false), (None, true));
    table.settle("a", host("bob"), 100);
    assert_eq!(now(&table, "a", 101, false), (some("bob"), false));
}

#[test]
fn purges_reach_what_is_being_asked() {
    let table = table(100, 100);
    table.find("a", 0, false);
    assert!(table.purge("a") && !table.purge("b"));
    table.settle("a", host("old"), 1);
    assert_eq!(now(&table, "a", 2, false), (None, true));
    table.settle("a", host("new"), 3);
    let (Found::Now(Answer::Known(_, lease)), _) = table.find("a", 4, false) else {
        panic!("known")
    };
    assert!(table.purge("a") && !lease.token().is_current(4));
    assert_eq!(now(&table, "a", 5, false), (None, true));
    table.settle("a", host("new"), 6);
    assert_eq!((table.purge_all(), table.counts().known), (1, 0));
}

#[test]
fn there_is_a_bound_for_each_kind() {
    let table = table(160, 32);
    for number in 0..2000u64 {
        let (known, missing) = (format!("k{number}"), format!("m{number}"));
        table.find(&known, number, false);
        table.settle(&known, host("x"), number);
        table.find(&missing, number, false);
        table.settle(&missing, Ok(LookupResult::Missing), number);
    }
    let counts = table.counts();
    assert!(
        (100..=160).contains(&counts.known) && counts.missing <= 32,
        "{counts:?}"
    );
}

#[test]
fn questions_under_way_are_bounded() {
    let table = table(100, 100);
    for number in 0..FIRST_MAX {
        assert!(table.find(&format!("h{number}"), 0, false).1, "{number}");
    }
    assert_eq!(now(&table, "one-more", 0, false), (some("!"), false));
    table.settle("h0", Ok(LookupResult::Missing), 0);
    assert!(table.find("one-more", 0, false).1);
}

#[test]
fn a_flood_of_unknown_names_leaves_known_hosts() {
    let table = table(10_000, 10_000);
    table.find("old", 0, false);
    table.settle("old", host("bob"), 0);
    table.find("ripe", 4500, false);
    table.settle("ripe", host("eve"), 4500);
    let begun = (0..2000)
        .filter(|number| table.find(&format!("h{number}"), 5000, false).1)
        .count();
    assert_eq!(begun, FIRST_MAX);
    assert_eq!(now(&table, "ripe", 5300, false), (some("eve"), true));
    assert_eq!(
        now(&table, "old", 5300, false),
        (None, true),
        "there is room to ask"
    );
    table.settle("old", host("bob"), 5300);
    // Beyond that, what is stale is used.
    table.asking.store(ASKING_MAX, Relaxed);
    let (Found::Now(Answer::Known(_, lease)), false) = table.find("old", 7000, false) else {
        panic!("it is stale and useful")
    };
    let stamp = lease.token();
    assert!(stamp.is_current(7000) && !stamp.is_current(7000 + AWAY_MS));
    assert_eq!(now(&table, "new", 7000, false), (some("!"), false));
}
