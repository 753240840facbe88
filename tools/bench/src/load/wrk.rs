//! wrk: keep-alive HTTP/1.1. It prints rounded figures for people, so a script prints the exact ones.

use super::{EXACT_FIGURES, LoadSetting, program};
use std::{fs, io, path::PathBuf};

/// `more`: arguments of its own.
pub fn words(setting: &LoadSetting<'_>, more: &[&str]) -> Result<Vec<String>, String> {
    let script = write_script(setting).map_err(|error| error.to_string())?.display().to_string();
    let (connections, seconds) = (format!("-c{}", setting.connections), format!("-d{}s", setting.amount.seconds()));
    let mut words = vec![program("wrk")?, "-t1".to_owned(), connections, seconds, "--timeout=10s".to_owned(), "-s".to_owned(), script];
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words.push(setting.url());
    Ok(words)
}

fn write_script(setting: &LoadSetting<'_>) -> io::Result<PathBuf> {
    let path = setting.work.join(format!("wrk-{}.lua", setting.paths.len()));
    fs::write(&path, script(setting.paths))?;
    Ok(path)
}

/// One path needs no `request` function: wrk is faster without one.
fn script(paths: &[&str]) -> String {
    let mut script = format!(
        "done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(\"{EXACT_FIGURES} %d %d %d %d %d %d %d\\n\", summary.requests, summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99), latency.max))
end
"
    );
    if paths.len() > 1 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_has_no_request_function() {
        assert!(!script(&["a"]).contains("request = function"));
        assert!(script(&["a", "b"]).contains("{ \"/a\", \"/b\" }"));
    }
}
