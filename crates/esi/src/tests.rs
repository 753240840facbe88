//! A row per element and attribute, and what holds for every page.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{Facts, Role, Step, Template, Wanted};
use proptest::prelude::*;

fn facts() -> Facts {
    Facts {
        host: b"shop.example".to_vec(),
        cookie: b"group=Advanced; id=5; evil=<script>".to_vec(),
        accept_language: b"en-gb, de;q=0.5".to_vec(),
        referer: b"http://a.example/".to_vec(),
        user_agent: b"Mozilla/5.0 (X11; Linux x86_64)".to_vec(),
        query: b"first=a+b&second=%3Ci%3E&third=3".to_vec(),
    }
}

/// Steps as one text: `{src}` for an include, with what else is said of it.
fn shown(page: &str) -> String {
    show(page, &Template::parse(page.as_bytes()).steps(&facts()))
}

fn show(page: &str, steps: &[Step]) -> String {
    steps.iter().map(|step| show_one(page, step)).collect()
}

fn show_one(page: &str, step: &Step) -> String {
    match step {
        Step::Text(range) => page[range.clone()].to_owned(),
        Step::Made(text) => String::from_utf8(text.clone()).unwrap(),
        Step::Include(Wanted {
            src,
            alt,
            is_optional,
            is_kept,
            ttl_s,
            role,
            cache_control,
            cache_tag,
        }) => {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let mut words = vec![text(src)];
            words.extend(alt.as_ref().map(|alt| format!("alt={}", text(alt))));
            words.extend(is_optional.then(|| "optional".to_owned()));
            words.extend(is_kept.then(|| "kept".to_owned()));
            words.extend(ttl_s.map(|ttl_s| format!("ttl={ttl_s}")));
            words.extend(
                cache_control
                    .as_ref()
                    .map(|list| format!("control={}", text(list))),
            );
            words.extend(cache_tag.as_ref().map(|list| format!("tag={}", text(list))));
            words.extend(role.map(|role| {
                if role == Role::Main {
                    "main".to_owned()
                } else {
                    "sub".to_owned()
                }
            }));
            format!("{{{}}}", words.join(" "))
        }
        Step::Try { attempt, except } => {
            format!("[{}/{}]", show(page, attempt), show(page, except))
        }
    }
}

#[test]
fn elements_and_attributes() {
    for (page, expected) in [
        ("a<esi:include src=\"/b\"/>c", "a{/b}c"),
        ("a<esi:include src='/b' />c", "a{/b}c"),
        ("a<esi:include src=/b/>c", "a{/b}c"),
        ("a<esi_include src='/b'></esi_include>c", "a{/b}c"),
        ("a<ESI:Include SRC='/b'>\n</esi:include>c", "a{/b}c"),
        (
            "<esi:include src='/b?x=1&amp;y=&#50;&#x33;&nosuch;'/>",
            "{/b?x=1&y=23&nosuch;}",
        ),
        (
            "<esi:include src='/b' alt='/c' onerror='continue'/>",
            "{/b alt=/c optional}",
        ),
        ("<esi:include src='/b' onerror='stop'/>", "{/b}"),
        (
            "<esi:include src='/b' as-var='1' ttl='5m'/>",
            "{/b kept ttl=300}",
        ),
        ("<esi:include src='/b' as-var='0' ttl='x'/>", "{/b}"),
        (
            "<esi:include src='/b' combine='main'/><esi:include src='/c' combined=\"sub\"/>",
            "{/b main}{/c sub}",
        ),
        (
            "<esi:include src='/b' cache-control='private,no-vary' cache-tag='x'/>",
            "{/b control=private,no-vary tag=x}",
        ),
        (
            "<esi:include src='/b' as-var='cart'/><esi:vars>$(cart)</esi:vars>",
            "{/b kept}{/b kept}",
        ),
        (
            "<esi:include src='/b' as-var='cart' test='0==1'/><esi:vars>$(cart|n)</esi:vars>$(cart)",
            "n$(cart)",
        ),
        (
            "<esi:include src='/b' test=\"$(HTTP_COOKIE{group})=='Advanced'\"/>",
            "{/b}",
        ),
        (
            "<esi:include src='/b' test=\"$(HTTP_COOKIE{group})=='Basic'\"/>",
            "",
        ),
        (
            "<esi:include src='/b/$(HTTP_COOKIE{evil})?$(QUERY_STRING)'/>",
            "{/b/%3Cscript%3E?first=a+b&second=%3Ci%3E&third=3}",
        ),
        (
            "<esi:include src='/b?x=$(QUERY_STRING{second}|none)&amp;y=$(QUERY_STRING{no}|none)'/>",
            "{/b?x=%3Ci%3E&y=none}",
        ),
        ("<esi:include alt='/b'/>x", "x"),
        ("a<esi:remove>b<esi:include src='/c'/></esi:remove>d", "ad"),
        (
            "a<esi:comment text='b'/>c<esi:comment text='b'></esi:comment>d",
            "acd",
        ),
        (
            "a<!--esi <p>$(HTTP_HOST)<esi:include src='/b'/></p>-->c",
            "a<p>$(HTTP_HOST){/b}</p>c",
        ),
        (
            "a<!-- esi <esi:include src='/b'/>-->c",
            "a<!-- esi {/b}-->c",
        ),
        (
            "<esi:vars>$(HTTP_HOST)|$(HTTP_COOKIE{evil})|$(NO_SUCH)|$(NO|'d e')|$(x</esi:vars>",
            "shop.example|&lt;script&gt;||d e|$(x",
        ),
        ("<esi:vars name='$(HTTP_COOKIE{id})'/>", "5"),
        (
            "<esi:vars>a<esi:include src='/b'/>$(HTTP_COOKIE{id})</esi:vars>$(HTTP_HOST)",
            "a{/b}5$(HTTP_HOST)",
        ),
        (
            "<esi:choose> x <esi:when test=\"$(HTTP_COOKIE{id})<'10'\">A</esi:when> y <esi:when test='1'>B</esi:when></esi:choose>",
            "A",
        ),
        (
            "<esi:choose><esi:otherwise>O</esi:otherwise><esi:when test=\"!(1==1)\">W</esi:when></esi:choose>",
            "O",
        ),
        (
            "<esi:choose><esi:when test='('>W</esi:when></esi:choose>!",
            "!",
        ),
        (
            "<esi:try><esi:attempt>a<esi:include src='/b'/></esi:attempt><esi:except>c</esi:except></esi:try>",
            "[a{/b}/c]",
        ),
        (
            "<esi:try><esi:attempt><esi:try><esi:attempt>x</esi:attempt></esi:try></esi:attempt><esi:except>c</esi:except></esi:try>",
            "[[x/]/c]",
        ),
        (
            "a<esi:inline name='/b'>c<esi:include src='/d'/></esi:inline>e",
            "ae",
        ),
    ] {
        assert_eq!(shown(page), expected, "{page}");
    }
}

