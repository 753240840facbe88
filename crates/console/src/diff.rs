//! Differences between two texts, by line.
//!
//! Called by: the editor.
//! Caveat: bounded work; where too many lines differ, all lines between the first and the last
//! difference are shown as replaced.

/// Unchanged lines around changes.
const CONTEXT: usize = 3;
/// Product of the numbers of differing lines up to which the shortest difference is looked for.
const CELLS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Same,
    Removed,
    Added,
    /// Lines are left out here.
    Gap,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub mark: Mark,
    pub text: String,
}

impl DiffLine {
    fn new(mark: Mark, text: &str) -> DiffLine {
        DiffLine {
            mark,
            text: text.to_owned(),
        }
    }

    pub fn sign(&self) -> &'static str {
        match self.mark {
            Mark::Same => " ",
            Mark::Removed => "-",
            Mark::Added => "+",
            Mark::Gap => "…",
        }
    }

    pub fn class(&self) -> &'static str {
        match self.mark {
            Mark::Same => "same",
            Mark::Removed => "removed",
            Mark::Added => "added",
            Mark::Gap => "gap",
        }
    }
}

/// Changed lines with their surroundings; empty if the texts are alike.
pub fn diff(before: &str, after: &str) -> Vec<DiffLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let backward = old.iter().rev().zip(new.iter().rev());
    let end = backward.take(rest).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    if old_middle.is_empty() && new_middle.is_empty() {
        return Vec::new();
    }
    let same = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| DiffLine::new(Mark::Same, line))
            .collect::<Vec<_>>()
    };
    let mut all = same(&old[..start]);
    all.extend(middle(old_middle, new_middle));
    all.extend(same(&old[old.len() - end..]));
    shortened(all)
}

fn middle(old: &[&str], new: &[&str]) -> Vec<DiffLine> {
    let removed = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| DiffLine::new(Mark::Removed, line))
            .collect::<Vec<_>>()
    };
    let added = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| DiffLine::new(Mark::Added, line))
            .collect::<Vec<_>>()
    };
    if (old.len() + 1).saturating_mul(new.len() + 1) > CELLS_MAX {
        return [removed(old), added(new)].concat();
    }
    // Length of the longest common subsequence of what is behind each pair of places.
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut lines, mut i, mut j) = (Vec::new(), 0, 0);
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            lines.push(DiffLine::new(Mark::Same, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            lines.push(DiffLine::new(Mark::Removed, old[i]));
            i += 1;
        } else {
            lines.push(DiffLine::new(Mark::Added, new[j]));
            j += 1;
        }
    }
    lines.extend(removed(&old[i..]));
    lines.extend(added(&new[j..]));
    lines
}

fn shortened(all: Vec<DiffLine>) -> Vec<DiffLine> {
    let mut is_near = vec![false; all.len()];
    for (at, line) in all.iter().enumerate() {
        if line.mark != Mark::Same {
            let to = (at + CONTEXT + 1).min(all.len());
            is_near[at.saturating_sub(CONTEXT)..to].fill(true);
        }
    }
    let mut lines: Vec<DiffLine> = Vec::new();
    for (line, is_near) in all.into_iter().zip(is_near) {
        match is_near {
            true => lines.push(line),
            false if lines.last().is_none_or(|last| last.mark != Mark::Gap) => {
                lines.push(DiffLine::new(Mark::Gap, ""));
            }
            false => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(before: &str, after: &str) -> String {
        let lines = diff(before, after);
        lines
            .iter()
            .map(|line| format!("{}{}\n", line.sign(), line.text))
            .collect()
    }

    #[test]
    fn changes_with_their_surroundings() {
        assert_eq!(text("a\nb\n", "a\nb\n"), "");
        assert_eq!(text("a\nb\nc\n", "a\nx\nc\n"), " a\n-b\n+x\n c\n");
        assert_eq!(text("", "a\n"), "+a\n");
        assert_eq!(text("a\n", ""), "-a\n");
        assert_eq!(text("a\na\n", "a\n"), " a\n-a\n");
        let before: String = (0..20).map(|number| format!("{number}\n")).collect();
        let after = before.replace("10\n", "ten\n");
        assert_eq!(
            text(&before, &after),
            "… \n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n…\n".replace("… ", "…")
        );
    }

    #[test]
    fn work_is_bounded() {
        let lines = |mark: &str| {
            (0..3_000)
                .map(|number| format!("{mark}{number}\n"))
                .collect::<String>()
        };
        let lines = diff(&lines("a"), &lines("b"));
        assert_eq!(lines.len(), 6_000);
    }
}
