//! Texts of addresses and numbers that need no memory of their own.
//!
//! Called by: everything that tells programs, upstreams, and logs about ends of connections for each
//! request.
//! Caveat: addresses are shown as they are; the caller makes them canonical.
//! Out of scope: ports behind addresses.

use std::{io::Write, net::IpAddr};

/// Bytes of the longest text: an IPv6 address with an IPv4 part. Numbers have at most twenty.
const BYTES_MAX: usize = 45;

/// A text of at most 45 bytes.
#[derive(Clone, Copy, Debug)]
pub struct ShortText {
    bytes: [u8; BYTES_MAX],
    length: u8,
}

impl ShortText {
    /// Returns the text of an address.
    pub fn of_address(address: IpAddr) -> ShortText {
        let mut bytes = [0; BYTES_MAX];
        let mut rest = &mut bytes[..];
        // It has room for every address.
        let _ = match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                push_octet(a, &mut rest);
                for octet in [b, c, d] {
                    let _ = rest.write(b".");
                    push_octet(octet, &mut rest);
                }
                Ok(())
            }
            IpAddr::V6(address) => write!(rest, "{address}"),
        };
        let length = BYTES_MAX - rest.len();
        ShortText {
            bytes,
            length: length as u8,
        }
    }

    /// Returns a number in decimal digits.
    pub fn of_number(mut number: u64) -> ShortText {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        let digits = &digits[at..];
        let mut bytes = [0; BYTES_MAX];
        bytes[..digits.len()].copy_from_slice(digits);
        ShortText {
            bytes,
            length: digits.len() as u8,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

fn push_octet(octet: u8, out: &mut &mut [u8]) {
    let digits = [
        b'0' + octet / 100,
        b'0' + octet / 10 % 10,
        b'0' + octet % 10,
    ];
    let from = match octet {
        100.. => 0,
        10.. => 1,
        _ => 2,
    };
    let _ = out.write(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_shown() {
        for text in [
            "0.0.0.0",
            "9.10.99.100",
            "255.255.255.255",
            "::1",
            "2001:db8::1",
            "1111:2222:3333:4444:5555:6666:7777:8888",
            "::ffff:255.255.255.255",
        ] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(ShortText::of_address(address).as_bytes(), text.as_bytes());
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 9, 10, 443, 65_535, u64::MAX] {
            let text = ShortText::of_number(number);
            assert_eq!(text.as_bytes(), number.to_string().as_bytes());
        }
    }
}
