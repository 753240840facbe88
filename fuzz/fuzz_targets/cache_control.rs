//! Any heads at any times: a life is sound and goes through its bytes unchanged, no-store and
//! private are never lost behind broken text, and nothing is served past all its times.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_cache_rules::rules::{
    ClientControl, Life, RuleSettings, SearchVariance, Use, Vary, judge_response, judge_use,
    may_serve_after_error,
    validation::{freshened, is_not_modified, judge_answer},
};
use saker_fuzz::Input;
use saker_http::{Fields, RequestHead, Status, Version};

const ANSWER: [&str; 10] = [
    "Cache-Control",
    "CDN-Cache-Control",
    "Surrogate-Control",
    "Expires",
    "Date",
    "Age",
    "Last-Modified",
    "ETag",
    "Vary",
    "No-Vary-Search",
];
const ASKED: [&str; 6] = [
    "Cache-Control",
    "Pragma",
    "Cookie",
    "If-None-Match",
    "If-Modified-Since",
    "Accept-Language",
];

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(took_ms), Some(later_ms)) = (input.byte(), input.u16(), input.u64())
    else {
        return;
    };
    let client = if knob & 1 == 0 {
        ClientControl::Ignored
    } else {
        ClientControl::Honored
    };
    let settings = RuleSettings {
        client,
        stale_while_revalidate_s: u64::from(knob),
        ..RuleSettings::default()
    };
    let (head, answer) = heads(input.rest());
    let response_ms = 1_700_000_000_000;
    let judged = judge_response(
        head.view(),
        Status::OK,
        &answer,
        &settings,
        response_ms - i64::from(took_ms),
        response_ms,
    );
    if let Ok(life) = judged {
        sound(&life);
        let now_ms = response_ms.saturating_add((later_ms >> (knob & 63)) as i64);
        let found = judge_use(head.view(), &life, &settings, now_ms);
        assert!(now_ms < life.keep_until_ms || !matches!(found, Use::Fresh | Use::Stale));
        may_serve_after_error(head.view(), &life, &settings, now_ms);
    }
    for word in ["no-store", "private"] {
        let mut answer = answer.clone();
        answer.remove("cdn-cache-control");
        answer.remove("surrogate-control");
        answer.append("Cache-Control", word.as_bytes());
        let judged = judge_response(
            head.view(),
            Status::OK,
            &answer,
            &settings,
            response_ms,
            response_ms,
        );
        let understood = answer.iter().any(|line| {
            line.1
                .to_ascii_lowercase()
                .windows(15)
                .any(|part| part == b"must-understand")
        });
        assert!(judged.is_err() || (understood && word == "no-store"));
    }
    further(&head, &answer);
});

fn sound(life: &Life) {
    assert!(
        life.born_ms <= life.fresh_until_ms
            && life.fresh_until_ms <= life.stale_while_revalidate_until_ms
    );
    assert!(
        life.stale_while_revalidate_until_ms
            .max(life.stale_if_error_until_ms)
            <= life.keep_until_ms
    );
    assert_eq!(Life::decode(&life.encode()).as_ref(), Some(life));
}

fn further(head: &RequestHead, answer: &Fields) {
    judge_answer(answer, Status::NOT_MODIFIED, answer);
    is_not_modified(head.view(), Status::OK, answer, 1_700_000_000);
    let once = freshened(answer, answer);
    assert_eq!(freshened(&once, answer), once);
    if let Some(vary) = Vary::of(answer) {
        assert!(vary.matches(&vary.secondary_key(head.view()), head.view()));
    }
    let variance = SearchVariance::of(answer);
    for (_, query) in head.view().fields() {
        assert!(variance.equivalent(Some(query), Some(query)));
    }
}

/// A line per field: the first byte says which, the rest is its value.
fn heads(text: &[u8]) -> (RequestHead, Fields) {
    let (mut asked, mut answer) = (Vec::new(), Fields::new());
    for line in text.split(|byte| *byte == b'\n') {
        let Some((first, value)) = line.split_first() else {
            continue;
        };
        match usize::from(first % 16) {
            at if at < ANSWER.len() => answer.append(ANSWER[at], value.to_vec()),
            at => asked.push((
                ASKED[at - ANSWER.len()],
                String::from_utf8_lossy(value).into_owned(),
            )),
        }
    }
    let lines: Vec<(&str, &str)> = asked
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    (
        RequestHead::build("GET", "/", Version::Http11, &lines),
        answer,
    )
}
