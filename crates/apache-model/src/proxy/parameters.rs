//! `key=value` of mod_proxy's workers and balancers: behind ProxyPass, BalancerMember and
//! `<Proxy>`, and in ProxySet.
//!
//! Read into options first, because a worker may be told of in several places; what was not said
//! comes from the host (ProxyTimeout, Timeout). Difficulty: units. Some are seconds, some
//! milliseconds, some take a unit (Apache manual, mod_proxy, "BalancerMember parameters"). Absent
//! on purpose: what only concerns Apache's own memory and processes (`min`, `smax`, `iobuffersize`
//! …): read, checked, without effect.

use crate::{proxy::section::ProxySection, reading::said, upstream_tls::UpstreamTlsDraft};
use saker_config::model::{BackendTls, Balance, Member, Protocol, Sticky, Tuning, Upstream};
use std::sync::Arc;

/// The parameters of a worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerParameters {
    connect_timeout_ms: Option<u64>,
    timeout_ms: Option<u64>,
    retry_ms: Option<u64>,
    kept_ms: Option<u64>,
    acquire_ms: Option<u64>,
    connections_max: Option<usize>,
    kept_max: Option<usize>,
    reuses: Option<bool>,
    address_ttl_ms: Option<u64>,
    ping_ms: Option<u64>,
    secret: Option<Box<str>>,
    /// In hundredths.
    weight: Option<u32>,
    route: Option<Box<str>>,
    redirect: Option<Box<str>>,
    set: Option<u32>,
    status: Status,
    pub flushes: Option<bool>,
    /// Name of the protocol that a client may switch to; `ANY` or `*` for every one.
    pub upgrade: Option<Box<str>>,
    pub health: HealthParameters,
}

/// `status=+H-D`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    is_disabled: Option<bool>,
    is_stopped: Option<bool>,
    is_standby: Option<bool>,
    is_spare: Option<bool>,
    is_draining: Option<bool>,
    ignores_errors: Option<bool>,
}

/// mod_proxy_hcheck's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthParameters {
    pub template: Option<Box<str>>,
    pub method: Option<Box<str>>,
    pub uri: Option<Box<str>>,
    pub expression: Option<Box<str>>,
    pub interval_ms: Option<u64>,
    pub passes: Option<u32>,
    pub fails: Option<u32>,
}

/// Defaults of workers.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    pub timeout_ms: u64,
    /// Demands of upstream TLS, and demands of sections for some upstreams beside it.
    pub upstream_tls: UpstreamTlsDraft,
    pub sections: Vec<Arc<ProxySection>>,
}

impl Defaults {
    /// TLS settings of upstreams behind this URL; `None`: TLS is off (SSLProxyEngine).
    pub fn demands(&self, url: &str) -> Option<BackendTls> {
        let sections = self
            .sections
            .iter()
            .filter(|section| section.is_for(url.as_bytes()));
        sections
            .fold(self.upstream_tls.clone(), |outer, section| {
                outer.merge(&section.upstream_tls)
            })
            .settled()
    }
}

/// Connections to a program that are kept by each process when nothing else was said; Apache's is
/// the number of its threads.
const KEPT_MAX: usize = 32;

/// Apache manual: `retry`.
const RETRY_MS: u64 = 60_000;

