//! Parts of the state that an upgraded server hands on, as bytes: ticket keys, sessions and tokens of
//! QUIC, figures, what client addresses have used of their limits, and the health of upstreams.
//!
//! Called by: `state_transfer`, on both sides.
//! Caveat: the other side may be another version, so what does not decode is reported and begins
//! anew; what a part means never changes, a new meaning gets a new name.
//! Out of scope: the file around the parts (`saker_control::upgrade_state`).

use saker_config::model::LimitName;
use saker_config::{Model, model::Member};
use saker_control::upgrade_state::Part;
use saker_net::{
    clock,
    wire::{Reader, Writer},
};
use saker_quic::TokenState;
use saker_rate_limits::{ACCOUNTS, AddressTable, Debts, LimitDebt};
use saker_telemetry::{error_log, message};
use saker_tls::OwnKeys;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub const TICKET_KEYS: &str = "ticket keys";
pub const EARLY_SESSIONS: &str = "early sessions";
pub const QUIC_TOKENS: &str = "quic tokens";
pub const FIGURES: &str = "figures";
pub const DEBTS: &str = "debts of addresses";
pub const LIMIT_DEBTS: &str = "debts of addresses to limits";
pub const MEMBERS: &str = "members of upstreams";

/// State that a successor has got.
pub struct HandedState {
    pub sessions: Vec<(Vec<u8>, Vec<u8>)>,
    pub figures: Figures,
}

/// Reports a part that begins anew.
pub fn report(why: &str) {
    error_log::log(&message::UPGRADE_STATE_LOST, format_args!("{why}"));
}

/// Parts by name.
pub struct Parts(pub Vec<Part>);

impl Parts {
    /// `None`: the part is missing, or does not decode, which is reported.
    pub fn decode<T>(
        &self,
        name: &str,
        decode: impl Fn(&mut Reader<'_>) -> io::Result<T>,
    ) -> Option<T> {
        let (_, content) = self.0.iter().find(|(part, _)| part == name)?;
        whole(content, decode)
            .map_err(|error| report(&format!("{name}: {error}")))
            .ok()
    }
}

/// Decodes all of the bytes.
pub fn whole<T>(bytes: &[u8], decode: impl Fn(&mut Reader<'_>) -> io::Result<T>) -> io::Result<T> {
    let mut reader = Reader(bytes);
    let decoded = decode(&mut reader)?;
    reader.end()?;
    Ok(decoded)
}

/// Keys of tickets.
pub fn encode_keys(keys: &OwnKeys) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.number(keys.rotate_in.as_millis().try_into().unwrap_or(u64::MAX));
    writer.list(&keys.secrets, |writer, secret| writer.text(secret));
    writer.0
}

/// Keys of tickets.
pub fn decode_keys(reader: &mut Reader<'_>) -> io::Result<OwnKeys> {
    Ok(OwnKeys {
        rotate_in: Duration::from_millis(reader.number()?),
        secrets: reader.list(|reader| Ok(reader.text()?.to_vec()))?,
    })
}

/// Sessions that permit early data.
pub fn encode_sessions(sessions: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.list(sessions, |writer, (key, session)| {
        writer.text(key);
        writer.text(session);
    });
    writer.0
}

/// Sessions that permit early data.
pub fn decode_sessions(reader: &mut Reader<'_>) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    reader.list(|reader| Ok((reader.text()?.to_vec(), reader.text()?.to_vec())))
}

/// Address tokens of QUIC.
pub fn encode_tokens(tokens: &TokenState) -> Vec<u8> {
    let mut writer = Writer::default();
    let since_1970 = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
    writer.number(tokens.turned_at.map_or(0, |at| since_1970(at).as_secs()));
    writer.text(&tokens.secret);
    for used in [&tokens.used, &tokens.used_before] {
        writer.list(used, |writer, number| writer.text(&number.to_le_bytes()));
    }
    writer.0
}

/// Address tokens of QUIC.
pub fn decode_tokens(reader: &mut Reader<'_>) -> io::Result<TokenState> {
    let turned_s = reader.number()?;
    let turned_at = UNIX_EPOCH.checked_add(Duration::from_secs(turned_s));
    let secret = reader.text()?.try_into().map_err(io::Error::other)?;
    let mut used = || {
        reader.list(|reader| {
            let number = reader.text()?.try_into().map_err(io::Error::other)?;
            Ok(u128::from_le_bytes(number))
        })
    };
    Ok(TokenState {
        secret,
        used: used()?,
        used_before: used()?,
        turned_at: turned_at.filter(|_| turned_s > 0),
    })
}

/// Debts of client addresses.
pub fn encode_debts(addresses: &AddressTable) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.list(&addresses.debts(clock::monotonic_ns()), |writer, debts| {
        writer.text(&debts.key.to_le_bytes());
        debts.ns.iter().for_each(|ns| writer.number(*ns));
    });
    writer.0
}

/// Debts of client addresses.
pub fn decode_debts(reader: &mut Reader<'_>) -> io::Result<Vec<Debts>> {
    reader.list(|reader| {
        let key = reader.text()?.try_into().map_err(io::Error::other)?;
        let mut ns = [0; ACCOUNTS];
        for one in &mut ns {
            *one = reader.number()?;
        }
        let key = u128::from_le_bytes(key);
        Ok(Debts { key, ns })
    })
}

