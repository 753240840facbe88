//! Proof of work: a puzzle that a browser solves and that costs this server one hash to check. No memory of who was asked.
//!
//! A puzzle is signed and bound to the address range and the host, so that it can't be taken elsewhere; a solution is a number which makes
//! SHA-256 of puzzle, colon and number begin with so many zero bits. Whoever brings one gets a pass of the same range and host, whose end
//! counts from when the puzzle was made: bringing a solution twice gains nothing.

use crate::{KeyRing, Who, mac};
use aws_lc_rs::{digest, rand};
use std::net::IpAddr;

/// How long a puzzle may be worked on: nobody is hurried.
pub const PUZZLE_LIFE_S: i64 = 3600;
const PAGE: &str = include_str!("work.html");
/// What does the work, on our page and on others.
const CORE: &str = include_str!("work_core.html");
const PLACE: &str = saker_config::model::CHALLENGE_PLACE;

/// For whom.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    pub address: IpAddr,
    pub host: &'a [u8],
}

impl Visitor<'_> {
    fn bound(&self, more: &str) -> Vec<u8> {
        [&Who::range(self.address).bytes()[..], more.as_bytes(), b"|", self.host].concat()
    }
}

/// `None`: the system gives no random bytes.
pub fn puzzle(keys: &KeyRing, visitor: Visitor<'_>, difficulty: u32, now: i64) -> Option<String> {
    let mut random = [0; 8];
    rand::fill(&mut random).ok()?;
    let text = format!("{difficulty}.{}", mac::hex(&random));
    let signed = keys.sign(b"puzzle", &visitor.bound(&text), now.saturating_add(PUZZLE_LIFE_S), now)?;
    Some(format!("{text}.{signed}"))
}

/// A puzzle that was solved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solved {
    /// When it was made.
    pub began: i64,
    /// What tells it from others.
    random: String,
}

/// The puzzle that this solves for the visitor; `None`: it solves none that is good and hard enough.
pub fn solved(keys: &KeyRing, visitor: Visitor<'_>, solution: &[u8], difficulty: u32, now: i64) -> Option<Solved> {
    let text = std::str::from_utf8(solution).ok()?;
    let (puzzle, number) = text.split_once(':')?;
    let is_number = !number.is_empty() && number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = puzzle.splitn(3, '.');
    let (hard, random, signed) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hard = hard.parse::<u32>().is_ok_and(|hard| hard >= difficulty);
    let until = keys.verify(signed.as_bytes(), b"puzzle", &visitor.bound(&format!("{hard}.{random}")), now)?;
    let is_done = is_number && is_hard && zero_bits(digest::digest(&digest::SHA256, solution).as_ref()) >= difficulty;
    is_done.then(|| Solved { began: until - PUZZLE_LIFE_S, random: random.to_owned() })
}

/// What a visitor carries that has solved a puzzle, and until when. The same puzzle gives the same, each its own.
pub fn pass(keys: &KeyRing, visitor: Visitor<'_>, solved: &Solved, life_s: u64, now: i64) -> Option<(String, i64)> {
    let until = solved.began.saturating_add(i64::try_from(life_s).unwrap_or(i64::MAX));
    let signed = keys.sign(b"pass", &visitor.bound(&solved.random), until, now)?;
    Some((format!("{}.{signed}", solved.random), until))
}

pub fn has_pass(keys: &KeyRing, visitor: Visitor<'_>, pass: &[u8], now: i64) -> bool {
    let parts = std::str::from_utf8(pass).ok().and_then(|pass| pass.split_once('.'));
    parts.is_some_and(|(random, signed)| keys.verify(signed.as_bytes(), b"pass", &visitor.bound(random), now).is_some())
}

fn zero_bits(hash: &[u8]) -> u32 {
    let zeros = hash.iter().take_while(|byte| **byte == 0).count();
    let next = hash.get(zeros).map_or(0, |byte| byte.leading_zeros());
    zeros as u32 * 8 + next
}

/// What the page says besides the puzzle.
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
    /// For the script's permission (Content-Security-Policy).
    pub nonce: &'a str,
    /// The site's own page, in place of ours.
    pub own: Option<&'a str>,
}

/// The page; everything laid into it is of letters, digits and `-_.`. In a page of the site's own the place of the work and `{nonce}`, for scripts of
/// the site's, are filled in; it says itself what it has to say to browsers without JavaScript, if it says anything.
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
        ("{noscript}", if page.own.is_some_and(|own| own.contains("<noscript")) { "" } else { NO_SCRIPT }),
    ];
    let core = pairs.into_iter().fold(CORE.to_owned(), |text, (mark, value)| text.replace(mark, value));
    page.own.unwrap_or(PAGE).replace("{nonce}", page.nonce).replacen(PLACE, &core, 1)
}

