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