impl WorkerParameters {
    /// The error is Apache's.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some(done) = self
            .set_time(key, value)
            .or_else(|| self.set_pool(key, value))
            .or_else(|| self.set_membership(key, value))
        {
            return done;
        }
        match key {
            "secret" => self.secret = Some(value.into()),
            "upgrade" => self.upgrade = Some(value.into()),
            "flushpackets" => {
                self.flushes = match value.to_ascii_lowercase().as_str() {
                    "on" => Some(true),
                    "off" => Some(false),
                    "auto" => None,
                    _ => return Err("flushpackets must be On|Off|Auto".into()),
                };
            }
            "flusher" => {}
            "flushwait" => {
                number(value, 0..=1000).ok_or(
                    "flushwait must be <= 1000, or 0 for system default of 10 millseconds.",
                )?;
            }
            _ if key.starts_with("hc") => return self.health.set(key, value),
            _ => return Err("unknown Worker parameter".into()),
        }
        Ok(())
    }

    fn set_time(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        let slot = match key {
            "connectiontimeout" => &mut self.connect_timeout_ms,
            "timeout" => &mut self.timeout_ms,
            "retry" => &mut self.retry_ms,
            "ttl" => &mut self.kept_ms,
            "acquire" => &mut self.acquire_ms,
            "addressttl" => &mut self.address_ttl_ms,
            "ping" => &mut self.ping_ms,
            _ => return None,
        };
        let unit_ms = if key == "acquire" { 1 } else { 1000 };
        let read = match key {
            "timeout" | "ttl" => seconds_ms(value)
                .filter(|ms| *ms > 0)
                .ok_or("must be at least 1 second"),
            "retry" => seconds_ms(value).ok_or("must be a positive number"),
            _ => time_ms(value, unit_ms).ok_or("has wrong format"),
        };
        Some(
            read.map(|ms| *slot = Some(ms))
                .map_err(|what| format!("{key} {what}")),
        )
    }

    fn set_pool(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        let count = || {
            number(value, 0..=1 << 20)
                .map(|count| count as usize)
                .ok_or_else(|| format!("{key} must be a positive number"))
        };
        let flag = || flag(value).ok_or_else(|| format!("{key} must be On|Off"));
        Some(match key {
            "max" | "hmax" => count().map(|count| self.connections_max = Some(count)),
            "smax" => count().map(|count| self.kept_max = Some(count)),
            "min" | "iobuffersize" | "receivebuffersize" | "responsefieldsize" => count().map(drop),
            "disablereuse" => flag().map(|on| self.reuses = Some(!on)),
            "enablereuse" => flag().map(|on| self.reuses = Some(on)),
            "keepalive" => flag().map(drop),
            _ => return None,
        })
    }

    fn set_membership(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        Some(match key {
            "loadfactor" => match value.parse::<f64>() {
                Ok(factor) if (1.0..=100.0).contains(&factor) => {
                    self.weight = Some((factor * 100.0).round() as u32);
                    Ok(())
                }
                _ => Err("LoadFactor must be a number between 1..100".into()),
            },
            "route" if value.len() > 96 => Err("route length must be < 96 characters".into()),
            "redirect" if value.len() > 96 => Err("redirect length must be < 96 characters".into()),
            "route" => {
                self.route = Some(value.into());
                Ok(())
            }
            "redirect" => {
                self.redirect = Some(value.into());
                Ok(())
            }
            "lbset" => number(value, 0..=99)
                .map(|set| self.set = Some(set as u32))
                .ok_or_else(|| "lbset must be between 0 and 99".into()),
            "status" => self.status.set(value),
            _ => return None,
        })
    }

    /// The first that was said stays (a worker that is told of twice).
    pub fn is_empty(&self) -> bool {
        *self == WorkerParameters::default()
    }

    pub fn tuning(&self, protocol: Protocol, defaults: &Defaults) -> Tuning {
        let timeout_ms = self.timeout_ms.unwrap_or(defaults.timeout_ms);
        // Programs may have no more than a few processes: unless told otherwise, no connection
        // keeps one of them (mod_proxy_fcgi).
        let reuses = match protocol {
            Protocol::Scgi | Protocol::Uwsgi => false,
            Protocol::FastCgi => self.reuses == Some(true),
            _ => self.reuses != Some(false),
        };
        let known = Tuning::default();
        let unsaid = match protocol.takes_variables() {
            true => KEPT_MAX,
            false => known.kept_max,
        };
        Tuning {
            connect_timeout_ms: self.connect_timeout_ms.unwrap_or(timeout_ms),
            timeout_ms,
            kept_max: if reuses {
                self.kept_max.or(self.connections_max).unwrap_or(unsaid)
            } else {
                0
            },
            kept_ms: self.kept_ms.unwrap_or(known.kept_ms),
            connections_max: self.connections_max.unwrap_or(0),
            queue_timeout_ms: self.acquire_ms.unwrap_or(known.queue_timeout_ms),
            retry_ms: self.retry_ms.unwrap_or(RETRY_MS),
            address_ttl_ms: self.address_ttl_ms.unwrap_or(known.address_ttl_ms),
            secret: self.secret.clone(),
            ping_ms: self.ping_ms,
            ..known
        }
    }

    /// Sets the parameters of a member beside its tuning.
    pub fn describe(&self, member: &mut Member) {
        let status = &self.status;
        member.weight = self.weight.unwrap_or(100);
        member.route.clone_from(&self.route);
        member.redirect.clone_from(&self.redirect);
        member.set = self.set.unwrap_or(0);
        member.is_standby = status.is_standby.unwrap_or(false);
        member.is_spare = status.is_spare.unwrap_or(false);
        member.is_disabled = status.is_disabled.unwrap_or(false);
        member.is_stopped = status.is_stopped.unwrap_or(false);
        member.is_draining = status.is_draining.unwrap_or(false);
        member.ignores_errors = status.ignores_errors.unwrap_or(false);
    }
}

