//! Any blocks in a row are decoded or refused, with the table never above its maximum; what was
//! decoded is decoded again when encoded with any indexing and any sizes of table, and the tables
//! of that encoder and its decoder stay in step.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::Input;
use saker_http2::hpack::{
    Decoder, Encoder, FieldEncoder, FieldSink, HpackError, Indexing, NameKind, encode_stateless,
};

/// So that no input is slow for its size alone: a byte may stand for a field of 4 kB.
const LIST_BYTES_MAX: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq)]
struct Field {
    kind: NameKind,
    name: Vec<u8>,
    value: Vec<u8>,
    never_indexed: bool,
}

#[derive(Default)]
struct List {
    fields: Vec<Field>,
    bytes: usize,
}

impl FieldSink for List {
    fn field(&mut self, kind: NameKind, name: &[u8], value: &[u8], never_indexed: bool) -> bool {
        self.bytes += name.len() + value.len();
        self.fields.push(Field {
            kind,
            name: name.to_vec(),
            value: value.to_vec(),
            never_indexed,
        });
        self.bytes < LIST_BYTES_MAX
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(table_bytes_max), Some(choices)) = (input.u16(), input.u64()) else {
        return;
    };
    let mut choices = Choices(choices | 1);
    let table_bytes_max = usize::from(table_bytes_max);
    let mut decoder = Decoder::new(table_bytes_max);
    let mut peers = (Encoder::new(), Decoder::new(4096));
    for block in blocks(input.rest()) {
        let mut list = List::default();
        let outcome = decoder.decode(block, &mut list);
        assert!(
            decoder.table_bytes() <= table_bytes_max.max(4096),
            "the size until settings are acknowledged"
        );
        if let Err(error) = outcome {
            assert_eq!(error == HpackError::Stopped, list.bytes >= LIST_BYTES_MAX);
            return;
        }
        again(&list.fields, &mut peers, &mut choices);
        without_state(&list.fields);
    }
});

/// Each block has its length in the byte before it.
fn blocks(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut blocks = Vec::new();
    while let Some((len, behind)) = rest.split_first() {
        let (block, next) = behind.split_at(usize::from(*len).min(behind.len()));
        blocks.push(block);
        rest = next;
    }
    blocks
}

fn again(fields: &[Field], (encoder, decoder): &mut (Encoder, Decoder), choices: &mut Choices) {
    for _ in 0..choices.below(3) {
        encoder.set_table_bytes_max(choices.below(5_000));
    }
    let mut block = Vec::new();
    encoder.begin(&mut block);
    let mut wanted = Vec::new();
    for field in fields {
        let indexing = [
            Indexing::Add,
            Indexing::Add,
            Indexing::Without,
            Indexing::Never,
        ][choices.below(4)];
        encoder.field(&field.name, &field.value, indexing, &mut block);
        wanted.push(sent(field, indexing == Indexing::Never));
    }
    let mut list = List::default();
    assert_eq!(decoder.decode(&block, &mut list), Ok(()), "{block:02x?}");
    assert_eq!(list.fields, wanted, "{block:02x?}");
    assert_eq!(decoder.table_bytes(), encoder.table_bytes());
    assert!(encoder.table_bytes() <= 4096);
}

fn without_state(fields: &[Field]) {
    let mut block = Vec::new();
    fields
        .iter()
        .for_each(|field| encode_stateless(&field.name, &field.value, &mut block));
    let (mut decoder, mut list) = (Decoder::new(4096), List::default());
    assert_eq!(decoder.decode(&block, &mut list), Ok(()));
    assert_eq!(
        list.fields,
        fields
            .iter()
            .map(|field| sent(field, false))
            .collect::<Vec<_>>()
    );
    assert_eq!(decoder.table_bytes(), 0);
}

/// Field that the other end must get: the name in lower case, which may have been its only error.
fn sent(field: &Field, never_indexed: bool) -> Field {
    let name = field.name.to_ascii_lowercase();
    let kind = match field.kind {
        NameKind::Malformed | NameKind::OtherPseudo if name != field.name => {
            kind_of(&name, &field.value)
        }
        kind => kind,
    };
    Field {
        kind,
        name,
        value: field.value.clone(),
        never_indexed,
    }
}

/// Kind of a literal that is written by hand, without table and without Huffman code.
fn kind_of(name: &[u8], value: &[u8]) -> NameKind {
    let mut block = vec![0];
    for text in [name, value] {
        let mut rest = text.len();
        block.push(rest.min(127) as u8);
        if rest >= 127 {
            rest -= 127;
            while rest >= 128 {
                block.push(rest as u8 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text);
    }
    let mut list = List::default();
    assert_eq!(Decoder::new(4096).decode(&block, &mut list), Ok(()));
    list.fields[0].kind
}

/// Numbers that follow from one of the input (xorshift).
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % end
    }
}
