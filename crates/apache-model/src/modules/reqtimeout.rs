//! mod_reqtimeout: how long a client may take over its handshake, its head and its body. The
//! drivers keep the time.
//!
//! Difficulty: Apache puts the end off with each byte that comes. For a head, which is short, the
//! end is where that would lead at most; for a body it is put off as it comes. Whose word counts is
//! told in `limits`.

use saker_config::model::Limits;

/// Stands for no limit.
const FOREVER_MS: u64 = 86_400_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTimeout {
    handshake: Option<Stage>,
    head: Option<Stage>,
    body: Option<Stage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stage {
    /// 0: no limit.
    first_s: u64,
    last_s: Option<u64>,
    bytes_per_s_min: Option<u64>,
}

impl ReadTimeout {
    /// `header=20-40,MinRate=500 body=20,MinRate=500 handshake=5`
    pub fn read(&mut self, words: &[String]) -> Result<(), String> {
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or("Invalid RequestReadTimeout parameter")?;
            let stage = match name.to_ascii_lowercase().as_str() {
                "handshake" => &mut self.handshake,
                "header" => &mut self.head,
                "body" => &mut self.body,
                _ => return Err(format!("Unknown RequestReadTimeout parameter: {word}")),
            };
            *stage = Some(
                Stage::parse(value)
                    .map_err(|error| format!("RequestReadTimeout: {word}: {error}"))?,
            );
        }
        Ok(())
    }

    /// A host's, with the server's for what it leaves out.
    pub fn over(&self, server: &ReadTimeout) -> ReadTimeout {
        ReadTimeout {
            handshake: self.handshake.or(server.handshake),
            head: self.head.or(server.head),
            body: self.body.or(server.body),
        }
    }

    pub fn apply(&self, limits: &mut Limits) {
        if let Some(handshake) = self.handshake {
            limits.tls_handshake_timeout_ms = handshake.end_ms(limits.head_bytes_max);
        }
        if let Some(head) = self.head {
            limits.head_timeout_ms = head.end_ms(limits.head_bytes_max);
        }
        if let Some(body) = self.body {
            limits.body_time_ms = body.first_s.saturating_mul(1000);
            limits.body_bytes_per_s_min = body.bytes_per_s_min.unwrap_or(0);
        }
    }
}

impl Stage {
    /// `20`, `20-40`, `20,MinRate=500`, `20-40,MinRate=500`
    fn parse(text: &str) -> Result<Stage, &'static str> {
        let (times, rate) = match text.split_once(',') {
            Some((times, rate)) => (times, Some(rate)),
            None => (text, None),
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| "a number is expected");
        let (first, last) = times
            .split_once('-')
            .map_or((times, None), |(first, last)| (first, Some(last)));
        let rate = rate.map(|rate| {
            let (name, value) = rate.split_once('=').unwrap_or_default();
            if name.eq_ignore_ascii_case("minrate") {
                number(value)
            } else {
                Err("MinRate is expected")
            }
        });
        let stage = Stage {
            first_s: number(first)?,
            last_s: last.map(number).transpose()?,
            bytes_per_s_min: rate.transpose()?,
        };
        match stage {
            Stage {
                bytes_per_s_min: Some(0),
                ..
            } => Err("Minimum data rate must be larger than 0"),
            Stage {
                last_s: Some(last_s),
                first_s,
                ..
            } if last_s <= first_s => Err("Maximum timeout must be larger than initial timeout"),
            Stage {
                last_s: Some(_),
                bytes_per_s_min: None,
                ..
            } => Err("Must set MinRate option if using timeout range"),
            stage => Ok(stage),
        }
    }

    /// The time at which it ends at the latest, if no more than that comes.
    fn end_ms(self, bytes_max: u64) -> u64 {
        if self.first_s == 0 {
            return FOREVER_MS;
        }
        let put_off_s = bytes_max
            .checked_div(self.bytes_per_s_min.unwrap_or(0))
            .unwrap_or(0);
        self.first_s
            .saturating_add(put_off_s)
            .min(self.last_s.unwrap_or(u64::MAX))
            .saturating_mul(1000)
            .min(FOREVER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Result<[u64; 4], String> {
        let mut timeout = ReadTimeout::default();
        timeout.read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())?;
        let mut limits = Limits {
            head_bytes_max: 10_000,
            head_timeout_ms: 1,
            tls_handshake_timeout_ms: 2,
            ..Limits::default()
        };
        timeout.apply(&mut limits);
        Ok([
            limits.head_timeout_ms,
            limits.body_time_ms,
            limits.body_bytes_per_s_min,
            limits.tls_handshake_timeout_ms,
        ])
    }

    #[test]
    fn what_it_comes_to() {
        let cases = [
            (
                "header=20-40,MinRate=500 body=20,MinRate=500",
                [40_000, 20_000, 500, 2],
            ),
            ("header=20-25,minrate=500", [25_000, 0, 0, 2]),
            ("header=20,MinRate=500", [40_000, 0, 0, 2]),
            ("header=20 body=30 handshake=5", [20_000, 30_000, 0, 5000]),
            ("header=0 body=0", [FOREVER_MS, 0, 0, 2]),
        ];
        for (text, expected) in cases {
            assert_eq!(limits(text), Ok(expected), "{text}");
        }
        for text in [
            "header",
            "header=x",
            "other=1",
            "body=20,MinRate=0",
            "body=20-10,MinRate=1",
            "body=10-20",
            "body=1,Rate=1",
        ] {
            assert!(limits(text).is_err(), "{text}");
        }
    }
}