#[test]
fn broken_markup_stays() {
    for page in [
        "a<esi:include src='/b'",
        "a<esi:include src='/b>c",
        "a<esi:include src/>b",
        "a<esi:include\nsrc='/b'alt='/c'/>",
        "a<esi:remove>b",
        "a<esi:vars>$(HTTP_HOST)",
        "a<esi:try><esi:attempt>b</esi:try>c",
        "a<esi:choose><esi:when test='1'>b</esi:choose></esi:when>",
        "a<!--esi b",
        "a</esi:try>b",
        "a<esi:unknown x='1'/>b",
        "<esix:include src='/b'/>",
        "<esi:",
        "<!--esi",
    ] {
        assert_eq!(shown(page), page);
    }
    let deep = "<esi:vars>".repeat(10_000);
    assert_eq!(shown(&deep), deep);
    assert!(Template::parse(b"\n\na<esi:remove>").faults()[0].starts_with("line 3: "));
}

#[test]
fn expressions() {
    for (test, holds) in [
        ("$(HTTP_COOKIE{group})=='Advanced'", true),
        ("$(HTTP_COOKIE{group})!='Advanced'", false),
        ("$(HTTP_COOKIE{nosuch}|x) == 'x'", true),
        ("$(HTTP_COOKIE{nosuch})", false),
        ("$(HTTP_ACCEPT_LANGUAGE{en-gb})", true),
        ("$(HTTP_ACCEPT_LANGUAGE{de})=='true'", true),
        ("$(HTTP_ACCEPT_LANGUAGE{fr})", false),
        (
            "$(HTTP_USER_AGENT{browser})=='MOZILLA' & $(HTTP_USER_AGENT{os})=='UNIX'",
            true,
        ),
        ("$(HTTP_USER_AGENT{version})>='5'", true),
        ("$(HTTP_USER_AGENT)==''", false),
        ("$(HTTP_REFERER)=='http://a.example/'", true),
        ("$(QUERY_STRING{first})=='a b'", true),
        ("$(QUERY_STRING{third})<10", true),
        ("$(QUERY_STRING{third})>'10'", false),
        ("'b'>'a'", true),
        ("1<=1 && 2>=2", true),
        ("1==2 || 1==1", true),
        ("1==2 | 1==1 & 1==2", false),
        ("!(1==2) & !$(HTTP_COOKIE{nosuch})", true),
        ("1==", false),
        ("1==1 1", false),
        ("", false),
        ("(1==1", false),
    ] {
        let page = format!(
            "<esi:choose><esi:when test=\"{test}\">yes</esi:when><esi:otherwise>no</esi:otherwise></esi:choose>"
        );
        assert_eq!(shown(&page), if holds { "yes" } else { "no" }, "{test}");
    }
    let deep = format!(
        "<esi:include src='/a' test=\"{}1{}\"/>",
        "(".repeat(1000),
        ")".repeat(1000)
    );
    assert_eq!(shown(&deep), "");
}

