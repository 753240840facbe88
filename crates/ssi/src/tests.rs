//! Pages against a context of tables.

use crate::{Answer, Demand, Lazy, Matched, Page, Settings, SsiContext, Step, Target, Variables};
use proptest::prelude::*;

#[derive(Default)]
struct Table {
    variables: Variables,
    complaints: Vec<String>,
    has_given_up: bool,
}

impl SsiContext for Table {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn lazy(&self, lazy: Lazy, format: &[u8]) -> Vec<u8> {
        format!("{lazy:?} as {}", String::from_utf8_lossy(format)).into_bytes()
    }

    fn time(&self, format: &[u8], unix_s: i64) -> Vec<u8> {
        format!("{unix_s} as {}", String::from_utf8_lossy(format)).into_bytes()
    }

    fn short_size(&self, bytes: u64) -> Vec<u8> {
        format!("{bytes}B").into_bytes()
    }

    /// `yes`, `no`, or a fault.
    fn holds(&mut self, expression: &[u8], _: &mut Matched, _: &[u8]) -> Result<bool, String> {
        match expression {
            b"yes" => Ok(true),
            b"no" => Ok(false),
            _ => Err("neither yes nor no".into()),
        }
    }

    fn is_accessible(&mut self, path: &[u8]) -> bool {
        path == b"/open"
    }

    fn give_up(&mut self) {
        self.has_given_up = true;
    }

    fn is_exhausted(&self) -> bool {
        self.has_given_up
    }

    fn complain(&mut self, fault: String) {
        self.complaints.push(fault);
    }
}

fn settings() -> Settings {
    Settings {
        error_message: b"[E]".as_slice().into(),
        time_format: b"%T".as_slice().into(),
        may_run: true,
        ..Settings::default()
    }
}

/// Returns the output; demands are answered according to their type, and fail if their name is
/// `bad`.
fn run(settings: Settings, pieces: &[&[u8]]) -> String {
    let (mut context, mut page) = (Table::default(), Page::new(settings));
    for (name, value) in [("A", "a"), ("B", "<b>"), ("EMPTY", ""), ("ÜML", "x")] {
        context.variables.set(name.as_bytes(), value.as_bytes());
    }
    context.variables.set_lazy(b"DATE_GMT", Lazy::DateGmt);
    let (mut pieces, mut out) = (pieces.iter(), Vec::new());
    loop {
        match page.step(&mut context) {
            Step::Text(text) => out.extend(text),
            Step::Hungry => match pieces.next() {
                Some(piece) => page.push(piece),
                None => page.end(),
            },
            Step::End => return String::from_utf8_lossy(&out).into_owned(),
            Step::Demand(demand) => {
                let answer = answer(&demand, &mut out);
                page.answer(answer, &mut context);
            }
        }
    }
}

fn answer(demand: &Demand, out: &mut Vec<u8>) -> Answer {
    let (text, subject) = match demand {
        Demand::Include(Target::File(path)) => ("file", path),
        Demand::Include(Target::Virtual(path)) => ("virtual", path),
        Demand::Command(command) => ("cmd", command),
        Demand::Program(path) => ("cgi", path),
        Demand::Look(Target::File(path) | Target::Virtual(path)) => ("", path),
    };
    match (subject.starts_with(b"bad"), text) {
        (true, _) => Answer::Failed,
        (false, "") => Answer::Found {
            bytes: 1_234_567,
            modified_s: 5,
        },
        (false, _) => {
            out.extend([b"{", text.as_bytes(), b" ", subject, b"}"].concat());
            Answer::Done
        }
    }
}

fn check(cases: &[(&str, &str)], settings: &Settings) {
    for (page, expected) in cases {
        let page = page.replace("<#", "<!--#").replace("#>", " -->");
        assert_eq!(
            run(settings.clone(), &[page.as_bytes()]),
            *expected,
            "{page}"
        );
    }
}

