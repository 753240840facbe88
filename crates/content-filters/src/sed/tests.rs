use super::*;

fn script(lines: &[&str]) -> Arc<Script> {
    let mut script = Script::default();
    lines
        .iter()
        .for_each(|line| script.add(line.as_bytes()).unwrap());
    assert_eq!(script.complaint(), None);
    Arc::new(script)
}

fn run(lines: &[&str], text: &str, size: usize) -> Result<String, BodyError> {
    let (mut editor, mut output) = (Editor::new(script(lines), Rc::default()), Vec::new());
    for piece in text.as_bytes().chunks(size) {
        editor.push(piece, &mut output)?;
    }
    editor.finish(&mut output)?;
    Ok(String::from_utf8(output).unwrap())
}

#[test]
fn any_split_gives_the_same() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["s/a/b/"], "aa\na", "ba\nb\n"),
        (&["s/a/[&]/g"], "aba\n", "[a]b[a]\n"),
        (&["s/\\(.\\)\\(.\\)/\\2\\1/g"], "abcd\n", "badc\n"),
        (&["s/a/b/2"], "aaa\n", "aba\n"),
        (&["s/x*/-/g"], "ab\n", "-a-b-\n"),
        (&["s/^a/b/g"], "aaa\n", "baa\n"),
        (&["s,/,\\,,g"], "a/b\n", "a,b\n"),
        (&["s/a/\\&/"], "a\n", "&\n"),
        (&["2d"], "1\n2\n3\n", "1\n3\n"),
        (&["$d"], "1\n2\n3\n", "1\n2\n"),
        (&["2,3d"], "1\n2\n3\n4\n", "1\n4\n"),
        (&["2,1d"], "1\n2\n3\n", "1\n3\n"),
        (&["/b/,/c/d"], "a\nb\nx\nc\nd\n", "a\nd\n"),
        (&["/b/!d"], "a\nb\n", "b\n"),
        (&["#n", "/b/p"], "a\nb\n", "b\n"),
        (&["#n", "s/a/b/p"], "a\nc\n", "b\n"),
        (&["s/a/b/p"], "a\n", "b\n"),
        (&["p"], "a\n", "a\na\n"),
        (&["="], "a\nb", "1\na\n2\nb\n"),
        (&["y/abc/xyz/"], "aabbcc\n", "xxyyzz\n"),
        (&["y/ab/\\n\\//"], "ab\n", "\n/\n"),
        (&["1q"], "a\nb\n", "a\n"),
        (&["/a/{s/a/b/;s/b/c/;}"], "a\nb\n", "c\nb\n"),
        (&["/a/{", "s/a/b/", "}", "s/b/d/"], "a\nb\n", "d\nd\n"),
        (&["/x/!{s/a/b/}"], "a\nxa\n", "b\nxa\n"),
        (&[":a", "s/aa/a/", "ta"], "aaaa\n", "a\n"),
        (&["/a/b end", "s/b/c/", ":end"], "ab\nb\n", "ab\nc\n"),
        (&["N", "s/\\n/+/"], "1\n2\n3\n4\n", "1+2\n3+4\n"),
        (&["N", "P", "D"], "1\n2\n3\n", "1\n2\n"),
        (&["n", "d"], "1\n2\n3\n", "1\n3\n"),
        (&["h", "G"], "a\n", "a\na\n"),
        (&["H", "$!d", "g"], "a\nb\n", "\na\nb\n"),
        (&["x"], "a\nb\n", "\na\n"),
        (&["1!G", "h", "$!d"], "1\n2\n3\n", "3\n2\n1\n"),
        (
            &["a\\\nbehind", "i\\\nbefore"],
            "x\n",
            "before\nx\nbehind\n",
        ),
        (&["2,3c\\\nnew"], "1\n2\n3\n4\n", "1\nnew\n4\n"),
        (
            &["l"],
            "a\u{1}\u{7f}é\n",
            "a\\01\\177\\303\\251\na\u{1}\u{7f}é\n",
        ),
        (&["s/a/b/", "s//c/"], "aa\n", "bc\n"),
        (&["r /nowhere/at/all"], "a\n", "a\n"),
        (&[], "a\n\nb", "a\n\nb\n"),
    ];
    for (lines, text, expected) in cases {
        for size in 1..=text.len() {
            assert_eq!(
                run(lines, text, size).as_deref(),
                Ok(*expected),
                "{lines:?} {text:?} {size}"
            );
        }
    }
    assert_eq!(run(&["s/a/b/"], "", 1).as_deref(), Ok(""));
}