/// Debts of client addresses to limits.
pub fn encode_limit_debts(addresses: &AddressTable) -> Vec<u8> {
    let mut writer = Writer::default();
    let debts = addresses.limit_debts(clock::monotonic_ns());
    writer.list(&debts, |writer, debt| {
        writer.text(&debt.key.to_le_bytes());
        writer.number(debt.limit.number());
        writer.number(debt.ns);
    });
    writer.0
}

/// Debts of client addresses to limits.
pub fn decode_limit_debts(reader: &mut Reader<'_>) -> io::Result<Vec<LimitDebt>> {
    reader.list(|reader| {
        let key = reader.text()?.try_into().map_err(io::Error::other)?;
        Ok(LimitDebt {
            key: u128::from_le_bytes(key),
            limit: LimitName::from_number(reader.number()?),
            ns: reader.number()?,
        })
    })
}

/// State of a member of an upstream: down, requests, failures, bytes sent and received.
pub type MemberFigures = (bool, [u64; 4]);

fn members(model: &Model) -> impl Iterator<Item = (String, Member)> {
    model.upstreams.iter().flat_map(|upstream| {
        let current = upstream.current();
        let members = current.members.iter().map(|member| {
            let name = format!("{} {} {}", upstream.name, member.backend, member.authority);
            (name, member.clone())
        });
        members.collect::<Vec<_>>()
    })
}

/// Health and figures of members.
pub fn encode_members(model: &Model) -> Vec<u8> {
    let mut writer = Writer::default();
    let all: Vec<_> = members(model).collect();
    writer.list(&all, |writer, (name, member)| {
        let (_, requests, failures) = member.state.figures();
        let (sent, received) = member.state.bytes();
        writer.text(name.as_bytes());
        writer.number(u64::from(member.state.is_down()));
        for count in [requests, failures, sent, received] {
            writer.number(count);
        }
    });
    writer.0
}

/// Health and figures of members.
pub fn decode_members(reader: &mut Reader<'_>) -> io::Result<HashMap<String, MemberFigures>> {
    let all = reader.list(|reader| {
        let (name, is_down) = (reader.string()?, reader.number()? == 1);
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = reader.number()?;
        }
        Ok((name, (is_down, counts)))
    })?;
    Ok(all.into_iter().collect())
}

/// Goes on with what the server before this one knew of members.
pub fn continue_members(model: &Model, known: &HashMap<String, MemberFigures>) {
    for (name, member) in members(model) {
        if let Some((is_down, counts)) = known.get(&name) {
            // Nothing would bring back one that is not checked.
            let is_checked = member.health.is_some() && !member.is_out();
            member.state.continue_with(*is_down && is_checked, *counts);
        }
    }
}

/// Goes on with the failures that members had in the configuration before a reload.
pub fn continue_failures(model: &Model, before: &Model) {
    let before: HashMap<String, Member> = members(before).collect();
    for (name, member) in members(model) {
        if let Some(before) = before.get(&name) {
            member.state.continue_failures(&before.state);
        }
    }
}

/// Counters and histograms of latency, each by two words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub counters: BTreeMap<(String, String), u64>,
    pub latencies: BTreeMap<(String, String), Vec<u64>>,
}

impl Figures {
    /// Returns what has been counted since.
    pub fn since(self, before: &Figures) -> Figures {
        let mut since = self;
        for (name, value) in &mut since.counters {
            let earlier = before.counters.get(name).copied().unwrap_or(0);
            *value = value.saturating_sub(earlier);
        }
        for (name, numbers) in &mut since.latencies {
            let earlier = before.latencies.get(name).into_iter().flatten();
            for (number, earlier) in numbers.iter_mut().zip(earlier) {
                *number = number.saturating_sub(*earlier);
            }
        }
        since
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let counters: Vec<_> = self.counters.iter().collect();
        writer.list(&counters, |writer, ((name, label), value)| {
            writer.text(name.as_bytes());
            writer.text(label.as_bytes());
            writer.number(**value);
        });
        let latencies: Vec<_> = self.latencies.iter().collect();
        writer.list(&latencies, |writer, ((site, route), numbers)| {
            writer.text(site.as_bytes());
            writer.text(route.as_bytes());
            writer.list(numbers, |writer, number| writer.number(*number));
        });
        writer.0
    }

    pub fn decode(reader: &mut Reader<'_>) -> io::Result<Figures> {
        let words =
            |reader: &mut Reader<'_>| Ok::<_, io::Error>((reader.string()?, reader.string()?));
        let counters = reader.list(|reader| Ok((words(reader)?, reader.number()?)))?;
        let latencies = reader.list(|reader| Ok((words(reader)?, reader.list(Reader::number)?)))?;
        Ok(Figures {
            counters: counters.into_iter().collect(),
            latencies: latencies.into_iter().collect(),
        })
    }
}

#[cfg(test)]
#[path = "upgrade_state_tests.rs"]
mod tests;
