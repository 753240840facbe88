//! Packets full of frames that carry nothing: parsing them must not cost more than sending them
//! (RFC 9000 section 21.9).

use super::acks::{downloading, is_found_out, tell};

/// A packet may have so many PING frames and runs of PADDING (`MAX_EMPTY_FRAMES` of quinn-proto).
const EMPTY_FRAMES_MAX: usize = 128;

/// PING and PADDING in turns. The packet ends with a run of PADDING, which may belong to the last.
fn alternating(frames: usize) -> Vec<u8> {
    [1, 0].into_iter().cycle().take(frames).collect()
}

#[test]
fn alternating_empty_frames_up_to_the_limit() {
    let (mut pair, id, lie) = downloading();
    tell(&mut pair, id, &lie, alternating(EMPTY_FRAMES_MAX));
    assert_eq!(pair.server().1.lost(), None);
}

#[test]
fn alternating_empty_frames_over_the_limit() {
    let (mut pair, id, lie) = downloading();
    tell(&mut pair, id, &lie, alternating(EMPTY_FRAMES_MAX + 1));
    assert!(is_found_out(&mut pair), "{:?}", pair.server().1.lost());
}

/// Runs count once, whatever their length.
#[test]
fn long_padding() {
    let (mut pair, id, lie) = downloading();
    tell(
        &mut pair,
        id,
        &lie,
        [vec![1], vec![0; 450], vec![1]].concat(),
    );
    assert_eq!(pair.server().1.lost(), None);
}
