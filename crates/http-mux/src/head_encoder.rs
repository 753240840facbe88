//! A head that is being written: its fields, in the representation of one of the protocols.
//!
//! Called by: the connections of `http2` and `http3`, for the driver's closures.
//! Caveat: pseudo-fields come first (RFC 9113 section 8.3, RFC 9114 section 4.3), which is the
//! caller's to know.

use crate::Indexing;

/// A protocol's representation of fields: HPACK, QPACK.
pub trait FieldEncoder {
    /// `:status` of a response, from 100 to 999.
    fn status(&mut self, status: u16, out: &mut Vec<u8>);

    /// One field; the name in any case.
    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>);
}

/// The request method, as far as it decides over responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodFacts {
    pub is_head: bool,
    pub is_connect: bool,
}

/// Appends the fields of a head.
pub struct HeadEncoder<'a, E> {
    fields: &'a mut E,
    out: &'a mut Vec<u8>,
    method: MethodFacts,
}

impl<'a, E: FieldEncoder> HeadEncoder<'a, E> {
    pub fn new(fields: &'a mut E, out: &'a mut Vec<u8>) -> HeadEncoder<'a, E> {
        HeadEncoder {
            fields,
            out,
            method: MethodFacts::default(),
        }
    }

    /// The method of the request that was written.
    pub fn method(&self) -> MethodFacts {
        self.method
    }

    /// `:status` of a response.
    #[inline]
    pub fn status(&mut self, status: u16) {
        self.fields.status(status, self.out);
    }

    /// A pseudo-field of a request, with its colon.
    pub fn pseudo(&mut self, name: &[u8], value: &[u8]) {
        if name == b":method" {
            self.method = MethodFacts {
                is_head: value == b"HEAD",
                is_connect: value == b"CONNECT",
            };
        }
        let indexing = if name == b":path" {
            Indexing::Without
        } else {
            Indexing::Add
        };
        self.fields.field(name, value, indexing, self.out);
    }

    /// A field; the name in any case, the value without line ends or white space around, which is
    /// the caller's to know.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        self.fields.field(name, value, indexing, self.out);
    }

    /// Fields encoded before, without tables.
    #[inline]
    pub fn raw(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text, with the indexing by its first letter.
    struct Plain;

    impl FieldEncoder for Plain {
        fn status(&mut self, status: u16, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("{status};").as_bytes());
        }

        fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
            let [name, value] = [name, value].map(String::from_utf8_lossy);
            out.extend_from_slice(format!("{name}={value}/{indexing:?};").as_bytes());
        }
    }

    #[test]
    fn methods_are_noted_and_paths_get_no_entry() {
        for (method, is_head, is_connect) in [
            ("GET", false, false),
            ("HEAD", true, false),
            ("CONNECT", false, true),
        ] {
            let (mut plain, mut out) = (Plain, Vec::new());
            let mut head = HeadEncoder::new(&mut plain, &mut out);
            head.pseudo(b":method", method.as_bytes());
            head.pseudo(b":path", b"/");
            head.field(b"cookie", b"a", Indexing::Never);
            head.raw(b"raw");
            assert_eq!(
                head.method(),
                MethodFacts {
                    is_head,
                    is_connect
                }
            );
            let text = String::from_utf8_lossy(&out).into_owned();
            assert_eq!(
                text,
                format!(":method={method}/Add;:path=//Without;cookie=a/Never;raw")
            );
        }
    }
}
