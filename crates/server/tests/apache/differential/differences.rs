//! Differences that are meant, from `differences.txt`: each with its reason, and each still one.

use std::{collections::HashSet, fs, path::Path, sync::Mutex};

pub struct Differences {
    /// Fields that are not compared, in small letters; in answers of this kind (`4`, `304`), or in
    /// all.
    ignored: Vec<(String, String)>,
    accepted: Vec<Accepted>,
    met: Mutex<HashSet<usize>>,
}

struct Accepted {
    /// `topic/case METHOD target …`, as in the case.
    request: String,
    what: Vec<String>,
}

impl Differences {
    pub fn read(path: &Path) -> Differences {
        let mut all = Differences {
            ignored: Vec::new(),
            accepted: Vec::new(),
            met: Mutex::default(),
        };
        let text = fs::read_to_string(path).unwrap();
        for line in text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let (what, reason) = line
                .split_once(" -- ")
                .unwrap_or_else(|| panic!("no reason: {line}"));
            assert!(!reason.trim().is_empty(), "no reason: {line}");
            match what
                .split_once(": ")
                .map(|(kind, rest)| (kind, rest.trim()))
            {
                Some(("ignore", rest)) => {
                    let (name, statuses) = rest.split_once(' ').unwrap_or((rest, ""));
                    all.ignored.extend(statuses.split(',').map(|status| {
                        (
                            name.to_ascii_lowercase(),
                            status.trim_end_matches('x').to_owned(),
                        )
                    }));
                }
                Some(("accept", rest)) => {
                    let (what, request) = rest
                        .split_once(' ')
                        .unwrap_or_else(|| panic!("no request: {line}"));
                    all.accepted.push(Accepted {
                        request: request.trim().to_owned(),
                        what: what.split(',').map(str::to_owned).collect(),
                    });
                }
                _ => panic!("neither ignore nor accept: {line}"),
            }
        }
        all
    }

    pub fn ignores(&self, field: &str, status: u16) -> bool {
        let status = status.to_string();
        self.ignored
            .iter()
            .any(|(name, start)| name == field && status.starts_with(start.as_str()))
    }

    pub fn accept(&self, request: &str, what: &str) -> bool {
        let found = self.accepted.iter().position(|accepted| {
            accepted.request == request && accepted.what.iter().any(|known| known == what)
        });
        if let Some(at) = found {
            self.met.lock().unwrap().insert(at);
        }
        found.is_some()
    }

    pub fn count(&self) -> usize {
        self.accepted.len()
    }

    /// Those that are none any more.
    pub fn stale(&self) -> Vec<String> {
        let met = self.met.lock().unwrap();
        let stale = self
            .accepted
            .iter()
            .enumerate()
            .filter(|(at, _)| !met.contains(at));
        stale
            .map(|(_, accepted)| {
                format!(
                    "differences.txt: no difference any more: {}",
                    accepted.request
                )
            })
            .collect()
    }
}