#[test]
fn inlines_are_taken_out() {
    let page = b"a<esi:inline name='/x?a=1&amp;b=2' cache-control='private' cache-tag='t'>one</esi:inline>b\
        <esi:choose><esi:when test='0'><esi_inline src=\"/y\" fetchable='yes'>two</esi_inline></esi:when></esi:choose>";
    let template = Template::parse(page);
    let inlines = template.inlines();
    assert_eq!(
        (inlines[0].address.as_slice(), inlines[1].address.as_slice()),
        (&b"/x?a=1&b=2"[..], &b"/y"[..])
    );
    assert_eq!(
        (
            &page[inlines[0].content.clone()],
            &page[inlines[1].content.clone()]
        ),
        (&b"one"[..], &b"two"[..])
    );
    assert_eq!(
        (
            inlines[0].cache_control.as_deref(),
            inlines[0].cache_tag.as_deref()
        ),
        (Some(&b"private"[..]), Some(&b"t"[..]))
    );
    assert_eq!(
        (inlines[0].is_fetchable, inlines[1].is_fetchable),
        (false, true)
    );
    assert_eq!(
        template.without_inlines(page),
        b"ab<esi:choose><esi:when test='0'></esi:when></esi:choose>"
    );
}

#[test]
fn pages_that_depend_on_nothing() {
    let fixed = |page: &str| {
        Template::parse(page.as_bytes())
            .fixed(page.as_bytes())
            .map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(fixed("a<esi:remove>b</esi:remove>c"), Some("ac".into()));
    assert_eq!(fixed("plain"), Some("plain".into()));
    assert_eq!(fixed("a<esi:include src='/b'/>"), None);
    assert_eq!(fixed("<esi:vars>$(HTTP_HOST)</esi:vars>"), None);
}

/// Words that pages are made of, in any order.
fn pages() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "<esi:include src='/a'/>",
        "<esi:include src='",
        "'/>",
        ">",
        "<esi:remove>",
        "</esi:remove>",
        "<esi:vars>",
        "</esi:vars>",
        "<!--esi ",
        "-->",
        "<esi:choose>",
        "</esi:choose>",
        "<esi:when test='1'>",
        "</esi:when>",
        "<esi:otherwise>",
        "</esi:otherwise>",
        "<esi:try>",
        "</esi:try>",
        "<esi:attempt>",
        "</esi:attempt>",
        "<esi:except>",
        "</esi:except>",
        "<esi:inline name='/x'>",
        "</esi:inline>",
        "$(HTTP_HOST)",
        "$(",
        "é",
        "\n",
        "text",
    ]);
    prop::collection::vec(words, 0..24).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn nothing_panics(page in pages(), bytes: Vec<u8>) {
        for page in [page.as_bytes(), &bytes] {
            let template = Template::parse(page);
            template.steps(&facts());
            let kept = template.without_inlines(page);
            prop_assert!(kept.len() <= page.len());
        }
    }

    #[test]
    fn what_is_no_esi_survives(before in "[^<$]{0,40}", after in "[a-z<>&$(/!-]{0,40}") {
        prop_assume!(!after.contains("<!--esi"));
        let page = format!("{before}<esi:include src='/a'/>{after}");
        prop_assert_eq!(shown(&page), format!("{before}{{/a}}{after}"));
        let page = format!("{after}{before}");
        prop_assert_eq!(Template::parse(page.as_bytes()).fixed(page.as_bytes()), Some(page.into_bytes()));
    }
}

/// A client's value is inserted as often as the page references it, up to the size limit.
#[test]
fn variables_and_includes_are_bounded() {
    let facts = Facts {
        cookie: format!("a={}", "<".repeat(8_000)).into_bytes(),
        ..Facts::default()
    };
    for element in [
        "<esi:vars>$(HTTP_COOKIE{a})</esi:vars>".to_owned(),
        "<esi:include src='/x?$(HTTP_COOKIE{a})'/>".to_owned(),
        format!(
            "<esi:include src='/x?{}'/>",
            "$(HTTP_COOKIE{a})".repeat(500)
        ),
        "<esi:include src='/x' as-var='v'/><esi:vars>$(v)</esi:vars>".to_owned(),
    ] {
        let template = Template::parse(element.repeat((4 << 20) / element.len()).as_bytes());
        let steps = template.steps(&facts);
        let bytes: usize = steps
            .iter()
            .map(|step| match step {
                Step::Made(text) => text.len(),
                Step::Include(wanted) => wanted.src.len(),
                Step::Text(_) | Step::Try { .. } => 0,
            })
            .sum();
        let includes = steps
            .iter()
            .filter(|step| matches!(step, Step::Include(_)))
            .count();
        assert!(
            bytes <= 9 << 20 && includes <= 4096 && (bytes > 0),
            "{bytes} bytes, {includes} includes: {}",
            &element[..40]
        );
    }
}
