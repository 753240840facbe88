use super::*;
use std::time::{Duration, Instant};

fn pattern(text: &str) -> Pattern {
    Pattern::compile(text, PatternOptions::default()).expect(text)
}

fn groups<'s>(text: &str, subject: &'s str) -> Option<Vec<&'s str>> {
    let pattern = pattern(text);
    let spans = pattern
        .captures(subject.as_bytes())
        .expect("within limits")?;
    Some(
        (0..=pattern.groups().min(9))
            .map(|group| std::str::from_utf8(spans.text(group, subject.as_bytes())).expect("text"))
            .collect(),
    )
}

#[test]
fn captures_by_number() {
    assert_eq!(
        groups("^/(a)(b)?/(.*)$", "/a/x/y"),
        Some(vec!["/a/x/y", "a", "", "x/y"])
    );
    assert_eq!(groups("b", "abc"), Some(vec!["b"]));
    assert_eq!(groups("(x)", "abc"), None);
    assert_eq!(
        groups("(1)(2)(3)(4)(5)(6)(7)(8)(9)(0)", "1234567890")
            .expect("match")
            .len(),
        10
    );
}

#[test]
fn apache_defaults() {
    let cases: [(&str, &str, bool); 16] = [
        ("^a$", "a", true),
        // DOLLAR_ENDONLY.
        ("^a$", "a\n", false),
        ("^(a|b$)", "b\n", false),
        // DOTALL.
        ("^a.b$", "a\nb", true),
        ("^[$]$", "$", true),
        ("^[]$]$", "$", true),
        ("^[^]$]$", "$", false),
        ("^[[:alpha:]$]$", "$", true),
        (r"^\$$", "$", true),
        (r"^\Q$\E$", "$", true),
        (r"^a(?#$[)$", "a\n", false),
        ("(?m)^a$", "a\nb", true),
        ("(?m:^a$)", "x\na\nb", true),
        ("(?P<mm>a)$", "a\n", false),
        ("A", "a", false),
        ("(?i)A", "a", true),
    ];
    for (text, subject, matches) in cases {
        assert_eq!(
            pattern(text).is_match(subject.as_bytes()),
            Ok(matches),
            "{text} {subject:?}"
        );
    }
}

#[test]
fn options() {
    let matches = |text: &str, subject: &str, options| {
        Pattern::compile(text, options)
            .expect(text)
            .is_match(subject.as_bytes())
    };
    let plain = PatternOptions::default();
    assert_eq!(matches("A", "a", PatternOptions::caseless(true)), Ok(true));
    assert_eq!(
        matches(
            "a$",
            "a\n",
            PatternOptions {
                dollar_endonly: false,
                ..plain
            }
        ),
        Ok(true)
    );
    assert_eq!(
        matches(
            "^b$",
            "a\nb\nc",
            PatternOptions {
                multiline: true,
                ..plain
            }
        ),
        Ok(true)
    );
    assert_eq!(
        matches(
            "a.b",
            "a\nb",
            PatternOptions {
                dotall: false,
                ..plain
            }
        ),
        Ok(false)
    );
    assert_eq!(
        matches(
            "a b # c",
            "ab",
            PatternOptions {
                extended: true,
                ..plain
            }
        ),
        Ok(true)
    );
}

#[test]
fn bytes_that_are_no_text() {
    let latin = Pattern::compile(b"^/caf\xe9$", PatternOptions::default()).expect("compiles");
    assert_eq!(latin.is_match(b"/caf\xe9"), Ok(true));
    assert_eq!(latin.text(), b"^/caf\xe9$");
    assert_eq!(pattern("^/café$").is_match("/café".as_bytes()), Ok(true));
    assert_eq!(pattern("^a.c$").is_match(b"a\0c"), Ok(true));
}

#[test]
fn names() {
    let pattern = pattern("^/(?<site>[^/]+)/(?:(?<kind>a)|(?<kind>b))");
    let found = pattern
        .named_captures(b"/shop/b")
        .expect("within limits")
        .expect("match");
    assert_eq!(
        found,
        [
            ("MATCH_SITE".to_owned(), 1..5),
            ("MATCH_KIND".to_owned(), 0..0),
            ("MATCH_KIND".to_owned(), 6..7)
        ]
    );
    assert_eq!(pattern.named_captures(b"/shop/c"), Ok(None));
}

#[test]
fn errors_have_no_offset_of_ours() {
    let error = Pattern::compile("a(b", PatternOptions::default()).expect_err("unbalanced");
    assert!(
        error.message.contains("parenthesis") && !error.message.contains("offset"),
        "{error}"
    );
    assert!(Pattern::compile("a\0b", PatternOptions::default()).is_err());
    assert!(Pattern::compile("[", PatternOptions::default()).is_err());
    assert!(Pattern::compile("*a", PatternOptions::default()).is_err());
}

/// Exponential patterns end, soon, with an error; the author can't lift the limits.
#[test]
fn limits() {
    let long = "a".repeat(4000) + "!";
    let catastrophes = [
        "(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "(*LIMIT_MATCH=4000000000)(a+)+$",
        "(?:(a+)+)+$",
        "(a*)*b",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
    ];
    for text in catastrophes {
        for jit in [true, false] {
            let regex = build(text.as_bytes(), PatternOptions::default(), jit).expect(text);
            let begun = Instant::now();
            let outcome = regex.is_match(long.as_bytes());
            assert!(
                outcome.is_err() || outcome.is_ok_and(|found| !found),
                "{text}"
            );
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{text} jit {jit}: {:?}",
                begun.elapsed()
            );
        }
    }
    assert_eq!(
        pattern("(a+)+$").is_match(long.as_bytes()),
        Err(LimitReached)
    );
}

/// A pattern that overflows the JIT's stack is matched by the interpreter.
#[test]
fn deep_recursion() {
    let subject = "ab".repeat(4_000);
    assert_eq!(pattern("^(a|b)*$").is_match(subject.as_bytes()), Ok(true));
    let spans = pattern("^(?:(a)|(b))*$")
        .captures(subject.as_bytes())
        .expect("within limits")
        .expect("match");
    assert_eq!(spans.get(0), Some(0..8_000));
    let nested = pattern(r"^(\((?1)*\))$").is_match("(".repeat(100_000).as_bytes());
    assert_ne!(nested, Ok(true));
}

/// Compilation is limited per file; other files are unaffected.
#[test]
fn patterns_of_a_file_are_bounded_together() {
    let compile = |text: &str| Pattern::compile(text, PatternOptions::HTTPD);
    let large = "(?:a?){2000}";
    {
        let _bounded = PatternsBounded::to(PATTERNS_WEIGHT_MAX);
        let compiled = (0..10_000).take_while(|_| compile(large).is_ok()).count();
        assert!((50..600).contains(&compiled), "{compiled}");
        assert!(compile("a").is_err(), "nothing is left");
        let error = compile("a").expect_err("nothing is left");
        assert_eq!(
            error.message,
            "the patterns of this file are too large together"
        );
    }
    assert!(compile(large).is_ok());
    let _bounded = PatternsBounded::to(PATTERNS_WEIGHT_MAX);
    for number in 0..5_000 {
        compile(&format!("^/old-{number}/[a-z0-9-]{{1,40}}/(.*)$")).expect("many usual ones");
    }
}
