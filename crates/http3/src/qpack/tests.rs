//! Decoder and encoder as a connection uses them: the examples of RFC 9204 Appendix B, what another
//! encoder writes, and that the two of ours stay in step however late anything arrives.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

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
    pub(super) fn lines(&self) -> String {
        let text = String::from_utf8_lossy;
        self.0
            .iter()
            .map(|(_, name, value, _)| format!("{}: {}\n", text(name), text(value)))
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

/// Decodes a section after all insertions have arrived, so it may refer to any of them.
pub(super) fn decoded(
    decoder: &mut Decoder,
    section: &[u8],
    stream: u64,
) -> Result<List, QpackError> {
    let read = decoder.section(section)?;
    assert!(read.required <= decoder.inserted(), "it would have to wait");
    let mut list = List::default();
    decoder.decode(read, section, &mut list)?;
    decoder.acknowledge(read, stream);
    Ok(list)
}

fn insert(decoder: &mut Decoder, instructions: &str, table_bytes: usize) {
    assert_eq!(decoder.receive(&unhex(instructions), || true), Ok(()));
    assert_eq!(decoder.table_bytes(), table_bytes, "{instructions}");
}

fn said(decoder: &mut Decoder) -> Vec<u8> {
    std::mem::take(decoder.output())
}

#[test]
fn appendix_b() {
    let mut decoder = Decoder::new(220);
    let list = decoded(
        &mut decoder,
        &unhex("0000 510b 2f69 6e64 6578 2e68 746d 6c"),
        0,
    )
    .unwrap();
    assert_eq!(
        (list.lines(), said(&mut decoder)),
        (":path: /index.html\n".into(), vec![])
    );

    insert(
        &mut decoder,
        "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468",
        106,
    );
    let list = decoded(&mut decoder, &unhex("0381 10 11"), 4).unwrap();
    assert_eq!(
        list.lines(),
        ":authority: www.example.com\n:path: /sample/path\n"
    );
    assert_eq!(said(&mut decoder), unhex("84"));

    insert(
        &mut decoder,
        "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565",
        160,
    );
    assert_eq!(said(&mut decoder), unhex("01"));

    let late = unhex("0500 80 c1 81");
    assert_eq!(
        decoder.section(&late).unwrap().required,
        4,
        "it has to wait for the next instruction"
    );
    insert(&mut decoder, "02", 217);
    let list = decoded(&mut Decoder::new(220), &unhex("0000"), 8).unwrap();
    assert_eq!(list.lines(), "");
    decoder.cancel(8);
    assert_eq!(said(&mut decoder), unhex("4801"));

    insert(&mut decoder, "810d 6375 7374 6f6d 2d76 616c 7565 32", 215);
    let list = decoded(&mut decoder, &unhex("0600 80 81 82 c1"), 12).unwrap();
    assert_eq!(
        list.lines(),
        "custom-key: custom-value2\n:authority: www.example.com\ncustom-key: custom-value\n:path: /\n"
    );
    assert_eq!(said(&mut decoder), unhex("8c"));
}

/// Six requests as ls-qpack 2.6 encodes them, with instructions and with what refers to entries of
/// the same section.
#[test]
fn what_another_encoder_writes() {
    let rows = [
        (
            "3fe11f",
            "0000d1d7508cf1e3c2e5f23a6ba0ab90f4ff518562b1cc56015f5099d07f66a281b0dae053fafc087ed4ce6aadf2a7979c89c6bfbfdd55914150831ea8001132\
             d36e3af3e38c92165f2ef2b12d424f4f8b1cc3354a0ea9141cc3355f",
            "0",
        ),
        (
            "c08cf1e3c2e5f23a6ba0ab90f4ffff2099d07f66a281b0dae053fafc087ed4ce6aadf2a7979c89c6bfbfc5914150831ea8001132d36e3af3e38c92165f66f2b1\
             2d424f4f8b1cc3354a0ea9141cc3355f",
            "0583d1d710518562b1cc560311dd1213",
            "1",
        ),
        ("", "0500d1d783518562b1cc560582dd8180", "2"),
        ("c18562b1cc5601", "0680d1d7831082dd8180", "0"),
        ("c18562b1cc5603", "0780d1d7841083dd8281", "1"),
        ("c18562b1cc5605", "0880d1d7851084dd8382", "2"),
    ];
    let mut decoder = Decoder::new(4_096);
    for (instructions, section, page) in rows {
        decoder.receive(&unhex(instructions), || true).unwrap();
        let want = format!(
            ":method: GET\n:scheme: https\n:authority: www.example.com\n:path: /page/{page}\nuser-agent: Mozilla/5.0 (X11; Linux x86_64)\n\
             accept: */*\ncookie: session=0123456789abcdef\nx-custom: again and again\n"
        );
        assert_eq!(
            decoded(&mut decoder, &unhex(section), 0).unwrap().lines(),
            want,
            "{section}"
        );
    }
}

/// Our encoder and decoder with everything between them under way.
struct Pipes {
    encoder: Encoder,
    decoder: Decoder,
    to_decoder: VecDeque<u8>,
    to_encoder: VecDeque<u8>,
    /// Sections that have not arrived, in no order.
    sections: Vec<(u64, Vec<u8>, String)>,
    next_stream: u64,
}

impl Pipes {
    fn new(capacity: usize) -> Pipes {
        let (mut encoder, decoder) = (Encoder::new(), Decoder::new(capacity));
        encoder.allow_table(capacity as u64);
        Pipes {
            encoder,
            decoder,
            to_decoder: VecDeque::new(),
            to_encoder: VecDeque::new(),
            sections: Vec::new(),
            next_stream: 0,
        }
    }

    fn send(&mut self, fields: &[(u8, u8, u8)]) {
        let (mut section, mut lines) = (Vec::new(), String::new());
        self.encoder.begin(&mut section);
        for (name, value, indexing) in fields {
            let names = [
                "x-aa",
                "x-ba",
                "etag",
                "content-type",
                "vary",
                "a-rather-long-name-of-a-field",
            ];
            let name = names[usize::from(*name) % names.len()];
            let value = "v".repeat(usize::from(*value) % 40);
            let indexing = [
                Indexing::Add,
                Indexing::Add,
                Indexing::Without,
                Indexing::Never,
            ][usize::from(*indexing) % 4];
            self.encoder
                .field(name.as_bytes(), value.as_bytes(), indexing, &mut section);
            lines += &format!("{name}: {value}\n");
        }
        self.encoder.finish(self.next_stream, &mut section);
        self.sections.push((self.next_stream, section, lines));
        self.next_stream += 4;
        self.to_decoder.extend(self.encoder.output().drain(..));
    }

    /// Some bytes of both unidirectional streams.
    fn deliver(&mut self, count: usize) {
        let some: Vec<u8> = self
            .to_decoder
            .drain(..count.min(self.to_decoder.len()))
            .collect();
        assert_eq!(self.decoder.receive(&some, || true), Ok(()));
        self.to_encoder.extend(self.decoder.output().drain(..));
        let some: Vec<u8> = self
            .to_encoder
            .drain(..count.min(self.to_encoder.len()))
            .collect();
        assert_eq!(self.encoder.receive(&some), Ok(()));
    }

    /// One section, whichever; or its stream is given up.
    fn arrive(&mut self, which: usize) {
        if self.sections.is_empty() {
            return;
        }
        let (stream, section, lines) = self.sections.swap_remove(which % self.sections.len());
        if which.is_multiple_of(7) {
            return self.decoder.cancel(stream);
        }
        let list = decoded(&mut self.decoder, &section, stream);
        assert_eq!(list.map(|list| list.lines()), Ok(lines), "{section:02x?}");
    }
}

proptest! {
    #[test]
    fn our_two_ends_stay_in_step(
        capacity in prop::sample::select(vec![0usize, 31, 64, 150, 400, 4_096, 100_000]),
        steps in prop::collection::vec((0u8..4, any::<u8>(), prop::collection::vec(any::<(u8, u8, u8)>(), 0..8)), 1..120),
    ) {
        let mut pipes = Pipes::new(capacity);
        for (step, number, fields) in steps {
            match step {
                0 | 1 => pipes.send(&fields),
                2 => pipes.deliver(usize::from(number)),
                _ => pipes.arrive(number.into()),
            }
            prop_assert!(pipes.encoder.table_bytes() <= capacity.min(4_096));
        }
        while !pipes.sections.is_empty() {
            pipes.arrive(1);
        }
        pipes.deliver(usize::MAX);
        pipes.deliver(usize::MAX);
        prop_assert_eq!(pipes.encoder.table_bytes(), pipes.decoder.table_bytes());
        prop_assert_eq!(pipes.encoder.outstanding(), 0);
    }

    /// Whatever comes on either unidirectional stream means the same however it is cut.
    #[test]
    fn instructions_are_the_same_for_every_cut(
        mut input in prop::collection::vec(any::<u8>(), 0..120),
        cuts in prop::collection::vec(1usize..9, 1..40),
        sane in any::<bool>(),
    ) {
        if sane {
            input = [unhex("3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d 4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565 00"), input].concat();
        }
        let (mut whole, mut parts) = (Decoder::new(220), Decoder::new(220));
        let at_once = whole.receive(&input, || true);
        let mut in_parts = Ok(());
        let (mut rest, mut cuts) = (&input[..], cuts.iter().cycle());
        while !rest.is_empty() && in_parts.is_ok() {
            let (part, next) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            in_parts = parts.receive(part, || true);
            rest = next;
        }
        prop_assert_eq!(at_once, in_parts);
        prop_assert_eq!((whole.inserted(), whole.table_bytes()), (parts.inserted(), parts.table_bytes()));
        prop_assert!(at_once.is_err() || whole.is_at_instruction() == parts.is_at_instruction());
    }
}
