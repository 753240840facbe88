//! `saker cache warm`: starts a warm-up in the running server and shows its progress.
//!
//! Called by: `lib` and `cache`.
//! Caveat: on a terminal a progress bar is drawn on standard error, elsewhere a line is printed
//! for each page that was not cached; the summary goes to standard output. Ending this command
//! ends the warm-up.

use crate::{
    arguments::Warm,
    daemon,
    exit_status::{CANNOT, OK},
    output::{self, cannot},
    status_page::{duration, grouped},
};
use saker_control::{CacheVerb, ClientError, WarmList, WarmOrder, WarmVerb, client};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, IsTerminal, Read, Write},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

/// Maximum size of the URLs in one request, which is limited to 64 kB in total.
const CHUNK_BYTES_MAX: usize = 32 << 10;
const LOOK: Duration = Duration::from_millis(200);
const BAR_WIDTH: usize = 30;

pub fn warm(warm: Warm) -> ExitCode {
    let urls = match listed(&warm) {
        Ok(urls) => urls,
        Err(why) => return cannot(why),
    };
    if urls.is_empty() && warm.sitemaps.is_empty() {
        return cannot("warm what? URLs, --sitemap URL or --list FILE");
    }
    let variations = match variations(&warm.vary, &warm.headers) {
        Ok(variations) => variations,
        Err(why) => return cannot(why),
    };
    let order = WarmOrder {
        list: WarmList::default(),
        variations,
        concurrency: warm.concurrency,
        rate: warm.rate,
        site: None,
    };
    let job = Asked {
        urls,
        sitemaps: warm.sitemaps,
        order,
        shows: if warm.json {
            Shows::Nothing
        } else {
            Shows::of_terminal(warm.quiet)
        },
    };
    daemon::ask_server(&warm.target, |server| {
        let began = Instant::now();
        let (report, reasons) = job.carry_out(server)?;
        let text = match warm.json {
            true => format!("{:#}\n", summary(&report, &reasons)),
            false => page(&report, &reasons, began.elapsed()),
        };
        let printed = output::print(text);
        let has_failed = number(&report, "failed") > 0;
        Ok(if has_failed && printed == ExitCode::from(OK) {
            ExitCode::from(CANNOT)
        } else {
            printed
        })
    })
}

/// Addresses from the command line and from lists.
fn listed(warm: &Warm) -> Result<Vec<String>, String> {
    let mut urls = warm.urls.clone();
    for path in &warm.lists {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let text = match path.as_os_str() == "-" {
            true => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).map_err(failed)?;
                text
            }
            false => fs::read_to_string(path).map_err(failed)?,
        };
        urls.extend(
            text.lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned),
        );
    }
    Ok(urls)
}