#[test]
fn long_lines_are_folded() {
    let text = "x".repeat(100);
    assert_eq!(
        run(&["#n", "l"], &text, 7).unwrap(),
        format!("{}\\\n{}\n", "x".repeat(71), "x".repeat(29))
    );
}

#[test]
fn what_has_no_end_is_ended() {
    assert_eq!(run(&[":a", "ba"], "x\n", 1), Err(BodyError::Source));
    assert_eq!(
        run(&[":a", "s/x/xx/g", "ta"], "x\n", 1),
        Err(BodyError::Source)
    );
    assert_eq!(
        run(&["H", ":a", "G;G;G;G;G;G;G;G;h;ba"], "x\n", 1),
        Err(BodyError::Source)
    );
}

#[test]
fn lines_up_to_the_limit_and_beyond() {
    let fits = "x".repeat(SPACE_BYTES_MAX);
    assert_eq!(run(&["d"], &fits, 1 << 16).as_deref(), Ok(""));
    assert_eq!(run(&["d"], &(fits + "x"), 1 << 16), Err(BodyError::Source));
}

#[test]
fn scripts_that_are_none() {
    let complaint = |text: &str| {
        let mut script = Script::default();
        script
            .add(text.as_bytes())
            .err()
            .or_else(|| script.complaint())
            .unwrap_or_else(|| panic!("{text} was taken"))
    };
    let cases = [
        ("s/a/b", "ending delimiter"),
        ("s/\\(a/b/", "imbalance"),
        ("s/a/\\1/", "out of range"),
        ("s/a/b/600", "too big"),
        ("s/a/b/x", "garbled"),
        ("s//b/", "no remembered"),
        ("z", "unrecognized"),
        ("y/ab/c/", "same size"),
        ("{p", "too many {"),
        ("p}", "too many }"),
        ("ba", "undefined label"),
        (":a;:a", "duplicate"),
        ("1:a", "no addresses"),
        ("1,2q", "only one"),
        ("1,d", "garbled"),
        ("a text", "garbled"),
        ("w /tmp/x", "not written"),
        ("dd", "garbled"),
    ];
    for (text, expected) in cases {
        assert!(
            complaint(text).contains(expected),
            "{text}: {}",
            complaint(text)
        );
    }
}

/// Scripts that put out without end, or look at what they hold again and again.
#[test]
fn what_scripts_put_out_and_look_at_is_bounded() {
    for lines in [
        &[":a", "p", "ba"][..],
        &[
            "s/x/xxxxxxxx/g",
            "s/x/xxxxxxxx/g",
            "s/x/xxxxxxxx/g",
            "h",
            ":a",
            "G",
            "g",
            "ba",
        ],
    ] {
        let (mut editor, mut output) = (Editor::new(script(lines), Rc::default()), Vec::new());
        let input = [b"x".repeat(4000), b"\nx\n".to_vec()].concat();
        assert!(editor.push(&input, &mut output).is_err(), "{lines:?}");
        assert!(
            output.len() as u64 <= 2 * saker_ap_expr::TEXT_BYTES_MAX,
            "{lines:?}: {}",
            output.len()
        );
        assert!(editor.budget.exceeded().is_some(), "{lines:?}");
    }
}
