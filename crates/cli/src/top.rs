//! `saker top`: the console's live view in a terminal.
//!
//! Called by: `lib`.
//! Caveat: the terminal is put back on every way out; text of the server is shown without control
//! characters. Where standard output is no terminal, one view is printed.
//! Out of scope: sampling, which the server does for as long as it is asked.

use crate::{
    arguments::Top,
    daemon::{Server, ask_server},
    output,
    status_page::{bytes, duration},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize,
        tcsetattr,
    },
};
use saker_control::client::{self, ClientError};
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

/// Samples of a graph.
const SECONDS: u64 = 60;
/// Interval between views, in seconds.
const INTERVAL_S: i64 = 1;
/// Upstream servers and certificates of a view.
const ROWS_MAX: usize = 12;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Size of a terminal that does not tell its own.
const SIZE: (usize, usize) = (80, 24);

/// A line of the view: a label, the fields that are summed, and how values are shown.
struct Graph {
    label: &'static str,
    fields: &'static [&'static str],
    show: fn(f64) -> String,
}

const GRAPHS: [Graph; 11] = [
    graph("requests/s", &["requests"], plain),
    graph("2xx/s", &["status_2xx"], plain),
    graph("4xx/s", &["status_4xx"], plain),
    graph("5xx/s", &["status_5xx"], plain),
    graph("p50 ms", &["latency_p50_ms"], plain),
    graph("p99 ms", &["latency_p99_ms"], plain),
    graph("sent/s", &["bytes_out"], size),
    graph("connections", &["connections"], plain),
    graph(
        "cache hits/s",
        &["page_cache_hits", "page_cache_stale"],
        plain,
    ),
    graph("CPU %", &["cpu_percent"], plain),
    graph("memory", &["memory_bytes"], size),
];

const fn graph(
    label: &'static str,
    fields: &'static [&'static str],
    show: fn(f64) -> String,
) -> Graph {
    Graph {
        label,
        fields,
        show,
    }
}

