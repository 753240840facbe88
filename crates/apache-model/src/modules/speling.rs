//! Settings of mod_speling, and how alike two names are by them.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Out of scope: looking for the names (`saker_apache`).

use crate::reading::Set;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speling {
    pub is_on: Option<bool>,
    case_only: Option<bool>,
    by_base_name: Option<bool>,
}

impl Speling {
    pub const DIRECTIVES: &'static [(&'static str, Set<Speling>)] = &[
        ("CheckSpelling", |node, speling, _| {
            crate::arguments::set_flag(node, &mut speling.is_on)
        }),
        ("CheckCaseOnly", |node, speling, _| {
            crate::arguments::set_flag(node, &mut speling.case_only)
        }),
        ("CheckBasenameMatch", |node, speling, _| {
            crate::arguments::set_flag(node, &mut speling.by_base_name)
        }),
    ];

    /// As Apache: what a section says of any of them replaces all that was said outside.
    pub fn merge(&self, over: &Speling) -> Speling {
        if *over == Speling::default() {
            *self
        } else {
            *over
        }
    }

    /// The likeness of a name that is there to the one that was asked for.
    pub fn likeness(&self, asked: &[u8], there: &[u8]) -> Option<Likeness> {
        let near = || likeness(asked, there).filter(|_| self.case_only != Some(true));
        let same_base =
            || self.by_base_name != Some(false) && base(asked).eq_ignore_ascii_case(base(there));
        match asked.eq_ignore_ascii_case(there) {
            true => Some(Likeness::Case),
            false => near().or_else(|| same_base().then_some(Likeness::BaseName)),
        }
    }
}

/// The nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    Case,
    Transposed,
    Missing,
    Extra,
    Mistyped,
    BaseName,
}

impl Likeness {
    pub fn as_str(self) -> &'static str {
        match self {
            Likeness::Case => "miscapitalized",
            Likeness::Transposed => "transposed characters",
            Likeness::Missing => "character missing",
            Likeness::Extra => "extra character",
            Likeness::Mistyped => "mistyped character",
            Likeness::BaseName => "common basename",
        }
    }
}

/// The part before the first dot.
fn base(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'.').next().unwrap_or_default()
}

/// One slip: two characters the wrong way round, one left out, one too many, one wrong; whatever
/// their case.
pub fn likeness(asked: &[u8], there: &[u8]) -> Option<Likeness> {
    let same = asked
        .iter()
        .zip(there)
        .take_while(|(one, other)| one.eq_ignore_ascii_case(other))
        .count();
    let (asked, there) = (asked.get(same..)?, there.get(same..)?);
    let after = |text: &'_ [u8], count: usize| text.get(count..).map(<[u8]>::to_ascii_lowercase);
    match (asked, there) {
        ([a, b, ..], [c, d, ..])
            if a.eq_ignore_ascii_case(d)
                && b.eq_ignore_ascii_case(c)
                && after(asked, 2) == after(there, 2) =>
        {
            Some(Likeness::Transposed)
        }
        ([_, ..], [_, ..]) if after(asked, 1) == after(there, 1) => Some(Likeness::Mistyped),
        ([_, ..], _) if after(asked, 1) == after(there, 0) => Some(Likeness::Extra),
        (_, [_, ..]) if after(asked, 0) == after(there, 1) => Some(Likeness::Missing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_names_are_alike() {
        let on = Speling::default();
        let rows = [
            ("Page.html", "page.html", Some(Likeness::Case)),
            ("pgae.html", "page.html", Some(Likeness::Transposed)),
            ("page.htm", "page.html", Some(Likeness::Missing)),
            ("pagee.html", "page.html", Some(Likeness::Extra)),
            ("pzge.HTML", "page.html", Some(Likeness::Mistyped)),
            ("page.php", "page.html", Some(Likeness::BaseName)),
            ("page", "page.html", Some(Likeness::BaseName)),
            ("pages.php", "page.html", None),
            ("", "x", Some(Likeness::Missing)),
            ("egap.html", "page.html", None),
        ];
        for (asked, there, expected) in rows {
            assert_eq!(
                on.likeness(asked.as_bytes(), there.as_bytes()),
                expected,
                "{asked} {there}"
            );
        }
        let case = Speling {
            case_only: Some(true),
            by_base_name: Some(false),
            ..on
        };
        assert_eq!(
            case.likeness(b"PAGE.html", b"page.html"),
            Some(Likeness::Case)
        );
        assert_eq!(
            (
                case.likeness(b"pag.html", b"page.html"),
                case.likeness(b"page.php", b"page.html")
            ),
            (None, None)
        );
    }
}
