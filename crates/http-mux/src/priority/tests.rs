use super::*;
use proptest::prelude::*;

#[test]
fn values() {
    let rows: [(&str, u8, bool); 28] = [
        ("", 3, false),
        ("u=0", 0, false),
        ("u=7", 7, false),
        ("u=8", 3, false),
        ("u=-1", 3, false),
        ("u=1.5", 3, false),
        ("u=\"1\"", 3, false),
        ("u", 3, false),
        ("i", 3, true),
        ("i=?1", 3, true),
        ("i=?0", 3, false),
        ("i=1", 3, false),
        ("u=5, i", 5, true),
        ("u=5,i", 5, true),
        ("  u=5\t,\ti  ", 5, true),
        ("u=1, u=2", 2, false),
        ("i, i=?0", 3, false),
        ("u=2;x=\",i\", i;y", 2, true),
        ("x=\"a,u=1\\\"\", u=4", 4, false),
        ("x=(1 \"u\" tok;a);b, u=6", 6, false),
        ("x=:aGk=:, u=6", 6, false),
        ("x=*a:/b, i", 3, true),
        ("u=5,", 3, false),
        ("u=5 i", 3, false),
        ("u=5, I", 3, false),
        ("u=?2, i", 3, false),
        ("u=5, x=(1", 3, false),
        ("u=1234567890123456, i", 3, false),
    ];
    for (value, urgency, incremental) in rows {
        assert_eq!(
            Priority::parse(value.as_bytes()),
            Priority {
                urgency,
                incremental
            },
            "{value}"
        );
    }
}

#[test]
fn an_update_changes_what_it_says() {
    let before = Priority {
        urgency: 1,
        incremental: true,
    };
    assert_eq!(
        before.updated(b"u=5"),
        Priority {
            urgency: 5,
            incremental: true
        }
    );
    assert_eq!(
        before.updated(b"i=?0"),
        Priority {
            urgency: 1,
            incremental: false
        }
    );
    assert_eq!(before.updated(b"u=5,,"), before);
}

proptest! {
    #[test]
    fn any_bytes_give_an_urgency_in_range(value: Vec<u8>) {
        prop_assert!(Priority::parse(&value).urgency <= URGENCY_MAX);
    }

    #[test]
    fn written_priorities_are_read(urgency in 0u8..8, incremental: bool) {
        let text = format!("u={urgency}, i=?{}", u8::from(incremental));
        prop_assert_eq!(Priority::parse(text.as_bytes()), Priority { urgency, incremental });
    }
}
