//! Codec of a track as in RFC 6381, from its sample entry (ISO/IEC 14496-12 section 8.5.2).

use crate::{
    bytes::{be16, be32},
    mp4::{Atom, Atoms, Kind, Track},
};

/// Bytes of a sample entry before its boxes: with pictures, with sound.
const VISUAL_BYTES: usize = 78;
const AUDIO_BYTES: usize = 28;

/// `None`: HLS has no name for it, or it is encrypted.
pub fn codec(track: &Track<'_>) -> Option<String> {
    let entry = Atoms::new(track.entries.payload.get(8..)?).next()?.ok()?;
    let name = || String::from_utf8_lossy(&entry.kind).into_owned();
    match (track.kind, &entry.kind) {
        (Kind::Video, b"avc1" | b"avc3") => avc(&entry),
        (Kind::Video, b"hvc1" | b"hev1") => hevc(&entry),
        (Kind::Audio, b"mp4a") => {
            Some(mpeg4_audio(&entry).unwrap_or_else(|| "mp4a.40.2".to_owned()))
        }
        (Kind::Audio, b"ac-3" | b"ec-3" | b"fLaC" | b"alac") => Some(name()),
        (Kind::Audio, b"Opus") => Some("opus".to_owned()),
        _ => None,
    }
}

/// Width and height as coded.
pub fn picture_size(track: &Track<'_>) -> Option<(u16, u16)> {
    let entry = Atoms::new(track.entries.payload.get(8..)?).next()?.ok()?;
    Some((be16(entry.payload, 24)?, be16(entry.payload, 26)?))
}

/// Profile, constraints and level of an AVCDecoderConfigurationRecord (ISO/IEC 14496-15 section
/// 5.3.3).
fn avc(entry: &Atom<'_>) -> Option<String> {
    let record = Atoms::find(entry.payload.get(VISUAL_BYTES..)?, b"avcC")?.payload;
    let [profile, constraints, level] = record.get(1..4)? else {
        return None;
    };
    Some(format!(
        "{}.{profile:02x}{constraints:02x}{level:02x}",
        String::from_utf8_lossy(&entry.kind)
    ))
}

/// ISO/IEC 14496-15 section 8.3.3 and annex E.3.
fn hevc(entry: &Atom<'_>) -> Option<String> {
    let record = Atoms::find(entry.payload.get(VISUAL_BYTES..)?, b"hvcC")?.payload;
    let general = *record.get(1)?;
    let space = ["", "A", "B", "C"].get(usize::from(general >> 6))?;
    let compatible = be32(record, 2)?.reverse_bits();
    let tier = if general & 0x20 == 0 { 'L' } else { 'H' };
    let level = *record.get(12)?;
    let constraints = record.get(6..12)?;
    let used = constraints
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let constraints: String = constraints
        .iter()
        .take(used)
        .map(|byte| format!(".{byte:X}"))
        .collect();
    Some(format!(
        "{}.{space}{}.{compatible:X}.{tier}{level}{constraints}",
        String::from_utf8_lossy(&entry.kind),
        general & 0x1f
    ))
}

/// Object types of the elementary stream's descriptors (ISO/IEC 14496-1 section 7.2.6). QuickTime
/// has more fields before its boxes, and keeps this one in another.
fn mpeg4_audio(entry: &Atom<'_>) -> Option<String> {
    let more = match be16(entry.payload, 8)? {
        1 => 16,
        2 => 36,
        _ => 0,
    };
    let boxes = entry.payload.get(AUDIO_BYTES + more..)?;
    let wave = Atoms::find(boxes, b"wave").map(|wave| wave.payload);
    let stream = Atoms::find(boxes, b"esds")
        .or_else(|| Atoms::find(wave?, b"esds"))?
        .payload
        .get(4..)?;
    let stream = descriptor(stream, 3)?;
    // The bytes after its number depend on three flags.
    let flags = *stream.get(2)?;
    let url = if flags & 0x40 == 0 {
        0
    } else {
        usize::from(*stream.get(3)?) + 1
    };
    let before =
        3 + if flags & 0x80 == 0 { 0 } else { 2 } + url + if flags & 0x20 == 0 { 0 } else { 2 };
    let decoder = descriptor(stream.get(before..)?, 4)?;
    let object = *decoder.first()?;
    if object != 0x40 {
        return Some(format!("mp4a.{object:02x}"));
    }
    let specific = descriptor(decoder.get(13..)?, 5)?;
    let kind = *specific.first()? >> 3;
    let kind = if kind == 31 {
        32 + (be16(specific, 0)? >> 5 & 0x3f)
    } else {
        kind.into()
    };
    Some(format!("mp4a.40.{kind}"))
}

/// The content of a descriptor with this tag, if it is the first.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, mut rest) = bytes.split_first()?;
    let mut length = 0;
    for _ in 0..4 {
        let (byte, behind) = rest.split_first()?;
        (length, rest) = (length << 7 | usize::from(byte & 0x7f), behind);
        if byte & 0x80 == 0 {
            break;
        }
    }
    rest.get(..length).filter(|_| *found == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'p>(kind: &[u8; 4], payload: &'p [u8]) -> Atom<'p> {
        Atom {
            kind: *kind,
            whole: payload,
            payload,
        }
    }

    #[test]
    fn names() {
        let avcc = [&[0; VISUAL_BYTES][..], b"\0\0\0\x0cavcC\x01\x64\0\x1f"].concat();
        assert_eq!(avc(&entry(b"avc1", &avcc)).as_deref(), Some("avc1.64001f"));
        let hvcc = [
            &[0; VISUAL_BYTES][..],
            b"\0\0\0\x15hvcC\x01\x01\x60\0\0\0\x90\0\0\0\0\0\x5d",
        ]
        .concat();
        assert_eq!(
            hevc(&entry(b"hvc1", &hvcc)).as_deref(),
            Some("hvc1.1.6.L93.90")
        );
        let descriptors = b"\0\0\0\x27esds\0\0\0\0\x03\x80\x80\x80\x16\0\x01\0\x04\x11\x40\x15\0\0\0\0\0\0\0\0\0\0\0\x05\x02\x12\x10";
        let esds = [&[0; AUDIO_BYTES][..], descriptors].concat();
        assert_eq!(
            mpeg4_audio(&entry(b"mp4a", &esds)).as_deref(),
            Some("mp4a.40.2")
        );
        for end in 0..esds.len() {
            assert!(mpeg4_audio(&entry(b"mp4a", &esds[..end])).is_none());
        }
    }
}
