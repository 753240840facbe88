//! State that a worker keeps between access log lines: the rendered second, its ids.

use crate::local_time::{Civil, TimeZone, append_offset, append_padded};

/// One worker's cache of rendered time; keep one per worker.
#[derive(Debug)]
pub struct LogClock {
    zone: &'static TimeZone,
    clf: Rendered,
    rfc3339: Rendered,
    process_id: u32,
    thread_id: Option<u64>,
}

/// The text of one second.
#[derive(Debug, Default)]
struct Rendered {
    second: i64,
    text: Vec<u8>,
}

impl Default for LogClock {
    fn default() -> Self {
        LogClock::new()
    }
}

impl LogClock {
    pub fn new() -> Self {
        LogClock::in_zone(TimeZone::local())
    }

    pub fn in_zone(zone: &'static TimeZone) -> Self {
        LogClock {
            zone,
            clf: Rendered::default(),
            rfc3339: Rendered::default(),
            process_id: std::process::id(),
            thread_id: None,
        }
    }

    pub(super) fn zone(&self) -> &'static TimeZone {
        self.zone
    }

    pub(super) fn process_id(&self) -> u32 {
        self.process_id
    }

    /// The kernel's id of the calling thread, asked once; 0 where `/proc` is not there.
    pub(super) fn thread_id(&mut self) -> u64 {
        *self.thread_id.get_or_insert_with(|| {
            let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            link.file_name()
                .and_then(|name| name.to_str()?.parse().ok())
                .unwrap_or(0)
        })
    }

    /// `[21/Nov/2026:09:12:12 +0000]`
    pub(super) fn append_clf(&mut self, unix_s: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.clf.at(unix_s, self.zone, clf));
    }

    /// `2026-11-21T09:12:12` and `+00:00`, to write a fraction between them.
    pub(super) fn rfc3339(&mut self, unix_s: i64) -> (&[u8], &[u8]) {
        let text = self.rfc3339.at(unix_s, self.zone, rfc3339);
        text.split_at(text.len().saturating_sub("+00:00".len()))
    }
}

impl Rendered {
    fn at(&mut self, unix_s: i64, zone: &TimeZone, render: fn(&Civil, &mut Vec<u8>)) -> &[u8] {
        if self.second != unix_s || self.text.is_empty() {
            self.second = unix_s;
            self.text.clear();
            render(&Civil::at(unix_s, zone.offset_s(unix_s)), &mut self.text);
        }
        &self.text
    }
}

fn clf(civil: &Civil, out: &mut Vec<u8>) {
    out.push(b'[');
    append_padded(civil.day, 2, out);
    out.push(b'/');
    out.extend_from_slice(&civil.month_name().as_bytes()[..3]);
    out.push(b'/');
    append_padded(year(civil), 4, out);
    for part in [civil.hour, civil.minute, civil.second] {
        out.push(b':');
        append_padded(part, 2, out);
    }
    out.push(b' ');
    append_offset(civil.offset_s, out);
    out.push(b']');
}

fn rfc3339(civil: &Civil, out: &mut Vec<u8>) {
    append_padded(year(civil), 4, out);
    for (separator, part) in [
        (b'-', civil.month),
        (b'-', civil.day),
        (b'T', civil.hour),
        (b':', civil.minute),
        (b':', civil.second),
    ] {
        out.push(separator);
        append_padded(part, 2, out);
    }
    append_offset(civil.offset_s, out);
    out.insert(out.len() - 2, b':');
}

fn year(civil: &Civil) -> u32 {
    u32::try_from(civil.year).unwrap_or(0)
}
