//! Robots of search engines: who says to be one, and what names its addresses have to have.
//!
//! Any client can send `Googlebot` in User-Agent. Search engines guarantee that an address has a
//! name below their domains, and that this name resolves to the address. This file has the names;
//! `dns` looks them up.

/// A robot by its name in User-Agent, with the domains of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Robot {
    pub agent: String,
    pub domains: Vec<String>,
}

/// As documented by the search engines for webmasters.
const KNOWN: &[(&str, &[&str])] = &[
    ("Googlebot", &["googlebot.com", "google.com"]),
    ("Google-InspectionTool", &["googlebot.com", "google.com"]),
    ("Storebot-Google", &["googlebot.com", "google.com"]),
    ("AdsBot-Google", &["googlebot.com", "google.com"]),
    ("Mediapartners-Google", &["googlebot.com", "google.com"]),
    ("bingbot", &["search.msn.com"]),
    ("BingPreview", &["search.msn.com"]),
    ("adidxbot", &["search.msn.com"]),
    ("Applebot", &["applebot.apple.com"]),
    ("YandexBot", &["yandex.ru", "yandex.net", "yandex.com"]),
    ("YandexImages", &["yandex.ru", "yandex.net", "yandex.com"]),
    ("Baiduspider", &["baidu.com", "baidu.jp"]),
    ("Yahoo! Slurp", &["crawl.yahoo.net"]),
    ("SeznamBot", &["seznam.cz"]),
    ("PetalBot", &["petalsearch.com"]),
    ("Qwantbot", &["qwant.com"]),
    ("Pinterestbot", &["pinterest.com"]),
];

/// The domains of the robot that a request says to come from. `more` comes first.
pub fn domains_of(agent: &[u8], more: &[(String, Vec<String>)]) -> Option<Vec<String>> {
    let says = |name: &str| {
        agent
            .windows(name.len())
            .any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
    };
    let added = more
        .iter()
        .find(|(name, _)| says(name))
        .map(|(_, domains)| domains.clone());
    let known = || {
        KNOWN
            .iter()
            .find(|(name, _)| says(name))
            .map(|(_, domains)| domains.iter().map(|name| (*name).to_owned()).collect())
    };
    added.or_else(known)
}

/// True if the name is one of the domains or below it.
pub fn is_below(name: &str, domains: &[String]) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    domains.iter().any(|domain| {
        name.strip_suffix(domain.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_to_be_a_robot() {
        let more = [("ExampleBot".to_owned(), vec!["bots.example".to_owned()])];
        let of = |agent: &str| domains_of(agent.as_bytes(), &more);
        assert_eq!(
            of("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)").unwrap()
                [0],
            "googlebot.com"
        );
        assert_eq!(
            of("mozilla/5.0 (compatible; BINGBOT/2.0)").unwrap(),
            ["search.msn.com"]
        );
        assert_eq!(of("examplebot").unwrap(), ["bots.example"]);
        assert_eq!(of("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn names_below_domains() {
        let domains = ["googlebot.com".to_owned()];
        for (name, is) in [
            ("crawl-66-249-66-1.googlebot.com", true),
            ("CRAWL.GoogleBot.com.", true),
            ("googlebot.com", true),
            ("evilgooglebot.com", false),
            ("googlebot.com.evil.test", false),
            ("", false),
        ] {
            assert_eq!(is_below(name, &domains), is, "{name}");
        }
    }
}