impl Status {
    /// Apache manual, "Worker status flags": each letter with a sign that holds for those behind
    /// it.
    fn set(&mut self, text: &str) -> Result<(), String> {
        let mut on = true;
        for letter in text.chars() {
            let slot = match letter.to_ascii_uppercase() {
                '+' | '-' => {
                    on = letter == '+';
                    continue;
                }
                'D' => &mut self.is_disabled,
                'S' => &mut self.is_stopped,
                'I' => &mut self.ignores_errors,
                'H' => &mut self.is_standby,
                'R' => &mut self.is_spare,
                'N' => &mut self.is_draining,
                // In error: found out by asking; health by checks.
                'E' | 'C' | 'F' => continue,
                _ => return Err("Unknown status parameter option".into()),
            };
            *slot = Some(on);
        }
        Ok(())
    }
}

impl HealthParameters {
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let count = |what: &str| {
            number(value, 1..=u64::from(u32::MAX))
                .map(|count| count as u32)
                .ok_or_else(|| what.to_owned())
        };
        match key {
            "hctemplate" => self.template = Some(value.into()),
            "hcmethod" => match value.to_ascii_uppercase().as_str() {
                known @ ("NONE" | "TCP" | "OPTIONS" | "HEAD" | "GET" | "OPTIONS11" | "HEAD11"
                | "GET11" | "CPING") => {
                    self.method = Some(known.into());
                }
                _ => return Err("Unknown method".into()),
            },
            "hcuri" => self.uri = Some(value.into()),
            "hcexpr" => self.expression = Some(value.into()),
            // Apache manual: seconds, at least 0.1 of them with a unit.
            "hcinterval" => {
                let ms = time_ms(value, 1000)
                    .filter(|ms| *ms >= 100)
                    .ok_or("Interval must be a positive value greater than 0.1 seconds")?;
                self.interval_ms = Some(ms);
            }
            "hcpasses" => self.passes = Some(count("Passes must be a positive value")?),
            "hcfails" => self.fails = Some(count("Fails must be a positive value")?),
            _ => return Err("unknown Worker hcheck parameter".into()),
        }
        Ok(())
    }

    /// Fills what was not set from the template.
    pub fn or(&self, template: &HealthParameters) -> HealthParameters {
        HealthParameters {
            template: self.template.clone(),
            method: self.method.clone().or_else(|| template.method.clone()),
            uri: self.uri.clone().or_else(|| template.uri.clone()),
            expression: self
                .expression
                .clone()
                .or_else(|| template.expression.clone()),
            interval_ms: self.interval_ms.or(template.interval_ms),
            passes: self.passes.or(template.passes),
            fails: self.fails.or(template.fails),
        }
    }
}

/// The parameters of a balancer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancerParameters {
    method: Option<Balance>,
    sticky: Option<(Box<str>, Box<str>)>,
    separator: Option<Option<u8>>,
    semicolon_delimits: Option<bool>,
    is_bound: Option<bool>,
    wait_ms: Option<u64>,
    attempts_max: Option<usize>,
    failure_statuses: Vec<u16>,
    fails_on_timeout: Option<bool>,
    /// The secret of its changes, or `None`.
    pub nonce: Option<Box<str>>,
    /// Members that may be added.
    pub growth: Option<usize>,
}

