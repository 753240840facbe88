//! Content codings and Accept-Encoding (RFC 9110 sections 8.4.1 and 12.5.3).
//!
//! Called by: everything that has several variants of a body. On the hot path: allocates nothing.
//! Caveat: `*` applies to the codings that the whole field does not name, so it can only be applied
//! at the end.
//! Out of scope: `deflate` and `compress`; clients that accept them also accept gzip.

use crate::{HeadView, KnownField, chars::trim_ows};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Identity,
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    /// Name in Content-Encoding; `identity` for the absence of one.
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
    /// `None`: no field, which accepts anything, but we answer identity then as every server does.
    /// `x-gzip` is gzip.
    pub fn parse(value: Option<&[u8]>) -> AcceptedCodings {
        let mut listed = Listed::default();
        value.into_iter().for_each(|line| listed.read_line(line));
        listed.accepted()
    }

    /// The same from all Accept-Encoding lines of a head, which together are one list (RFC 9110
    /// section 5.3).
    pub fn of(head: HeadView<'_>) -> AcceptedCodings {
        let mut listed = Listed::default();
        head.lines(KnownField::AcceptEncoding)
            .for_each(|line| listed.read_line(line));
        listed.accepted()
    }

    pub fn quality(self, coding: Coding) -> u16 {
        match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        }
    }

    /// The best of `offered`, by quality, then by the server's order; `None` where nothing offered
    /// is acceptable.
    pub fn best(self, offered: &[Coding]) -> Option<Coding> {
        let mut best = None;
        let mut best_quality = 0;
        for coding in offered {
            if self.quality(*coding) > best_quality {
                (best, best_quality) = (Some(*coding), self.quality(*coding));
            }
        }
        best
    }
}

/// Codings the field has named so far; `None` for a coding not named yet. If a coding is named
/// twice, the first counts.
#[derive(Default)]
struct Listed {
    identity: Option<u16>,
    gzip: Option<u16>,
    brotli: Option<u16>,
    zstd: Option<u16>,
    any: Option<u16>,
    /// Some member was there, known to us or not.
    nonempty: bool,
}

impl Listed {
    fn read_line(&mut self, line: &[u8]) {
        for member in line.split(|byte| *byte == b',') {
            let mut parts = member.splitn(2, |byte| *byte == b';');
            let name = trim_ows(parts.next().unwrap_or(b""));
            // A malformed weight is ignored; an empty one is none.
            let quality = match parts.next().map(trim_ows) {
                None | Some(b"" | b"q=" | b"Q=") => Some(1000),
                Some(text) => weight(text),
            };
            self.nonempty |= !name.is_empty();
            if let (Some(slot), Some(quality)) = (self.slot(name), quality) {
                slot.get_or_insert(quality);
            }
        }
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<u16>> {
        let is = |text: &[u8]| name.eq_ignore_ascii_case(text);
        match name.len() {
            1 if name == b"*" => Some(&mut self.any),
            2 if is(b"br") => Some(&mut self.brotli),
            4 if is(b"gzip") => Some(&mut self.gzip),
            4 if is(b"zstd") => Some(&mut self.zstd),
            6 if is(b"x-gzip") => Some(&mut self.gzip),
            8 if is(b"identity") => Some(&mut self.identity),
            _ => None,
        }
    }

    /// Section 12.5.3: `*` is for codings that are not named; identity is acceptable unless
    /// excluded by name or by `*;q=0`. If it is not excluded and other codings are named, it is the
    /// last resort, because the client prefers those.
    fn accepted(&self) -> AcceptedCodings {
        let rest = self.any.unwrap_or(0);
        let unnamed_identity = self.any.unwrap_or(if self.nonempty { 1 } else { 1000 });
        AcceptedCodings {
            identity: self.identity.unwrap_or(unnamed_identity),
            gzip: self.gzip.unwrap_or(rest),
            brotli: self.brotli.unwrap_or(rest),
            zstd: self.zstd.unwrap_or(rest),
        }
    }
}

/// `q=0.5` as 500 (section 12.4.2). Digits after the third are read past: clients send them.
fn weight(text: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), fraction @ ..] = trim_ows(text) else {
        return None;
    };
    let digits = match fraction {
        [] => fraction,
        [b'.', digits @ ..] => digits,
        _ => return None,
    };
    let mut thousandths = 0;
    for at in 0..digits.len().max(3) {
        let digit = digits.get(at).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        if at < 3 {
            thousandths = thousandths * 10 + u16::from(digit - b'0');
        }
    }
    match whole {
        b'0' => Some(thousandths),
        _ => (thousandths == 0).then_some(1000),
    }
}

#[cfg(test)]
mod tests;