fn plain(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn size(value: f64) -> String {
    bytes(value as u64)
}

pub fn top(top: &Top) -> ExitCode {
    ask_server(&top.target, |server| {
        let output = io::stdout();
        let is_terminal = isatty(&output) && isatty(io::stdin());
        if top.once || !is_terminal {
            let (live, status) = look(server)?;
            return Ok(output::print(view(&live, &status, SIZE)));
        }
        watch(server)
    })
}

fn look(server: &Server) -> Result<(Value, Value), ClientError> {
    Ok((client::live(server, SECONDS)?, client::status(server)?))
}

/// Draws until `q` is pressed.
fn watch(server: &Server) -> Result<ExitCode, ClientError> {
    let failed = |error: io::Error| ClientError::Io("the terminal".into(), error);
    let screen = Screen::enter().map_err(failed)?;
    loop {
        let (live, status) = look(server)?;
        let size = tcgetwinsize(io::stdout()).map_or(SIZE, |found| match found.ws_col {
            0 => SIZE,
            columns => (usize::from(columns), usize::from(found.ws_row)),
        });
        screen.draw(&view(&live, &status, size)).map_err(failed)?;
        if screen.is_left().map_err(failed)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The other screen of the terminal, until it is dropped.
struct Screen(Termios);

impl Screen {
    fn enter() -> io::Result<Screen> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        // Ctrl-C is a key, so that the terminal is put back after it, too.
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let screen = Screen(before);
        // Alternate screen, cursor hidden.
        io::stdout().write_all(b"\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    fn draw(&self, text: &str) -> io::Result<()> {
        // Home, each line to its end, and the rest of the screen.
        let lines = text.replace('\n', "\x1b[K\r\n");
        let mut output = io::stdout().lock();
        output.write_all(format!("\x1b[H{lines}\x1b[J").as_bytes())?;
        output.flush()
    }

    /// Waits for the next view, or for the key that ends it.
    fn is_left(&self) -> io::Result<bool> {
        let input = io::stdin();
        let interval = Timespec {
            tv_sec: INTERVAL_S,
            tv_nsec: 0,
        };
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&interval)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut keys = [0; 64];
        let count = input.lock().read(&mut keys)?;
        // Nothing to read: the terminal is gone.
        let keys = keys.get(..count).unwrap_or_default();
        Ok(keys.is_empty() || keys.iter().any(|key| matches!(key, b'q' | b'Q' | 3 | 4)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// The view as text, of at most that many columns and rows.
fn view(live: &Value, status: &Value, (columns, rows): (usize, usize)) -> String {
    let mut lines = vec![format!(
        "saker {}  {}  up {}  {} workers  {} sites",
        text(&status["version"]),
        text(&status["configuration"]),
        duration(status["uptime_ms"].as_u64().unwrap_or(0) / 1000),
        status["workers"].as_u64().unwrap_or(0),
        status["sites"].as_u64().unwrap_or(0),
    )];
    lines.push(String::new());
    for graph in &GRAPHS {
        let values = series(live, graph.fields);
        let latest = values.last().copied().flatten();
        let shown = latest.map_or_else(|| "–".to_owned(), graph.show);
        let mut line = format!("{:<13}{shown:>10}  ", graph.label);
        line.extend(bars(&values, columns.saturating_sub(25)));
        lines.push(line);
    }
    lines.push(String::new());
    lines.extend(upstreams(status));
    lines.push("q: quit".to_owned());
    // The last line has no line break, which would scroll the screen.
    let mut page = String::new();
    for line in lines.iter().take(rows.saturating_sub(1)) {
        let cut: String = line.chars().take(columns).collect();
        let _ = writeln!(page, "{}", cut.trim_end());
    }
    page
}

/// Values of fields, summed; `None`: unknown.
fn series(live: &Value, fields: &[&str]) -> Vec<Option<f64>> {
    let count = live["at"].as_array().map_or(0, Vec::len);
    let sum = |at: usize| -> Option<f64> {
        let values = fields
            .iter()
            .map(|field| live["series"][*field][at].as_f64());
        values.sum()
    };
    (0..count).map(sum).collect()
}

/// A bar for each of the last values.
fn bars(values: &[Option<f64>], max: usize) -> Vec<char> {
    let shown = &values[values.len().saturating_sub(max)..];
    let highest = shown.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: &Option<f64>| match value {
        Some(value) if highest > 0.0 => {
            let step = (value / highest * (BARS.len() - 1) as f64).round();
            BARS[(step as usize).min(BARS.len() - 1)]
        }
        Some(_) => BARS[0],
        None => ' ',
    };
    shown.iter().map(bar).collect()
}

fn upstreams(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for upstream in status["upstreams"].as_array().into_iter().flatten() {
        for member in upstream["members"].as_array().into_iter().flatten() {
            lines.push(format!(
                "{:<20} {:<32} {:<10} busy {:>5}  failures {:>5}",
                text(&upstream["name"]),
                text(&member["address"]),
                text(&member["state"]),
                member["busy"].as_u64().unwrap_or(0),
                member["failures"].as_u64().unwrap_or(0),
            ));
        }
    }
    lines.truncate(ROWS_MAX);
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// Text without characters that would move the cursor.
fn text(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().filter(|one| !one.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn views_fit_the_terminal() {
        let live = json!({
            "at": [1, 2, 3],
            "series": { "requests": [0.0, 5.0, 10.0], "page_cache_hits": [1, 2, 3], "page_cache_stale": [1, 1, null], "bytes_out": [0, 0, 2_000_000] },
        });
        let status = json!({
            "version": "1.0\u{1b}[2J", "configuration": "/etc/saker.toml", "uptime_ms": 61_000, "workers": 2, "sites": 3,
            "upstreams": [{ "name": "app", "members": [{ "address": "10.0.0.1:80", "state": "up", "busy": 2, "failures": 0 }] }],
        });
        let page = view(&live, &status, (80, 24));
        assert!(
            page.starts_with("saker 1.0[2J  /etc/saker.toml  up 1 min 1 s  2 workers  3 sites\n"),
            "{page}"
        );
        assert!(page.contains("requests/s         10.0  ▁▅█\n"), "{page}");
        assert!(page.contains("cache hits/s          –  ▆█\n"), "{page}");
        assert!(
            page.contains("app") && page.contains("10.0.0.1:80") && page.contains("q: quit"),
            "{page}"
        );
        for size in [(1, 1), (10, 3), (25, 10), (200, 60)] {
            let page = view(&live, &status, size);
            assert!(page.lines().count() < size.1.max(1), "{page}");
            assert!(
                page.lines().all(|line| line.chars().count() <= size.0),
                "{page}"
            );
        }
        assert!(view(&Value::Null, &Value::Null, (80, 24)).contains("requests/s"));
    }
}
