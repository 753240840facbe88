use super::*;

fn lines(rules: &[&str], line_bytes_max: usize) -> Lines {
    Lines {
        rules: rules
            .iter()
            .map(|rule| Arc::new(SubstituteRule::parse(rule.as_bytes()).unwrap()))
            .collect(),
        line_bytes_max,
        line: Vec::new(),
        budget: Rc::default(),
    }
}

/// In pieces of `size` bytes.
fn run(
    rules: &[&str],
    line_bytes_max: usize,
    text: &str,
    size: usize,
) -> Result<String, BodyError> {
    let (mut filter, mut output) = (lines(rules, line_bytes_max), Vec::new());
    for piece in text.as_bytes().chunks(size) {
        filter.push(piece, &mut output)?;
    }
    filter.finish(&mut output)?;
    Ok(String::from_utf8(output).unwrap())
}

#[test]
fn any_split_gives_the_same() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["s/foo/bar/"],
            "a foo\nfoofoo\n\nfoo",
            "a bar\nbarbar\n\nbar",
        ),
        (&["s/FOO/b&\\$0\\&$0/i"], "a foo\n", "a b&$0&foo\n"),
        (&["s/a.c/$0/n"], "a.c abc\n", "$0 abc\n"),
        (&["s/(o+)/<$1>/", "s/<o/[/"], "foo\n", "f[o>\n"),
        (&["s/b/x/q", "s/axc/y/"], "abc\n", "axc\n"),
        (&["s/b/x/", "s/axc/y/"], "abc\n", "y\n"),
        (&["s/foo.bar/x/"], "foo\nbar\n", "foo\nbar\n"),
        (&["s/x*/-/"], "ab", "-a-b-"),
        (&["s/^a/b/"], "aaa\na\n", "bbb\nb\n"),
        (&[], "a\nb", "a\nb"),
    ];
    for (rules, text, expected) in cases {
        for size in 1..=text.len() {
            assert_eq!(
                run(rules, 1000, text, size).as_deref(),
                Ok(*expected),
                "{rules:?} {text:?} {size}"
            );
        }
    }
}

#[test]
fn lines_up_to_the_limit_and_beyond() {
    for size in [1, 7, 100] {
        assert_eq!(
            run(&["s/z/y/"], 8, "1234567\n12345678", size).as_deref(),
            Ok("1234567\n12345678")
        );
        assert_eq!(
            run(&["s/z/y/"], 8, "12345678\n", size),
            Err(BodyError::Source)
        );
        for flag in ["", "q"] {
            assert_eq!(
                run(&[&format!("s/a/123/{flag}")], 8, "aa89", size).as_deref(),
                Ok("12312389"),
                "{flag}"
            );
            assert_eq!(
                run(&[&format!("s/a/123/{flag}")], 8, "aa890", size),
                Err(BodyError::Source),
                "{flag}"
            );
        }
    }
}

/// Each line grows to the bound of a line, and there are many of them: all together they are
/// bounded, too.
#[test]
fn many_lines_that_grow_end_the_answer() {
    let mut lines = lines(
        &[
            "s/x/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/n",
            "s/x/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/n",
            "s/x/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/n",
        ],
        1 << 20,
    );
    let mut output = Vec::new();
    let input = b"xxxxxxxx\n".repeat(900);
    assert!(lines.push(&input, &mut output).is_err());
    assert!(
        output.len() as u64 <= saker_ap_expr::TEXT_BYTES_MAX + 8 * input.len() as u64,
        "{}",
        output.len()
    );
    assert!(
        lines.push(b"x\n", &mut output).is_err(),
        "nothing comes after it"
    );
}

#[test]
fn a_long_page_has_its_substitutions() {
    let mut lines = lines(&["s/a/bb/n", "s/bb(.)/$1c/"], 1 << 20);
    let mut output = Vec::new();
    for _ in 0..2000 {
        lines
            .push(&b"one a two a three\n".repeat(100), &mut output)
            .unwrap();
        output.clear();
    }
}

#[test]
fn rules_are_parsed_as_apache_parses_them() {
    let rule = SubstituteRule::parse(b"s|a.c|x$0|iq").unwrap();
    assert!(
        rule.pattern.is_match(b"ABC").unwrap()
            && !rule.flatten
            && !rule.is_literal
            && *rule.replacement == *b"x$0"
    );
    let rule = SubstituteRule::parse(b"s/a.c//n").unwrap();
    assert!(
        rule.pattern.is_match(b"a.c").unwrap()
            && !rule.pattern.is_match(b"abc").unwrap()
            && rule.replacement.is_empty()
    );
    assert!(SubstituteRule::parse(b"S/a/b").unwrap().flatten);
    for (text, part) in [
        ("x/a/b/", "must be an s///"),
        ("s/a", "complete"),
        ("s//b/", "complete"),
        ("s", "complete"),
        ("s/(/b/", "compile"),
        ("s/a/b/x", "flag"),
    ] {
        assert!(
            SubstituteRule::parse(text.as_bytes())
                .unwrap_err()
                .contains(part),
            "{text}"
        );
    }
}