const NO_SCRIPT: &str = "<noscript><p><strong>The calculation needs JavaScript, which is switched off in this browser.</strong> Please switch it on for this site, or come back a little later.</p></noscript>\n";
const SENT: &str = "<p id=\"sent\"><strong>What you have just sent has not reached the site yet.</strong> When the check is done, press \u{201c}Send again\u{201d}: \
                    your browser may ask whether to send it a second time, which is what you want.</p>\n";

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;
    const EASY: u32 = 10;

    fn visitor(address: &str) -> Visitor<'static> {
        Visitor { address: address.parse().unwrap(), host: b"h.test" }
    }

    fn solve(puzzle: &str, difficulty: u32) -> String {
        let solution = |number: u64| format!("{puzzle}:{number}");
        let is_good = |text: &String| zero_bits(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()) >= difficulty;
        (0..).map(solution).find(is_good).unwrap()
    }

    #[test]
    fn a_solved_puzzle_is_worth_a_pass_in_its_range() {
        let keys = KeyRing::default();
        let here = visitor("192.0.2.7");
        let solution = solve(&puzzle(&keys, here, EASY, NOW).unwrap(), EASY);
        let solved = |who, difficulty, now| solved(&keys, who, solution.as_bytes(), difficulty, now);
        assert_eq!(solved(here, EASY, NOW + 3599).unwrap().began, NOW);
        assert!(solved(visitor("192.0.2.99"), EASY, NOW).is_some());
        assert_eq!(solved(visitor("192.0.3.7"), EASY, NOW), None);
        assert_eq!(solved(Visitor { host: b"other.test", ..here }, EASY, NOW), None);
        assert_eq!(solved(here, EASY + 1, NOW), None, "made when it was easier");
        assert_eq!(solved(here, EASY, NOW + 3600), None);
        let (text, until) = pass(&keys, here, &solved(here, EASY, NOW).unwrap(), 86_400, NOW + 50).unwrap();
        assert_eq!(until, NOW + 86_400);
        assert_eq!(pass(&keys, here, &solved(here, EASY, NOW).unwrap(), 86_400, NOW + 60).unwrap().0, text, "twice the same");
        assert!(has_pass(&keys, visitor("192.0.2.1"), text.as_bytes(), NOW + 86_399));
        assert!(!has_pass(&keys, visitor("192.0.4.1"), text.as_bytes(), NOW));
        assert!(!has_pass(&keys, here, text.as_bytes(), NOW + 86_400));
        assert!(!has_pass(&keys, here, solution.as_bytes(), NOW));
    }

    #[test]
    fn what_is_no_solution() {
        let keys = KeyRing::default();
        let here = visitor("2001:db8::1");
        let puzzle = puzzle(&keys, here, EASY, NOW).unwrap();
        let good = solve(&puzzle, EASY);
        let easier = good.replacen("10.", "0.", 1);
        for bad in [&easier, &format!("{puzzle}:"), &format!("{puzzle}:x"), &puzzle, "", ":", "10.a.b:1", &solve("10.00.ff.aa", EASY)] {
            assert_eq!(solved(&keys, here, bad.as_bytes(), EASY, NOW), None, "{bad}");
        }
        let unsolved =
            (0..).map(|n| format!("{puzzle}:{n}")).find(|text| zero_bits(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()) < EASY);
        assert_eq!(solved(&keys, here, unsolved.unwrap().as_bytes(), EASY, NOW), None);
        assert!(solved(&keys, here, good.as_bytes(), EASY, NOW).is_some());
    }

    #[test]
    fn bits() {
        assert_eq!((zero_bits(&[0, 0, 0x10]), zero_bits(&[0xff]), zero_bits(&[0, 0]), zero_bits(&[])), (19, 0, 16, 0));
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
        assert!(!page.contains("{puzzle}") && page.contains("\"16.ab.cd.ef\"") && page.contains("has not reached the site yet"));
        assert!(page.contains("lang=\"en\"") && page.contains("<noscript>") && page.contains("role=\"status\""));
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn a_page_of_the_sites_own() {
        let own = "<!doctype html><html lang=\"de\"><title>{puzzle}</title><main>{challenge}</main><script nonce=\"{nonce}\"></script>";
        let asked =
            Page { puzzle: "16.ab.cd.ef", cookie: "w", has_content: false, failed: true, is_secure: false, nonce: "ab", own: Some(own) };
        let text = page(&asked);
        assert!(text.starts_with("<!doctype html><html lang=\"de\"><title>{puzzle}</title><main><p id=\"state\""), "{text}");
        assert!(text.contains("puzzle = \"16.ab.cd.ef\"") && text.ends_with("</main><script nonce=\"ab\"></script>"), "{text}");
        assert_eq!((text.matches("<noscript>").count(), text.matches("One moment").count()), (1, 0));
        let with_words = format!("{own}<noscript>Bitte JavaScript.</noscript>");
        assert_eq!(page(&Page { own: Some(&with_words), ..asked }).matches("<noscript>").count(), 1);
    }
}
