//! mod_deflate's limits on decoded content. The filter is `saker_content_filters::inflate`; how
//! content is encoded is in `filters`.

use crate::{arguments::texts, reading::Set};
use saker_apache_syntax::Node;
use saker_content_filters::inflate::InflateLimits;

#[derive(Clone, Debug, Default)]
pub struct Deflate {
    request_bytes_max: Option<u64>,
    ratio_max: Option<u64>,
    ratio_burst: Option<u64>,
}

impl Deflate {
    pub const DIRECTIVES: &'static [(&'static str, Set<Deflate>)] = &[
        ("DeflateInflateLimitRequestBody", |node, deflate, _| {
            set(
                node,
                &mut deflate.request_bytes_max,
                0,
                "DeflateInflateLimitRequestBody is not parsable.",
            )
        }),
        ("DeflateInflateRatioLimit", |node, deflate, _| {
            set(
                node,
                &mut deflate.ratio_max,
                1,
                "DeflateInflateRatioLimit must be positive",
            )
        }),
        ("DeflateInflateRatioBurst", |node, deflate, _| {
            set(
                node,
                &mut deflate.ratio_burst,
                1,
                "DeflateInflateRatioBurst must be positive",
            )
        }),
    ];

    pub fn merge(&self, over: &Deflate) -> Deflate {
        Deflate {
            request_bytes_max: over.request_bytes_max.or(self.request_bytes_max),
            ratio_max: over.ratio_max.or(self.ratio_max),
            ratio_burst: over.ratio_burst.or(self.ratio_burst),
        }
    }

    /// `otherwise`: where DeflateInflateLimitRequestBody says nothing, LimitRequestBody counts; 0
    /// is no bound.
    pub fn of_requests(&self, otherwise: Option<u64>) -> InflateLimits {
        let bytes_max = self.request_bytes_max.or(otherwise).filter(|max| *max > 0);
        InflateLimits {
            bytes_max,
            ..self.of_responses()
        }
    }

    /// Apache's defaults are a ratio of 200, three times.
    pub fn of_responses(&self) -> InflateLimits {
        InflateLimits {
            bytes_max: None,
            ratio_max: self.ratio_max.unwrap_or(200),
            ratio_burst: self.ratio_burst.unwrap_or(3),
        }
    }
}

fn set(node: &Node, slot: &mut Option<u64>, min: u64, complaint: &str) -> Result<(), String> {
    let number = texts(node).first().and_then(|word| word.parse().ok());
    *slot = Some(number.filter(|number| *number >= min).ok_or(complaint)?);
    Ok(())
}
