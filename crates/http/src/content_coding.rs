//! Content codings and Accept-Encoding (RFC 9110 sections 8.4.1 and 12.5.3).

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Identity,
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    /// As in Content-Encoding; `identity` for the absence of one.
    pub fn token(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// Suffix of a precompressed sibling, with its dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Gzip => ".gz",
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }
}

/// Quality, in thousandths, that a request gives each coding; 0 is "not acceptable".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedCodings {
    pub identity: u16,
    pub gzip: u16,
    pub brotli: u16,
    pub zstd: u16,
}

impl AcceptedCodings {
    /// `None`: no field, which accepts anything, but we answer identity then as every server does. `x-gzip` is gzip.
    pub fn parse(_value: Option<&[u8]>) -> AcceptedCodings {
        unimplemented!()
    }

    pub fn quality(self, coding: Coding) -> u16 {
        match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        }
    }

    /// The best of `offered`, by quality, then by the server's order; `None` where nothing offered is acceptable.
    pub fn best(self, _offered: &[Coding]) -> Option<Coding> {
        unimplemented!()
    }
}
