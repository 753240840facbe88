//! Proof of work: a puzzle that a browser solves and that costs this server one hash to check. No
//! memory of clients.
//!
//! Called by: `challenge`.
//! Caveat: a clearance is judged by the rule of the place where it is shown, not by the one that
//! granted it.
//! Out of scope: cookies as fields, and the response.
//!
//! A puzzle is signed and bound to the address range and the host, so it can't be used elsewhere; a
//! solution is a number for which SHA-256 of puzzle, colon and number begins with the required
//! number of zero bits. Solving it earns a clearance for the same range and host, whose lifetime
//! counts from when the puzzle was created: submitting a solution twice gains nothing. A clearance
//! records the difficulty and the start of the work that earned it, and is judged by the rule of
//! the place where it is presented: easy work doesn't satisfy a place that requires hard work, and
//! a clearance that lasts long elsewhere lasts no longer than this place's own.

use crate::{KeyRing, mac};
use aws_lc_rs::{digest, rand};
use saker_ipset::ClientNetwork;
use std::net::IpAddr;

/// Lifetime of a puzzle, long enough for slow clients.
pub const PUZZLE_LIFE_S: i64 = 3600;
const PAGE: &str = include_str!("work.html");
/// Script that does the work, on our page and on custom ones.
const CORE: &str = include_str!("work_core.html");
const PLACE: &str = saker_config::model::CHALLENGE_PLACE;

/// The client and host that puzzles and clearances are bound to.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    pub address: IpAddr,
    pub host: &'a [u8],
}

impl Binding<'_> {
    fn bound(&self, more: &str) -> Vec<u8> {
        [
            &ClientNetwork::roaming_range(self.address).bytes()[..],
            more.as_bytes(),
            b"|",
            self.host,
        ]
        .concat()
    }
}

/// `None`: the system gives no random bytes.
pub fn puzzle(keys: &KeyRing, client: Binding<'_>, difficulty: u32, now: i64) -> Option<String> {
    let mut random = [0; 8];
    rand::fill(&mut random).ok()?;
    let text = format!("{difficulty}.{}", mac::hex(&random));
    let signed = keys.sign(
        b"puzzle",
        &client.bound(&text),
        now.saturating_add(PUZZLE_LIFE_S),
        now,
    )?;
    Some(format!("{text}.{signed}"))
}

/// The clearance that a place demands.
#[derive(Clone, Copy, Debug)]
pub struct ClearanceTerms {
    /// Zero bits.
    pub difficulty: u32,
    /// Lifetime of a pass, from when its puzzle was made.
    pub life_s: u64,
}

impl ClearanceTerms {
    fn ends(self, began: i64) -> i64 {
        began.saturating_add(i64::try_from(self.life_s).unwrap_or(i64::MAX))
    }
}

/// A puzzle that was solved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solved {
    /// Creation time.
    pub began: i64,
    /// Zero bits required by the puzzle, and present in its solution.
    pub difficulty: u32,
    /// Random part that makes it unique.
    random: String,
}

/// The puzzle that this solves for the client; `None`: it solves none that is good and hard
/// enough.
pub fn solved(
    keys: &KeyRing,
    client: Binding<'_>,
    solution: &[u8],
    difficulty: u32,
    now: i64,
) -> Option<Solved> {
    let text = std::str::from_utf8(solution).ok()?;
    let (puzzle, number) = text.split_once(':')?;
    let is_number = !number.is_empty()
        && number.len() <= 20
        && number.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = puzzle.splitn(3, '.');
    let (hard, random, signed) = (parts.next()?, parts.next()?, parts.next()?);
    let until = keys.verify(
        signed.as_bytes(),
        b"puzzle",
        &client.bound(&format!("{hard}.{random}")),
        now,
    )?;
    // The puzzle's own difficulty, which may exceed the required one: the clearance records that
    // this much was done.
    let hard = hard
        .parse::<u32>()
        .ok()
        .filter(|hard| *hard >= difficulty)?;
    let is_done =
        is_number && zero_bits(digest::digest(&digest::SHA256, solution).as_ref()) >= hard;
    is_done.then(|| Solved {
        began: until - PUZZLE_LIFE_S,
        difficulty: hard,
        random: random.to_owned(),
    })
}

