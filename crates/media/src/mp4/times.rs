//! Decoding and presentation times of samples, in their track's units.
//!
//! Caveat: two tables with runs of their own (stts, ctts) define them, for up to billions of
//! samples. [`Runs`] walks both at once, so that the cost depends on the number of entries. Samples
//! are decoded in their order and may be presented in another.

use super::tables::{Entries, Tables};
use crate::work::step;
use std::cmp::Ordering;

/// Samples that follow each other at the same distance, each shown as long after it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: u64,
    pub count: u64,
    /// Decoding time of the first sample.
    pub decoded: i64,
    pub delta: i64,
    pub offset: i64,
}

impl Run {
    /// Presentation time of the run's `nth` sample.
    pub fn shown(&self, nth: u64) -> i64 {
        self.decoded_at(nth) + self.offset
    }

    fn decoded_at(&self, nth: u64) -> i64 {
        // The sum of all deltas was checked when the tables were read.
        self.decoded + self.delta * i64::try_from(nth).unwrap_or(0)
    }

    /// Number of samples with a presentation time before `limit`: samples of a run are shown in
    /// order.
    fn before(&self, limit: i64) -> u64 {
        let distance = limit.saturating_sub(self.shown(0));
        match (distance > 0, self.delta) {
            (false, _) => 0,
            (true, 0) => self.count,
            (true, delta) => u64::try_from((distance - 1) / delta + 1)
                .unwrap_or(0)
                .min(self.count),
        }
    }
}

/// One sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    pub decoded: i64,
    pub shown: i64,
    pub delta: i64,
}

pub struct Runs<'t, 'm> {
    tables: &'t Tables<'m>,
    sample: u64,
    decoded: i64,
    /// Entry of stts, and samples of it that have gone by.
    duration: (usize, u64),
    /// The same of ctts.
    offset: (usize, u64),
}

impl<'m> Tables<'m> {
    pub fn time_runs<'t>(&'t self) -> Runs<'t, 'm> {
        Runs {
            tables: self,
            sample: 0,
            decoded: 0,
            duration: (0, 0),
            offset: (0, 0),
        }
    }

    /// The first sample that is shown at `limit` or later; as many as there are where none is.
    pub fn first_at(&self, limit: i64) -> u64 {
        Seeker::new(self)
            .first_at(limit)
            .map_or(self.samples, |(sample, _)| sample)
    }

    /// Index after the last sample presented before `limit`.
    pub fn end_before(&self, limit: i64) -> u64 {
        self.time_runs()
            .filter_map(|run| {
                Some(run.before(limit))
                    .filter(|nth| *nth > 0)
                    .map(|nth| run.first + nth)
            })
            .max()
            .unwrap_or(0)
    }

    /// End of the last sample, in presentation time.
    pub fn shown_end(&self) -> i64 {
        self.time_runs()
            .map(|run| run.shown(run.count))
            .max()
            .unwrap_or(0)
    }

    /// Decoding time of a sample; past the last sample, the end of the track.
    pub fn decoded_at(&self, sample: u64) -> i64 {
        let mut end = 0;
        for run in self.time_runs() {
            if sample < run.first + run.count {
                return run.decoded_at(sample - run.first);
            }
            end = run.decoded_at(run.count);
        }
        end
    }

    /// The sample that is being decoded at `time`; as many as there are where none is.
    pub fn sample_at(&self, time: i64) -> u64 {
        for run in self.time_runs() {
            let end = run.decoded_at(run.count);
            if run.delta > 0 && time < end {
                let nth = (time - run.decoded).max(0) / run.delta;
                return run.first + u64::try_from(nth).unwrap_or(0);
            }
        }
        self.samples
    }

    /// Index after the samples from `first` that are decoded as a whole within `length`.
    pub fn samples_within(&self, first: u64, length: i64) -> u64 {
        let end = self.decoded_at(first).saturating_add(length);
        let mut behind = first;
        for run in self.time_runs() {
            let last = run.first + run.count;
            if last <= first {
                continue;
            }
            if run.decoded_at(run.count) <= end {
                behind = last;
                continue;
            }
            let from = run.decoded_at(first.saturating_sub(run.first));
            let from = from.max(run.decoded);
            let fit = match run.delta {
                0 => run.count,
                delta => u64::try_from((end - from).max(0) / delta).unwrap_or(0),
            };
            return first.max(run.first) + fit;
        }
        behind
    }

    /// The last sample up to `sample` that can be decoded on its own; the first one if there is none.
    pub fn sync_before(&self, sample: u64) -> u64 {
        let Some(syncs) = self.syncs else {
            return sample;
        };
        let numbers = (0..syncs.len()).map_while(|entry| syncs.word(entry, 0)?.checked_sub(1));
        let before = numbers.map(u64::from).take_while(|own| *own <= sample);
        before.last().unwrap_or(0)
    }

    pub fn point(&self, sample: u64) -> Point {
        Points::new(self).at(sample).unwrap_or_default()
    }

    /// The last sample that is presented at or before `limit` and can be decoded on its own; the
    /// first one if there is none.
    pub fn sync_at(&self, limit: i64) -> u64 {
        let Some(syncs) = self.syncs else {
            return self.first_at(limit.saturating_add(1)).saturating_sub(1);
        };
        let mut points = Points::new(self);
        let numbers = (0..syncs.len())
            .map_while(|entry| syncs.word(entry, 0)?.checked_sub(1))
            .map(u64::from);
        let shown = numbers.map_while(|sample| Some((sample, points.at(sample)?.shown)));
        shown
            .take_while(|(_, shown)| *shown <= limit)
            .last()
            .map_or(0, |(sample, _)| sample)
    }
}