#[test]
fn echo_and_set() {
    let cases = [
        ("x<#echo var=A#>y", "xay"),
        ("<#echo var=a var=b#>", "a&lt;b&gt;"),
        ("<#echo var=NOPE#><#echo var=EMPTY#>.", "(none)."),
        (
            "<#echo encoding=none var=B encoding='url' var=B#>",
            "<b>%3cb%3e",
        ),
        (
            "<#echo encoding=bogus var=B#>.<#echo encoding=bogus var=NOPE#>",
            "[E].(none)",
        ),
        ("<#echo encoding=x decoding=y var=B var=A#>", "[E][E]"),
        ("<#echo decoding=entity var=A bogus=x var=A#>", "a[E]"),
        ("<#echo var#>.<#echo#>", ".[E]"),
        (
            "<#set var=C value='$A-${B}x\\$A$'#><#echo var=C#>",
            "a-&lt;b&gt;x$A$",
        ),
        ("<#set var=C value='1${A'#><#echo var=C#>", "1"),
        (
            "<#set var=C value='&lt;'#><#echo encoding=none var=C#>",
            "&lt;",
        ),
        (
            "<#set decoding=entity var=C value='&lt;'#><#echo var=C#>",
            "&lt;",
        ),
        (
            "<#set value=x var=C#>.<#set var=C#>.<#set var=C foo=x#>",
            "[E].[E].[E]",
        ),
        ("<#set var='$A' value=x#><#echo var=A#>", "x"),
        (
            "<#set var=C value=1 var=D value='$C$C'#><#echo var=D#>",
            "11",
        ),
        ("<#echo var=DATE_GMT#>", "DateGmt as %T"),
    ];
    check(&cases, &settings());
}

#[test]
fn config_changes_what_follows() {
    let cases = [
        ("<#config errmsg='no $A'#><#bogus#>", "no a"),
        ("<#config echomsg=''#>.<#echo var=NOPE#>.", ".."),
        (
            "<#echo var=DATE_GMT#><#config timefmt='%d'#>,<#echo var=DATE_GMT#>,<#flastmod file=x#>",
            "DateGmt as %T,DateGmt as %d,5 as %d",
        ),
        ("<#config sizefmt=bytes#><#fsize file=x#>", "1,234,567"),
        (
            "<#config sizefmt=bytes sizefmt=abbrev#><#fsize virtual=x virtual=y#>",
            "1234567B1234567B",
        ),
        (
            "<#config sizefmt=miles#>.<#config x=y#>.<#config#>",
            "[E].[E].[E]",
        ),
        (
            "<#fsize file=x file=bad file=x#>.<#flastmod other=x#>",
            "1234567B[E].[E]",
        ),
    ];
    check(&cases, &settings());
}

#[test]
fn includes_and_programs() {
    let cases = [
        ("<#include file='$A' virtual='b'#>", "{file a}{virtual b}"),
        ("<#include virtual=bad virtual=x#>.", "[E]."),
        (
            "<#include virtual=bad onerror=x virtual=y#>.",
            "{virtual x}{virtual y}.",
        ),
        ("<#include virtual=x onerror=y#>.", "{virtual x}."),
        ("<#include virtual=bad onerror=bad2 file=x#>.", "[E]."),
        ("<#include virtual=bad file=x#>.", "{file x}."),
        ("<#include virtual=bad bogus=x#>.<#include#>", "[E][E].[E]"),
        (
            "<#exec cmd='echo &quot;$A ${NOPE} $0'#>",
            "{cmd echo \"a ${NOPE} $0}",
        ),
        (
            "<#exec cgi='$A$NOPE' cmd=bad cgi=c#>.<#exec x=y#>",
            "{cgi a}[E].[E]",
        ),
    ];
    check(&cases, &settings());
    check(
        &[("<#exec cmd=x#><#include file=y#>", "[E]{file y}")],
        &Settings {
            may_run: false,
            ..settings()
        },
    );
}

#[test]
fn conditions() {
    let cases = [
        ("<#if expr=yes#>1<#else#>2<#endif#>3", "13"),
        (
            "<#if expr=no#>1<#elif expr=yes#>2<#elif expr=yes#>3<#else#>4<#endif#>5",
            "25",
        ),
        ("<#if expr=no#>1<#elif expr=no#>2<#else#>4<#endif#>5", "45"),
        (
            "<#if expr=no#><#if expr=yes#>1<#else#>2<#endif#><#bogus#><#set var=A value=x#><#else#>3<#endif#><#echo var=A#>",
            "3a",
        ),
        ("<#if expr=maybe#>1<#endif#>2", "[E]2"),
        (
            "<#if#>1<#endif#>.<#if x=y#>2<#endif#>.<#if expr#>3<#endif#>.<#if expr=yes expr=no#>4<#endif#>",
            "[E].[E].[E].[E]",
        ),
        ("<#if expr=no#>1<#else x#>2<#endif#>3", "3"),
        (
            "<#if expr=yes#>1<#else x#>2<#endif y#>3<#endif#>",
            "1[E]2[E]3",
        ),
        ("<#if expr=no#>1", ""),
        ("<#if expr=no#><#if 'x'#>1<#endif#>2<#endif#>3", "3"),
        ("1<!--#if expr=no", "1[E]"),
        ("1<!--#", "1[E]"),
        ("1<!--", "1<!--"),
    ];
    check(&cases, &settings());
}

