//! Templates, maps, and matchers over a table of facts: results, and what they depend on.

#![allow(clippy::unwrap_used)]

use crate::*;
use saker_ap_expr::{
    Dependency, Facts, FileTest as ExpressionFileTest, LocalTime, Pattern, PatternOptions,
    Predicate, RequestPart, Variable as ServerVariable, Work,
};
use saker_http::Version;
use std::{borrow::Cow, collections::HashMap, net::IpAddr, sync::Arc};

/// A request for `http://a.example/dir/a%20b?x=1&y=%26`.
#[derive(Default)]
struct Table {
    fields: Vec<(&'static str, &'static str)>,
    has_no_query: bool,
    query: Option<&'static str>,
    is_edited: bool,
    work: Work,
}

impl Facts for Table {
    fn variable(&self, variable: ServerVariable) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(match variable {
            ServerVariable::RequestMethod => b"GET",
            ServerVariable::RemoteAddr => b"192.0.2.7",
            _ => return None,
        }))
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let field = self
            .fields
            .iter()
            .find(|(known, _)| known.as_bytes() == name);
        field.map(|(_, value)| Cow::Borrowed(value.as_bytes()))
    }

    fn work(&self) -> Option<&Work> {
        Some(&self.work)
    }

    fn client_address(&self) -> Option<IpAddr> {
        "192.0.2.7".parse().ok()
    }

    fn is_as_received(&self, _: &RequestPart) -> bool {
        !self.is_edited
    }

    fn local_time(&self) -> LocalTime {
        LocalTime {
            year: 2026,
            month: 11,
            day: 23,
            hour: 12,
            minute: 0,
            second: 0,
            weekday: 1,
        }
    }

    fn file_test(&self, _: &[u8], _: ExpressionFileTest) -> bool {
        false
    }
}

impl RequestFacts for Table {
    fn request_id(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(b"id")
    }

    fn claim(&self, name: &str) -> Cow<'_, [u8]> {
        match name {
            "tenant" => Cow::Borrowed(b"blue"),
            "realm_access.roles" => Cow::Borrowed(b"a,b"),
            _ => Cow::Borrowed(b""),
        }
    }

    fn forwarded_for(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(b"192.0.2.7")
    }

    fn host(&self) -> &[u8] {
        b"a.example"
    }

    fn path(&self) -> &[u8] {
        b"/dir/a b"
    }

    fn target(&self) -> &[u8] {
        b"/dir/a%20b?x=1&y=%26"
    }

    fn query(&self) -> Option<&[u8]> {
        let query = self.query.unwrap_or("x=1&y=%26");
        (!self.has_no_query).then_some(query.as_bytes())
    }

    fn is_secure(&self) -> bool {
        false
    }

    fn version(&self) -> Version {
        Version::Http11
    }

    fn now_s(&self) -> i64 {
        1_000_000
    }

    fn file_kind(&self, path: &[u8]) -> Option<FileKind> {
        match path {
            b"/dir/a b" => Some(FileKind::Regular),
            b"/dir" => Some(FileKind::Directory),
            _ => None,
        }
    }
}

/// A text with variables of the request only.
fn linked(text: &str) -> Template {
    let template = Template::parse(text).unwrap();
    template.link(&Names::default()).unwrap()
}

fn names() -> Names {
    let template = |text: &str| Arc::new(Template::parse(text).unwrap());
    let map = ValueMap::new(
        linked("$http_x"),
        HashMap::from([(b"one".as_slice().into(), Template::literal("exact"))]),
        vec![
            ("on".into(), Template::literal("short")),
            ("one-".into(), Template::literal("long")),
        ],
        vec![("-end".into(), Template::literal("suffix"))],
        vec![(
            Pattern::compile("^([0-9]+)x$", PatternOptions::HTTPD).unwrap(),
            Template::parse("number $1").unwrap(),
        )],
        Template::literal("default"),
    );
    Names {
        groups: 2,
        group_names: vec![(2, "page".into())],
        vars: [("shop".into(), template("https://shop.example"))].into(),
        maps: Arc::new([("kind".into(), Arc::new(map) as Arc<dyn Lookup>)].into()),
    }
}

