use super::*;

const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000));

fn later(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(NOW.as_secs() + seconds))
}

fn digest(seed: u8) -> PolicyDigest {
    PolicyDigest::of(&[seed])
}

#[test]
fn opens_what_it_sealed_and_nothing_else() {
    let tickets = Tickets::own(Duration::from_secs(3600));
    let ticket = tickets.seal(&digest(1), b"session", NOW).unwrap();
    assert_eq!(
        tickets.open(&digest(1), &ticket, NOW, None).as_deref(),
        Some(&b"session"[..])
    );
    assert_eq!(tickets.open(&digest(2), &ticket, NOW, None), None);
    assert_eq!(
        Tickets::own(Duration::from_secs(3600)).open(&digest(1), &ticket, NOW, None),
        None
    );
    for at in 0..ticket.len() {
        let mut broken = ticket.clone();
        broken[at] ^= 1;
        assert_eq!(tickets.open(&digest(1), &broken, NOW, None), None, "{at}");
        assert_eq!(
            tickets.open(&digest(1), &ticket[..at], NOW, None),
            None,
            "{at}"
        );
    }
    assert_ne!(ticket, tickets.seal(&digest(1), b"session", NOW).unwrap());
}

#[test]
fn both_sides_of_the_lifetime() {
    let tickets = Tickets::own(Duration::from_secs(3600));
    let ticket = tickets.seal(&digest(1), b"session", NOW).unwrap();
    assert!(
        tickets
            .open(&digest(1), &ticket, later(3600), None)
            .is_some()
    );
    assert!(
        tickets
            .open(&digest(1), &ticket, later(3601), None)
            .is_none()
    );
    assert!(
        tickets
            .open(&digest(1), &ticket, later(60), Some(60))
            .is_some()
    );
    assert!(
        tickets
            .open(&digest(1), &ticket, later(61), Some(60))
            .is_none(),
        "the site's is shorter"
    );
    assert!(
        tickets
            .open(&digest(1), &ticket, later(3601), Some(9000))
            .is_none()
    );
    let long = Tickets::own(Duration::from_secs(30 * 24 * 3600));
    assert_eq!(long.lifetime(), LIFETIME_MAX);
}

#[test]
fn keys_change_by_time() {
    let rotation = Duration::from_secs(3600);
    let tickets = Tickets::own(rotation);
    let made = Instant::now();
    let first = tickets.newest(made).unwrap().name;
    assert_eq!(tickets.newest(made + rotation / 2).unwrap().name, first);
    let second = tickets.newest(made + rotation).unwrap().name;
    assert_ne!(first, second);
    assert!(tickets.named(&first).is_some());
    tickets.newest(made + rotation * 2);
    assert!(tickets.named(&first).is_none() && tickets.named(&second).is_some());
}

#[test]
fn the_process_that_takes_over_goes_on_with_own_keys() {
    let before = Tickets::own(Duration::from_secs(3600));
    let old = before.seal(&digest(1), b"old", NOW).unwrap();
    before.rotate();
    let ticket = before.seal(&digest(1), b"session", NOW).unwrap();
    let keys = before.own_keys().unwrap();
    assert_eq!(keys.secrets.len(), 2);
    assert!(keys.rotate_in <= Duration::from_secs(3600));
    let after = Tickets::own(Duration::from_secs(3600));
    assert!(after.continue_with(&keys));
    for (ticket, plain) in [(&old, &b"old"[..]), (&ticket, b"session")] {
        assert_eq!(
            after.open(&digest(1), ticket, NOW, None).as_deref(),
            Some(plain)
        );
    }
    assert_eq!(after.open(&digest(2), &ticket, NOW, None), None);
    let own = after.seal(&digest(1), b"new", NOW).unwrap();
    let odd = |secrets: Vec<Vec<u8>>| OwnKeys {
        secrets,
        rotate_in: Duration::MAX,
    };
    let good = keys.secrets[0].clone();
    for secrets in [vec![], vec![vec![0; 47]], vec![vec![0; 80]], vec![good; 3]] {
        assert!(!after.continue_with(&odd(secrets)));
    }
    assert!(after.open(&digest(1), &own, NOW, None).is_some());
}

#[test]
fn keys_from_files_stay_where_they_are() {
    let dir = saker_testkit::TempDir::private("unit").unwrap();
    let file = dir.write("ticket.key", [7; 48]).unwrap();
    let settings = ServerTls {
        ticket_keys: vec![file],
        ..ServerTls::default()
    };
    let (tickets, problems) = Tickets::load(&settings, None);
    assert!(problems.is_empty() && tickets.own_keys().is_none());
    let own = Tickets::own(Duration::from_secs(60)).own_keys().unwrap();
    assert!(!tickets.continue_with(&own));
}
