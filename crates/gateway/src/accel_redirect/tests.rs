//! Parsing of response heads, and the names that lead to internal redirects.

use super::*;

fn head(status: Status, lines: &[(&'static str, &str)]) -> ResponseHead {
    let mut fields = Fields::new();
    lines
        .iter()
        .for_each(|(name, value)| fields.append(*name, value.as_bytes().to_vec()));
    ResponseHead {
        status,
        reason: None,
        fields,
        length: None,
        is_status_said: false,
        first_status: None,
        is_status_invalid: false,
        is_local_redirect: false,
    }
}

fn all() -> Trust {
    Trust {
        accel: true,
        litespeed: true,
        files: Some(Arc::default()),
        hides: false,
        unheeded: Box::default(),
    }
}

fn text(fields: &Fields) -> String {
    fields
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value)))
        .collect()
}

#[test]
fn what_is_for_us_goes_no_further() {
    let lines = [
        ("Content-Type", "text/plain; charset=latin1; x=y"),
        ("x-accel-redirect", "/a?b"),
        ("X-Accel-Charset", "utf-8"),
        ("X-Accel-Limit-Rate", "1000"),
        ("X-Accel-Buffering", "No"),
        ("X-Accel-Expires", "5"),
        ("X-Sendfile", "/x"),
        ("X-LiteSpeed-Location", "/y"),
    ];
    let mut said = head(Status::OK, &lines);
    let steering = steer(&mut said, &all(), false);
    assert_eq!(steering.order, Some(Order::Accel(b"/a?b".to_vec())));
    assert_eq!(
        (
            steering.rate.map(|rate| rate.bytes_per_s),
            steering.is_unbuffered
        ),
        (Some(1000), Some(true))
    );
    assert_eq!(
        text(&said.fields),
        "Content-Type: text/plain; x=y; charset=utf-8\nX-Accel-Expires: 5\n"
    );
}

#[test]
fn who_is_not_trusted_says_nothing_to_us() {
    let lines = [
        ("X-Accel-Redirect", "/a"),
        ("X-Sendfile", "/x"),
        ("X-LiteSpeed-Location", "/y"),
    ];
    let mut said = head(Status::OK, &lines);
    assert_eq!(
        (
            steer(&mut said, &Trust::default(), false),
            said.fields.len()
        ),
        (Steering::default(), 3)
    );
    let hides = Trust {
        hides: true,
        ..Trust::default()
    };
    assert_eq!(
        (steer(&mut said, &hides, false), said.fields.len()),
        (Steering::default(), 0)
    );
}

#[test]
fn mod_xsendfile_looks_at_successes_only() {
    let files = SendFiles {
        is_for_success: true,
        ..SendFiles::default()
    };
    let trust = Trust {
        files: Some(Arc::new(files)),
        ..Trust::default()
    };
    for (status, expected) in [(Status::OK, true), (Status::NOT_FOUND, false)] {
        let mut said = head(status, &[("X-Sendfile", "/x")]);
        assert_eq!(
            (
                steer(&mut said, &trust, false).order.is_some(),
                said.fields.has("X-Sendfile")
            ),
            (expected, !expected)
        );
    }
}

#[test]
fn names_below_folders() {
    for (root, name, expected) in [
        ("/srv/files", "/srv/files/a/b.txt", Some("a/b.txt")),
        ("/srv/files/", "/srv//files/./a", Some("a")),
        ("/srv/files", "/srv/filesystem/a", None),
        ("/srv/files", "/srv/files/../secret", None),
        ("/srv/files", "/srv/files/a/../b", Some("b")),
        ("/srv/files", "/srv/files", None),
        ("/srv/files", "/srv/files/", None),
        ("/srv/files", "a/../b", Some("b")),
        ("/srv/files", "../files/b", Some("b")),
        ("/srv/files", "../filesystem/b", None),
        ("/srv/files", "a/", None),
        ("/srv/files", "a\0b", None),
        ("/srv/files", "", None),
        ("/", "/etc/passwd", Some("etc/passwd")),
        ("/srv/../etc", "/etc/passwd", None),
        ("/srv", "/../srv/a", None),
    ] {
        assert_eq!(
            below(root.as_bytes(), name.as_bytes()),
            expected.map(|text| text.as_bytes().to_vec()),
            "{root} {name}"
        );
    }
}

#[test]
fn the_scripts_own_folder_is_one_where_that_is_so() {
    let script = Script {
        filename: b"/www/app/x.php".to_vec(),
        ..Script::default()
    };
    let files = |beside_script| SendFiles {
        roots: vec!["/srv".into()],
        beside_script,
        ..SendFiles::default()
    };
    let found = |name: &str, beside| {
        find(name.as_bytes(), &files(beside), Some(&script)).map(|(mapped, _)| mapped.filename())
    };
    assert_eq!(
        found("a.txt", true).as_deref(),
        Some(&b"/www/app/a.txt"[..])
    );
    assert_eq!(found("a.txt", false).as_deref(), Some(&b"/srv/a.txt"[..]));
    assert_eq!(found("/www/app/a.txt", false), None);
    let proxied = Script {
        filename: b"proxy:fcgi://h/www/app/x.php".to_vec(),
        ..Script::default()
    };
    assert_eq!(find(b"/www/app/a.txt", &files(true), Some(&proxied)), None);
}

#[test]
fn escapes() {
    for (name, expected) in [
        ("a%20b", Some("a b")),
        ("a+b", Some("a+b")),
        ("%41%62", Some("Ab")),
        ("%2f", None),
        ("%00", None),
        ("a%", None),
        ("%zz", None),
    ] {
        assert_eq!(
            unescape(name.as_bytes()),
            expected.map(|text| text.as_bytes().to_vec()),
            "{name}"
        );
    }
}
