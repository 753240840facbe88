use super::*;
use proptest::prelude::*;

/// Patterns of the tests: text to be found, `^` and `$` at its ends, `!` for one that gives up.
fn compile(pattern: &str) -> Result<String, String> {
    if pattern.contains('(') {
        Err("a parenthesis".into())
    } else {
        Ok(pattern.to_owned())
    }
}

fn is_match(pattern: &String, text: &[u8]) -> Option<bool> {
    if pattern == "!" {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    Some(
        match (pattern.strip_prefix('^'), pattern.strip_suffix('$')) {
            (Some(start), _) => text.starts_with(start),
            (None, Some(end)) => text.ends_with(end),
            (None, None) => text.contains(pattern.as_str()),
        },
    )
}

#[test]
fn expressions() {
    let mut fields = Fields::new();
    fields.append("X-Magento-Tags", &b"cat_p_1,cat_p_2"[..]);
    fields.append("x-magento-tags", &b"FPC"[..]);
    let subject = Subject {
        url: b"/shop/a?b=1",
        host: b"example.com",
        status: 200,
        fields: &fields,
    };
    let rows = [
        ("req.url ~ ^/shop", true),
        ("req.url ~ ^/blog", false),
        ("req.url !~ ^/blog", true),
        ("req.url == /shop/a?b=1", true),
        ("req.url != /shop/a?b=1", false),
        ("obj.http.x-url ~ b=1$", true),
        ("obj.http.X-URL ~ b=1$", true),
        ("req.http.host == example.com", true),
        ("req.http.Host == example.org", false),
        ("obj.http.x-host ~ example", true),
        ("obj.status == 200", true),
        ("obj.status != 200", false),
        ("obj.http.X-Magento-Tags ~ cat_p_2", true),
        ("obj.http.X-Magento-Tags ~ 2,FPC", true),
        ("obj.http.absent ~ x", false),
        ("obj.http.absent !~ x", true),
        ("obj.http.absent == x", false),
        ("obj.http.absent != x", true),
        ("req.http.host == example.com && req.url ~ ^/shop", true),
        ("req.http.host == example.com && req.url ~ ^/blog", false),
        ("req.url ~ \"^/shop\"", true),
        ("req.url ~ \"a b\"", false),
        ("  req.url   ~   shop  ", true),
        ("req.url ~ !", true),
        ("req.url !~ !", true),
    ];
    for (text, want) in rows {
        let ban = Ban::parse(text, compile).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ban.matches(subject, is_match), want, "{text}");
    }
}

#[test]
fn what_is_no_expression() {
    let long = vec!["req.url == /"; TESTS_MAX + 1].join(" && ");
    let rows = [
        ("", BanError::Empty),
        ("   ", BanError::Empty),
        ("req.url", BanError::Unfinished("req.url".into())),
        ("req.url ~", BanError::Unfinished("~".into())),
        ("req.url ~ a &&", BanError::Unfinished("&&".into())),
        ("req.url ~ \"a", BanError::Unfinished("\"a".into())),
        (
            "req.method ~ a",
            BanError::UnknownField("req.method".into()),
        ),
        (
            "req.http.cookie ~ a",
            BanError::UnknownField("req.http.cookie".into()),
        ),
        ("obj.ttl > 5s", BanError::UnknownField("obj.ttl".into())),
        ("obj.http. ~ a", BanError::UnknownField("obj.http.".into())),
        ("req.url = a", BanError::UnknownOperator("=".into())),
        (
            "req.url ~ a || req.url ~ b",
            BanError::ExpectedAnd("||".into()),
        ),
        ("req.url ~ a b", BanError::ExpectedAnd("b".into())),
        (
            "req.url ~ (",
            BanError::BadPattern("(".into(), "a parenthesis".into()),
        ),
        (long.as_str(), BanError::TooMany),
    ];
    for (text, want) in rows {
        let error = Ban::parse(text, compile).expect_err(text);
        assert!(!error.to_string().is_empty());
        assert_eq!(error, want, "{text}");
    }
}

#[test]
fn quotes() {
    let texts = [
        ("\"a\\\"b\"", "a\"b"),
        ("\"a\\.b\"", "a\\.b"),
        ("\"\"", ""),
        ("a\"b", "a\"b"),
    ];
    for (text, want) in texts {
        assert_eq!(words(text), Ok(vec![want.to_owned()]), "{text}");
    }
}

#[test]
fn patterns_of_magento() {
    let tags = |tags: &[&str]| {
        MagentoPurge::Tags(tags.iter().map(|tag| tag.as_bytes().to_vec()).collect())
    };
    let rows = [
        (".*", MagentoPurge::All),
        ("((^|,)cat_p_1(,|$))", tags(&["cat_p_1"])),
        (
            "((^|,)cat_p_1(,|$))|((^|,)FPC(,|$))",
            tags(&["cat_p_1", "FPC"]),
        ),
        ("((^|,)cat.p(,|$))", MagentoPurge::Pattern),
        ("cat_p_1", MagentoPurge::Pattern),
        ("((^|,)a(,|$))|b", MagentoPurge::Pattern),
        ("", MagentoPurge::Pattern),
        ("))|((", MagentoPurge::Pattern),
    ];
    for (pattern, want) in rows {
        assert_eq!(magento_purge(pattern.as_bytes()), want, "{pattern}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z.~!=&\"\\\\ü ]{0,40}") {
        let _ = Ban::parse(&text, compile);
        let _ = magento_purge(text.as_bytes());
    }
}
