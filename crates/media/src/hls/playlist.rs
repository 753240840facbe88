//! Playlists (RFC 8216 section 4).

use super::{Plan, codecs};
use std::fmt::Write;

/// The playlist of the fragments. `version` is appended to their URLs, so that cached fragments of
/// an older file are not used.
pub fn media(plan: &Plan<'_>, version: &str) -> String {
    let durations: Vec<u64> = (0..plan.fragments())
        .map(|fragment| plan.duration_ms(fragment))
        .collect();
    // Section 4.3.3.1: no fragment is longer, rounded to the nearest second.
    let longest_s = durations
        .iter()
        .map(|ms| (ms + 500) / 1000)
        .max()
        .unwrap_or(0)
        .max(1);
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{longest_s}\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4?v={version}\"\n"
    );
    for (ms, number) in durations.iter().zip(1..) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "#EXTINF:{}.{:03},\nseg-{number}.m4s?v={version}",
            ms / 1000,
            ms % 1000
        );
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}

/// The main playlist, which names the other one and the codecs that a player needs.
pub fn main(plan: &Plan<'_>, version: &str) -> String {
    let codecs: Vec<&str> = plan
        .tracks
        .iter()
        .map(|(_, codec)| codec.as_str())
        .collect();
    let (peak, average) = bits_per_s(plan);
    let size = plan
        .lead()
        .filter(|_| plan.has_pictures())
        .and_then(codecs::picture_size);
    let size = size.map_or_else(String::new, |(width, height)| {
        format!(",RESOLUTION={width}x{height}")
    });
    let codecs = codecs.join(",");
    format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n\
         #EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average},CODECS=\"{codecs}\"{size}\nindex.m3u8?v={version}\n"
    )
}

/// Section 4.3.4.2: the most that any fragment has, and the average.
fn bits_per_s(plan: &Plan<'_>) -> (u64, u64) {
    let per_s = |bytes: u64, ms: u64| bytes.saturating_mul(8000) / ms.max(1);
    let (mut peak, mut bytes_all, mut ms_all) = (0, 0_u64, 0_u64);
    let samples: Vec<_> = plan
        .tracks
        .iter()
        .map(|(track, _)| (track, plan.all_samples(track)))
        .collect();
    for fragment in 0..plan.fragments() {
        let ms = plan.duration_ms(fragment);
        let of_fragment = samples.iter().filter_map(|(track, ranges)| {
            Some(track.tables.sizes.sum(ranges.get(fragment)?.clone()))
        });
        let bytes = of_fragment.fold(0, u64::saturating_add);
        // A last fragment of a few milliseconds has no significant bit rate.
        if ms >= 500 || fragment == 0 {
            peak = peak.max(per_s(bytes, ms));
        }
        (bytes_all, ms_all) = (bytes_all.saturating_add(bytes), ms_all.saturating_add(ms));
    }
    (peak.max(1), per_s(bytes_all, ms_all).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::{Movie, sample::file};

    #[test]
    fn playlists() {
        let file = file(65, 0);
        let movie = Movie::read(file.as_slice(), 1 << 20).unwrap();
        let plan = Plan::new(&movie, 6000).unwrap();
        let list = media(&plan, "a1");
        let expected = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n\
                        #EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4?v=a1\"\n#EXTINF:6.000,\nseg-1.m4s?v=a1\n\
                        #EXTINF:0.500,\nseg-2.m4s?v=a1\n#EXT-X-ENDLIST\n";
        assert_eq!(list, expected);
        let top = main(&plan, "a1");
        assert!(top.contains("BANDWIDTH=80,AVERAGE-BANDWIDTH=80,CODECS=\"avc1.64001f\",RESOLUTION=0x0\nindex.m3u8?v=a1\n"), "{top}");
    }
}
