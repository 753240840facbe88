//! `geo`: values by addresses of clients.
//!
//! Called by: the readers of `http` and of `stream`.
//! Caveat: with `ranges`, a range may lie in an earlier one, whose ends then stay; one that reaches
//! beyond an earlier one is an error. nginx compares ranges within blocks of 65,536 addresses.
//! Out of scope: evaluation (`saker-nginx`).

use super::{
    maps::{Geo, variable_name},
    network_index::{Key, NetworkIndex, key_of},
};
use crate::{reading::Reading, values};
use saker_ap_expr::Subnet;
use saker_nginx_syntax::Directive;
use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

type Value = Arc<[u8]>;
/// Networks, as they are evaluated.
type Valued = Vec<(Subnet, Box<[u8]>)>;

/// Reads a `geo`. In `stream` there are no proxies.
///
/// # Errors
/// nginx's message.
pub fn geo(
    directive: &Directive,
    reading: &mut Reading<'_>,
    has_proxies: bool,
) -> Result<(String, Geo), String> {
    let mut geo = Geo::default();
    let name = match directive.arguments.len() {
        1 => directive.argument(0),
        _ => {
            let name = variable_name(directive.argument(0))?;
            geo.source = Some(reading.text(&format!("${name}"))?);
            directive.argument(1)
        }
    };
    let name = variable_name(name)?;
    let mut table = Table::default();
    for entry in directive.inside() {
        let mut warnings = Vec::new();
        let outcome = add(entry, &mut geo, (&mut table, has_proxies), &mut warnings);
        for warning in warnings {
            reading.report.warn(entry, warning, None);
        }
        if let Err(message) = outcome {
            reading.report.error(entry, message, None);
        }
    }
    table.finish(&mut geo);
    Ok((name.to_owned(), geo))
}

fn add(
    entry: &Directive,
    geo: &mut Geo,
    (table, has_proxies): (&mut Table, bool),
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    match (entry.name(), entry.arguments.len()) {
        ("ranges", 0) => return table.begin_ranges(),
        ("proxy_recursive", 0) if has_proxies => {
            geo.is_recursive = true;
            return Ok(());
        }
        (_, 1) => {}
        _ => return Err("invalid number of the geo parameters".to_owned()),
    }
    let (key, argument) = (entry.name(), entry.argument(0));
    if key == "proxy" && has_proxies {
        geo.proxies.push(network(argument, warnings)?);
        return Ok(());
    }
    match &mut table.ranges {
        Some(ranges) => ranges.add(key, argument, warnings),
        None => table.networks.add(key, argument, warnings),
    }
}

/// Entries of one of the two kinds.
#[derive(Default)]
struct Table {
    networks: Networks,
    ranges: Option<Ranges>,
}

impl Table {
    fn begin_ranges(&mut self) -> Result<(), String> {
        if !self.networks.all.is_empty() {
            let message =
                "the \"ranges\" directive must be the first directive inside \"geo\" block";
            return Err(message.to_owned());
        }
        self.ranges.get_or_insert_default();
        Ok(())
    }

    /// Makes networks of all, longest prefix last.
    fn finish(self, geo: &mut Geo) {
        let (default, mut all) = match self.ranges {
            Some(ranges) => (ranges.default.clone(), ranges.networks()),
            None => self.networks.finish(),
        };
        geo.default = boxed(default.as_ref());
        all.sort_by_key(|(network, _)| key_of(network).2);
        geo.index = NetworkIndex::of(&all);
        geo.networks = all;
    }
}

fn boxed(value: Option<&Value>) -> Box<[u8]> {
    value.map(|value| (**value).into()).unwrap_or_default()
}

/// Networks with their values.
#[derive(Default)]
struct Networks {
    places: HashMap<Key, usize>,
    all: Vec<Option<(Subnet, Value)>>,
    default: Option<Value>,
}

