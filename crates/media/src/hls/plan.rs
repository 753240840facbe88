//! The tracks that are played, and the beginnings of fragments.
//!
//! Caveat: fragments can only begin at key frames, wherever the encoder put them. So a fragment
//! ends at the key frame that is nearest to the desired length.

use super::codecs;
use crate::{
    MediaError,
    bytes::scale,
    mp4::{Kind, Movie, Points, Seeker, Track},
    work::step,
};
use std::ops::Range;

/// A playlist of more fragments is not made.
const FRAGMENTS_MAX: usize = 50_000;
/// Samples at which fragments might begin, where any sample will do. At most every other one begins
/// none.
const CANDIDATES_MAX: usize = 4 * FRAGMENTS_MAX;

pub struct Plan<'m> {
    pub(super) movie: &'m Movie,
    /// Pictures first; each with its codec, as RFC 6381 writes it.
    pub(super) tracks: Vec<(Track<'m>, String)>,
    pub(super) index: &'m [u8],
    /// First sample of each fragment in the first track, and when it is shown.
    starts: Vec<(u64, i64)>,
    /// End of the presentation, in units of the first track.
    end: i64,
}

impl<'m> Plan<'m> {
    /// `fragment_ms`: about how long a fragment is.
    pub fn new(movie: &'m Movie, fragment_ms: u64) -> Result<Plan<'m>, MediaError> {
        let view = movie.view()?;
        let playable = |kind: Kind| {
            let of_kind = view
                .tracks
                .iter()
                .filter(move |track| track.kind == kind && track.tables.samples > 0);
            of_kind
                .filter_map(|track| Some((*track, codecs::codec(track)?)))
                .next()
        };
        let tracks: Vec<_> = [Kind::Video, Kind::Audio]
            .into_iter()
            .filter_map(playable)
            .collect();
        let Some((lead, _)) = tracks.first() else {
            return Err(MediaError::Unsupported(
                "it has neither pictures nor sound that HLS knows",
            ));
        };
        let end = tracks
            .iter()
            .map(|(track, _)| scale(track.end(), lead.timescale, track.timescale))
            .max()
            .unwrap_or(0);
        let starts = starts(lead, fragment_ms)?;
        Ok(Plan {
            movie,
            index: view.index,
            starts,
            end,
            tracks,
        })
    }

    /// Number of fragments.
    pub fn fragments(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn lead(&self) -> Option<&Track<'m>> {
        self.tracks.first().map(|(track, _)| track)
    }

    /// Returns true if there is a video track.
    pub fn has_pictures(&self) -> bool {
        self.lead().is_some_and(|lead| lead.kind == Kind::Video)
    }

    /// Duration of a fragment, in milliseconds.
    pub(super) fn duration_ms(&self, fragment: usize) -> u64 {
        let (Some(lead), Some((_, begins))) = (self.lead(), self.starts.get(fragment)) else {
            return 0;
        };
        let begins = if fragment == 0 { 0 } else { *begins };
        let ends = self
            .starts
            .get(fragment + 1)
            .map_or(self.end, |next| next.1);
        u64::try_from(scale(ends.saturating_sub(begins), 1000, lead.timescale)).unwrap_or(0)
    }

    /// The samples of a track that belong to each of the fragments: all in one way through its
    /// tables.
    pub(super) fn all_samples(&self, track: &Track<'m>) -> Vec<Range<u64>> {
        let is_lead = self.is_lead(track);
        let mut seeker = Seeker::new(&track.tables);
        let mut firsts: Vec<u64> = Vec::with_capacity(self.starts.len() + 1);
        for (fragment, (sample, shown)) in self.starts.iter().enumerate() {
            let shown = if fragment == 0 {
                0
            } else {
                self.in_units_of(track, *shown)
            };
            let first = match is_lead {
                true => *sample,
                false => seeker
                    .first_at(track.own_time(shown))
                    .map_or(track.tables.samples, |found| found.0),
            };
            firsts.push(first.max(firsts.last().copied().unwrap_or(0)));
        }
        firsts.push(track.tables.samples);
        firsts
            .windows(2)
            .filter_map(|pair| Some(*pair.first()?..*pair.last()?))
            .collect()
    }

    fn is_lead(&self, track: &Track<'m>) -> bool {
        self.lead()
            .is_some_and(|lead| lead.number == track.number && lead.kind == track.kind)
    }

    /// A time of the leading track.
    fn in_units_of(&self, track: &Track<'m>, shown: i64) -> i64 {
        self.lead()
            .map_or(0, |lead| scale(shown, track.timescale, lead.timescale))
    }

    /// The samples of a track that belong to a fragment.
    pub(super) fn samples(&self, fragment: usize, track: &Track<'m>) -> Range<u64> {
        let is_lead = self.is_lead(track);
        let at = |fragment: usize| match self.starts.get(fragment) {
            None => track.tables.samples,
            Some((sample, _)) if is_lead => *sample,
            // What would be shown before the beginning can't be told, and is left out.
            Some(_) if fragment == 0 => track.tables.first_at(track.own_time(0)),
            Some((_, shown)) => track
                .tables
                .first_at(track.own_time(self.in_units_of(track, *shown))),
        };
        let first = at(fragment);
        first..at(fragment + 1).max(first)
    }
}

/// Fragments of the leading track: sample and time.
fn starts(lead: &Track<'_>, fragment_ms: u64) -> Result<Vec<(u64, i64)>, MediaError> {
    let wanted = scale(
        i64::try_from(fragment_ms).unwrap_or(i64::MAX),
        lead.timescale,
        1000,
    )
    .max(1);
    let first = lead.tables.sync_at(lead.own_time(0));
    let mut starts = vec![(first, lead.shown_time(lead.tables.point(first).shown))];
    let mut candidates = Candidates::new(lead, first, wanted).peekable();
    let mut looked_at = 0_usize;
    while let Some((sample, shown)) = candidates.next() {
        step();
        looked_at += 1;
        let begun = starts.last().map_or(0, |start| start.1);
        let length = shown.saturating_sub(begun);
        // The next candidate would be farther from the desired length than this one.
        let next = candidates.peek().map_or_else(|| lead.end(), |next| next.1);
        let is_nearest =
            next.saturating_sub(begun).saturating_sub(wanted) > wanted.saturating_sub(length);
        if length >= wanted || length > 0 && is_nearest {
            starts.push((sample, shown));
        }
        let is_endless = lead.tables.syncs.is_none() && looked_at > CANDIDATES_MAX;
        if starts.len() > FRAGMENTS_MAX || is_endless {
            return Err(MediaError::Unsupported("it would have too many fragments"));
        }
    }
    Ok(starts)
}

/// Samples at which fragments may begin: key frames, or for tracks without such a table, samples at
/// the desired distance.
enum Candidates<'t, 'm> {
    Keys {
        lead: &'t Track<'m>,
        points: Points<'t, 'm>,
        entry: usize,
        after: u64,
    },
    /// `next`: the time from which on the next one is looked for. `after`: the sample that it comes
    /// behind.
    Any {
        lead: &'t Track<'m>,
        seeker: Seeker<'t, 'm>,
        after: u64,
        next: i64,
        wanted: i64,
    },
}

impl<'t, 'm> Candidates<'t, 'm> {
    fn new(lead: &'t Track<'m>, after: u64, wanted: i64) -> Candidates<'t, 'm> {
        match lead.tables.syncs {
            Some(_) => Candidates::Keys {
                lead,
                points: Points::new(&lead.tables),
                entry: 0,
                after,
            },
            None => {
                let next = lead
                    .shown_time(lead.tables.point(after).shown)
                    .saturating_add(wanted);
                Candidates::Any {
                    lead,
                    seeker: Seeker::new(&lead.tables),
                    after,
                    next,
                    wanted,
                }
            }
        }
    }
}

impl Iterator for Candidates<'_, '_> {
    type Item = (u64, i64);

