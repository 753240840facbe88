use super::*;
use crate::{Expression, StringExpression};

fn error(text: &str) -> String {
    Expression::compile(text, ExpressionOptions::default())
        .expect_err(text)
        .message
}

fn string_error(text: &str) -> String {
    StringExpression::compile(text, ExpressionOptions::default())
        .expect_err(text)
        .message
}

#[test]
fn what_parses() {
    let texts = [
        "true",
        "! false && ( true || not true )",
        "%{REQUEST_URI} =~ m#^/a# and not -n ''",
        "%{REQUEST_URI} =~ /a/i || 'a' !~ m/b/",
        "'a' == \"b\" || 'a' = 'b' || 'a' != 'b' || 'a' < 'b' || 'a' <= 'b' || 'a' > 'b' || 'a' >= 'b'",
        "1 -eq 2 || 1 -ne 2 || 1 -lt 2 || 1 -le 2 || 1 -gt 2 || 1 -ge 2",
        "1 eq 2 || 1 ne 2 || 1 lt 2 || 1 le 2 || 1 gt 2 || 1 ge 2",
        "%{REQUEST_METHOD} in { 'GET', \"HEAD\" } || 'a' -in { 'b' }",
        "'a' in PeerExtList('1.2.3')",
        "-d '/x' && -e '/x' && -f '/x' && -s '/x' && -L '/x' && -h '/x' && -x '/x' && -F '/x' && -U '/x' && -A '/x'",
        "-z '' && -n 'x' && -T 'on' && -R '10.0.0.0/8'",
        "%{REMOTE_ADDR} -ipmatch '10.1' && 'a' -strmatch 'A*' && 'a' -strcmatch 'A*' && 'a' -fnmatch 'a*'",
        "tolower('A') . \"b\" . %{HTTP_HOST} == 'x'",
        "req('X') == http('Y') && REQ_NOVARY('Z') == ''",
        "%{tolower:%{HTTP_HOST}} == 'x' && \"%{req:X-$1} $0\" == ''",
        "(tolower('x')) == 'y' && ('a' . 'b') != 'c'",
        "sub(s/a/b/g, 'x') == join({'a', 'b'}, ', ') && sub s#a#b#, 'x' == 'y'",
        "'a' in split(/,/, 'a,b') && join(split(m/,/, 'a')) == 'a'",
        "replace('a', 'b', 'c') == 'x'",
        "%{:toupper('a'):} == 'A' && '%{:1 -eq 1:}' == 'true'",
        "%{SSL_CLIENT_VERIFY} == 'SUCCESS'",
        "-1 -lt 1",
    ];
    for text in texts {
        Expression::compile(text, ExpressionOptions::default())
            .unwrap_or_else(|error| panic!("{text}: {error} at {}", error.at));
    }
}

#[test]
fn errors_in_the_words_of_httpd() {
    let cases = [
        ("", "syntax error, unexpected $end"),
        ("'a'", "syntax error, unexpected $end"),
        ("'a' ==", "syntax error, unexpected $end"),
        (
            "true true",
            "syntax error, unexpected T_TRUE, expecting $end",
        ),
        (
            "( true",
            "syntax error, unexpected $end, expecting T_OP_OR or T_OP_AND or ')'",
        ),
        ("foo", "syntax error, unexpected $end, expecting '('"),
        ("'x' 'y'", "syntax error, unexpected T_STR_BEGIN"),
        (
            "'a' in { 'b' ",
            "syntax error, unexpected $end, expecting '}' or ','",
        ),
        (
            "'a' =~ 'b'",
            "syntax error, unexpected T_STR_BEGIN, expecting T_REGEX or T_REGEX_I",
        ),
        ("'a' =~ /(/", "Failed to compile regular expression"),
        (
            "'a' =~ /a",
            "syntax error, unexpected $end, expecting T_REGEX or T_REGEX_I",
        ),
        ("'a", "Unterminated string or variable"),
        ("%{FOO} == ''", "Variable 'FOO' does not exist"),
        (
            "%{SERVER_ADDR} == ''",
            "Variable 'SERVER_ADDR' does not exist",
        ),
        ("foo('x') == ''", "Function 'foo' does not exist"),
        ("%{foo:x} == ''", "Function 'foo' does not exist"),
        (
            "'a' in foo('x')",
            "List-returning function 'foo' does not exist",
        ),
        ("-q 'x'", "Unary operator '-q' does not exist"),
        ("'x' -foo 'y'", "Binary operator '-foo' does not exist"),
        ("-R 'x'", "parsing of subnet/netmask failed"),
        (
            "-R %{HTTP_HOST}",
            "-R requires subnet/netmask as constant argument",
        ),
        ("'x' -ipmatch 'y'", "parsing of subnet/netmask failed"),
        (
            "%{A",
            "syntax error, unexpected T_ERROR, expecting T_VAR_END or ':': Unterminated string or variable",
        ),
        (
            "%{A-} == 'x'",
            "syntax error, unexpected T_ERROR, expecting T_VAR_END or ':': Invalid character in variable name '-'",
        ),
        ("~", "Parse error near '~'"),
        ("'\\777' == ''", "Escape sequence out of bound"),
        ("'\\9' == ''", "Bad escape sequence"),
        (
            "replace('a', 'b') == ''",
            "replace() function needs exactly 3 arguments",
        ),
        ("'a' =~ /a/x", "Invalid regexp flag(s)"),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message, "{text}");
    }
    assert_eq!(string_error("a%{"), "Unterminated string or variable");
    assert_eq!(string_error("a%{FOO}"), "Variable 'FOO' does not exist");
    assert_eq!(string_error("%{req:a"), "Unterminated string or variable");
}