/// As apache2 2.4.71 answers these.
#[test]
fn conditions_that_cannot_be_judged() {
    let cases = [
        (
            "<#if#>a<#elif expr=yes#>b<#elif expr=yes#>c<#else#>d<#endif#>e",
            "[E]be",
        ),
        (
            "<#if#>a<#elif expr=yes#>b<#elif expr=no#>c<#else#>d<#endif#>e",
            "[E]be",
        ),
        (
            "<#if#>a<#elif expr=no#>b<#elif expr=yes#>c<#else#>d<#endif#>e",
            "[E]cde",
        ),
        ("<#if#>a<#else#>b<#else#>c<#else#>d<#endif#>e", "[E]e"),
        (
            "<#if#>a<#elif#>b<#elif expr=yes#>c<#else#>d<#endif#>e",
            "[E][E]cde",
        ),
        (
            "<#if expr=yes#>a<#elif#>b<#elif expr=yes#>c<#else#>d<#endif#>e",
            "a[E]cde",
        ),
        (
            "<#if#>a<#if expr=yes#>b<#else#>c<#endif#>d<#else#>e<#endif#>f",
            "[E]f",
        ),
        (
            "<#if expr=yes#>a<#else#>b<#else#>c<#elif expr=yes#>d<#endif#>e",
            "ae",
        ),
        (
            "<#if expr=maybe#>a<#elif expr=yes#>b<#else#>d<#endif#>e",
            "[E]bde",
        ),
        (
            "<#if#>a<#elif expr=yes#>b<#if expr=no#>c<#else#>d<#endif#>e<#else#>f<#endif#>g",
            "[E]beg",
        ),
        (
            "<#if expr=no#>a<#elif expr=maybe#>b<#else#>c<#endif#>",
            "[E]",
        ),
    ];
    check(&cases, &settings());
}

#[test]
fn conditions_in_the_old_language() {
    let old = Settings {
        legacy_expressions: true,
        ..settings()
    };
    let judged = |expression: &str| {
        let page = format!(
            "<!--#if expr=\"{expression}\" -->y<!--#else -->n<!--#endif --><!--#echo var=0 --><!--#echo var=1 -->"
        );
        run(old.clone(), &[page.as_bytes()])
    };
    let cases = [
        ("$A", "y(none)(none)"),
        ("$NOPE", "n(none)(none)"),
        ("$A = a", "y(none)(none)"),
        ("$A == 'a'", "y(none)(none)"),
        ("'$A b' = $A b", "y(none)(none)"),
        ("$A != a", "n(none)(none)"),
        ("a < b && b >= b && !(c <= b) && c > b", "y(none)(none)"),
        ("$A = /^(.)/", "yaa"),
        ("$A = /^(x)?a/", "ya(none)"),
        ("$A != /b/", "y(none)(none)"),
        ("x || $A = /(a)/", "yaa"),
        ("!$A", "n(none)(none)"),
        ("!", "n(none)(none)"),
        ("()", "y(none)(none)"),
        ("( a || b ) && ( $NOPE )", "n(none)(none)"),
        ("-A /open && !-A /closed", "y(none)(none)"),
        ("! a = b", "[E](none)(none)"),
        ("a = = b", "[E](none)(none)"),
        ("(a", "[E](none)(none)"),
        ("a)", "[E](none)(none)"),
        ("/a/", "[E](none)(none)"),
        ("a &&", "[E](none)(none)"),
        ("a = b = c", "[E](none)(none)"),
        ("(a) b", "[E](none)(none)"),
        ("a (b)", "[E](none)(none)"),
        ("a < /b/", "[E](none)(none)"),
    ];
    for (expression, expected) in cases {
        assert_eq!(judged(expression), expected, "{expression}");
    }
}

#[test]
fn values_have_a_longest() {
    let mut page = b"<!--#set var=x value=0123456789 -->".to_vec();
    for _ in 0..40 {
        page.extend_from_slice(b"<!--#set var=x value=\"$x$x\" -->");
    }
    page.extend_from_slice(b"<!--#echo var=x -->");
    assert_eq!(run(settings(), &[&page]).len(), crate::VALUE_BYTES_MAX);
}

#[test]
fn printenv_prints_all() {
    let text = run(settings(), &[b"<!--#printenv-->"]);
    assert_eq!(
        text,
        "A=a\nB=&lt;b&gt;\nEMPTY=\nÜML=x\nDATE_GMT=DateGmt as %T\n"
    );
    assert_eq!(run(settings(), &[b"<!--#printenv x=y -->"]), "[E]");
}

