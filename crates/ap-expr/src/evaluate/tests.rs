use super::*;
use crate::{Expression, Facts, FileTest, LocalTime, StringExpression, Variable};
use std::{collections::HashMap, net::IpAddr};

struct World {
    tables: HashMap<(&'static str, &'static str), &'static str>,
}

impl World {
    fn look(&self, table: &str, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let name = String::from_utf8_lossy(name).to_lowercase();
        let found = self
            .tables
            .iter()
            .find(|((kind, key), _)| *kind == table && key.to_lowercase() == name);
        found.map(|(_, value)| Cow::Borrowed(value.as_bytes()))
    }
}

impl Facts for World {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        self.look("variable", variable.name().as_bytes())
    }
    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.look("req", name)
    }
    fn response_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.look("resp", name)
    }
    fn note(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.look("note", name)
    }
    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.look("env", name)
    }
    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.look("osenv", name)
    }
    fn tls_variable(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.look("tls", name)
    }
    fn peer_extensions(&self, object_id: &[u8]) -> Vec<Vec<u8>> {
        if object_id == b"1.2.3" {
            vec![b"ext".to_vec()]
        } else {
            Vec::new()
        }
    }
    fn client_address(&self) -> Option<IpAddr> {
        "10.1.2.3".parse().ok()
    }
    fn local_time(&self) -> LocalTime {
        LocalTime {
            year: 2026,
            month: 3,
            day: 4,
            hour: 5,
            minute: 6,
            second: 7,
            weekday: 3,
        }
    }
    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        matches!(
            (path, test),
            (
                b"/dir",
                FileTest::Directory | FileTest::Exists | FileTest::Executable
            ) | (
                b"/file",
                FileTest::Regular | FileTest::Exists | FileTest::NotEmpty
            ) | (b"/link", FileTest::Link)
        )
    }
    fn file_bytes(&self, path: &[u8]) -> Option<u64> {
        (path == b"/file").then_some(7)
    }
    fn file_modified_us(&self, path: &[u8]) -> Option<i64> {
        (path == b"/file").then_some(1_000_000)
    }
    fn file_content(&self, path: &[u8], _: usize) -> Result<Vec<u8>, FileFault> {
        match path {
            b"/file" => Ok(b"content".to_vec()),
            b"/huge" => Err(FileFault::TooLarge),
            b"/bad" => Err(FileFault::Read),
            _ => Err(FileFault::Open),
        }
    }
    fn uri_status(&self, uri: &[u8]) -> Option<u16> {
        Some(if uri == b"/ok" { 200 } else { 404 })
    }
    fn file_status(&self, path: &[u8]) -> Option<u16> {
        Some(if path == b"/file" { 200 } else { 403 })
    }
}

fn world() -> World {
    let rows = [
        ("variable", "REQUEST_URI", "/shop/item/7"),
        ("variable", "REQUEST_METHOD", "GET"),
        ("variable", "REMOTE_ADDR", "10.1.2.3"),
        ("variable", "QUERY_STRING", "a=1&b=2"),
        ("req", "Host", "www.Example.com"),
        ("req", "User-Agent", "Mozilla/5.0"),
        ("req", "Cookie", "sid=1"),
        ("req", "Accept", "*/*"),
        ("resp", "Content-Type", "text/html"),
        ("note", "n", "noted"),
        ("env", "e", "set"),
        ("env", "n", "shadowed"),
        ("osenv", "PATH", "/bin"),
        ("tls", "SSL_PROTOCOL", "TLSv1.3"),
    ];
    World {
        tables: rows
            .into_iter()
            .map(|(table, name, value)| ((table, name), value))
            .collect(),
    }
}