#[test]
fn places_of_errors() {
    let at = |text: &str| {
        Expression::compile(text, ExpressionOptions::default())
            .expect_err(text)
            .at
    };
    assert_eq!(at("true && %{FOO} == 'x'"), 10);
    assert_eq!(at("true ~"), 5);
    assert_eq!(at("'a' == 'b"), 9);
}

#[test]
fn restricted_places() {
    let options = ExpressionOptions {
        restricted: true,
        ..ExpressionOptions::default()
    };
    let error = |text: &str| Expression::compile(text, options).expect_err(text).message;
    assert_eq!(
        error("file('/etc/passwd') == ''"),
        "file not available in restricted context"
    );
    assert_eq!(error("-d '/etc'"), "-d not available in restricted context");
    Expression::compile("-F '/etc'", options).expect("a sub-request is fine");
    let options = ExpressionOptions {
        in_htaccess: true,
        ..ExpressionOptions::default()
    };
    Expression::compile("-d '/etc'", options).expect("a test is fine");
    let error = Expression::compile("filesize('/etc/passwd') == ''", options)
        .expect_err("a function is not");
    assert_eq!(
        error.message,
        "filesize not available in restricted context"
    );
}

#[test]
fn depth_is_bounded() {
    assert_eq!(
        error(&("(".repeat(100_000) + "true")),
        "Recursion limit reached"
    );
    assert_eq!(
        error(&("!".repeat(100_000) + "true")),
        "Recursion limit reached"
    );
    assert_eq!(
        error(&("'%{tolower:".repeat(50))),
        "Recursion limit reached"
    );
    assert_eq!(error(&("%{:".repeat(50))), "Recursion limit reached");
    let chain = vec!["'a' == 'a'"; 2000].join(" || ");
    Expression::compile(chain, ExpressionOptions::default()).expect("long, not deep");
}

#[test]
fn length_of_strings() {
    let of = |length: usize| {
        Expression::compile(
            format!("'{}' == ''", "a".repeat(length)),
            ExpressionOptions::default(),
        )
    };
    assert!(of(STRING_BYTES_MAX).is_ok());
    assert_eq!(
        of(STRING_BYTES_MAX + 1).expect_err("too long").message,
        "String too long"
    );
}

/// Pieces of the language in any order: no panic, errors with a place inside the text, the same
/// result every time.
#[test]
fn soup() {
    const PIECES: &[&str] = &[
        "true",
        "false",
        "!",
        "not",
        "&&",
        "||",
        "and",
        "or",
        "(",
        ")",
        "{",
        "}",
        ",",
        "'",
        "\"",
        "%{",
        "}",
        ":",
        "%{:",
        ":}",
        "$1",
        "REQUEST_URI",
        "tolower",
        "-eq",
        "lt",
        "==",
        "=~",
        "!~",
        "in",
        "/a(b)/i",
        "m#x#",
        "s/a/b/g",
        "sub",
        "split",
        "join",
        "replace",
        "-d",
        "-R",
        "-ipmatch",
        "7",
        "-3",
        ".",
        " ",
        "\\",
        "\\101",
        "a",
        "10.0.0.0/8",
        "\n",
        "é",
        "~",
        "/",
        "req",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let mut compiled = 0;
    for _ in 0..30_000 {
        let text: String = (0..1 + next() % 9)
            .map(|_| PIECES[next() % PIECES.len()])
            .collect::<Vec<_>>()
            .join(if next() % 2 == 0 { "" } else { " " });
        match Expression::compile(&text, ExpressionOptions::default()) {
            Ok(_) => compiled += 1,
            Err(error) => assert!(
                error.at <= text.len() && !error.message.is_empty(),
                "{text:?}"
            ),
        }
        if let Err(error) = StringExpression::compile(&text, ExpressionOptions::default()) {
            assert!(error.at <= text.len(), "{text:?}");
        }
    }
    assert!(compiled > 30, "{compiled}");
}

/// A worker's stack has more on it than an expression.
#[test]
fn the_deepest_fits_a_small_stack() {
    const STACK_BYTES: usize = 160 << 10;
    let read = || {
        let mut accepted = 0;
        for depth in [5, 10, 15, 20, 40, 5000] {
            let around = |open: &str, inside: &str, close: &str| {
                format!("{}{inside}{}", open.repeat(depth), close.repeat(depth))
            };
            for text in [
                around("(", "true", ")"),
                around("!", "true", ""),
                around("! (", "true", ")"),
                around("tolower(", "'a'", ")") + " == 'a'",
                around("join(", "{'a'}", ")") + " == 'a'",
                format!("'a' in {}", around("split(s/a/b/,", "{'a'}", ")")),
                around("%{:'a' == '", "a", "':}"),
                around("sub(s/a/b/, ", "'a'", ")") + " == 'a'",
            ] {
                if let Ok(expression) = Expression::compile(&text, ExpressionOptions::default()) {
                    accepted += 1;
                    expression.may_depend();
                }
            }
        }
        accepted
    };
    let accepted = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(read)
        .unwrap()
        .join()
        .unwrap();
    assert!(accepted >= 14, "{accepted}");
}
