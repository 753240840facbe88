//! Bans and address lists on the main thread: commands of the operator, persistence, reloading of
//! changed files.
//!
//! Called by: the supervisor, once a second, and the control socket.
//! Caveat: bans are saved in `bans` in the state directory, one per line: block, since, until (or
//! `-`), reason. The file is written under another name and renamed before a command is answered;
//! bans by the server itself follow within a second.
//! Out of scope: who gets banned (crate `abuse`).

use saker_control::{BAN_LIST_MAX, BanVerb};
use saker_ipset::{AddressList, Ban, Bans, Block, GeoDatabase};
use saker_telemetry::{error_log, message};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(super) const FILE: &str = "bans";
const NEW_FILE: &str = "bans.new";
const FOR_GOOD: &str = "-";

/// The file that keeps bans, and the last change written to it.
pub struct BanFile {
    folder: PathBuf,
    written: u64,
    is_failing: bool,
}

impl BanFile {
    /// Restores the bans of the previous run.
    pub fn open(folder: &Path, bans: &Bans, now_s: i64) -> BanFile {
        match fs::read_to_string(folder.join(FILE)) {
            Ok(text) => text.lines().for_each(|line| take_up(line, bans, now_s)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => error_log::log(
                &message::BANS_NOT_KEPT,
                format_args!("{}: {error}", folder.join(FILE).display()),
            ),
        }
        BanFile {
            folder: folder.to_owned(),
            written: bans.changes(),
            is_failing: false,
        }
    }

    /// Saves the bans if they have changed.
    pub fn keep(&mut self, bans: &Bans, now_s: i64) -> Result<(), String> {
        let changes = bans.changes();
        if changes == self.written {
            return Ok(());
        }
        match write(&self.folder, &bans.all(now_s)) {
            Ok(()) => {
                (self.written, self.is_failing) = (changes, false);
                Ok(())
            }
            Err(error) => {
                let failure = format!("{}: {error}", self.folder.join(FILE).display());
                if !std::mem::replace(&mut self.is_failing, true) {
                    error_log::log(&message::BANS_NOT_KEPT, format_args!("{failure}"));
                }
                Err(failure)
            }
        }
    }
}

fn take_up(line: &str, bans: &Bans, now_s: i64) {
    match read(line) {
        Some(ban) => {
            // More than there may be were not written.
            let _ = ban
                .until_s
                .is_none_or(|until_s| until_s > now_s)
                .then(|| bans.insert(ban, now_s));
        }
        None if line.is_empty() => {}
        None => error_log::log(
            &message::BANS_NOT_KEPT,
            format_args!("invalid line in `{FILE}`, ignored"),
        ),
    }
}

fn read(line: &str) -> Option<Ban> {
    let mut words = line.splitn(4, ' ');
    let (block, since, until): (Block, _, _) = (
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?,
    );
    let until_s = if until == FOR_GOOD {
        None
    } else {
        Some(until.parse().ok()?)
    };
    Some(Ban::new(
        block,
        since,
        until_s,
        words.next().unwrap_or_default(),
    ))
}

fn write(folder: &Path, bans: &[Ban]) -> io::Result<()> {
    let mut text = String::new();
    for ban in bans {
        let until = ban
            .until_s
            .map_or(FOR_GOOD.to_owned(), |until_s| until_s.to_string());
        // Writing to a String never fails.
        let _ = writeln!(text, "{} {} {until} {}", ban.block, ban.since_s, ban.reason);
    }
    fs::write(folder.join(NEW_FILE), text)?;
    fs::rename(folder.join(NEW_FILE), folder.join(FILE))
}

/// Carries out a ban command and saves the result.
pub fn answer(
    verb: &BanVerb,
    bans: &Bans,
    file: &mut BanFile,
    now_s: i64,
) -> Result<Value, String> {
    let answer = match verb {
        BanVerb::List => return Ok(list(bans, now_s)),
        BanVerb::Ban {
            blocks,
            seconds,
            reason,
        } => json!({ "ok": true, "count": ban(blocks, *seconds, reason, bans, now_s)? }),
        BanVerb::Unban { blocks } => {
            let count = unban(blocks, bans, now_s);
            json!({ "ok": true, "count": count, "still_held": still_held(blocks, bans, now_s) })
        }
    };
    file.keep(bans, now_s)
        .map_err(|failure| format!("in force, but could not be saved: {failure}"))?;
    Ok(answer)
}

fn ban(
    blocks: &[Block],
    seconds: Option<u64>,
    reason: &str,
    bans: &Bans,
    now_s: i64,
) -> Result<usize, String> {
    let until_s =
        seconds.map(|seconds| now_s.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX)));
    let reason = if reason.is_empty() { "by hand" } else { reason };
    for block in blocks {
        let full = |_| {
            format!(
                "there are {} bans already: put the others into a list (deny_files)",
                saker_ipset::BANS_MAX
            )
        };
        bans.insert(Ban::new(*block, now_s, until_s, reason), now_s)
            .map_err(full)?;
        let shown = seconds.map_or(FOR_GOOD.to_owned(), |seconds| seconds.to_string());
        error_log::log(
            &message::CLIENT_BANNED,
            format_args!("address={block} rule=command seconds={shown}"),
        );
    }
    Ok(blocks.len())
}