fn expand(table: &Table, text: &str) -> (String, saker_ap_expr::Dependencies) {
    let template = Template::parse(text).unwrap().link(&names()).unwrap();
    let captures = Captures(vec![b"first".to_vec(), b"second".to_vec()]);
    let mut evaluation = Evaluation::new(table).with_captures(&captures);
    let mut sink = TextSink::default();
    template.expand(&mut evaluation, &mut sink).unwrap();
    (String::from_utf8(sink.0).unwrap(), evaluation.dependencies)
}

#[test]
fn values() {
    let table = Table {
        fields: vec![("x-tag", "t"), ("cookie", "a=1; b=2")],
        ..Table::default()
    };
    for (text, expected) in [
        ("plain $$5", "plain $5"),
        ("$host$uri", "a.example/dir/a b"),
        (
            "$path $query $args $is_args",
            "/dir/a%20b ?x=1&y=%26 x=1&y=%26 ?",
        ),
        ("$request_uri", "/dir/a%20b?x=1&y=%26"),
        ("$arg_x$arg_y$arg_z", "1&"),
        ("$cookie_b $http_x_tag $header{X-Tag}", "2 t t"),
        (
            "$claim_tenant $claim{realm_access.roles} $claim_x",
            "blue a,b ",
        ),
        ("$1-${page}-$2", "first-second-second"),
        ("$shop/$method", "https://shop.example/GET"),
        ("${host}x $scheme $remote_addr", "a.examplex http 192.0.2.7"),
    ] {
        assert_eq!(expand(&table, text).0, expected, "{text}");
    }
}

#[test]
fn mistakes() {
    for (text, at, message) in [
        (
            "a $",
            2..3,
            "`$` must be followed by the name of a variable",
        ),
        ("${a", 0..2, "missing `}` after `${`"),
        ("a$hostx", 1..7, "unknown variable `$hostx`"),
        (
            "$1$3",
            2..4,
            "undefined $3: the pattern has 2 `*` or groups",
        ),
        ("${a-b}", 0..6, "invalid name of a variable"),
        ("$header{a b}", 0..8, "invalid name of a field"),
        ("x$claim{}", 1..8, "invalid name of a claim"),
        ("$0", 0..1, "`$` must be followed by the name of a variable"),
    ] {
        let parsed = Template::parse(text);
        let error = parsed
            .and_then(|template| template.link(&names()))
            .unwrap_err();
        assert_eq!((error.at, error.message.as_str()), (at, message), "{text}");
    }
}

#[test]
fn queries_are_split_at_configured_question_marks() {
    let split = |text: &str| {
        let (path, query) = Template::parse(text).unwrap().split_query();
        (path.constant().map(str::to_owned), query.is_some())
    };
    assert_eq!(split("/a?b=1?c"), (Some("/a".into()), true));
    assert_eq!(split("/a"), (Some("/a".into()), false));
    assert!(!split("/a$args").1);
    for text in ["/a$is_args$args", "/a$query", "/a?$args"] {
        assert_eq!(split(text), (Some("/a".into()), true), "{text}");
    }
    let (path, query) = Template::parse("$uri$query&b").unwrap().split_query();
    let linked = |template: &Template| template.link(&names()).unwrap();
    assert!(!linked(&path).uses_encoded());
    assert!(query.is_some_and(|query| linked(&query).uses_query()));
}

#[test]
fn maps_have_an_order() {
    for (value, expected) in [
        ("one", "exact"),
        ("one-end", "long"),
        ("only-end", "short"),
        ("x-end", "suffix"),
        ("12x", "number 12"),
        ("none", "default"),
    ] {
        let table = Table {
            fields: vec![("x", value)],
            ..Table::default()
        };
        assert_eq!(expand(&table, "$kind").0, expected, "{value}");
    }
    assert_eq!(expand(&Table::default(), "$kind").0, "default");
}