/// A pass for a solved puzzle, and when it ends. The same puzzle gives the same pass, each puzzle
/// its own.
pub fn clearance(
    keys: &KeyRing,
    client: Binding<'_>,
    solved: &Solved,
    wanted: ClearanceTerms,
    now: i64,
) -> Option<(String, i64)> {
    let until = wanted.ends(solved.began);
    let text = format!("{}.{:x}.{}", solved.difficulty, solved.began, solved.random);
    let signed = keys.sign(b"pass", &client.bound(&text), until, now)?;
    Some((format!("{text}.{signed}"), until))
}

/// True if a clearance is valid here and now: signed by us, for this range and host, with enough
/// work, begun recently enough.
pub fn has_clearance(
    keys: &KeyRing,
    client: Binding<'_>,
    pass: &[u8],
    wanted: ClearanceTerms,
    now: i64,
) -> bool {
    let worth = || {
        let text = std::str::from_utf8(pass).ok()?;
        let mut parts = text.splitn(4, '.');
        let (difficulty, began, random, signed) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        keys.verify(
            signed.as_bytes(),
            b"pass",
            &client.bound(&format!("{difficulty}.{began}.{random}")),
            now,
        )?;
        Some((
            difficulty.parse::<u32>().ok()?,
            i64::from_str_radix(began, 16).ok()?,
        ))
    };
    worth().is_some_and(|(difficulty, began)| {
        difficulty >= wanted.difficulty && wanted.ends(began) > now
    })
}

fn zero_bits(hash: &[u8]) -> u32 {
    let zeros = hash.iter().take_while(|byte| **byte == 0).count();
    let next = hash.get(zeros).map_or(0, |byte| byte.leading_zeros());
    zeros as u32 * 8 + next
}

/// Parts of the page in addition to the puzzle.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub puzzle: &'a str,
    /// Name of the cookie that takes the solution.
    pub cookie: &'a str,
    /// The request had content, which has not been used.
    pub has_content: bool,
    /// A solution came along and was not good.
    pub failed: bool,
    pub is_secure: bool,
    /// Nonce for the script (Content-Security-Policy).
    pub nonce: &'a str,
    /// The site's own page, instead of the built-in one.
    pub own: Option<&'a str>,
}

/// Renders the page; all inserted values consist of letters, digits, and `-_.`. In a site's own
/// page the placeholders of the puzzle and `{nonce}`, for the site's scripts, are replaced; a text
/// for browsers without JavaScript is up to that page.
pub fn page(page: &Page<'_>) -> String {
    let difficulty = page.puzzle.split('.').next().unwrap_or_default();
    let flag = |flag| if flag { "true" } else { "false" };
    let pairs = [
        ("{puzzle}", page.puzzle),
        ("{difficulty}", difficulty),
        ("{cookie}", page.cookie),
        ("{content}", flag(page.has_content)),
        ("{failed}", flag(page.failed)),
        ("{secure}", flag(page.is_secure)),
        ("{nonce}", page.nonce),
        ("{sent}", if page.has_content { SENT } else { "" }),
        (
            "{noscript}",
            if page.own.is_some_and(|own| own.contains("<noscript")) {
                ""
            } else {
                NO_SCRIPT
            },
        ),
    ];
    let core = pairs
        .into_iter()
        .fold(CORE.to_owned(), |text, (mark, value)| {
            text.replace(mark, value)
        });
    page.own
        .unwrap_or(PAGE)
        .replace("{nonce}", page.nonce)
        .replacen(PLACE, &core, 1)
}

