//! Response heads in QPACK (RFC 9204).
//!
//! Called by: `wire`, through the encoder that all protocols share.

use crate::{
    common_headers::{CommonHeaders, OwnFields},
    mux::head::{FieldSink, encode_ready},
};
use saker_http3::{HeadEncoder, Indexing, qpack};
use saker_pipeline::ReadyHead;

/// A field section that has been begun.
pub struct Section<'a, 'b>(pub &'a mut HeadEncoder<'b>);

impl FieldSink for Section<'_, '_> {
    fn status(&mut self, status: u16) {
        self.0.status(status);
    }

    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        self.0.field(name, value, indexing);
    }

    fn ready_fields(&mut self, head: &ReadyHead) {
        self.0.raw(head.http3.get_or_init(|| {
            encode_ready(
                head,
                qpack::encode_status_stateless,
                qpack::encode_stateless,
            )
        }));
    }

    fn common(&mut self, common: &mut CommonHeaders, now: i64, own: OwnFields) {
        self.0.raw(common.http3(now, own));
    }
}