/// A lookup is a test with its outcome; a value that goes into the text is not.
#[test]
fn what_texts_depend_on() {
    let table = Table {
        fields: vec![("x", "one"), ("y", "1")],
        ..Table::default()
    };
    let (_, looked_up) = expand(&table, "$kind $host $uri");
    assert!(looked_up.is_resource_only());
    let [test] = looked_up.tests() else {
        panic!("{looked_up:?}");
    };
    let holds = |text: &str| {
        test.predicate.holds(saker_ap_expr::PartValue {
            text: Some(text.as_bytes()),
            address: None,
        })
    };
    assert_eq!(
        (holds("one"), holds("only"), holds("two")),
        (Some(true), Some(false), Some(false))
    );
    assert!(expand(&table, "$http_y").1.has(Dependency::RequestFields));
    // Without the field, requests without it get the same.
    let (_, absent) = expand(&table, "$http_z");
    assert!(absent.is_resource_only());
    assert!(matches!(
        absent.tests(),
        [test] if !test.result && matches!(test.predicate, Predicate::Present)
    ));
    assert!(expand(&table, "$arg_x").1.has(Dependency::Query));
    let edited = Table {
        is_edited: true,
        ..Table::default()
    };
    assert!(expand(&edited, "$http_z").1.has(Dependency::RequestFields));
    assert!(expand(&edited, "$kind").1.has(Dependency::RequestFields));
}

#[test]
fn work_is_limited() {
    let mut names = names();
    let mut text = "x".repeat(64);
    for level in 0..30 {
        let template = Template::parse(&text).unwrap().link(&names).unwrap();
        let name = format!("level{level}");
        text = format!("${{{name}}}${{{name}}}${{{name}}}");
        names.vars.insert(name, Arc::new(template));
    }
    let template = Template::parse(&text).unwrap().link(&names).unwrap();
    let table = Table::default();
    let mut evaluation = Evaluation::new(&table);
    let mut sink = TextSink::default();
    assert!(template.expand(&mut evaluation, &mut sink).is_err());
    assert!(sink.0.len() < 64 << 20);
}

#[test]
fn matchers() {
    let part = |source: Source, text: &str| {
        Matcher::Part(Arc::new(PartTest {
            source,
            tests: [ValueTest::parse(text).unwrap()].into(),
        }))
    };
    let file = |path: &str, is_directory| {
        let path = linked(path);
        Matcher::File(Arc::new(FileTest { path, is_directory }))
    };
    let client = |network: &str| {
        Matcher::Client(Arc::new(ClientSet::new(
            &[network.into()],
            Vec::new(),
            Vec::new(),
        )))
    };
    let table = Table {
        fields: vec![("x", "one")],
        ..Table::default()
    };
    let yes = || part(Source::Field("x".into()), "one");
    let no = || part(Source::Parameter("x".into()), "2");
    for (matcher, expected, tests) in [
        (yes(), true, 1),
        (no(), false, 1),
        (Matcher::All([no(), yes()].into()), false, 1),
        (Matcher::Any([yes(), no()].into()), true, 1),
        (Matcher::Any([no(), yes()].into()), true, 2),
        (Matcher::Not(Arc::new(no())), true, 1),
        (Matcher::All([].into()), true, 0),
        (Matcher::Any([].into()), false, 0),
        (client("192.0.2.0/24"), true, 1),
        (client("198.51.100.0/24"), false, 1),
        (client("0.0.0.0/0"), true, 1),
        (client("::ffff:192.0.2.0/120"), true, 1),
        (
            Matcher::Method(["POST".into(), "GET".into()].into()),
            true,
            1,
        ),
        (
            Matcher::Method(["GET".into(), "HEAD".into()].into()),
            true,
            0,
        ),
        (Matcher::Method(["POST".into()].into()), false, 0),
        (Matcher::Secure(true), false, 0),
        (Matcher::Version([Version::Http2].into()), false, 1),
        (
            Matcher::Host([ValueTest::parse("*.example").unwrap()].into()),
            true,
            0,
        ),
        (Matcher::Path([PathPattern::new("/dir/*")].into()), true, 0),
        (file("$uri", false), true, 0),
        (file("/dir", true), true, 0),
        (file("/dir", false), false, 0),
        (file("/dir/../dir/a b", false), false, 0),
    ] {
        let mut evaluation = Evaluation::new(&table);
        assert_eq!(matcher.matches(&mut evaluation), Ok(expected), "{matcher}");
        assert_eq!(evaluation.dependencies.tests().len(), tests, "{matcher}");
        assert!(evaluation.dependencies.is_resource_only(), "{matcher}");
    }
}

