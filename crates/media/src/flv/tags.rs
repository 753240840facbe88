//! Tags: a header of eleven bytes with type, length, and time; the content; and the length of both.

use crate::{MediaError, Source, bytes::be24};

pub const AUDIO: u8 = 8;
pub const VIDEO: u8 = 9;
pub const SCRIPT: u8 = 18;
pub const HEAD_BYTES: u64 = 11;
/// Length of the tag behind each.
pub const BEHIND_BYTES: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub at: u64,
    pub kind: u8,
    pub content_bytes: u64,
    pub time_ms: u64,
    /// The first two bytes of the content.
    begins: [u8; 2],
}

impl Tag {
    /// `None`: the file ends here, or within it.
    pub fn read<S: Source + ?Sized>(source: &S, at: u64) -> Result<Option<Tag>, MediaError> {
        let left = source.length().saturating_sub(at);
        let mut head = [0; 13];
        if left < head.len() as u64 {
            return Ok(None);
        }
        source.read_at(at, &mut head)?;
        let [kind, .., high, _, _, _, first, second] = head;
        let kind = kind & 0x1f;
        let (content, low) = (be24(&head, 1).unwrap_or(0), be24(&head, 4).unwrap_or(0));
        let [.., stream_1, stream_2, stream_3, _, _] = head;
        if !matches!(kind, AUDIO | VIDEO | SCRIPT) || [stream_1, stream_2, stream_3] != [0; 3] {
            return Err(MediaError::Damaged("there is no tag where one should be"));
        }
        let tag = Tag {
            at,
            kind,
            content_bytes: content.into(),
            time_ms: (u64::from(high) << 24) | u64::from(low),
            begins: [first, second],
        };
        Ok(Some(tag).filter(|tag| tag.end() <= source.length()))
    }

    pub fn content_at(&self) -> u64 {
        self.at + HEAD_BYTES
    }

    /// Offset of the next tag.
    pub fn end(&self) -> u64 {
        self.content_at() + self.content_bytes + BEHIND_BYTES
    }

    /// True if it only says how to decode others: H.264 and its kin (E.4.3.1, and as newer codecs
    /// do it), AAC (E.4.2.1).
    pub fn is_decoder(&self) -> bool {
        let [first, second] = self.begins;
        match self.kind {
            VIDEO if first & 0x80 != 0 => first & 0x0f == 0,
            VIDEO => first & 0x0f == 7 && second == 0,
            AUDIO => first >> 4 == 10 && second == 0,
            _ => false,
        }
    }

    /// A picture that needs no other.
    pub fn is_key(&self) -> bool {
        let [first, _] = self.begins;
        self.kind == VIDEO && first >> 4 & 7 == 1 && !self.is_decoder() && self.content_bytes > 0
    }

    /// The eleven bytes with another time.
    pub fn head_at(&self, time_ms: u64) -> Vec<u8> {
        let [_, content @ ..] = u32::try_from(self.content_bytes).unwrap_or(0).to_be_bytes();
        let [high, low @ ..] = u32::try_from(time_ms).unwrap_or(u32::MAX).to_be_bytes();
        [&[self.kind][..], &content, &low, &[high], &[0; 3]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_written() {
        let bytes = b"\x09\0\0\x02\x02\x03\x04\x01\0\0\0\x17\x01\0\0\0\x0d".as_slice();
        let tag = Tag::read(bytes, 0).unwrap().unwrap();
        assert_eq!(
            (tag.kind, tag.content_bytes, tag.time_ms, tag.end()),
            (VIDEO, 2, 0x0102_0304, 17)
        );
        assert!(tag.is_key() && !tag.is_decoder());
        assert_eq!(tag.head_at(tag.time_ms), bytes[..11]);
        assert!(Tag::read(&bytes[..16], 0).unwrap().is_none());
        assert!(
            Tag::read(
                b"\x07\0\0\x02\x02\x03\x04\x01\0\0\0\x17\x01\0\0\0\x0d".as_slice(),
                0
            )
            .is_err()
        );
        let kinds = [
            (VIDEO, [0x17, 0], true),
            (VIDEO, [0x90, b'h'], true),
            (AUDIO, [0xaf, 0], true),
            (AUDIO, [0xaf, 1], false),
            (AUDIO, [0x2f, 0], false),
        ];
        for (kind, begins, expected) in kinds {
            assert_eq!(
                Tag {
                    kind,
                    begins,
                    ..tag
                }
                .is_decoder(),
                expected,
                "{kind} {begins:x?}"
            );
        }
    }
}
