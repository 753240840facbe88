//! Whatever heads say and clocks show: nothing panics, a life goes through its bytes unchanged, and
//! nothing lives longer than it may.

use proptest::prelude::*;
use saker_cache_rules::rules::{
    CacheStatus, ClientControl, Forward, Life, RuleSettings, SearchVariance, Use, Vary, age_s,
    control::{RequestControl, ResponseControl},
    fields::stored_fields,
    invalidation::{Origin, invalidated},
    judge_response, judge_use, may_serve_after_error,
    tags::tags,
    validation::{
        conditions, freshened, is_not_modified, judge_answer, judge_head_answer, same_bytes,
    },
};
use saker_http::{Fields, Method, RequestHead, Status, Version};

/// Values that caches look into, whole and broken.
fn value() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "max-age=60",
        "max-age=",
        "s-maxage=30",
        "no-cache",
        "no-store",
        "private",
        "public",
        "=\"",
        "\"",
        ",",
        ", ",
        "\\",
        "x",
        "must-revalidate",
        "stale-while-revalidate=9",
        "stale-if-error=99999999999999999999",
        "must-understand",
        "immutable",
        "only-if-cached",
        "max-stale",
        "min-fresh=1",
        "Tue, 14 Nov 2023 22:13:20 GMT",
        "0",
        "-1",
        "W/\"a\"",
        "\"a\"",
        "*",
        "params",
        "(\"a\")",
        "key-order",
        "?0",
        ";",
        "/../x",
        "//h/y",
        "http://h:80/z",
        "Cookie",
        "Accept-Language",
        "é",
        "9223372036854775807",
    ]);
    prop::collection::vec(pieces, 0..5).prop_map(|pieces| pieces.concat())
}

fn answer() -> impl Strategy<Value = Fields> {
    let names = prop::sample::select(vec![
        "Cache-Control",
        "CDN-Cache-Control",
        "Surrogate-Control",
        "Expires",
        "Date",
        "Age",
        "Last-Modified",
        "ETag",
        "Vary",
        "Set-Cookie",
        "Location",
        "Content-Location",
        "No-Vary-Search",
        "Cache-Tag",
        "Surrogate-Key",
        "Connection",
        "Content-Length",
        "Cache-Status",
    ]);
    prop::collection::vec((names, value()), 0..8).prop_map(|lines| {
        let mut fields = Fields::new();
        lines
            .into_iter()
            .for_each(|(name, value)| fields.append(name, value.into_bytes()));
        fields
    })
}

fn asked() -> impl Strategy<Value = RequestHead> {
    let names = prop::sample::select(vec![
        "Cache-Control",
        "Pragma",
        "Cookie",
        "Authorization",
        "If-None-Match",
        "If-Modified-Since",
        "Range",
        "Accept-Language",
    ]);
    let methods = prop::sample::select(vec!["GET", "GET", "GET", "HEAD", "POST", "FROB"]);
    (methods, prop::collection::vec((names, value()), 0..4)).prop_map(|(method, lines)| {
        let lines: Vec<(&str, &str)> = lines
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        RequestHead::build(method, "/a/b?c", Version::Http11, &lines)
    })
}

fn settings() -> impl Strategy<Value = RuleSettings> {
    (
        any::<[bool; 6]>(),
        prop::option::of(any::<u64>()),
        prop::option::of(any::<u64>()),
        any::<[u64; 6]>(),
    )
        .prop_map(
            |(flags, default_ttl_s, ttl_override_s, numbers)| RuleSettings {
                client: if flags[0] {
                    ClientControl::Honored
                } else {
                    ClientControl::Ignored
                },
                store_private: flags[1],
                store_no_store: flags[2],
                store_parts: flags[3],
                keep_for_validation: flags[4],
                default_ttl_s,
                ttl_override_s,
                ttl_min_s: numbers[0],
                ttl_max_s: numbers[1],
                heuristic_percent: numbers[2],
                stale_while_revalidate_s: numbers[3],
                stale_if_error_s: numbers[4],
                keep_s: numbers[5],
                ..RuleSettings::default()
            },
        )
}