#[test]
fn times_hold_until_their_edge() {
    let window = TimeWindow {
        days: TimeWindow::EVERY_DAY,
        hours: [(0, 12 * 60 + 5)].into(),
    };
    let table = Table::default();
    let mut evaluation = Evaluation::new(&table);
    let matcher = Matcher::Time(Arc::new(window));
    assert_eq!(matcher.matches(&mut evaluation), Ok(true));
    assert_eq!(evaluation.holds_until_s, Some(1_000_000 + 300));
}

/// A matcher that cannot be evaluated has no result, whatever it is combined with.
#[test]
fn a_failure_is_not_a_mismatch() {
    let slow = || {
        Matcher::Part(Arc::new(PartTest {
            source: Source::Field("x".into()),
            tests: [ValueTest::parse("~^(a+)+$").unwrap()].into(),
        }))
    };
    static TEXT: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("{}!", "a".repeat(4000)));
    let table = Table {
        fields: vec![("x", TEXT.as_str())],
        ..Table::default()
    };
    for matcher in [
        slow(),
        Matcher::Not(Arc::new(slow())),
        Matcher::Any([slow(), Matcher::Secure(false)].into()),
    ] {
        let mut evaluation = Evaluation::new(&table);
        assert!(matcher.matches(&mut evaluation).is_err(), "{matcher}");
    }
}

/// Columns: text, cookies, whether something in it is there twice.
#[test]
fn a_watched_evaluation_tells_what_is_there_twice() {
    for (text, query, cookies, is_twice) in [
        ("$arg_key", "key=1&a=2", "", false),
        ("$arg_key", "key=1&key=1", "", true),
        ("$arg_key", "a=1&k%65y=1&b=2&key=2", "", true),
        ("$arg_a", "key=1&key=2", "", false),
        ("$cookie_key", "", "a=1; key=2", false),
        ("$cookie_key", "", "key=1; a=1; key=2", true),
        ("x$arg_a$cookie_key", "a=1&a=2", "key=1", true),
        // Names and values that PHP reads otherwise.
        ("$cookie_a_b", "", "a.b=1", true),
        ("$cookie_a_b", "", "x=2; a%20b=1", true),
        ("$cookie_a_b", "", "a_b[]=1", true),
        ("$cookie_key", "", "key=%31", true),
        ("$cookie_key", "", "x=2,key=1", true),
        ("$arg_a_b", "a.b=1", "", true),
        ("$arg_key", "x=1;key=2", "", true),
        ("$arg_key", "monkey=1&keys=2", "", false),
        ("$args", "key=1&key=2", "", false),
        ("$host", "key=1&key=2", "key=1; key=2", false),
    ] {
        let table = Table {
            fields: vec![("cookie", cookies)],
            query: Some(query),
            ..Table::default()
        };
        let template = linked(text);
        let value = |repeated| {
            let mut evaluation = Evaluation::new(&table).with_repeated(repeated);
            let mut sink = TextSink::default();
            template.expand(&mut evaluation, &mut sink).unwrap();
            (sink.0, evaluation.has_repeated())
        };
        let (usual, has_repeated) = value(Repeated::Watched);
        assert_eq!(has_repeated, is_twice, "{text} {query} {cookies}");
        assert_eq!(value(Repeated::AsUsual), (usual.clone(), false));
        if !is_twice {
            let others = [Repeated::First, Repeated::Last].map(|one| value(one).0);
            assert_eq!(others, [usual.clone(), usual], "{text} {query} {cookies}");
        }
    }
}