const NO_SCRIPT: &str = "<noscript><p><strong>The calculation needs JavaScript, which is switched off in this browser.</strong> Please switch it on for this site, or come back a little later.</p></noscript>\n";
const SENT: &str = "<p id=\"sent\"><strong>What you have just sent has not reached the site yet.</strong> When the check is done, press \u{201c}Send again\u{201d}: \
                    your browser may ask whether to send it a second time, which is what you want.</p>\n";

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;
    const EASY: u32 = 10;
    const DAY: ClearanceTerms = ClearanceTerms {
        difficulty: EASY,
        life_s: 86_400,
    };

    fn client(address: &str) -> Binding<'static> {
        Binding {
            address: address.parse().unwrap(),
            host: b"h.test",
        }
    }

    fn solve(puzzle: &str, difficulty: u32) -> String {
        let solution = |number: u64| format!("{puzzle}:{number}");
        let is_good = |text: &String| {
            zero_bits(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()) >= difficulty
        };
        (0..).map(solution).find(is_good).unwrap()
    }

    #[test]
    fn a_solved_puzzle_is_worth_a_pass_in_its_range() {
        let keys = KeyRing::default();
        let here = client("192.0.2.7");
        let solution = solve(&puzzle(&keys, here, EASY, NOW).unwrap(), EASY);
        let solved =
            |who, difficulty, now| solved(&keys, who, solution.as_bytes(), difficulty, now);
        assert_eq!(solved(here, EASY, NOW + 3599).unwrap().began, NOW);
        assert!(solved(client("192.0.2.99"), EASY, NOW).is_some());
        assert_eq!(solved(client("192.0.3.7"), EASY, NOW), None);
        assert_eq!(
            solved(
                Binding {
                    host: b"other.test",
                    ..here
                },
                EASY,
                NOW
            ),
            None
        );
        assert_eq!(solved(here, EASY + 1, NOW), None, "made when it was easier");
        assert_eq!(solved(here, EASY, NOW + 3600), None);
        let (text, until) = clearance(
            &keys,
            here,
            &solved(here, EASY, NOW).unwrap(),
            DAY,
            NOW + 50,
        )
        .unwrap();
        assert_eq!(until, NOW + 86_400);
        assert_eq!(
            clearance(
                &keys,
                here,
                &solved(here, EASY, NOW).unwrap(),
                DAY,
                NOW + 60
            )
            .unwrap()
            .0,
            text,
            "twice the same"
        );
        assert!(has_clearance(
            &keys,
            client("192.0.2.1"),
            text.as_bytes(),
            DAY,
            NOW + 86_399
        ));
        assert!(!has_clearance(
            &keys,
            client("192.0.4.1"),
            text.as_bytes(),
            DAY,
            NOW
        ));
        assert!(!has_clearance(
            &keys,
            Binding {
                host: b"other.test",
                ..here
            },
            text.as_bytes(),
            DAY,
            NOW
        ));
        assert!(!has_clearance(
            &keys,
            here,
            text.as_bytes(),
            DAY,
            NOW + 86_400
        ));
        assert!(!has_clearance(&keys, here, solution.as_bytes(), DAY, NOW));
    }

    #[test]
    fn a_pass_is_worth_the_work_that_earned_it() {
        let keys = KeyRing::default();
        let here = client("192.0.2.7");
        let earned = |difficulty, wanted| {
            let solution = solve(&puzzle(&keys, here, difficulty, NOW).unwrap(), difficulty);
            let solved = solved(&keys, here, solution.as_bytes(), EASY, NOW).unwrap();
            clearance(&keys, here, &solved, wanted, NOW).unwrap().0
        };
        let (easy, hard) = (earned(EASY, DAY), earned(EASY + 4, DAY));
        let is_good = |pass: &str, difficulty, now| {
            has_clearance(
                &keys,
                here,
                pass.as_bytes(),
                ClearanceTerms { difficulty, ..DAY },
                now,
            )
        };
        assert!(is_good(&easy, EASY, NOW) && is_good(&easy, 0, NOW));
        assert!(
            !is_good(&easy, EASY + 1, NOW),
            "easy work opens no place that asks for more"
        );
        assert!(
            is_good(&hard, EASY, NOW)
                && is_good(&hard, EASY + 4, NOW)
                && !is_good(&hard, EASY + 5, NOW)
        );
        // The rule of the place says how long a pass is good for, wherever it was earned.
        let hour = ClearanceTerms {
            life_s: 3600,
            ..DAY
        };
        assert!(
            has_clearance(&keys, here, easy.as_bytes(), hour, NOW + 3599)
                && !has_clearance(&keys, here, easy.as_bytes(), hour, NOW + 3600)
        );
        assert!(
            !has_clearance(&keys, here, earned(EASY, hour).as_bytes(), DAY, NOW + 3600),
            "nor is it good for longer than it says"
        );
        // Neither number can be changed, and nothing that was signed for something else is a pass.
        let (_, rest) = easy.split_once('.').unwrap();
        let (began, rest) = rest.split_once('.').unwrap();
        let later = format!("{:x}", NOW + 9);
        for forged in [
            format!("{}.{began}.{rest}", EASY + 4),
            format!("0{EASY}.{began}.{rest}"),
            format!("+{EASY}.{began}.{rest}"),
            format!("{EASY}.{later}.{rest}"),
            format!("{EASY}.0{began}.{rest}"),
            rest.to_owned(),
            puzzle(&keys, here, EASY + 4, NOW).unwrap(),
        ] {
            assert!(!is_good(&forged, 0, NOW), "{forged}");
        }
    }

    #[test]
    fn a_hard_puzzle_takes_its_whole_work_wherever_it_is_shown() {
        let keys = KeyRing::default();
        let here = client("192.0.2.7");
        let hard = puzzle(&keys, here, EASY + 4, NOW).unwrap();
        let half = (0..).map(|number| format!("{hard}:{number}")).find(|text| {
            (EASY..EASY + 4).contains(&zero_bits(
                digest::digest(&digest::SHA256, text.as_bytes()).as_ref(),
            ))
        });
        assert_eq!(
            solved(&keys, here, half.unwrap().as_bytes(), EASY, NOW),
            None
        );
    }

    #[test]
    fn what_is_no_solution() {
        let keys = KeyRing::default();
        let here = client("2001:db8::1");
        let puzzle = puzzle(&keys, here, EASY, NOW).unwrap();
        let good = solve(&puzzle, EASY);
        let easier = good.replacen("10.", "0.", 1);
        for bad in [
            &easier,
            &format!("{puzzle}:"),
            &format!("{puzzle}:x"),
            &puzzle,
            "",
            ":",
            "10.a.b:1",
            &solve("10.00.ff.aa", EASY),
        ] {
            assert_eq!(
                solved(&keys, here, bad.as_bytes(), EASY, NOW),
                None,
                "{bad}"
            );
        }
        let unsolved = (0..).map(|n| format!("{puzzle}:{n}")).find(|text| {
            zero_bits(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()) < EASY
        });
        assert_eq!(
            solved(&keys, here, unsolved.unwrap().as_bytes(), EASY, NOW),
            None
        );
        assert!(solved(&keys, here, good.as_bytes(), EASY, NOW).is_some());
    }

    #[test]
    fn bits() {
        assert_eq!(
            (
                zero_bits(&[0, 0, 0x10]),
                zero_bits(&[0xff]),
                zero_bits(&[0, 0]),
                zero_bits(&[])
            ),
            (19, 0, 16, 0)
        );
    }

    #[test]
    fn the_page_is_whole() {
        let page = page(&Page {
            puzzle: "16.ab.cd.ef",
            cookie: "saker_work",
            has_content: true,
            failed: false,
            is_secure: true,
            nonce: "ab",
            own: None,
        });
        assert!(
            !page.contains("{puzzle}")
                && page.contains("\"16.ab.cd.ef\"")
                && page.contains("has not reached the site yet")
        );
        assert!(
            page.contains("lang=\"en\"")
                && page.contains("<noscript>")
                && page.contains("role=\"status\"")
        );
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn a_page_of_the_sites_own() {
        let own = "<!doctype html><html lang=\"de\"><title>{puzzle}</title><main>{challenge}</main><script nonce=\"{nonce}\"></script>";
        let asked = Page {
            puzzle: "16.ab.cd.ef",
            cookie: "w",
            has_content: false,
            failed: true,
            is_secure: false,
            nonce: "ab",
            own: Some(own),
        };
        let text = page(&asked);
        assert!(
            text.starts_with(
                "<!doctype html><html lang=\"de\"><title>{puzzle}</title><main><p id=\"state\""
            ),
            "{text}"
        );
        assert!(
            text.contains("puzzle = \"16.ab.cd.ef\"")
                && text.ends_with("</main><script nonce=\"ab\"></script>"),
            "{text}"
        );
        assert_eq!(
            (
                text.matches("<noscript>").count(),
                text.matches("One moment").count()
            ),
            (1, 0)
        );
        let with_words = format!("{own}<noscript>Bitte JavaScript.</noscript>");
        assert_eq!(
            page(&Page {
                own: Some(&with_words),
                ..asked
            })
            .matches("<noscript>")
            .count(),
            1
        );
    }
}