/// Sync samples in ascending order: whether each of others in ascending order is one.
pub struct Syncs<'m> {
    entries: Option<Entries<'m>>,
    entry: usize,
}

impl<'m> Syncs<'m> {
    pub fn new(tables: &Tables<'m>) -> Syncs<'m> {
        Syncs {
            entries: tables.syncs,
            entry: 0,
        }
    }

    /// The first call may ask for any sample; later ones must not go back.
    pub fn has(&mut self, sample: u64) -> bool {
        let Some(entries) = self.entries else {
            return true;
        };
        while let Some(number) = entries.word(self.entry, 0) {
            step();
            match u64::from(number).cmp(&(sample + 1)) {
                Ordering::Less => self.entry += 1,
                Ordering::Equal => return true,
                Ordering::Greater => return false,
            }
        }
        false
    }
}

/// Samples by ascending times, each looked for from where the last one was found, so that all of
/// them together cost one way through the tables.
pub struct Seeker<'t, 'm> {
    runs: Runs<'t, 'm>,
    run: Option<Run>,
}

impl<'t, 'm> Seeker<'t, 'm> {
    pub fn new(tables: &'t Tables<'m>) -> Seeker<'t, 'm> {
        let mut runs = tables.time_runs();
        let run = runs.next();
        Seeker { runs, run }
    }

    /// The first sample that is shown at `limit` or later, and when. `limit` is not before the last
    /// one.
    pub fn first_at(&mut self, limit: i64) -> Option<(u64, i64)> {
        loop {
            let run = self.run?;
            let nth = run.before(limit);
            if nth < run.count {
                return Some((run.first + nth, run.shown(nth)));
            }
            self.run = self.runs.next();
        }
    }
}

/// Samples in ascending order, each found from the one before.
pub struct Points<'t, 'm> {
    runs: Runs<'t, 'm>,
    run: Option<Run>,
}

impl<'t, 'm> Points<'t, 'm> {
    pub fn new(tables: &'t Tables<'m>) -> Points<'t, 'm> {
        let mut runs = tables.time_runs();
        let run = runs.next();
        Points { runs, run }
    }

