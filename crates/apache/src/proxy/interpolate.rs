//! ProxyPassInterpolateEnv: variables in texts of mod_proxy.
//!
//! Called by: `translate` and `manner`.

use saker_pipeline::Exchange;

/// `${name}` of the request's variables; unknown ones are empty (Apache manual,
/// "ProxyPassInterpolateEnv").
pub fn interpolate(exchange: &Exchange, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, behind) = rest.split_at(start);
        let Some(end) = behind.find('}') else { break };
        out.push_str(before);
        let name = behind.get(2..end).unwrap_or_default();
        let value = exchange
            .environment
            .first(name.as_bytes())
            .unwrap_or_default();
        out.push_str(&String::from_utf8_lossy(value));
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}
