//! Decoder and encoder as a connection uses them: the examples of RFC 7541 Appendix C, and that the
//! two stay in step.

use super::*;
use proptest::prelude::*;
use saker_http_mux::integer;

/// A field as it came; the last is `never_indexed`.
pub(super) type Field = (NameKind, Vec<u8>, Vec<u8>, bool);

#[derive(Default)]
pub(super) struct List(pub(super) Vec<Field>);

impl FieldSink for List {
    fn field(&mut self, kind: NameKind, name: &[u8], value: &[u8], never_indexed: bool) -> bool {
        self.0
            .push((kind, name.to_vec(), value.to_vec(), never_indexed));
        true
    }
}

impl List {
    fn lines(&self) -> String {
        self.0
            .iter()
            .map(|(_, name, value, _)| {
                format!(
                    "{}: {}\n",
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(value)
                )
            })
            .collect()
    }
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> String {
    let mut list = List::default();
    assert_eq!(decoder.decode(block, &mut list), Ok(()), "{block:02x?}");
    list.lines()
}

/// The dynamic table, by references to its entries.
fn table(decoder: &mut Decoder) -> String {
    let mut lines = String::new();
    for index in 62..127u8 {
        let mut list = List::default();
        if decoder.decode(&[0x80 | index], &mut list).is_err() {
            break;
        }
        lines += &list.lines();
    }
    lines
}

/// Blocks in hex with the fields they stand for, then the table's size and entries.
struct Example {
    block: &'static str,
    fields: &'static str,
    size: usize,
    table: &'static str,
}

fn follow(table_bytes_max: usize, examples: &[Example]) {
    let mut decoder = Decoder::new(4096);
    if table_bytes_max < 4096 {
        let mut update = Vec::new();
        integer::encode(0x20, 0x1f, table_bytes_max, &mut update);
        assert_eq!(decoded(&mut decoder, &update), "");
    }
    for example in examples {
        assert_eq!(
            decoded(&mut decoder, &unhex(example.block)),
            example.fields,
            "{}",
            example.block
        );
        assert_eq!(table(&mut decoder), example.table, "{}", example.block);
        assert_eq!(decoder.table_bytes(), example.size, "{}", example.block);
    }
}

/// Appendix C.2, each with a decoder of its own.
#[test]
fn appendix_c2_representations() {
    let custom = "custom-key: custom-header\n";
    let rows = [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            custom,
            55,
            custom,
        ),
        (
            "040c 2f73 616d 706c 652f 7061 7468",
            ":path: /sample/path\n",
            0,
            "",
        ),
        (
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            "password: secret\n",
            0,
            "",
        ),
        ("82", ":method: GET\n", 0, ""),
    ];
    for (block, fields, size, table) in rows {
        follow(
            4096,
            &[Example {
                block,
                fields,
                size,
                table,
            }],
        );
    }
}

const REQUEST_1: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
const REQUEST_2: &str =
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n";
const REQUEST_3: &str = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n";

fn requests(blocks: [&'static str; 3]) -> [Example; 3] {
    let tables = [
        (57, ":authority: www.example.com\n"),
        (
            110,
            "cache-control: no-cache\n:authority: www.example.com\n",
        ),
        (
            164,
            "custom-key: custom-value\ncache-control: no-cache\n:authority: www.example.com\n",
        ),
    ];
    let fields = [REQUEST_1, REQUEST_2, REQUEST_3];
    std::array::from_fn(|at| Example {
        block: blocks[at],
        fields: fields[at],
        size: tables[at].0,
        table: tables[at].1,
    })
}

#[test]
fn appendix_c3_requests_as_they_are() {
    follow(
        4096,
        &requests([
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ]),
    );
}

const HUFFMAN_REQUESTS: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];

#[test]
fn appendix_c4_requests_in_huffman_code() {
    follow(4096, &requests(HUFFMAN_REQUESTS));
}

const RESPONSE_1: &str = ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n";
const RESPONSE_2: &str = ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n";
const RESPONSE_3: &str = ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n\
    content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n";