    /// `None`: the sample does not exist, or a later one was requested before.
    pub fn at(&mut self, sample: u64) -> Option<Point> {
        while self.run.is_some_and(|run| sample >= run.first + run.count) {
            self.run = self.runs.next();
        }
        let run = self.run?;
        let nth = sample.checked_sub(run.first)?;
        Some(Point {
            decoded: run.decoded_at(nth),
            shown: run.shown(nth),
            delta: run.delta,
        })
    }
}

impl Iterator for Runs<'_, '_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let (delta, lasting) = self.lasting()?;
        let (offset, shown) = self.shown();
        let left = self.tables.samples.saturating_sub(self.sample);
        let count = lasting.min(shown).min(left);
        if count == 0 {
            return None;
        }
        let run = Run {
            first: self.sample,
            count,
            decoded: self.decoded,
            delta,
            offset,
        };
        self.sample += count;
        self.decoded = run.decoded_at(count);
        self.duration.1 += count;
        self.offset.1 += count;
        Some(run)
    }
}

impl Runs<'_, '_> {
    /// Duration of the next samples, and how many have it.
    fn lasting(&mut self) -> Option<(i64, u64)> {
        loop {
            step();
            let (entry, gone) = self.duration;
            let count = u64::from(self.tables.durations.word(entry, 0)?);
            if gone < count {
                return Some((self.tables.durations.word(entry, 4)?.into(), count - gone));
            }
            self.duration = (entry + 1, 0);
        }
    }

    /// Offset of the next samples, and how many have it. Whatever the version says, it has a sign:
    /// files of version 0 have it, too.
    fn shown(&mut self) -> (i64, u64) {
        loop {
            step();
            let (entry, gone) = self.offset;
            let Some(count) = self.tables.offsets_shown.word(entry, 0).map(u64::from) else {
                return (0, u64::MAX);
            };
            if gone < count {
                let offset = self.tables.offsets_shown.word(entry, 4).unwrap_or(0);
                return (i64::from(offset.cast_signed()), count - gone);
            }
            self.offset = (entry + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::sample::stbl;

    /// Three samples at 0, 10, 20, two of no length, two of 5; shown in another order.
    fn tables(stbl: &[u8]) -> Tables<'_> {
        Tables::read(stbl).unwrap()
    }

    #[test]
    fn runs_of_both_tables() {
        let bytes = stbl(
            &[(3, 10), (0, 9), (2, 0), (9, 5)],
            &[(2, 0), (1, 20), (0, 7), (2, -3)],
            Some(&[1, 4]),
            7,
        );
        let tables = tables(&bytes);
        let runs: Vec<_> = tables
            .time_runs()
            .map(|run| (run.first, run.count, run.decoded, run.delta, run.offset))
            .collect();
        assert_eq!(
            runs,
            [
                (0, 2, 0, 10, 0),
                (2, 1, 20, 10, 20),
                (3, 2, 30, 0, -3),
                (5, 2, 30, 5, 0)
            ]
        );
        assert_eq!(
            (
                tables.samples,
                tables.shown_end(),
                tables.decoded_at(7),
                tables.decoded_at(6)
            ),
            (7, 50, 40, 35)
        );
        assert_eq!(
            tables.point(2),
            Point {
                decoded: 20,
                shown: 40,
                delta: 10
            }
        );
    }

    #[test]
    fn samples_by_time() {
        let bytes = stbl(
            &[(100, 10)],
            &[(1, 20), (1, 30), (1, 0), (97, 20)],
            Some(&[1, 51, 81]),
            100,
        );
        let tables = tables(&bytes);
        let rows = [
            (0, 0, 0),
            (20, 0, 0),
            (21, 1, 3),
            (25, 1, 3),
            (520, 50, 50),
            (521, 51, 51),
            (9999, 100, 100),
        ];
        for (limit, first, end) in rows {
            assert_eq!(
                (tables.first_at(limit), tables.end_before(limit)),
                (first, end),
                "{limit}"
            );
        }
        for (limit, sync) in [
            (i64::MIN, 0),
            (0, 0),
            (519, 0),
            (520, 50),
            (819, 50),
            (820, 80),
            (i64::MAX, 80),
        ] {
            assert_eq!(tables.sync_at(limit), sync, "{limit}");
        }
    }

    #[test]
    fn without_a_table_every_sample_is_one() {
        let bytes = stbl(&[(1_000_000_000, 4)], &[], None, 1_000_000_000);
        let tables = tables(&bytes);
        assert_eq!(
            (tables.sync_at(39), tables.sync_at(40), tables.sync_at(-1)),
            (9, 10, 0)
        );
    }
}