    fn next(&mut self) -> Option<(u64, i64)> {
        match self {
            Candidates::Keys {
                lead,
                points,
                entry,
                after,
            } => loop {
                let sample = u64::from(lead.tables.syncs?.word(*entry, 0)?.checked_sub(1)?);
                step();
                *entry += 1;
                if sample > *after {
                    *after = sample;
                    return Some((sample, lead.shown_time(points.at(sample)?.shown)));
                }
            },
            Candidates::Any {
                lead,
                seeker,
                after,
                next,
                wanted,
            } => {
                let (sample, own) = seeker.first_at(lead.own_time(*next))?;
                // Times that don't fit into numbers would find the same one for ever.
                if sample <= *after {
                    return None;
                }
                *after = sample;
                let shown = lead.shown_time(own);
                // A sample may last for longer than many fragments: what lies within it is passed
                // over at once.
                let passed = shown.saturating_sub(*next).max(0) / *wanted;
                *next = next.saturating_add(passed.saturating_add(1).saturating_mul(*wanted));
                Some((sample, shown))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::sample::file;

    fn durations(samples: u32, fragment_ms: u64) -> Vec<u64> {
        let file = file(samples, 200);
        let movie = Movie::read(file.as_slice(), 1 << 20).unwrap();
        let plan = Plan::new(&movie, fragment_ms).unwrap();
        (0..plan.fragments())
            .map(|fragment| plan.duration_ms(fragment))
            .collect()
    }

    #[test]
    fn fragments_begin_at_the_nearest_key_frame() {
        assert_eq!(durations(50, 1000), [1000; 5]);
        assert_eq!(durations(50, 2000), [2000, 2000, 1000]);
        assert_eq!(durations(50, 2400), [2000, 2000, 1000]);
        assert_eq!(durations(65, 2600), [3000, 3000, 500]);
        assert_eq!(durations(50, 1), [1000; 5]);
        assert_eq!(durations(50, u64::MAX), [5000]);
    }
}