fn unban(blocks: &[Block], bans: &Bans, now_s: i64) -> usize {
    let all: Vec<Block> = bans.all(now_s).iter().map(|ban| ban.block).collect();
    let wanted = if blocks.is_empty() { &all } else { blocks };
    let lift = |block: &&Block| {
        let is_lifted = bans.remove(**block);
        if is_lifted {
            error_log::log(&message::CLIENT_UNBANNED, format_args!("address={block}"));
        }
        is_lifted
    };
    wanted.iter().filter(lift).count()
}

/// Bans of networks that still cover a single address: lifting one ban may not be enough.
fn still_held(blocks: &[Block], bans: &Bans, now_s: i64) -> Vec<Value> {
    let single = blocks.iter().filter(|block| block.is_single());
    let held = single
        .map(|block| (block, bans.holding(block.address(), now_s)))
        .filter(|(_, by)| !by.is_empty());
    held.map(|(block, by)| json!({ "address": block.to_string(), "by": by.iter().map(Block::to_string).collect::<Vec<_>>() })).collect()
}

fn list(bans: &Bans, now_s: i64) -> Value {
    let all = bans.all(now_s);
    let shown = all.iter().take(BAN_LIST_MAX).map(|ban| {
        json!({
            "address": ban.block.to_string(),
            "since": ban.since_s,
            "seconds_left": ban.until_s.map(|until_s| until_s - now_s),
            "reason": &*ban.reason,
        })
    });
    json!({ "ok": true, "count": all.len(), "bans": shown.collect::<Vec<_>>() })
}

/// Reads the lists and databases whose files have changed. Runs where blocking does no harm.
pub fn refresh(lists: &[Arc<AddressList>], databases: &[Arc<GeoDatabase>]) {
    for database in databases {
        match database.refresh() {
            Ok(true) => error_log::log(
                &message::LIST_READ,
                format_args!("{}", database.path().display()),
            ),
            Ok(false) => {}
            Err(fault) => error_log::log(&message::LIST_REFUSED, format_args!("{fault}")),
        }
    }
    for list in lists {
        match list.refresh() {
            Ok(true) => {
                let entries = list.set().len();
                error_log::log(
                    &message::LIST_READ,
                    format_args!("{}: {entries} entries", list.path().display()),
                );
            }
            Ok(false) => {}
            Err(fault) => error_log::log(&message::LIST_REFUSED, format_args!("{fault}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_outlive_a_restart() {
        let folder = std::env::temp_dir().join(format!("saker-bans-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let bans = Bans::default();
        let mut file = BanFile::open(&folder, &bans, 100);
        let order = |block: &str, seconds, reason: &str| BanVerb::Ban {
            blocks: vec![block.parse().unwrap()],
            seconds,
            reason: reason.into(),
        };
        for verb in [
            order("192.0.2.0/24", Some(60), "a long reason"),
            order("2001:db8::1", None, ""),
            order("198.51.100.1", Some(5), "short"),
        ] {
            assert_eq!(
                answer(&verb, &bans, &mut file, 100),
                Ok(json!({ "ok": true, "count": 1 }))
            );
        }
        let later = Bans::default();
        let mut file = BanFile::open(&folder, &later, 110);
        assert_eq!(later.all(110), bans.all(110));
        assert_eq!(later.all(110).len(), 2, "one has run out");
        let listed = answer(&BanVerb::List, &later, &mut file, 110).unwrap();
        assert_eq!(
            listed["bans"][0],
            json!({ "address": "192.0.2.0/24", "since": 100, "seconds_left": 50, "reason": "a long reason" })
        );
        assert_eq!(
            answer(
                &BanVerb::Unban { blocks: Vec::new() },
                &later,
                &mut file,
                110
            )
            .unwrap()["count"],
            2
        );
        assert_eq!(fs::read_to_string(folder.join(FILE)).unwrap(), "");
        fs::write(folder.join(FILE), "nonsense\n192.0.2.9 1 - x\n").unwrap();
        let damaged = Bans::default();
        BanFile::open(&folder, &damaged, 0);
        assert_eq!(damaged.all(0).len(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
