//! Suites and groups that a client offered, in its order, as OpenSSL names them.
//!
//! Called by: `client_hello`, which reads them, and variables of sessions.
//! Caveat: a code without a name is written as its number, and so are values that only test
//! tolerance (RFC 8701).
//! Out of scope: which of them are chosen (rustls).

/// Codes of a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    suites: Box<[u16]>,
    groups: Box<[u16]>,
}

const SUITES: &[(u16, &str)] = &[
    (0x000a, "DES-CBC3-SHA"),
    (0x002f, "AES128-SHA"),
    (0x0033, "DHE-RSA-AES128-SHA"),
    (0x0035, "AES256-SHA"),
    (0x0039, "DHE-RSA-AES256-SHA"),
    (0x003c, "AES128-SHA256"),
    (0x003d, "AES256-SHA256"),
    (0x0067, "DHE-RSA-AES128-SHA256"),
    (0x006b, "DHE-RSA-AES256-SHA256"),
    (0x009c, "AES128-GCM-SHA256"),
    (0x009d, "AES256-GCM-SHA384"),
    (0x009e, "DHE-RSA-AES128-GCM-SHA256"),
    (0x009f, "DHE-RSA-AES256-GCM-SHA384"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0x5600, "TLS_FALLBACK_SCSV"),
    (0xc009, "ECDHE-ECDSA-AES128-SHA"),
    (0xc00a, "ECDHE-ECDSA-AES256-SHA"),
    (0xc013, "ECDHE-RSA-AES128-SHA"),
    (0xc014, "ECDHE-RSA-AES256-SHA"),
    (0xc023, "ECDHE-ECDSA-AES128-SHA256"),
    (0xc024, "ECDHE-ECDSA-AES256-SHA384"),
    (0xc027, "ECDHE-RSA-AES128-SHA256"),
    (0xc028, "ECDHE-RSA-AES256-SHA384"),
    (0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xc02f, "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xc030, "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xcca8, "ECDHE-RSA-CHACHA20-POLY1305"),
    (0xcca9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xccaa, "DHE-RSA-CHACHA20-POLY1305"),
];

const GROUPS: &[(u16, &str)] = &[
    (0x0017, "prime256v1"),
    (0x0018, "secp384r1"),
    (0x0019, "secp521r1"),
    (0x001d, "X25519"),
    (0x001e, "X448"),
    (0x0100, "ffdhe2048"),
    (0x0101, "ffdhe3072"),
    (0x0102, "ffdhe4096"),
    (0x0103, "ffdhe6144"),
    (0x0104, "ffdhe8192"),
];

impl Offered {
    pub fn set_suites(&mut self, codes: impl Iterator<Item = u16>) {
        self.suites = codes.collect();
    }

    pub fn set_groups(&mut self, codes: impl Iterator<Item = u16>) {
        self.groups = codes.collect();
    }

    /// Returns the suites, with colons between them.
    pub fn suites(&self) -> String {
        named(&self.suites, SUITES)
    }

    /// Returns the groups, with colons between them.
    pub fn groups(&self) -> String {
        named(&self.groups, GROUPS)
    }
}

fn named(codes: &[u16], names: &[(u16, &str)]) -> String {
    let one = |code: &u16| match names.iter().find(|(known, _)| known == code) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("0x{code:04x}"),
    };
    codes.iter().map(one).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_or_numbers() {
        let mut offered = Offered::default();
        assert_eq!(offered.suites(), "");
        offered.set_suites([0x1a1a, 0x1301, 0xc02f, 0x00ff, 0x00fe].into_iter());
        offered.set_groups([0x11ec, 0x001d, 0x0017].into_iter());
        assert_eq!(
            offered.suites(),
            "0x1a1a:TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256:TLS_EMPTY_RENEGOTIATION_INFO_SCSV:0x00fe"
        );
        assert_eq!(offered.groups(), "0x11ec:X25519:prime256v1");
    }
}
