//! A page with ESI never loses text outside of its elements, and never gets markup from a request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_esi::{Facts, Step, Template};

/// In what a request says, and in no page.
const FOREIGN: &[u8] = b"<\xff\xfe>";

fn check(page: &[u8], steps: &[Step], last: &mut usize) {
    for step in steps {
        match step {
            Step::Text(range) => {
                assert!(range.start >= *last && range.end <= page.len() && !range.is_empty());
                *last = range.end;
            }
            Step::Made(text) => {
                assert!(!text.windows(FOREIGN.len()).any(|window| window == FOREIGN))
            }
            Step::Include(wanted) => assert!(
                !wanted
                    .src
                    .windows(FOREIGN.len())
                    .any(|window| window == FOREIGN)
            ),
            Step::Try { attempt, except } => {
                let mut apart = *last;
                check(page, attempt, last);
                check(page, except, &mut apart);
                *last = apart.max(*last);
            }
        }
    }
}

fuzz_target!(|page: &[u8]| {
    if page.windows(2).any(|window| window == [0xff, 0xfe]) {
        return;
    }
    let template = Template::parse(page);
    let given = FOREIGN.to_vec();
    let cookie = [b"a=", FOREIGN].concat();
    let facts = Facts {
        host: given.clone(),
        query: cookie.clone(),
        cookie,
        accept_language: given.clone(),
        referer: given.clone(),
        user_agent: given,
    };
    check(page, &template.steps(&facts), &mut 0);
    // Without anything of ESI's, all of it is there.
    let has_mark = page
        .windows(4)
        .any(|window| window[..3].eq_ignore_ascii_case(b"esi"));
    if !has_mark {
        assert_eq!(template.fixed(page).as_deref(), Some(page));
        assert!(template.faults().is_empty());
    }
    let kept = template.without_inlines(page);
    assert!(
        kept.len() <= page.len() && (template.inlines().is_empty() == (kept.len() == page.len()))
    );
});
