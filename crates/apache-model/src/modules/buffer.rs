//! mod_buffer: the size of its pieces. The filter is `saker_content_filters::buffer`.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;

/// Apache's default for BufferSize.
const BUFFER_BYTES: usize = 128 << 10;

#[derive(Clone, Debug, Default)]
pub struct Buffer {
    size_bytes: Option<usize>,
}

impl Buffer {
    pub const DIRECTIVES: &'static [(&'static str, Set<Buffer>)] = &[("BufferSize", set_size)];

    pub fn merge(&self, over: &Buffer) -> Buffer {
        Buffer {
            size_bytes: over.size_bytes.or(self.size_bytes),
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.size_bytes.unwrap_or(BUFFER_BYTES)
    }
}

fn set_size(node: &Node, buffer: &mut Buffer, _: &mut Reading<'_>) -> Result<(), String> {
    let number = texts(node).first().and_then(|word| word.parse().ok());
    buffer.size_bytes = Some(
        number
            .filter(|size| *size > 0)
            .ok_or("BufferSize must be a size in bytes, and greater than zero")?,
    );
    Ok(())
}
