//! Scripts and styles of the pages, embedded.
//!
//! Called by: actions.
//! Caveat: pages name them with the program's version, so browsers may keep them.
//! Out of scope: uPlot, whose license and version are in `assets/uplot`.

use crate::exchange::{Request, Response};
use flate2::{Compression, write::GzEncoder};
use std::{io::Write as _, sync::OnceLock};

pub struct Asset {
    content_type: &'static str,
    content: &'static str,
    compressed: OnceLock<Vec<u8>>,
}

const fn asset(content_type: &'static str, content: &'static str) -> Asset {
    Asset {
        content_type,
        content,
        compressed: OnceLock::new(),
    }
}

const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";
const STYLE_TYPE: &str = "text/css; charset=utf-8";

pub static STYLE: Asset = asset(STYLE_TYPE, include_str!("../assets/console.css"));
pub static ICON: Asset = asset("image/svg+xml", include_str!("../assets/icon.svg"));
pub static SCRIPT: Asset = asset(SCRIPT_TYPE, include_str!("../assets/console.js"));
pub static EDITOR_SCRIPT: Asset = asset(SCRIPT_TYPE, include_str!("../assets/editor.js"));
pub static CHART_SCRIPT: Asset = asset(
    SCRIPT_TYPE,
    include_str!("../assets/uplot/uPlot.iife.min.js"),
);
pub static CHART_STYLE: Asset = asset(STYLE_TYPE, include_str!("../assets/uplot/uPlot.min.css"));

impl Asset {
    pub fn answer(&'static self, request: &Request) -> Response {
        let accepts = request.field("accept-encoding").unwrap_or_default();
        let takes_gzip = accepts.split(',').any(|coding| coding.trim() == "gzip");
        let content = match takes_gzip {
            true => self.compressed(),
            false => self.content.as_bytes(),
        };
        let mut response = Response::new(200, self.content_type, content);
        response.is_asset = true;
        if takes_gzip {
            response = response.with("Content-Encoding", "gzip".into());
        }
        response.with("Vary", "Accept-Encoding".into())
    }

    fn compressed(&self) -> &[u8] {
        self.compressed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail.
            let _ = encoder.write_all(self.content.as_bytes());
            encoder.finish().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_assets_together_are_small() {
        let all = [
            &STYLE,
            &ICON,
            &SCRIPT,
            &EDITOR_SCRIPT,
            &CHART_SCRIPT,
            &CHART_STYLE,
        ];
        let bytes: usize = all.iter().map(|asset| asset.compressed().len()).sum();
        assert!(bytes > 1_000 && bytes < 100_000, "{bytes} bytes");
    }

    /// Text of clients becomes elements by their text alone.
    #[test]
    fn scripts_make_no_markup_of_text() {
        for script in [&SCRIPT, &EDITOR_SCRIPT] {
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "Function(",
            ] {
                assert!(!script.content.contains(way), "{way}");
            }
        }
    }
}
