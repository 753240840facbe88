//! Text in HTML.
//!
//! Called by: the page and its charts.
//! Caveat: values of attributes have to be in double quotes.
//! Out of scope: text in URLs.

/// Escapes text for content and for values of attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
