//! Settings of a link, per direction, and their spelling.
//!
//! A value is for both directions, or two with a comma between are for the way to the client and
//! the way to the server. Units as tc(8) has them: `10mbit`, `50ms`, `1%`.

use std::time::Duration;

/// One direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Bits of IP packets per second; `None`: as fast as they come.
    pub rate_bits_per_s: Option<u64>,
    /// From the end of a packet's transmission to its arrival.
    pub delay: Duration,
    /// Packets that may wait for their transmission; one that finds the queue full is dropped.
    pub queue_packets: usize,
    /// Share of transmitted packets that are lost, from 0 to 1.
    pub loss: f64,
    /// So many are held back, from 0 to 1, so that later ones overtake them.
    pub reordering: f64,
    pub held_back: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rate_bits_per_s: None,
            delay: Duration::ZERO,
            queue_packets: 1000,
            loss: 0.0,
            reordering: 0.0,
            held_back: Duration::from_millis(5),
        }
    }
}

/// Sets what the option `name` (without its dashes) is for, or says what is wrong with it.
pub fn set(
    name: &str,
    text: &str,
    to_client: &mut Settings,
    to_server: &mut Settings,
) -> Result<(), String> {
    let (first, second) = text.split_once(',').unwrap_or((text, text));
    set_one(name, first, to_client)?;
    set_one(name, second, to_server)
}

fn set_one(name: &str, text: &str, settings: &mut Settings) -> Result<(), String> {
    let wrong = || format!("--{name}: `{text}` is not understood");
    match name {
        "rate" => settings.rate_bits_per_s = rate(text).ok_or_else(wrong)?,
        "delay" => settings.delay = duration(text).ok_or_else(wrong)?,
        "queue" => settings.queue_packets = text.parse().ok().ok_or_else(wrong)?,
        "loss" => settings.loss = share(text).ok_or_else(wrong)?,
        "reorder" => settings.reordering = share(text).ok_or_else(wrong)?,
        "held-back" => settings.held_back = duration(text).ok_or_else(wrong)?,
        _ => return Err(format!("`--{name}` is not an option; --help lists them")),
    }
    Ok(())
}

/// `10mbit`, `512kbit`, `1gbit`, `8000bit`, or `none`.
fn rate(text: &str) -> Option<Option<u64>> {
    if text == "none" {
        return Some(None);
    }
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    let bits = with_unit(text, &units).filter(|bits| *bits >= 1.0)?;
    Some(Some(bits as u64))
}

/// `50ms`, `250us`, `1.5s`.
pub fn duration(text: &str) -> Option<Duration> {
    let seconds = with_unit(text, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)])?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// `0.5%`.
fn share(text: &str) -> Option<f64> {
    with_unit(text, &[("%", 0.01)]).filter(|share| *share <= 1.0)
}

/// The first unit that fits counts: longer ones come first.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    number
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0)
        .map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Settings, Settings), String> {
        let (mut to_client, mut to_server) = (Settings::default(), Settings::default());
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.chunks(2) {
            set(pair[0], pair[1], &mut to_client, &mut to_server)?;
        }
        Ok((to_client, to_server))
    }

    #[test]
    fn one_value_is_for_both_directions() {
        let (to_client, to_server) =
            parsed("rate 10mbit delay 50ms queue 7 loss 1% reorder 2.5% held-back 250us")
                .expect("parsed");
        let expected = Settings {
            rate_bits_per_s: Some(10_000_000),
            delay: Duration::from_millis(50),
            queue_packets: 7,
            loss: 0.01,
            reordering: 0.025,
            held_back: Duration::from_micros(250),
        };
        assert_eq!((to_client, to_server), (expected.clone(), expected));
    }

    #[test]
    fn two_values_are_to_the_client_and_to_the_server() {
        let (to_client, to_server) = parsed("rate 100mbit,none delay 1.5s,0ms").expect("parsed");
        assert_eq!(
            (to_client.rate_bits_per_s, to_server.rate_bits_per_s),
            (Some(100_000_000), None)
        );
        assert_eq!(
            (to_client.delay, to_server.delay),
            (Duration::from_millis(1500), Duration::ZERO)
        );
    }

    #[test]
    fn units() {
        for (text, bits) in [
            ("8000bit", 8000),
            ("512kbit", 512_000),
            ("0.5gbit", 500_000_000),
        ] {
            assert_eq!(rate(text), Some(Some(bits)), "{text}");
        }
        for wrong in [
            "rate 10",
            "rate 0mbit",
            "rate -1mbit",
            "rate nanmbit",
            "delay 5",
            "loss 101%",
            "loss 1",
            "queue x",
            "speed 1mbit",
        ] {
            let name = wrong.split(' ').next().expect("a word");
            assert!(parsed(wrong).expect_err(wrong).contains(name), "{wrong}");
        }
    }
}