fn truth_of(text: &str) -> bool {
    let world = world();
    let expression = Expression::compile(text, ExpressionOptions::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    expression
        .evaluate(&mut Evaluation::new(&world))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn text_of(text: &str) -> String {
    let world = world();
    let expression = StringExpression::compile(text, ExpressionOptions::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let value = expression
        .evaluate(&mut Evaluation::new(&world))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    String::from_utf8(value).expect("text")
}

#[test]
fn conditions_that_hold() {
    let texts = [
        "true",
        "!false",
        "not false",
        "true || false && false",
        "(true || false) && true",
        "'a' == 'a' && 'a' = 'a' && 'a' != 'b'",
        "'10' < '9' && '9' > '10' && 'a' <= 'a' && 'b' >= 'a'",
        "10 -gt 9 && 9 -lt 10 && '010' -eq 10 && 10 -ge 10 && 10 -le 10 && 1 -ne 2",
        "' 7x' -eq 7 && 'x' -eq 0 && -3 -lt -2",
        "10 gt 9",
        "%{REQUEST_URI} =~ m#^/shop/(item)/([0-9]+)$# && $1 == 'item' && '$2' -eq 7 && $0 == %{REQUEST_URI}",
        "%{HTTP_HOST} =~ /EXAMPLE/i && %{HTTP_HOST} !~ /EXAMPLE/",
        "%{REQUEST_METHOD} in { 'POST', 'GET' }",
        "!(%{REQUEST_METHOD} -in { 'POST', 'get' })",
        "'ext' in PeerExtList('1.2.3') && !('ext' in PeerExtList('1.2.4'))",
        "-d '/dir' && -e '/dir' && !-f '/dir' && -x '/dir' && -f '/file' && -s '/file' && -L '/link' && -h '/link'",
        "-F '/file' && !-F '/dir' && -U '/ok' && -A '/ok' && !-U '/no'",
        "-z '' && -n 'x' && !-n '' && -z %{PATH_INFO}",
        "-T 'on' && -T '1' && -T 'x' && !-T '0' && !-T 'OFF' && !-T 'no' && !-T 'False' && !-T '' && -T '00'",
        "-R '10.1.0.0/16' && !-R '10.2.0.0/16'",
        "%{REMOTE_ADDR} -ipmatch '10.0.0.0/8' && !('x' -ipmatch '10.0.0.0/8')",
        "'abc' -strmatch 'a*' && !('abc' -strmatch 'A*') && 'abc' -strcmatch 'A*' && !('a/c' -fnmatch 'a*') && 'ac' -fnmatch 'a*'",
        "tolower(%{HTTP_HOST}) == 'www.example.com' && %{toupper:ab} == 'AB'",
        "'a' . 'b' . %{REQUEST_METHOD} == 'abGET'",
        "env('n') == 'noted' && env('e') == 'set' && env('PATH') == '/bin' && reqenv('n') == 'shadowed' && osenv('e') == ''",
        "note('n') == 'noted' && resp('content-type') == 'text/html' && http('Accept') == '*/*' && req_novary('Accept') == '*/*'",
        "%{SSL_PROTOCOL} == 'TLSv1.3' && %{ssl_nothing} == ''",
        "'b' in split(/,/, 'a,b,c') && join(split(/[0-9]+/, 'a1b22c'), '-') == 'a-b-c'",
        "sub(s/(b)/<$1>/, 'abab') == 'a<b>ab' && sub(s/b/x/g, 'abab') == 'axax' && sub(s/x*/-/g, 'ab') == '-a-b-'",
        "replace('a.b.c', '.', '::') == 'a::b::c' && replace('a', '', 'x') == 'a'",
        "join({'a', 'b'}) == 'ab'",
        "%{:'a' == 'a':} == 'true' && %{:'x' . 'y':} == 'xy'",
        "filesize('/file') -eq 7 && filesize('/none') == '0' && filemod('/file') == '1000000' && file('/file') == 'content'",
    ];
    for text in texts {
        assert!(truth_of(text), "{text}");
    }
}

#[test]
fn texts() {
    let cases = [
        ("", ""),
        ("plain", "plain"),
        ("100% $x", "100% $x"),
        ("%{REQUEST_URI}?%{QUERY_STRING}", "/shop/item/7?a=1&b=2"),
        (
            "%{TIME_YEAR}-%{TIME_MON}-%{TIME_DAY} %{TIME_HOUR}:%{TIME_MIN}:%{TIME_SEC} %{TIME_WDAY} %{TIME}",
            "2026-03-04 05:06:07 3 20260304050607",
        ),
        ("%{tolower:%{HTTP_HOST}}", "www.example.com"),
        ("%{escape:a b/c?}", "a%20b/c%3f"),
        ("%{unescape:a%20b%2Fc}|%{unescape:%zz}", "a b%2Fc|"),
        ("%{base64:foo} %{unbase64:Zm9v}", "Zm9v foo"),
        (
            "%{md5:foo} %{sha1:foo}",
            "acbd18db4cc2f85cedef654fccc4a4d8 0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33",
        ),
        (r#"a\n\t\x\101\\"'"#, "a\n\txA\\\"'"),
        ("$1", ""),
        ("%{HTTP_USER_AGENT}%{HTTP_REFERER}", "Mozilla/5.0"),
    ];
    for (text, value) in cases {
        assert_eq!(text_of(text), value, "{text}");
    }
}

#[test]
fn errors() {
    let world = world();
    for (text, message) in [
        ("/none", "Cannot open file /none"),
        ("/huge", "File /huge too large"),
        ("/bad", "Cannot read from file /bad"),
    ] {
        let expression =
            StringExpression::compile(format!("%{{file:{text}}}"), ExpressionOptions::default())
                .expect("compiles");
        assert_eq!(
            expression
                .evaluate(&mut Evaluation::new(&world))
                .expect_err(text)
                .message,
            message
        );
    }
    let large = "a".repeat(8000);
    let text = format!("replace(replace('{large}', 'a', '{large}'), 'a', '{large}') == ''");
    let expression = Expression::compile(text, ExpressionOptions::default()).expect("compiles");
    assert_eq!(
        expression
            .evaluate(&mut Evaluation::new(&world))
            .expect_err("huge")
            .message,
        "Result too long"
    );
}

#[test]
fn what_it_depends_on() {
    let world = world();
    let of = |text: &str| {
        let mut evaluation = Evaluation::new(&world);
        Expression::compile(text, ExpressionOptions::default())
            .expect(text)
            .evaluate(&mut evaluation)
            .expect(text);
        evaluation.dependencies
    };
    assert!(
        of("%{REQUEST_URI} == '' || -f '/file' || %{DOCUMENT_ROOT} == '' || %{HTTP_HOST} == ''")
            .is_resource_only()
    );
    assert!(of("%{QUERY_STRING} == ''").has(Dependency::Query));
    assert!(of("-R '10.0.0.0/8'").has(Dependency::Client));
    assert!(of("%{TIME_HOUR} -eq 5").has(Dependency::Time));
    assert!(of("env('x') == ''").has(Dependency::Environment));
    assert!(of("-U '/'").has(Dependency::Subrequest));
    let fields = of("%{HTTP_COOKIE} == '' || req('Accept') == '' || req_novary('X') == ''");
    assert_eq!(
        fields.request_fields().collect::<Vec<_>>(),
        ["Cookie", "Accept", "X"]
    );
    assert_eq!(fields.vary().collect::<Vec<_>>(), ["Cookie", "Accept"]);
    // What was not evaluated does not count.
    assert!(of("true || %{QUERY_STRING} == ''").is_resource_only());
    assert!(of("false && %{QUERY_STRING} == ''").is_resource_only());
}

#[test]
fn comparisons_of_ssl_require() {
    let world = world();
    let options = ExpressionOptions {
        tls_require: true,
        ..ExpressionOptions::default()
    };
    for (text, holds) in [
        ("'10' > '9'", true),
        ("'a' == 'a'", true),
        ("9 -lt 10", true),
        ("'b' < 'aa'", true),
    ] {
        let expression = Expression::compile(text, options).expect(text);
        assert_eq!(
            expression.evaluate(&mut Evaluation::new(&world)),
            Ok(holds),
            "{text}"
        );
    }
}

#[test]
fn backreferences_stay_with_the_evaluation() {
    let world = world();
    let mut evaluation = Evaluation::new(&world);
    let run = |text: &str, evaluation: &mut Evaluation<'_>| {
        Expression::compile(text, ExpressionOptions::default())
            .expect(text)
            .evaluate(evaluation)
            .expect(text)
    };
    assert!(run("'abc' =~ /(b)/", &mut evaluation));
    assert!(
        run("'xyz' =~ /y/ && $1 == 'b'", &mut evaluation),
        "a pattern without groups changes nothing"
    );
    assert!(!run("'xyz' =~ /(q)/", &mut evaluation));
    assert!(!evaluation.backreferences.is_set());
}
