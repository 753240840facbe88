//! `limit_req` and `limit_conn`: leaky buckets and counts, in zones that all workers share.
//!
//! Called by: `rules`, before access.
//! Caveat: a full zone forgets the entries that were not used for longest; a count in use is kept.
//! Out of scope: limits of the engine.

use crate::{real_ip, request::Request};
use saker_http::Status;
use saker_nginx_model::modules::limits::{RequestLimit, Zone};
use saker_rate_limits::Counted;
use saker_telemetry::message::{self, Level};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A key's entry.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Thousandths of requests beyond the rate.
    excess: u64,
    last_ms: u64,
    connections: u64,
}

/// The entries of a zone.
#[derive(Debug, Default)]
pub struct ZoneTable {
    entries: Mutex<HashMap<Box<[u8]>, Entry, foldhash::fast::RandomState>>,
}

/// The zones of a configuration, by their numbers.
#[derive(Debug, Default)]
pub struct Zones(Vec<Arc<ZoneTable>>);

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
enum Bucket {
    Passes,
    /// Milliseconds, and thousandths of requests beyond the rate.
    DelayedMs(u64, u64),
    Refused(u64),
}

impl Zones {
    pub fn new(zones: &[Arc<Zone>]) -> Zones {
        Zones(zones.iter().map(|_| Arc::default()).collect())
    }

    /// Returns the entries of a zone.
    pub fn table(&self, number: usize) -> Option<Arc<ZoneTable>> {
        self.0.get(number).cloned()
    }
}

impl ZoneTable {
    /// Charges a request, unless it is refused.
    fn request(
        &self,
        key: &[u8],
        zone: &Zone,
        limit: &RequestLimit,
        now_ms: u64,
        only_looks: bool,
    ) -> Bucket {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get(key).copied();
        let excess = known.map_or(0, |entry| {
            let passed_ms = now_ms.saturating_sub(entry.last_ms);
            let drained = zone.per_1000_s.saturating_mul(passed_ms) / 1000;
            (entry.excess + 1000).saturating_sub(drained)
        });
        if excess > limit.burst {
            return Bucket::Refused(excess);
        }
        if !only_looks {
            make_room(&mut entries, zone.entries_max);
            let entry = entries.entry(key.into()).or_default();
            (entry.excess, entry.last_ms) = (excess, now_ms);
        }
        match limit.delay {
            Some(delay) if excess > delay => {
                let ms = (excess - delay).saturating_mul(1000) / zone.per_1000_s.max(1);
                Bucket::DelayedMs(ms, excess)
            }
            _ => Bucket::Passes,
        }
    }

    /// Counts a connection; returns false if there are too many.
    pub fn enter(&self, key: &[u8], zone: &Zone, max: u64) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut entries, zone.entries_max);
        let entry = entries.entry(key.into()).or_default();
        let has_room = entry.connections < max;
        entry.connections += u64::from(has_room);
        has_room
    }

    pub fn leave(&self, key: &[u8]) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(key) {
            entry.connections = entry.connections.saturating_sub(1);
            if entry.connections == 0 {
                entries.remove(key);
            }
        }
    }
}

/// Drops the older half of the entries that no connection uses.
fn make_room(
    entries: &mut HashMap<Box<[u8]>, Entry, foldhash::fast::RandomState>,
    entries_max: usize,
) {
    if entries.len() < entries_max {
        return;
    }
    let mut times: Vec<u64> = entries.values().map(|entry| entry.last_ms).collect();
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    entries.retain(|_, entry| entry.connections > 0 || entry.last_ms > middle);
}

/// Checks the limits of the location. Each kind is charged once per request, by the first location
/// that has it. Returns a refusal, or a delay.
pub fn check(request: &mut Request<'_>, zones: &Zones) -> Result<Option<Duration>, Status> {
    let location = Arc::clone(&request.state.location);
    real_ip::settle(request, &location.conf.real_ip);
    let conf = &location.conf.limits;
    let delay = match &conf.requests {
        Some(limits) if !request.state.requests_limited => check_requests(request, zones, limits)?,
        _ => None,
    };
    if let Some(limits) = &conf.connections
        && !request.state.connections_limited
    {
        check_connections(request, zones, limits)?;
    }
    Ok(delay)
}

