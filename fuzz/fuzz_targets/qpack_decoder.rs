//! Any instructions and sections are decoded or refused, the same for every cut, with the table
//! never above its capacity; what was decoded is decoded again when encoded, with a table and
//! without; and an encoder takes any acknowledgements or refuses them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut};
use saker_http3::qpack::{
    Decoder, Encoder, FieldEncoder, FieldSink, Indexing, NameKind, QpackError, STATELESS_PREFIX,
    encode_stateless,
};

/// So that no input is slow for its size alone.
const LIST_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq)]
struct Field {
    kind: NameKind,
    name: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug, Default, PartialEq)]
struct List {
    fields: Vec<Field>,
    bytes: usize,
}

impl FieldSink for List {
    fn field(&mut self, kind: NameKind, name: &[u8], value: &[u8], _never_indexed: bool) -> bool {
        self.bytes += name.len() + value.len();
        self.fields.push(Field {
            kind,
            name: name.to_vec(),
            value: value.to_vec(),
        });
        self.bytes < LIST_BYTES_MAX
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(capacity), Some(knob)) = (input.u16(), input.u16()) else {
        return;
    };
    let capacity = usize::from(capacity % 8_192);
    let (mut whole, mut parts) = (Decoder::new(capacity), Decoder::new(capacity));
    let mut peers = (Encoder::new(), Decoder::new(capacity));
    peers.0.allow_table(capacity as u64);
    let mut rest = input.rest();
    let mut stream = 0;
    while let [kind, len, behind @ ..] = rest {
        let (bytes, next) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = next;
        match kind % 4 {
            0 | 1 => {
                let outcome = whole.receive(bytes, || true);
                let again = cut(bytes, knob)
                    .into_iter()
                    .try_for_each(|part| parts.receive(part, || true));
                assert_eq!(outcome, again);
                assert!(
                    whole.table_bytes() <= capacity && whole.table_bytes() == parts.table_bytes()
                );
                if outcome.is_err() {
                    return;
                }
            }
            2 => match section(&mut whole, bytes) {
                Some(list) => again(&list.fields, &mut peers, stream, *kind),
                None => assert_eq!(section(&mut parts, bytes), None),
            },
            _ => {
                if peers.0.receive(bytes).is_err() {
                    return;
                }
            }
        }
        stream += 4;
    }
});

/// Returns the section if it has no error and waits for nothing.
fn section(decoder: &mut Decoder, bytes: &[u8]) -> Option<List> {
    let read = decoder
        .section(bytes)
        .ok()
        .filter(|read| read.required <= decoder.inserted())?;
    let mut list = List::default();
    let outcome = decoder.decode(read, bytes, &mut list);
    assert_eq!(
        outcome == Err(QpackError::Stopped),
        list.bytes >= LIST_BYTES_MAX
    );
    outcome.ok()?;
    Some(list)
}

fn again(fields: &[Field], (encoder, decoder): &mut (Encoder, Decoder), stream: u64, choice: u8) {
    let (mut bytes, mut stateless) = (Vec::new(), STATELESS_PREFIX.to_vec());
    encoder.begin(&mut bytes);
    for (at, field) in fields.iter().enumerate() {
        let indexing = [
            Indexing::Add,
            Indexing::Add,
            Indexing::Without,
            Indexing::Never,
        ][(at + usize::from(choice >> 2)) % 4];
        encoder.field(&field.name, &field.value, indexing, &mut bytes);
        encode_stateless(&field.name, &field.value, &mut stateless);
    }
    encoder.finish(stream, &mut bytes);
    let wanted: Vec<(Vec<u8>, &[u8])> = fields
        .iter()
        .map(|field| (field.name.to_ascii_lowercase(), &field.value[..]))
        .collect();
    assert_eq!(
        decoder.receive(&std::mem::take(encoder.output()), || true),
        Ok(())
    );
    for (bytes, decoder) in [(&bytes, &mut *decoder), (&stateless, &mut Decoder::new(0))] {
        let read = decoder.section(bytes).expect("a section of ours");
        let mut list = List::default();
        assert_eq!(decoder.decode(read, bytes, &mut list), Ok(()));
        let got: Vec<(Vec<u8>, &[u8])> = list
            .fields
            .iter()
            .map(|field| (field.name.clone(), &field.value[..]))
            .collect();
        assert_eq!(got, wanted);
        decoder.acknowledge(read, stream);
    }
    // Acknowledged now and then only, so that references pile up.
    if !choice.is_multiple_of(8) && encoder.receive(&std::mem::take(decoder.output())).is_err() {
        // What the input said before has already taken these.
        *encoder = Encoder::new();
    }
}
