//! Responses as a client hears them.

use super::*;

fn get(bench: &mut Bench, stream: u64, method: &str) {
    let fields = [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    let opened = bench.machine.open(stream, true, &mut bench.out, |head| {
        fields.iter().for_each(|(name, value)| head.pseudo(name.as_bytes(), value.as_bytes()));
    });
    assert_eq!(opened, Ok(()));
}

#[test]
fn a_response_after_an_informational_one() {
    let mut bench = Bench::client(Limits::default());
    get(&mut bench, 0, "GET");
    let input = [headers(&[(":status", "103")]), headers(&[(":status", "200"), ("content-length", "4")]), data(4)].concat();
    assert_eq!(bench.feed(0, &input, true).unwrap(), ["informational 0", "head 0", "data 0 4 end"]);
    assert_eq!(bench.machine.open_streams(), 0);
}
