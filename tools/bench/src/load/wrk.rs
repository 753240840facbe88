//! wrk: keep-alive HTTP/1.1. It prints rounded figures for people, so a script prints the exact
//! ones.

use super::setting::{EXACT_FIGURES, LoadSetting};
use crate::{pinning::program, tool::Tool};
use saker_testkit::SESSION_COOKIE;
use std::{fs, io, path::PathBuf};

/// Their cookies say `customer01` and so on.
const SESSIONS: usize = 40;

/// `more`: arguments of its own.
pub fn words(setting: &LoadSetting<'_>, more: &[&str]) -> Result<Vec<String>, String> {
    let script = write_script(setting)
        .map_err(|error| error.to_string())?
        .display()
        .to_string();
    let (connections, seconds) = (
        format!("-c{}", setting.connections),
        format!("-d{}s", setting.amount.seconds()),
    );
    let mut words = vec![
        program("wrk")?,
        "-t1".to_owned(),
        connections,
        seconds,
        "--timeout=10s".to_owned(),
        "-s".to_owned(),
        script,
    ];
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words.push(setting.url());
    Ok(words)
}

fn write_script(setting: &LoadSetting<'_>) -> io::Result<PathBuf> {
    let one_in = if let Tool::WrkLoggedIn { one_in } = setting.tool {
        one_in
    } else {
        0
    };
    let path = setting
        .work
        .join(format!("wrk-{}-{one_in}.lua", setting.paths.len()));
    fs::write(&path, script(setting.paths, one_in))?;
    Ok(path)
}

/// One path needs no `request` function: wrk is faster without one. One client in
/// `logged_in_one_in` sends a session's cookie; 0 means none.
fn script(paths: &[&str], logged_in_one_in: usize) -> String {
    let mut script = format!(
        "done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(\"{EXACT_FIGURES} %d %d %d %d %d %d %d\\n\", summary.requests, summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99), latency.max))
end
"
    );
    if logged_in_one_in > 0 {
        script.push_str(&logged_in(paths, logged_in_one_in));
    } else if paths.len() > 1 {
        let list: Vec<String> = paths.iter().map(|path| format!("\"/{path}\"")).collect();
        script.push_str(&format!(
            "local paths, requests, n = {{ {} }}, {{}}, 0
init = function(args)
  for i, path in ipairs(paths) do requests[i] = wrk.format(\"GET\", path) end
end
request = function()
  n = n % #requests + 1
  return requests[n]
end
",
            list.join(", ")
        ));
    }
    script
}

/// Sessions are many, since PHP lets the requests of one wait for each other.
fn logged_in(paths: &[&str], one_in: usize) -> String {
    let list: Vec<String> = paths.iter().map(|path| format!("\"/{path}\"")).collect();
    format!(
        "local paths, guests, n, customer = {{ {} }}, {{}}, 0, 0
init = function(args)
  for i, path in ipairs(paths) do guests[i] = wrk.format(\"GET\", path) end
end
request = function()
  n = n + 1
  if n % {one_in} > 0 then return guests[n % #guests + 1] end
  customer = customer % {SESSIONS} + 1
  return wrk.format(\"GET\", paths[n % #paths + 1], {{ [\"Cookie\"] = string.format(\"{SESSION_COOKIE}=customer%02d\", customer) }})
end
",
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_has_no_request_function() {
        assert!(!script(&["a"], 0).contains("request = function"));
        assert!(script(&["a", "b"], 0).contains("{ \"/a\", \"/b\" }"));
    }

    #[test]
    fn some_visitors_are_logged_in() {
        let script = script(&["a"], 10);
        assert!(
            script.contains("n % 10 > 0") && script.contains("shop_session=customer%02d"),
            "{script}"
        );
    }
}
