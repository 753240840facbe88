//! Regular expressions of VCL files, as far as keys of saker.toml say the same.
//!
//! Called by: `convert`.
//! Caveat: only patterns whose meaning is certain are read; all others are reported.
//! Out of scope: running patterns.

use saker_config::model::CacheUse;

/// One alternative of a pattern: literal text, and whether it must begin the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    pub text: String,
    pub is_anchored: bool,
}

/// The alternatives of a pattern that are literal texts: `^/cart|/checkout`, `^/(a|b)`. `None`: it
/// has others, or ignores case, which paths do not.
pub fn literals(pattern: &str) -> Option<Vec<Literal>> {
    let mut found = Vec::new();
    for alternative in alternatives(pattern)? {
        let (alternative, is_anchored) = match alternative.strip_prefix('^') {
            Some(rest) => (rest.to_owned(), true),
            None => (alternative, false),
        };
        // `^/(a|b)`, `(a|b)`
        let (before, inner) = match alternative.find('(') {
            Some(at) if alternative.ends_with(')') => {
                let inner = &alternative[at + 1..alternative.len() - 1];
                (alternative[..at].to_owned(), alternatives(inner)?)
            }
            Some(_) => return None,
            None => (alternative, vec![String::new()]),
        };
        for last in inner {
            let text = literal(&format!("{before}{last}"))?;
            if text.is_empty() {
                return None;
            }
            found.push(Literal { text, is_anchored });
        }
    }
    Some(found)
}

/// Splits at `|` outside parentheses.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let (mut found, mut depth, mut part) = (Vec::new(), 0u32, String::new());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                part.push(letter);
                part.push(letters.next()?);
                continue;
            }
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '|' if depth == 0 => {
                found.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    found.push(part);
    (depth == 0).then_some(found)
}

/// The text that a pattern without operators matches.
fn literal(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                escaped if escaped.is_ascii_alphanumeric() => return None,
                escaped => text.push(escaped),
            },
            // A dot that stands for itself in all real files; the literal is narrower.
            '.' | '*' | '+' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '$' | '^' | '|' => {
                return None;
            }
            letter => text.push(letter),
        }
    }
    Some(text)
}

/// True if a pattern names parameters of analytics services, and so stands for `tracking`.
pub fn is_tracking(pattern: &str) -> bool {
    ["utm_", "gclid", "fbclid", "mc_cid", "mc_eid"]
        .iter()
        .any(|name| pattern.contains(name))
}

/// Names of parameters in the alternatives of a pattern: `(gclid|mc_[a-z]+)=`. Those in which
/// something else stands are left out.
pub fn parameter_names(pattern: &str) -> Vec<String> {
    let inner = pattern
        .find('(')
        .and_then(|at| Some(&pattern[at + 1..at + pattern[at..].find(")=")?]))
        .unwrap_or_default();
    let names = inner.split('|').filter_map(|name| {
        let (start, ending) = match name.strip_suffix("[a-z]+") {
            Some(start) => (start, "*"),
            None => (name, ""),
        };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        let is_usable = start.len() > 1 && start.chars().all(is_name);
        is_usable.then(|| format!("{start}{ending}"))
    });
    // Those that `tracking` stands for.
    let names = names.filter(|name| !CacheUse::TRACKING.contains(&name.as_str()));
    names.collect()
}

/// True if an edit of the URL only removes what is left of a query that lost its parameters, or a
/// fragment, which no URL has.
pub fn is_trimming(pattern: &str) -> bool {
    matches!(
        pattern,
        r"^http[s]?://"
            | r"^https?://"
            | r"\?$"
            | r"[?|&]+$"
            | r"[?&]+$"
            | r"(\?|&)+$"
            | r"(\?&|\?|&)$"
            | r"\?&?$"
            | r"&$"
            | r"\#.*$"
            | r"#.*$"
            | r"(\?&?)$"
    )
}

/// The name of the cookie that a pattern looks for: `X-Magento-Vary=`, `(^|; )currency=`.
pub fn cookie_name(pattern: &str) -> Option<&str> {
    let pattern = ["^.*?", "^.*", ".*", "(^|;\\s*)", "(^|; )", "(?:^|;\\s*)"]
        .iter()
        .find_map(|start| pattern.strip_prefix(start))
        .unwrap_or(pattern);
    let end = pattern.find('=')?;
    let name = &pattern[..end];
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Patterns of session cookies: `wordpress_logged_in|PHPSESSID=` as `*wordpress_logged_in*`, …
pub fn session_cookies(pattern: &str) -> Option<Vec<String>> {
    // Names of cookies are compared without case.
    let found = literals(pattern.strip_prefix("(?i)").unwrap_or(pattern))?;
    found
        .into_iter()
        .map(|literal| {
            let name = literal.text.trim_end_matches('=');
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            let is_whole = !name.is_empty() && name.chars().all(is_name);
            is_whole.then(|| format!("*{name}*"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Option<Vec<(String, bool)>> {
        let found = literals(pattern)?;
        Some(
            found
                .into_iter()
                .map(|literal| (literal.text, literal.is_anchored))
                .collect(),
        )
    }

    #[test]
    fn literal_patterns() {
        let rows: [(&str, &[(&str, bool)]); 4] = [
            ("/checkout", &[("/checkout", false)]),
            (
                "^/cart|/my-account",
                &[("/cart", true), ("/my-account", false)],
            ),
            (
                "^/(wp-admin|wp-login\\.php)",
                &[("/wp-admin", true), ("/wp-login.php", true)],
            ),
            ("(a|b)", &[("a", false), ("b", false)]),
        ];
        for (pattern, want) in rows {
            let want = want
                .iter()
                .map(|(text, at)| ((*text).to_owned(), *at))
                .collect();
            assert_eq!(of(pattern), Some(want), "{pattern}");
        }
        for pattern in [
            "(?i)/x", "", "a.*b", "^", "[a-z]", "a$", "(a|b)c", "a|", "(a", "a)", "\\d", "\\",
        ] {
            assert_eq!(of(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn parameters() {
        assert_eq!(
            parameter_names("(gclid|cx|mc_[a-z]+|utm_[a-z]+|a.b|x)=[^&]+&?"),
            ["cx", "mc_*"]
        );
        assert!(parameter_names("utm_source=[^&]+").is_empty());
    }

    #[test]
    fn cookies() {
        assert_eq!(cookie_name("X-Magento-Vary="), Some("X-Magento-Vary"));
        assert_eq!(
            cookie_name("^.*?X-Magento-Vary=([^;]+);*.*$"),
            Some("X-Magento-Vary")
        );
        assert_eq!(cookie_name("a.*="), None);
        assert_eq!(
            session_cookies("wordpress_logged_in|PHPSESSID="),
            Some(vec!["*wordpress_logged_in*".into(), "*PHPSESSID*".into()])
        );
        assert_eq!(session_cookies("a=[^;]+"), None);
    }
}