impl Networks {
    fn add(&mut self, key: &str, argument: &str, warnings: &mut Vec<String>) -> Result<(), String> {
        let value: Value = argument.as_bytes().into();
        match key {
            "default" => {
                let whole = [
                    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    Ipv6Addr::UNSPECIFIED.into(),
                ];
                for network in whole.map(|address| values::network(&format!("{address}/0"))) {
                    let Some(network) = network else {
                        continue;
                    };
                    self.insert(key, network, (&value, argument), warnings);
                }
                self.default = Some(value);
            }
            "delete" => {
                let found = network(argument, warnings)?;
                let place = self.places.remove(&key_of(&found));
                match place.and_then(|at| self.all.get_mut(at)) {
                    Some(place) => *place = None,
                    None => warnings.push(format!("no network \"{argument}\" to delete")),
                }
            }
            key => {
                let found = network(key, warnings)?;
                self.insert(key, found, (&value, argument), warnings);
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        shown: &str,
        network: Subnet,
        (value, text): (&Value, &str),
        warnings: &mut Vec<String>,
    ) {
        let place = self.places.get(&key_of(&network));
        let Some(Some((_, old))) = place.and_then(|at| self.all.get_mut(*at)) else {
            self.places.insert(key_of(&network), self.all.len());
            self.all.push(Some((network, Arc::clone(value))));
            return;
        };
        warnings.push(format!(
            "duplicate network \"{shown}\", value: \"{text}\", old value: \"{}\"",
            String::from_utf8_lossy(old)
        ));
        *old = Arc::clone(value);
    }

    fn finish(self) -> (Option<Value>, Valued) {
        let default = self.default;
        // The default is found without them.
        let is_default = |network: &Subnet, value: &Value| {
            key_of(network).2 == 0 && default.as_ref() == Some(value)
        };
        let all = self.all.into_iter().flatten();
        let all = all.filter(|(network, value)| !is_default(network, value));
        let all = all.map(|(network, value)| (network, boxed(Some(&value))));
        let all = all.collect();
        (default, all)
    }
}

/// Parses a network, and warns of bits beyond its prefix.
fn network(text: &str, warnings: &mut Vec<String>) -> Result<Subnet, String> {
    let invalid = || format!("invalid network \"{text}\"");
    let network = values::network(text).ok_or_else(invalid)?;
    let address = text.split('/').next().unwrap_or_default();
    let is_exact = match (address.parse(), &network) {
        (Ok(IpAddr::V4(address)), Subnet::V4 { network, .. }) => address.to_bits() == *network,
        (Ok(IpAddr::V6(address)), Subnet::V6 { network, .. }) => address.to_bits() == *network,
        _ => true,
    };
    if !is_exact {
        warnings.push(format!("low address bits of {text} are meaningless"));
    }
    Ok(network)
}

/// Ranges of IPv4 addresses, which do not overlap, by the upper half of their addresses.
#[derive(Default)]
struct Ranges {
    blocks: BTreeMap<u16, Vec<(u16, u16, Value)>>,
    default: Option<Value>,
}

impl Ranges {
    fn add(&mut self, key: &str, argument: &str, warnings: &mut Vec<String>) -> Result<(), String> {
        let value: Value = argument.as_bytes().into();
        match key {
            "default" => {
                if let Some(old) = self.default.replace(value) {
                    warnings.push(format!(
                        "duplicate default geo range value: \"{argument}\", old value: \"{}\"",
                        String::from_utf8_lossy(&old)
                    ));
                }
            }
            "delete" => {
                let mut is_missing = false;
                for (block, first, last) in pieces(range(argument)?) {
                    let known = self.blocks.entry(block).or_default();
                    let before = known.len();
                    known.retain(|one| (one.0, one.1) != (first, last));
                    is_missing |= known.len() == before;
                }
                if is_missing {
                    warnings.push(format!("no address range \"{argument}\" to delete"));
                }
            }
            key => {
                for (block, first, last) in pieces(range(key)?) {
                    let known = self.blocks.entry(block).or_default();
                    let old = insert(known, (first, last), &value).map_err(|(from, to)| {
                        let shown = |low| Ipv4Addr::from(u32::from(block) << 16 | u32::from(low));
                        format!("range \"{key}\" overlaps \"{}-{}\"", shown(from), shown(to))
                    })?;
                    if let Some(old) = old {
                        warnings.push(format!(
                            "duplicate range \"{key}\", value: \"{argument}\", old value: \"{}\"",
                            String::from_utf8_lossy(&old)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The networks that the ranges are made of.
    fn networks(self) -> Valued {
        let mut joined: Vec<(u32, u32, Value)> = Vec::new();
        for (block, mut known) in self.blocks {
            known.sort_by_key(|(first, ..)| *first);
            let whole = |low: u16| u32::from(block) << 16 | u32::from(low);
            for (first, last, value) in known {
                match joined.last_mut() {
                    Some((_, end, before))
                        if *before == value && end.checked_add(1) == Some(whole(first)) =>
                    {
                        *end = whole(last);
                    }
                    _ => joined.push((whole(first), whole(last), value)),
                }
            }
        }
        let mut all = Vec::new();
        for (first, last, value) in joined {
            let networks = networks_of(first, last).into_iter();
            all.extend(networks.map(|network| (network, boxed(Some(&value)))));
        }
        all
    }
}

/// Adds a range; returns the value that it replaces.
///
/// # Errors
/// The range that it overlaps.
fn insert(
    known: &mut Vec<(u16, u16, Value)>,
    (first, last): (u16, u16),
    value: &Value,
) -> Result<Option<Value>, (u16, u16)> {
    let touched = known.iter().position(|one| first <= one.1 && last >= one.0);
    let Some((at, old)) = touched.and_then(|at| known.get_mut(at).map(|old| (at, old))) else {
        known.push((first, last, Arc::clone(value)));
        return Ok(None);
    };
    let (from, to) = (old.0, old.1);
    if (first, last) == (from, to) {
        return Ok(Some(std::mem::replace(&mut old.2, Arc::clone(value))));
    }
    if first < from || last > to {
        return Err((from, to));
    }
    // It lies inside: what is left of the other stays on both sides.
    let outer = Arc::clone(&old.2);
    *old = (first, last, Arc::clone(value));
    if from < first {
        known.insert(at, (from, first - 1, Arc::clone(&outer)));
    }
    if last < to {
        known.push((last + 1, to, outer));
    }
    Ok(None)
}

fn range(text: &str) -> Result<(u32, u32), String> {
    let invalid = || format!("invalid range \"{text}\"");
    let (first, last) = text.split_once('-').ok_or_else(invalid)?;
    let address = |text: &str| text.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits);
    match (address(first), address(last)) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(invalid()),
    }
}

/// Cuts a range into those of its blocks: the upper half of their addresses, and both lower ends.
fn pieces((first, last): (u32, u32)) -> impl Iterator<Item = (u16, u16, u16)> {
    let (high, low) = (
        |address: u32| (address >> 16) as u16,
        |address: u32| address as u16,
    );
    (high(first)..=high(last)).map(move |block| {
        let from = if block == high(first) { low(first) } else { 0 };
        let to = if block == high(last) {
            low(last)
        } else {
            u16::MAX
        };
        (block, from, to)
    })
}

/// The networks of a range of addresses.
fn networks_of(first: u32, last: u32) -> Vec<Subnet> {
    let (mut at, end) = (u64::from(first), u64::from(last));
    let mut all = Vec::new();
    while at <= end {
        let fits = |bits: u32| at.is_multiple_of(1 << bits) && at + (1 << bits) - 1 <= end;
        let bits = (0..=32).rev().find(|bits| fits(*bits)).unwrap_or(0);
        all.push(Subnet::V4 {
            network: u32::try_from(at).unwrap_or(u32::MAX),
            mask: u32::MAX.checked_shl(bits).unwrap_or(0),
        });
        at += 1 << bits;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_ranges() {
        let bits = |text| {
            let (first, last) = range(text).unwrap();
            networks_of(first, last).len()
        };
        assert_eq!(bits("10.0.0.0-10.0.0.255"), 1);
        assert_eq!(bits("10.0.0.1-10.0.0.4"), 3);
        assert_eq!(bits("0.0.0.0-255.255.255.255"), 1);
        assert!(range("10.0.0.2-10.0.0.1").is_err());
    }

    #[test]
    fn ranges_lie_in_others() {
        let mut ranges = Ranges::default();
        let mut warnings = Vec::new();
        let mut add = |key: &str, value: &str| ranges.add(key, value, &mut warnings);
        add("10.0.0.0-10.2.0.255", "a").unwrap();
        add("10.0.0.16-10.0.0.31", "b").unwrap();
        add("10.1.0.0-10.1.255.255", "c").unwrap();
        let overlap = add("10.2.0.128-10.2.1.0", "d");
        let text = "range \"10.2.0.128-10.2.1.0\" overlaps \"10.2.0.0-10.2.0.255\"";
        assert_eq!(overlap, Err(text.to_owned()));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let networks = ranges.networks();
        let value = |text: &str| {
            let address: IpAddr = text.parse().unwrap();
            let mut found = networks.iter().filter(|(one, _)| one.contains(address));
            let value = found.next().map(|(_, value)| value.to_vec());
            assert!(found.next().is_none(), "{text}");
            value.map(|value| String::from_utf8(value).unwrap())
        };
        let shown = [
            "10.0.0.15",
            "10.0.0.16",
            "10.0.0.32",
            "10.1.9.9",
            "10.2.0.0",
            "10.2.1.0",
        ];
        let shown = shown.map(|text| value(text).unwrap_or_default());
        assert_eq!(shown, ["a", "b", "a", "c", "a", ""]);
    }
}