fn sound(life: &Life) -> bool {
    let end = life
        .stale_while_revalidate_until_ms
        .max(life.stale_if_error_until_ms);
    let ordered = life.born_ms <= life.fresh_until_ms
        && life.fresh_until_ms <= life.stale_while_revalidate_until_ms
        && end <= life.keep_until_ms;
    ordered && Life::decode(&life.encode()).as_ref() == Some(life)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn lives_are_sound(
        asked in asked(), later in asked(), answer in answer(), settings in settings(), status in 0u16..700,
        times in prop_oneof![any::<[i64; 3]>(), [1_699_999_000_000i64..1_700_001_000_000, 1_699_999_000_000i64..1_700_001_000_000, 1_699_999_000_000i64..1_700_001_000_000]],
    ) {
        let [request_ms, response_ms, now_ms] = times;
        match judge_response(asked.view(), Status(status), &answer, &settings, request_ms, response_ms) {
            Ok(life) => {
                prop_assert!(sound(&life), "{life:?}");
                let found = judge_use(later.view(), &life, &settings, now_ms);
                if now_ms >= life.keep_until_ms {
                    prop_assert!(!matches!(found, Use::Fresh | Use::Stale), "{found:?} {life:?}");
                }
                let _ = (age_s(&life, now_ms), may_serve_after_error(later.view(), &life, &settings, now_ms));
                let kept = stored_fields(&answer, &life, &settings);
                prop_assert!(!kept.has("set-cookie") && !kept.has("connection") && !kept.has("age"));
            }
            Err(pass) => prop_assert!(!pass.to_string().is_empty() && !pass.name().is_empty()),
        }
    }

    #[test]
    fn a_word_that_forbids_is_never_lost(before in value(), after in value(), settings in settings()) {
        let settings = RuleSettings { store_no_store: false, store_private: false, ..settings };
        for word in ["no-store", "private"] {
            let mut fields = Fields::new();
            fields.append("Cache-Control", before.clone().into_bytes());
            fields.append("Cache-Control", word.as_bytes());
            fields.append("Cache-Control", after.clone().into_bytes());
            let control = ResponseControl::parse(fields.iter().map(|line| line.1));
            prop_assert!(control.no_store || control.private.is_whole());
            let head = RequestHead::build("GET", "/", Version::Http11, &[]);
            let judged = judge_response(head.view(), Status::OK, &fields, &settings, 0, 0);
            prop_assert!(judged.is_err() || control.must_understand, "{judged:?}");
        }
    }

    #[test]
    fn everything_else_ends(asked in asked(), one in answer(), other in answer(), status in 0u16..700, reference in value()) {
        let status = Status(status);
        let _ = (RequestControl::of(asked.view()), conditions(&one), judge_answer(&one, status, &other), judge_head_answer(&one, 5, status, &other));
        let _ = (is_not_modified(asked.view(), status, &one, 1_700_000_000), tags(&one), freshened(&one, &other));
        prop_assert_eq!(same_bytes(&one, &other), same_bytes(&other, &one));
        let origin = Origin { scheme: "http", authority: b"h" };
        for target in invalidated(Method::Post, origin, reference.as_bytes(), status, &one).iter().skip(1) {
            prop_assert!(target.starts_with(b"/") && !target.contains(&b'#'));
        }
        if let Some(vary) = Vary::of(&one) {
            prop_assert!(vary.matches(&vary.secondary_key(asked.view()), asked.view()));
        }
        let variance = SearchVariance::of(&one);
        prop_assert!(variance.equivalent(Some(reference.as_bytes()), Some(reference.as_bytes())));
        let mut answer = one.clone();
        let detail = Some(reference.as_str());
        CacheStatus { forward: Some(Forward::Miss), detail, ttl_s: Some(i64::MIN), ..CacheStatus::default() }.append_to(&mut answer, &reference);
        prop_assert_eq!(answer.iter().filter(|line| line.0 == "Cache-Status").count(), 1);
    }
}