fn check_requests(
    request: &mut Request<'_>,
    zones: &Zones,
    limits: &[RequestLimit],
) -> Result<Option<Duration>, Status> {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.limits;
    let is_dry = conf.requests_dry_run == Some(true);
    let now_ms = saker_net::clock::monotonic_ms();
    let mut keyed = Vec::new();
    for limit in limits {
        let Some((zone, table, key)) = keyed_zone(request, zones, &limit.zone) else {
            continue;
        };
        keyed.push((limit, zone, table, key));
    }
    request.state.requests_limited |= !keyed.is_empty();
    let mut delay_ms = 0;
    // A request that one limit refuses is charged to none.
    for only_looks in [true, false] {
        for (limit, zone, table, key) in &keyed {
            match table.request(key, zone, limit, now_ms, only_looks) {
                Bucket::Passes => {}
                Bucket::DelayedMs(ms, excess) => {
                    if !only_looks {
                        log_delay(request, zone, excess);
                    }
                    delay_ms = delay_ms.max(ms);
                }
                Bucket::Refused(excess) if is_dry => {
                    log_refusal(request, zone, excess);
                    request.state.limit_req_status = Some("REJECTED_DRY_RUN");
                    return Ok(None);
                }
                Bucket::Refused(excess) => {
                    log_refusal(request, zone, excess);
                    request.state.limit_req_status = Some("REJECTED");
                    let status = conf.requests_status.unwrap_or(503);
                    return Err(Status(status));
                }
            }
        }
    }
    let is_delayed = delay_ms > 0 && !is_dry;
    if !keyed.is_empty() {
        request.state.limit_req_status = Some(if is_delayed { "DELAYED" } else { "PASSED" });
    }
    Ok(is_delayed.then(|| Duration::from_millis(delay_ms)))
}

/// An excess as nginx shows it.
fn shown(excess: u64) -> String {
    format!("{}.{:03}", excess / 1000, excess % 1000)
}

fn log_refusal(request: &mut Request<'_>, zone: &Zone, excess: u64) {
    let conf = &request.state.location.conf;
    let level = conf.clients.limit_req_level.unwrap_or(Level::Error);
    let dry = dry_words(conf.limits.requests_dry_run);
    let text = format!(
        "limiting requests{dry}, excess: {} by zone \"{}\"",
        shown(excess),
        zone.name
    );
    request.log(&message::NGINX_LIMITED, level, text);
}

/// Delays are logged at a level less severe than refusals.
fn log_delay(request: &mut Request<'_>, zone: &Zone, excess: u64) {
    let conf = &request.state.location.conf;
    let level = match conf.clients.limit_req_level.unwrap_or(Level::Error) {
        Level::Error => Level::Warn,
        Level::Warn => Level::Notice,
        _ => Level::Info,
    };
    let dry = dry_words(conf.limits.requests_dry_run);
    let text = format!(
        "delaying request{dry}, excess: {}, by zone \"{}\"",
        shown(excess),
        zone.name
    );
    request.log(&message::NGINX_LIMITED, level, text);
}

fn dry_words(is_dry: Option<bool>) -> &'static str {
    match is_dry {
        Some(true) => ", dry run",
        _ => "",
    }
}

fn log_connections(request: &mut Request<'_>, zone: &Zone) {
    let conf = &request.state.location.conf;
    let level = conf.clients.limit_conn_level.unwrap_or(Level::Error);
    let dry = dry_words(conf.limits.connections_dry_run);
    let comma = if dry.is_empty() { "" } else { "," };
    let text = format!("limiting connections{dry}{comma} by zone \"{}\"", zone.name);
    request.log(&message::NGINX_LIMITED, level, text);
}

