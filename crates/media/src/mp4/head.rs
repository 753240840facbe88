//! The three boxes with durations (mvhd, tkhd, mdhd: ISO/IEC 14496-12 sections 8.2.2, 8.3.2,
//! 8.4.2), read and written again.

use crate::{
    MediaError,
    bytes::{be32, put},
};

/// Offsets of a box's fields in its payload, for version 0 and version 1.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Units per second (mvhd, mdhd), or the track's number (tkhd).
    number: [usize; 2],
    duration: [usize; 2],
}

pub const MVHD: Layout = Layout {
    number: [12, 20],
    duration: [16, 24],
};
pub const MDHD: Layout = MVHD;
pub const TKHD: Layout = Layout {
    number: [12, 20],
    duration: [20, 28],
};

impl Layout {
    pub fn number(self, payload: &[u8]) -> Result<u32, MediaError> {
        let [zero, one] = self.number;
        let at = if is_long(payload) { one } else { zero };
        be32(payload, at).ok_or(MediaError::Damaged("a head is too short"))
    }

    /// Duration; a value of all ones means unknown.
    #[cfg(test)]
    pub fn duration(self, payload: &[u8]) -> Option<u64> {
        let [zero, one] = self.duration;
        match is_long(payload) {
            true => crate::bytes::be64(payload, one).filter(|duration| *duration != u64::MAX),
            false => be32(payload, zero)
                .filter(|duration| *duration != u32::MAX)
                .map(u64::from),
        }
    }
}

/// The payload with another duration.
pub fn with_duration(layout: Layout, payload: &[u8], duration: u64) -> Vec<u8> {
    let mut payload = payload.to_vec();
    let [zero, one] = layout.duration;
    match is_long(&payload) {
        true => put(&mut payload, one, &duration.to_be_bytes()),
        false => put(
            &mut payload,
            zero,
            &u32::try_from(duration).unwrap_or(u32::MAX).to_be_bytes(),
        ),
    }
    payload
}

fn is_long(payload: &[u8]) -> bool {
    payload.first() == Some(&1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions() {
        for (version, length) in [(0, 24), (1, 36)] {
            let mut payload = vec![0; length];
            payload[0] = version;
            for layout in [MVHD, TKHD] {
                let made = with_duration(layout, &payload, 77);
                assert_eq!((layout.duration(&made), made.len()), (Some(77), length));
            }
        }
        assert_eq!(
            MVHD.duration(&with_duration(MVHD, &[0; 20], u64::MAX)),
            None,
            "all ones"
        );
        assert!(MVHD.number(&[0; 15]).is_err());
    }
}