proptest! {
    #[test]
    fn however_it_is_cut(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..20),
        cuts in prop::collection::vec(1_usize..9, 0..60),
        legacy in any::<bool>(),
    ) {
        let page = words.concat();
        let settings = Settings { legacy_expressions: legacy, ..settings() };
        let whole = run(settings.clone(), &[page.as_bytes()]);
        let (mut pieces, mut rest) = (Vec::new(), page.as_bytes());
        for cut in cuts.into_iter().cycle().take(page.len()) {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        prop_assert_eq!(run(settings, &pieces), whole);
    }

    #[test]
    fn nothing_makes_it_fall_over(page in prop::collection::vec(any::<u8>(), 0..300)) {
        run(settings(), &[b"<!--#", &page, b"-->"]);
    }
}

const WORDS: &[&str] = &[
    "<!--#",
    "-->",
    " -->",
    "text ",
    "<",
    "!--",
    "#",
    "\"",
    "'",
    "=",
    " ",
    "\\",
    "echo var=A",
    "echo var=\"A\" ",
    "if expr=yes",
    "if expr=\"no\" ",
    "else",
    "endif",
    "elif expr='yes'",
    "set var=C value='$A'",
    "include file=x virtual=bad onerror=y",
    "printenv",
    "$A",
    "-",
];

/// As many operands as an element has room for, on the stack of a small thread: they are a list,
/// not a tree as deep as it is long.
#[test]
fn a_long_chain_of_the_old_language_is_flat() {
    let judged = |operator: &str| {
        let page = format!(
            "<!--#if expr=\"$A{}\" -->y<!--#else -->n<!--#endif -->",
            format!("{operator}$A").repeat(12_000)
        );
        let old = Settings {
            legacy_expressions: true,
            ..settings()
        };
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || run(old, &[page.as_bytes()]))
            .unwrap()
            .join()
            .unwrap()
    };
    assert_eq!(
        (judged("&&"), judged("||")),
        ("y".to_owned(), "y".to_owned())
    );
}

/// A pattern that takes too many steps has no answer, and neither has its negation.
#[test]
fn a_pattern_that_is_given_up_ends_the_page() {
    for compare in ["=", "!="] {
        let (mut context, mut page) = (
            Table::default(),
            Page::new(Settings {
                legacy_expressions: true,
                ..settings()
            }),
        );
        let subject = format!("{}!ab", "a".repeat(40));
        context.variables.set(b"a", subject.as_bytes());
        page.push(
            format!("<!--#if expr=\"$a {compare} /(a|a?)+b$/\" -->y<!--#else -->n<!--#endif -->")
                .as_bytes(),
        );
        page.end();
        assert_eq!(page.step(&mut context), Step::End, "{compare}");
        assert!(context.is_exhausted());
    }
}

/// A page that has cost too much is not gone on with.
#[test]
fn an_exhausted_page_ends() {
    struct Short(Table, usize);
    impl SsiContext for Short {
        fn variables(&mut self) -> &mut Variables {
            self.0.variables()
        }
        fn lazy(&self, lazy: Lazy, format: &[u8]) -> Vec<u8> {
            self.0.lazy(lazy, format)
        }
        fn time(&self, format: &[u8], unix_s: i64) -> Vec<u8> {
            self.0.time(format, unix_s)
        }
        fn short_size(&self, bytes: u64) -> Vec<u8> {
            self.0.short_size(bytes)
        }
        fn holds(
            &mut self,
            expression: &[u8],
            matched: &mut Matched,
            format: &[u8],
        ) -> Result<bool, String> {
            self.0.holds(expression, matched, format)
        }
        fn is_accessible(&mut self, path: &[u8]) -> bool {
            self.0.is_accessible(path)
        }
        fn make(&mut self, bytes: usize) {
            self.1 = self.1.saturating_sub(bytes);
        }
        fn is_exhausted(&self) -> bool {
            self.1 == 0
        }
        fn complain(&mut self, fault: String) {
            self.0.complain(fault);
        }
    }
    let (mut context, mut page) = (Short(Table::default(), 10_000), Page::new(settings()));
    context.0.variables.set(b"a", b"12345678");
    page.push(
        "<!--#set var=\"a\" value=\"$a$a\" -->"
            .repeat(1000)
            .as_bytes(),
    );
    page.end();
    assert_eq!(page.step(&mut context), Step::End);
    let bytes = match context.0.variables.value(b"a") {
        Some(crate::Value::Text(text)) => text.len(),
        _ => 0,
    };
    assert!((100..=20_000).contains(&bytes), "{bytes}");
}