impl BalancerParameters {
    /// These, with those of a host laid over.
    pub fn merge(&self, over: &BalancerParameters) -> BalancerParameters {
        let statuses = over.failure_statuses.iter().chain(&self.failure_statuses);
        BalancerParameters {
            method: said(&self.method, &over.method),
            sticky: said(&self.sticky, &over.sticky),
            separator: said(&self.separator, &over.separator),
            semicolon_delimits: said(&self.semicolon_delimits, &over.semicolon_delimits),
            is_bound: said(&self.is_bound, &over.is_bound),
            wait_ms: said(&self.wait_ms, &over.wait_ms),
            attempts_max: said(&self.attempts_max, &over.attempts_max),
            failure_statuses: statuses.copied().collect(),
            fails_on_timeout: said(&self.fails_on_timeout, &over.fails_on_timeout),
            nonce: said(&self.nonce, &over.nonce),
            growth: said(&self.growth, &over.growth),
        }
    }

    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "stickysession" => {
                let (cookie, path) = value.split_once('|').unwrap_or((value, value));
                self.sticky = Some((cookie.into(), path.into()));
            }
            "stickysessionsep" => match (value.eq_ignore_ascii_case("off"), value.as_bytes()) {
                (true, _) => self.separator = Some(None),
                (false, [separator]) => self.separator = Some(Some(*separator)),
                _ => return Err("stickysessionsep must be a single character or Off".into()),
            },
            "nofailover" => self.is_bound = Some(flag(value).ok_or("failover must be On|Off")?),
            "timeout" => {
                self.wait_ms = Some(
                    seconds_ms(value)
                        .filter(|ms| *ms > 0)
                        .ok_or("timeout must be at least 1 second")?,
                )
            }
            "maxattempts" => {
                self.attempts_max = Some(
                    number(value, 0..=1000)
                        .ok_or("maximum number of attempts must be a positive number")?
                        as usize,
                )
            }
            "lbmethod" => self.method = Some(method(value)?),
            "scolonpathdelim" => {
                self.semicolon_delimits = Some(flag(value).ok_or("scolonpathdelim must be On|Off")?)
            }
            "failonstatus" => {
                let status = |word: &str| {
                    number(word, 100..=599)
                        .map(|status| status as u16)
                        .ok_or("failonstatus must be one or more HTTP response codes")
                };
                self.failure_statuses = value.split(',').map(status).collect::<Result<_, _>>()?;
            }
            "failontimeout" => {
                self.fails_on_timeout = Some(flag(value).ok_or("failontimeout must be On|Off")?)
            }
            "forcerecovery" => drop(flag(value).ok_or("forcerecovery must be On|Off")?),
            "nonce" => self.nonce = Some(value.into()),
            "growth" => {
                let growth = number(value, 0..=100).ok_or("growth must be between 1 and 100")?;
                self.growth = Some(growth as usize);
            }
            _ => return Err("unknown Balancer parameter".into()),
        }
        Ok(())
    }

    pub fn upstream(&self, name: &str, members: Vec<Member>) -> Upstream {
        let mut upstream = Upstream::new(name, members);
        upstream.balance = self.method.unwrap_or_default();
        upstream.sticky = self.sticky.as_ref().map(|(cookie, parameter)| Sticky {
            cookie: cookie.clone(),
            parameter: parameter.clone(),
            separator: self.separator.unwrap_or(Some(b'.')),
            semicolon_delimits: self.semicolon_delimits == Some(true),
        });
        upstream.is_bound = self.is_bound == Some(true);
        upstream.attempts_max = self.attempts_max;
        upstream.failure_statuses.clone_from(&self.failure_statuses);
        upstream.fails_on_timeout = self.fails_on_timeout == Some(true);
        upstream.wait_ms = self.wait_ms.unwrap_or(0);
        upstream
    }
}

