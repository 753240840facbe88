//! Properties: input cut anywhere means the same, and our client and our server understand each
//! other whatever they do.

use proptest::prelude::*;

use super::pair::{Pair, generous};
use super::*;

/// A frame that may be right or wrong, made of small numbers so that streams meet.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = (0u32..12).prop_map(|at| at.min(9));
    let pair = (stream, any::<bool>());
    prop_oneof![
        4 => pair.clone().prop_map(|(stream, end)| headers(2 * (stream / 2) + 1, if end { &GET } else { &POST }, end)),
        4 => (pair.clone(), 0usize..3_000).prop_map(|((stream, end), bytes)| data(stream, bytes, end)),
        1 => pair.clone().prop_map(|(stream, end)| headers(stream, &[("a", "b")], end)),
        1 => pair.clone().prop_map(|(stream, _)| rst(stream, ErrorCode::Cancel)),
        1 => (pair.clone(), any::<u32>()).prop_map(|((stream, _), by)| window_update(stream, by)),
        1 => (1u16..10, 0u32..100_000).prop_map(|(id, value)| settings(&[(id, value)])),
        1 => Just(ping(b"12345678")),
        1 => (pair, any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|((stream, _), flags, payload)| {
            frame(flags % 17, flags, stream, &payload)
        }),
    ]
}

/// All that comes of input given piece by piece: events, and the fault if there is one.
fn outcome(input: &[u8], cuts: &[usize]) -> (Vec<String>, Option<Reason>, Vec<u8>) {
    let mut bench = Bench::new(Connection::server(
        Limits {
            control_bytes_max: usize::MAX,
            ..generous()
        },
        true,
    ));
    let (mut events, mut kept, mut at) = (Vec::new(), Vec::new(), 0);
    for end in cuts
        .iter()
        .map(|cut| at + cut)
        .chain([input.len()])
        .collect::<Vec<_>>()
    {
        let end = end.min(input.len());
        kept.extend_from_slice(&input[at.min(end)..end]);
        at = at.max(end);
        loop {
            match bench
                .machine
                .receive(&kept, 0, &mut bench.head, &mut bench.out)
            {
                Ok((0, None)) => break,
                Ok((used, event)) => {
                    events.extend(event.map(words));
                    kept.drain(..used);
                    bench.machine.check_invariants();
                }
                Err(fault) => return (events, Some(fault.reason), bench.out),
            }
        }
        // More than a frame is never kept.
        assert!(kept.len() < 16_384 + HEADER_BYTES);
    }
    (events, None, bench.out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn frames_mean_the_same_however_they_are_cut(
        frames in prop::collection::vec(any_frame(), 0..30),
        cuts in prop::collection::vec(0usize..200, 0..30),
    ) {
        let input = [PREFACE, &settings(&[])[..], &frames.concat()].concat();
        prop_assert_eq!(outcome(&input, &[]), outcome(&input, &cuts));
    }

    #[test]
    fn any_bytes_mean_the_same_however_they_are_cut(bytes: Vec<u8>, cuts in prop::collection::vec(0usize..20, 0..10)) {
        let input = [PREFACE, &settings(&[])[..], &bytes].concat();
        prop_assert_eq!(outcome(&input, &[]), outcome(&input, &cuts));
    }

    #[test]
    fn client_and_server_understand_each_other(operations in prop::collection::vec((0u8..14, any::<u8>(), 0usize..9_000), 0..200)) {
        let mut pair = Pair::new();
        for (operation, which, amount) in operations {
            pair.step(operation, which, amount);
        }
        pair.finish();
    }
}