fn responses(blocks: [&'static str; 3]) -> [Example; 3] {
    let tables = [
        (
            222,
            "location: https://www.example.com\ndate: Mon, 21 Oct 2013 20:13:21 GMT\ncache-control: private\n:status: 302\n",
        ),
        (
            222,
            ":status: 307\nlocation: https://www.example.com\ndate: Mon, 21 Oct 2013 20:13:21 GMT\ncache-control: private\n",
        ),
        (
            215,
            "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\ncontent-encoding: gzip\n\
            date: Mon, 21 Oct 2013 20:13:22 GMT\n",
        ),
    ];
    let fields = [RESPONSE_1, RESPONSE_2, RESPONSE_3];
    std::array::from_fn(|at| Example {
        block: blocks[at],
        fields: fields[at],
        size: tables[at].0,
        table: tables[at].1,
    })
}

#[test]
fn appendix_c5_responses_with_evictions() {
    follow(
        256,
        &responses([
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 \
            7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 \
            444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
        ]),
    );
}

const HUFFMAN_RESPONSES: [&str; 3] = [
    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 \
    e9ae 82ae 43d3",
    "4883 640e ffc1 c0bf",
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b \
    3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
];

#[test]
fn appendix_c6_responses_in_huffman_code_with_evictions() {
    follow(256, &responses(HUFFMAN_RESPONSES));
}

fn encoded(encoder: &mut Encoder, lines: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in lines.lines().filter_map(|line| line.split_once(": ")) {
        encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Add, &mut out);
    }
    out
}

/// Appendix C.4 and C.6 from the other side. "307" is not shorter in Huffman code, so it is written
/// as it is.
#[test]
fn the_encoder_writes_the_blocks_of_appendix_c() {
    let mut encoder = Encoder::new();
    for (lines, block) in [REQUEST_1, REQUEST_2, REQUEST_3]
        .into_iter()
        .zip(HUFFMAN_REQUESTS)
    {
        assert_eq!(encoded(&mut encoder, lines), unhex(block));
    }
    let mut encoder = Encoder::new();
    encoder.set_table_bytes_max(256);
    assert_eq!(
        encoded(&mut encoder, RESPONSE_1),
        unhex(&["3fe1 01", HUFFMAN_RESPONSES[0]].concat())
    );
    assert_eq!(
        encoded(&mut encoder, RESPONSE_2),
        unhex("4803 3330 37c1 c0bf")
    );
    assert_eq!(
        encoded(&mut encoder, RESPONSE_3),
        unhex(HUFFMAN_RESPONSES[2])
    );
    assert_eq!(encoder.table_bytes(), 215);
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    const LISTED: &[&str] = &[
        "etag",
        "Date",
        ":path",
        ":status",
        "x-a",
        "X-Request-Id",
        "server",
        "",
        "cache-control",
        "set-cookie",
    ];
    prop_oneof![
        4 => proptest::sample::select(LISTED).prop_map(|name| name.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40)
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-c]{0,2}".prop_map(String::into_bytes),
        1 => "[ -~]{0,300}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..200)
    ]
}

fn indexing() -> impl Strategy<Value = Indexing> {
    prop_oneof![5 => Just(Indexing::Add), 1 => Just(Indexing::Without), 1 => Just(Indexing::Never)]
}

proptest! {
    #[test]
    fn encoder_and_decoder_stay_in_step(
        blocks in proptest::collection::vec(
            (proptest::option::weighted(0.2, (0..5_000usize, 0..5_000usize)), proptest::collection::vec((name(), value(), indexing()), 0..20)),
            1..20,
        )
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for (sizes, fields) in blocks {
            if let Some((first, second)) = sizes {
                encoder.set_table_bytes_max(first);
                encoder.set_table_bytes_max(second);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            fields.iter().for_each(|(name, value, indexing)| encoder.field(name, value, *indexing, &mut block));
            let mut list = List::default();
            prop_assert_eq!(decoder.decode(&block, &mut list), Ok(()));
            prop_assert_eq!(encoder.table_bytes(), decoder.table_bytes());
            prop_assert_eq!(list.0.len(), fields.len());
            for ((kind, name, value, never), (want_name, want_value, indexing)) in list.0.iter().zip(&fields) {
                prop_assert_eq!((name, value), (&want_name.to_ascii_lowercase(), want_value));
                prop_assert_eq!(*never, *indexing == Indexing::Never);
                prop_assert_eq!(*kind, NameKind::of_name(name).with_value(value));
            }
        }
    }

    #[test]
    fn a_decoder_bears_anything(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..10)) {
        let mut decoder = Decoder::new(4096);
        for block in blocks {
            if decoder.decode(&block, &mut List::default()).is_err() {
                break;
            }
            prop_assert!(decoder.table_bytes() <= 4096);
        }
    }
}