/// A balancing method by Apache's name. The error is for the diagnostic.
pub fn method(name: &str) -> Result<Balance, String> {
    Ok(match name {
        "byrequests" => Balance::Requests,
        "bytraffic" => Balance::Traffic,
        "bybusyness" => Balance::Busyness,
        "heartbeat" => {
            return Err("unknown lbmethod: `heartbeat` needs servers that announce their load by multicast; use bybusyness, with hcmethod to leave out members that are down".into());
        }
        _ => return Err("unknown lbmethod".into()),
    })
}

fn flag(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn number(word: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    word.parse().ok().filter(|number| range.contains(number))
}

/// A time that Apache reads with `atoi`, so that it takes whatever stands behind the number; a unit
/// that is there counts here.
fn seconds_ms(word: &str) -> Option<u64> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    time_ms(word, 1000).or_else(|| word.get(..digits)?.parse::<u64>().ok()?.checked_mul(1000))
}

/// Apache's `ap_timeout_parameter_parse`: a number with `ms`, `s`, `mi` or `h`, of which more may
/// follow (`min`, `sec`); without one it counts `unit_ms`.
pub fn time_ms(word: &str, unit_ms: u64) -> Option<u64> {
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let factor = match word.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => unit_ms,
        "m" => 60_000,
        unit if unit.starts_with("ms") => 1,
        unit if unit.starts_with("mi") => 60_000,
        unit if unit.starts_with('s') => 1000,
        unit if unit.starts_with('h') => 3_600_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pairs: &[(&str, &str)]) -> Result<WorkerParameters, String> {
        let mut parameters = WorkerParameters::default();
        pairs
            .iter()
            .try_for_each(|(key, value)| parameters.set(key, value))
            .map(|()| parameters)
    }

    #[test]
    fn times_have_units_and_defaults() {
        let defaults = &Defaults {
            timeout_ms: 60_000,
            ..Defaults::default()
        };
        let tuning = worker(&[]).unwrap().tuning(Protocol::Http1, defaults);
        assert_eq!(
            (
                tuning.timeout_ms,
                tuning.connect_timeout_ms,
                tuning.retry_ms,
                tuning.kept_max
            ),
            (60_000, 60_000, 60_000, Tuning::default().kept_max)
        );
        let said = worker(&[
            ("timeout", "5"),
            ("connectiontimeout", "300ms"),
            ("retry", "0"),
            ("acquire", "70"),
            ("ttl", "9"),
            ("max", "3"),
            ("ping", "250ms"),
        ]);
        let tuning = said.unwrap().tuning(Protocol::Http1, defaults);
        assert_eq!(
            (
                tuning.timeout_ms,
                tuning.connect_timeout_ms,
                tuning.retry_ms
            ),
            (5000, 300, 0)
        );
        assert_eq!(tuning.ping_ms, Some(250));
        assert_eq!(
            (
                tuning.queue_timeout_ms,
                tuning.kept_ms,
                tuning.connections_max,
                tuning.kept_max
            ),
            (70, 9000, 3, 3)
        );
    }

    #[test]
    fn every_time_has_units() {
        let defaults = &Defaults {
            timeout_ms: 60_000,
            ..Defaults::default()
        };
        let all = |value: &str| {
            let keys = [
                "retry",
                "timeout",
                "acquire",
                "connectiontimeout",
                "ttl",
                "ping",
            ];
            let tuning = worker(&keys.map(|key| (key, value)))
                .unwrap()
                .tuning(Protocol::Http1, defaults);
            let times = [
                tuning.retry_ms,
                tuning.timeout_ms,
                tuning.queue_timeout_ms,
                tuning.connect_timeout_ms,
                tuning.kept_ms,
            ];
            (times, tuning.ping_ms.unwrap_or_default())
        };
        for (value, ms) in [
            ("1ms", 1),
            ("250ms", 250),
            ("3s", 3000),
            ("3sec", 3000),
            ("2mi", 120_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(all(value), ([ms; 5], ms), "{value}");
        }
        let [retry, timeout, acquire, ..] = all("7").0;
        assert_eq!((retry, timeout, acquire), (7000, 7000, 7));
        // Apache reads these three with atoi.
        let tuning = worker(&[("retry", "5x"), ("timeout", "6,"), ("ttl", "7.5")])
            .unwrap()
            .tuning(Protocol::Http1, defaults);
        assert_eq!(
            (tuning.retry_ms, tuning.timeout_ms, tuning.kept_ms),
            (5000, 6000, 7000)
        );
        for wrong in [
            ("retry", "-1"),
            ("retry", "x"),
            ("timeout", "0"),
            ("ttl", "0ms"),
            ("ping", "5x"),
            ("acquire", ""),
        ] {
            assert!(worker(&[wrong]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn programs_keep_no_connection_unless_told() {
        let defaults = &Defaults {
            timeout_ms: 1,
            ..Defaults::default()
        };
        for (protocol, pairs, keeps) in [
            (Protocol::FastCgi, &[][..], false),
            (Protocol::FastCgi, &[("enablereuse", "on")], true),
            (Protocol::FastCgi, &[("disablereuse", "off")], true),
            (Protocol::Scgi, &[("enablereuse", "on")], false),
            (Protocol::Http1, &[("disablereuse", "On")], false),
            (Protocol::Ajp, &[], true),
        ] {
            assert_eq!(
                worker(pairs).unwrap().tuning(protocol, defaults).kept_max > 0,
                keeps,
                "{protocol:?} {pairs:?}"
            );
        }
    }

    #[test]
    fn members_have_shares_routes_and_states() {
        let mut member = Member::new(
            saker_config::model::Backend::new(
                Protocol::Http1,
                saker_config::model::BackendAddress::Unix("/x".into()),
            ),
            Tuning::default(),
        );
        worker(&[
            ("loadfactor", "1.5"),
            ("route", "a"),
            ("lbset", "2"),
            ("status", "+H-DN"),
        ])
        .unwrap()
        .describe(&mut member);
        assert_eq!(
            (
                member.weight,
                member.route.as_deref(),
                member.set,
                member.is_standby
            ),
            (150, Some("a"), 2, true)
        );
        assert!(!member.is_disabled && !member.is_draining);
    }

    #[test]
    fn what_is_wrong() {
        for (key, value, error) in [
            (
                "loadfactor",
                "0",
                "LoadFactor must be a number between 1..100",
            ),
            ("lbset", "100", "lbset must be between 0 and 99"),
            ("nonsense", "1", "unknown Worker parameter"),
            ("status", "X", "Unknown status parameter option"),
            ("timeout", "0", "timeout must be at least 1 second"),
            (
                "connectiontimeout",
                "1x",
                "connectiontimeout has wrong format",
            ),
            ("hcmethod", "PUT", "Unknown method"),
            (
                "hcinterval",
                "50ms",
                "Interval must be a positive value greater than 0.1 seconds",
            ),
        ] {
            assert_eq!(worker(&[(key, value)]).unwrap_err(), error, "{key}={value}");
        }
        let mut balancer = BalancerParameters::default();
        assert_eq!(
            balancer.set("lbmethod", "byluck").unwrap_err(),
            "unknown lbmethod"
        );
        let heartbeat = balancer.set("lbmethod", "heartbeat").unwrap_err();
        assert!(heartbeat.contains("use bybusyness"), "{heartbeat}");
        assert_eq!(
            balancer.set("failonstatus", "503,x").unwrap_err(),
            "failonstatus must be one or more HTTP response codes"
        );
    }

    #[test]
    fn a_balancer_is_made_of_what_was_said() {
        let mut balancer = BalancerParameters::default();
        for (key, value) in [
            ("stickysession", "SID|sid"),
            ("nofailover", "On"),
            ("failonstatus", "500,503"),
            ("lbmethod", "bybusyness"),
        ] {
            balancer.set(key, value).unwrap();
        }
        let upstream = balancer.upstream("balancer://a", Vec::new());
        let sticky = upstream.sticky.unwrap();
        assert_eq!(
            (&*sticky.cookie, &*sticky.parameter, sticky.separator),
            ("SID", "sid", Some(b'.'))
        );
        assert!(
            upstream.is_bound
                && upstream.balance == Balance::Busyness
                && upstream.failure_statuses == [500, 503]
        );
    }
}
