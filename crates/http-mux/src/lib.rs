//! Shared parts of HTTP/2 and HTTP/3: one connection, many streams, heads made of pseudo-fields and
//! compressed with tables.
//!
//! Floor 1, beside `http`: pure functions and tables over bytes. `http2` and `http3` are the only
//! users; each adds its frames, its own representations of fields (HPACK, QPACK) and its own words
//! for faults.
//!
//! The parts: how strings and integers are coded ([`integer`], [`huffman`], [`strings`]), tables of
//! fields ([`dynamic_table`], and [`field_index`] for who encodes), heads ([`HeadStore`],
//! [`HeadReader`], [`HeadEncoder`]), streams and their order ([`StreamTable`], [`Priority`]), counting what a peer
//! does too often ([`Bucket`]), and the tables of what ends a connection ([`error_codes`],
//! [`reasons`]).

pub mod coding_error;
pub mod dynamic_table;
mod faults;
pub mod field_index;
mod flood;
mod head_encoder;
mod head_fault;
mod head_reader;
mod head_store;
pub mod huffman;
pub mod integer;
mod kind;
mod priority;
mod schedule;
mod stream_table;
pub mod strings;

pub use coding_error::CodingError;
pub use field_index::Indexing;
pub use flood::Bucket;
pub use head_encoder::{FieldEncoder, HeadEncoder, MethodFacts};
pub use head_fault::HeadFault;
pub use head_reader::{FieldSink, HeadFacts, HeadLimits, HeadReader, HeadRefusal, Shape};
pub use head_store::HeadStore;
pub use kind::NameKind;
pub use priority::{Priority, PriorityNotes};
pub use stream_table::{StreamTable, Transmitter};