fn check_connections(
    request: &mut Request<'_>,
    zones: &Zones,
    limits: &[(Box<str>, u64)],
) -> Result<(), Status> {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.limits;
    for (name, max) in limits {
        let Some((zone, table, key)) = keyed_zone(request, zones, name) else {
            continue;
        };
        request.state.connections_limited = true;
        if table.enter(&key, &zone, *max) {
            request.state.limit_conn_status = Some("PASSED");
            let leave = Counted::new(move || table.leave(&key));
            request.exchange.limits.counted.push(leave);
        } else if conf.connections_dry_run != Some(true) {
            log_connections(request, &zone);
            request.state.limit_conn_status = Some("REJECTED");
            let status = conf.connections_status.unwrap_or(503);
            return Err(Status(status));
        } else {
            log_connections(request, &zone);
            request.state.limit_conn_status = Some("REJECTED_DRY_RUN");
        }
    }
    Ok(())
}

/// A zone with its table and the request's key. `None`: the key is empty, which is not limited.
type Keyed = (Arc<Zone>, Arc<ZoneTable>, Box<[u8]>);

fn keyed_zone(request: &mut Request<'_>, zones: &Zones, name: &str) -> Option<Keyed> {
    request.depends_on_request();
    let zone = request
        .nginx
        .zones
        .iter()
        .find(|zone| *zone.name == *name)?;
    let zone = Arc::clone(zone);
    let table = Arc::clone(zones.0.get(zone.number)?);
    let key = request.text(&zone.key);
    (!key.is_empty() && key.len() <= KEY_BYTES_MAX).then(|| (zone, table, key.into()))
}

/// Longer keys are not limited, as in nginx.
pub const KEY_BYTES_MAX: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use saker_nginx_model::Text;

    fn zone(per_1000_s: u64, entries_max: usize) -> Zone {
        Zone {
            directive: "limit_req_zone",
            name: "z".into(),
            number: 0,
            key: Text::default(),
            per_1000_s,
            entries_max,
        }
    }

    fn limit(burst: u64, delay: Option<u64>) -> RequestLimit {
        RequestLimit {
            zone: "z".into(),
            burst: burst * 1000,
            delay: delay.map(|delay| delay * 1000),
        }
    }

    #[test]
    fn requests_beyond_the_burst_are_refused() {
        let (table, zone) = (ZoneTable::default(), zone(1000, 100));
        let ask = |now, limit: &RequestLimit| table.request(b"k", &zone, limit, now, false);
        let nodelay = limit(1, None);
        assert_eq!(ask(0, &nodelay), Bucket::Passes);
        assert_eq!(ask(0, &nodelay), Bucket::Passes);
        assert_eq!(ask(0, &nodelay), Bucket::Refused(2000));
        assert_eq!(ask(1000, &nodelay), Bucket::Passes);
        let delayed = limit(5, Some(0));
        assert_eq!(ask(1000, &delayed), Bucket::DelayedMs(2000, 2000));
    }

    #[test]
    fn counts_go_with_their_connections() {
        let (table, zone) = (ZoneTable::default(), zone(0, 100));
        assert!(table.enter(b"k", &zone, 1));
        assert!(!table.enter(b"k", &zone, 1));
        assert!(table.enter(b"other", &zone, 1));
        table.leave(b"k");
        assert!(table.enter(b"k", &zone, 1));
    }

    #[test]
    fn a_full_zone_forgets_the_oldest() {
        let (table, zone) = (ZoneTable::default(), zone(1000, 4));
        for (at, key) in [b"a", b"b", b"c", b"d", b"e"].iter().enumerate() {
            table.request(*key, &zone, &limit(0, None), at as u64, false);
        }
        let entries = table.entries.lock().unwrap();
        assert!(entries.len() <= 4 && entries.contains_key(&b"e"[..]));
    }
}
