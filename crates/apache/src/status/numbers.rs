//! Numbers, times and sizes as mod_status writes them.

use saker_telemetry::local_time::{Civil, TimeZone, append_strftime};

/// Six digits that mean something, without zeros at the end: C's `%g`.
pub fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-4..6).contains(&exponent) {
        let text = format!("{value:.5e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs());
    }
    without_zeros(&format!("{value:.*}", (5 - exponent).max(0) as usize)).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// `Saturday, 21-Nov-2026 19:57:28 UTC`
pub fn time(unix_s: i64) -> String {
    let local = TimeZone::local().at(unix_s);
    let mut text = Vec::new();
    append_strftime(
        "%A, %d-%b-%Y %H:%M:%S %Z",
        unix_s,
        &Civil::at(unix_s, local.offset_s),
        &local.abbreviation,
        &mut text,
    );
    String::from_utf8_lossy(&text).into_owned()
}

/// `2026-11-12T08:58:41`
pub fn built(unix_s: i64) -> String {
    let civil = Civil::at(unix_s, 0);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
    )
}

/// ` 1 day 2 hours 3 minutes 4 seconds`, each with a blank before it; what is none is left out.
pub fn duration(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let shown = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!(" {count} {unit}{}", if *count == 1 { "" } else { "s" }));
    shown.collect()
}

const KILO: u64 = 1024;

const MEGA: u64 = KILO * KILO;

const GIGA: u64 = KILO * MEGA;

pub fn bytes(count: u64) -> String {
    match count {
        0..5_120 => format!("{count} B"),
        5_120..524_288 => format!("{:.1} kB", count as f64 / KILO as f64),
        524_288..536_870_912 => format!("{:.1} MB", count as f64 / MEGA as f64),
        _ => format!("{:.1} GB", count as f64 / GIGA as f64),
    }
}

pub fn kilobytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} kB"),
        1024..1_048_576 => format!("{:.1} MB", count as f64 / KILO as f64),
        _ => format!("{:.1} GB", count as f64 / MEGA as f64),
    }
}

/// A quotient; 0 if the count is 0.
pub fn per(amount: f64, count: f64) -> f64 {
    if count > 0.0 { amount / count } else { 0.0 }
}
