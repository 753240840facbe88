//! CPU time and memory of this process, from `/proc/self`.
//!
//! Called by: the sampler, once a second.
//! Caveat: children (PHP) are processes of their own and do not count.

/// Figures of the process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// User and system time, in ticks of a hundredth of a second (proc(5), `USER_HZ`).
    pub cpu_ticks: u64,
    pub memory_bytes: u64,
}

impl ProcessFacts {
    /// Reads the figures; `None`: there is no `/proc`.
    pub fn read() -> Option<ProcessFacts> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        parse(&stat, &status)
    }
}

fn parse(stat: &str, status: &str) -> Option<ProcessFacts> {
    // The name, in parentheses, may have spaces and parentheses in it.
    let mut behind_name = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: u64 = behind_name.nth(11)?.parse().ok()?;
    let system: u64 = behind_name.next()?.parse().ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    Some(ProcessFacts {
        cpu_ticks: user + system,
        memory_bytes: kilobytes * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 3 0 100 1 2";
        let facts = parse(stat, "Name:\tsaker\nVmRSS:\t   2048 kB\n");
        let expected = ProcessFacts {
            cpu_ticks: 400,
            memory_bytes: 2 << 20,
        };
        assert_eq!(facts, Some(expected));
        assert_eq!(parse("7 (a", ""), None);
        assert!(ProcessFacts::read().is_some_and(|facts| facts.memory_bytes > 0));
    }
}