/// Every combination of the cookies' values, an empty value being no cookie; each with all the
/// fields.
fn variations(
    vary: &[(String, Vec<String>)],
    headers: &[(String, String)],
) -> Result<Vec<Vec<(String, String)>>, String> {
    let mut cookies = vec![String::new()];
    for (name, values) in vary {
        let with = |line: &String, value: &String| match (value.is_empty(), line.is_empty()) {
            (true, _) => line.clone(),
            (false, true) => format!("{name}={value}"),
            (false, false) => format!("{line}; {name}={value}"),
        };
        cookies = cookies
            .iter()
            .flat_map(|line| values.iter().map(move |value| with(line, value)))
            .collect();
        if cookies.len() > saker_control::VARIATIONS_MAX {
            return Err(format!(
                "these are more than {} variations",
                saker_control::VARIATIONS_MAX
            ));
        }
    }
    let variation = |line: String| {
        let cookie = (!line.is_empty()).then(|| ("Cookie".to_owned(), line));
        headers.iter().cloned().chain(cookie).collect::<Vec<_>>()
    };
    Ok(cookies.into_iter().map(variation).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    Bar,
    Lines,
    Nothing,
}

impl Shows {
    fn of_terminal(is_quiet: bool) -> Shows {
        match (is_quiet, io::stderr().is_terminal()) {
            (true, _) => Shows::Nothing,
            (false, true) => Shows::Bar,
            (false, false) => Shows::Lines,
        }
    }
}

struct Asked {
    urls: Vec<String>,
    sitemaps: Vec<String>,
    order: WarmOrder,
    shows: Shows,
}

/// Number of pages not stored, by reason.
type Reasons = BTreeMap<String, u64>;

impl Asked {
    /// The last report, and why pages were not kept.
    fn carry_out(&self, server: &daemon::Server) -> Result<(Value, Reasons), ClientError> {
        let say = |verb: WarmVerb| client::cache(server, &CacheVerb::Warm(verb));
        let mut chunks = chunks(&self.urls).peekable();
        let first = chunks.next().unwrap_or_default().to_vec();
        let list = WarmList {
            urls: first,
            sitemaps: self.sitemaps.clone(),
            more: chunks.peek().is_some(),
        };
        let begun = say(WarmVerb::Begin(WarmOrder {
            list,
            ..self.order.clone()
        }))?;
        let job = number(&begun, "job");
        while let Some(chunk) = chunks.next() {
            let list = WarmList {
                urls: chunk.to_vec(),
                sitemaps: Vec::new(),
                more: chunks.peek().is_some(),
            };
            if let Err(error) = say(WarmVerb::Add { job, list }) {
                say(WarmVerb::Stop { job })?;
                return Err(error);
            }
        }
        let (mut from, mut reasons) = (0, Reasons::new());
        loop {
            let report = say(WarmVerb::Look { job, from })?;
            let lines = report
                .get("lines")
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            lines
                .iter()
                .for_each(|line| self.show_line(line, &mut reasons));
            from = number(&report, "next");
            if self.shows == Shows::Bar {
                let _ = write!(io::stderr(), "\r\x1b[K{}", bar(&report));
            }
            if report.get("is_over") == Some(&Value::Bool(true)) {
                if self.shows == Shows::Bar {
                    let _ = writeln!(io::stderr());
                }
                return Ok((report, reasons));
            }
            if lines.is_empty() {
                thread::sleep(LOOK);
            }
        }
    }

    fn show_line(&self, line: &Value, reasons: &mut Reasons) {
        let text = |name: &str| {
            line.get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .replace(char::is_control, "")
        };
        let outcome = text("outcome");
        if matches!(outcome.as_str(), "fetched" | "already-there") {
            return;
        }
        let reason = text("reason");
        *reasons
            .entry(if reason.is_empty() {
                text("text")
            } else {
                reason
            })
            .or_default() += 1;
        let clear = if self.shows == Shows::Bar {
            "\r\x1b[K"
        } else {
            ""
        };
        if self.shows != Shows::Nothing {
            let _ = writeln!(
                io::stderr(),
                "{clear}{outcome}  {}  {}",
                text("url"),
                text("text")
            );
        }
    }
}

/// Splits the URLs into at least one chunk, because the first request needs one.
fn chunks(urls: &[String]) -> impl Iterator<Item = &[String]> {
    let mut rest = urls;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |url: &&String| {
            // As it stands in JSON: at worst, every byte is escaped.
            bytes += url.len() * 2 + 4;
            bytes <= CHUNK_BYTES_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (chunk, more) = rest.split_at(count);
        rest = more;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn done(report: &Value) -> u64 {
    ["fetched", "already_there", "not_cacheable", "failed"]
        .iter()
        .map(|name| number(report, name))
        .sum()
}

fn bar(report: &Value) -> String {
    let (known, done) = (number(report, "known"), done(report));
    let full =
        (done.saturating_mul(BAR_WIDTH as u64) / known.max(1)).min(BAR_WIDTH as u64) as usize;
    format!(
        "[{}{}] {} of {}, {} fetched, {} not cacheable, {} failed",
        "=".repeat(full),
        " ".repeat(BAR_WIDTH - full),
        grouped(done),
        grouped(known),
        grouped(number(report, "fetched")),
        grouped(number(report, "not_cacheable")),
        grouped(number(report, "failed")),
    )
}

fn page(report: &Value, reasons: &Reasons, took: Duration) -> String {
    let mut page = String::new();
    let count = |name| grouped(number(report, name));
    let _ = writeln!(
        page,
        "{} pages in {}: {} fetched, {} already there, {} not cacheable, {} failed",
        grouped(done(report)),
        duration(took.as_secs()),
        count("fetched"),
        count("already_there"),
        count("not_cacheable"),
        count("failed"),
    );
    for (reason, count) in reasons {
        let _ = writeln!(page, "  {:>9} {reason}", grouped(*count));
    }
    page
}

fn summary(report: &Value, reasons: &Reasons) -> Value {
    let names = [
        "known",
        "fetched",
        "already_there",
        "not_cacheable",
        "failed",
    ];
    let mut summary: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), number(report, name).into()))
        .collect();
    summary.insert("reasons".into(), json!(reasons));
    Value::Object(summary)
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations() {
        let vary = [
            ("a".to_owned(), vec![String::new(), "1".into()]),
            ("b".into(), vec!["2".into(), "3".into()]),
        ];
        let all = variations(&vary, &[("X".into(), "y".into())]).unwrap();
        let cookies: Vec<&str> = all.iter().map(|fields| fields[1].1.as_str()).collect();
        assert_eq!(cookies, ["b=2", "b=3", "a=1; b=2", "a=1; b=3"]);
        assert_eq!(variations(&[], &[]).unwrap(), [Vec::new()]);
        let many = (
            "a".to_owned(),
            (0..300).map(|n: u32| n.to_string()).collect(),
        );
        assert!(variations(&[many], &[]).is_err());
    }

    #[test]
    fn chunks_fit_into_requests() {
        let urls: Vec<String> = (0..5000)
            .map(|number| format!("http://h.example/{number}"))
            .collect();
        let all: Vec<&[String]> = chunks(&urls).collect();
        assert_eq!(all.concat(), urls);
        assert!(
            all.len() > 5
                && all
                    .iter()
                    .all(|chunk| serde_json::to_string(chunk).unwrap().len() < CHUNK_BYTES_MAX)
        );
        assert_eq!(chunks(&["x".repeat(CHUNK_BYTES_MAX)]).count(), 1);
        assert_eq!(chunks(&[]).count(), 0);
    }

    #[test]
    fn pages() {
        let report = json!({ "known": 2000, "fetched": 900, "already_there": 50, "not_cacheable": 40, "failed": 10 });
        assert_eq!(
            bar(&report),
            "[===============               ] 1,000 of 2,000, 900 fetched, 40 not cacheable, 10 failed"
        );
        let page = page(
            &report,
            &Reasons::from([("private".into(), 40)]),
            Duration::from_secs(61),
        );
        assert_eq!(
            page,
            "1,000 pages in 1 min 1 s: 900 fetched, 50 already there, 40 not cacheable, 10 failed\n         40 private\n"
        );
        assert_eq!(bar(&Value::Null).matches('=').count(), 0);
    }
}
