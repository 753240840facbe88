//! `proxy-html` (mod_proxy_html): addresses in the HTML of upstreams become addresses of the site.
//!
//! Called by: the front ends, through [`apply`].
//! Caveat: markup is edited where it stands and stays as it was written otherwise, while Apache
//! parses the page and writes it anew. Tags and scripts that are longer than their limits pass
//! unedited. Pages are decoded to UTF-8 first (mod_xml2enc).
//! Out of scope: sites of saker.toml, whose `substitute` edits pages line by line; pages with a
//! content coding, and addresses outside of the configured attributes
//! (`srcset`, style sheets of their own).

mod attributes;
mod charset;
mod markup;
mod meta;
mod rules;
mod url_map;

pub use charset::{CharsetOut, Charsets, encoding_named};
pub use encoding_rs::Encoding;
pub use rules::{HtmlRules, LinkNames};
pub use url_map::{UrlRule, UrlRuleFlags};

use crate::{
    budget::within_budget,
    gather,
    transform::{Transform, transform_response},
};
use charset::{Decoded, Encoded};
use markup::{Markup, Token};
use saker_pipeline::{BodyError, RequestBudget, Response};
use std::{ops::Range, rc::Rc};

/// Sends a page through the rules, if it is one: HTML or XHTML without a content coding. Other texts
/// are decoded, too.
///
/// # Errors
/// The body's own error, where its beginning had to be read before the head is sent.
pub async fn apply(
    response: &mut Response,
    rules: HtmlRules,
    charsets: Option<&Charsets>,
    budget: &Rc<RequestBudget>,
) -> Result<(), BodyError> {
    let fields = response.fields();
    let media_type = fields.first("Content-Type").unwrap_or_default().to_vec();
    let is_html = is_html(&media_type);
    let is_text = is_html || is_text(&media_type);
    if fields.first("Content-Encoding").is_some() || !is_text || !is_html && charsets.is_none() {
        return Ok(());
    }
    let is_asked = charsets.is_some_and(|charsets| charsets.out == Some(CharsetOut::Own));
    let beginning = match is_html && (rules.obeys_meta || is_asked) {
        true => gather::beginning(&mut response.body, meta::LOOK_BYTES).await?,
        false => Vec::new(),
    };
    let skipped = match rules.obeys_meta && is_html {
        true => meta::apply(response, &beginning),
        false => None,
    };
    let decoded = charsets.map(|charsets| Decoded::new(charsets, &media_type));
    let of_client = charsets
        .filter(|_| is_html)
        .and_then(|charsets| charsets.of_client(&media_type, &beginning));
    if let Some((_, name)) = &of_client {
        let value = format!("text/html;charset={name}").into_bytes();
        response.fields_mut().set("Content-Type", value);
    } else if decoded.is_some() {
        let value = match is_html {
            true => [kind_of(&media_type), b";charset=utf-8"].concat(),
            false => charset::in_utf8(&media_type),
        };
        response.fields_mut().set("Content-Type", value);
    }
    let page = Page {
        rules,
        decoded,
        markup: is_html.then(Markup::default),
        budget: Rc::clone(budget),
        is_begun: false,
        encoded: of_client.map(|(encoding, _)| Encoded::new(encoding)),
        unencoded: Vec::new(),
        skipped,
        taken: 0,
    };
    transform_response(response, page);
    Ok(())
}

fn kind_of(media_type: &[u8]) -> &[u8] {
    let kind = media_type.split(|byte| *byte == b';').next();
    kind.unwrap_or_default().trim_ascii()
}

fn is_html(media_type: &[u8]) -> bool {
    let kind = kind_of(media_type).to_ascii_lowercase();
    kind == b"text/html" || kind == b"application/xhtml+xml"
}

/// Texts whose characters are decoded, whatever their markup is (RFC 7303 for XML).
fn is_text(media_type: &[u8]) -> bool {
    let kind = kind_of(media_type).to_ascii_lowercase();
    // Events are sent one by one, and are UTF-8.
    !kind.starts_with(b"text/event-stream") && kind.starts_with(b"text/")
        || kind == b"application/xml"
        || kind.ends_with(b"+xml")
}

/// A page on its way.
struct Page {
    rules: HtmlRules,
    /// `None`: its characters stay as they are.
    decoded: Option<Decoded>,
    /// `None`: a text of another kind, which is only decoded.
    markup: Option<Markup>,
    budget: Rc<RequestBudget>,
    is_begun: bool,
    /// `None`: sent as UTF-8.
    encoded: Option<Encoded>,
    /// Edited text that waits for the rest of a character.
    unencoded: Vec<u8>,
    /// Bytes of the input that are left out: an element that told another charset.
    skipped: Option<Range<usize>>,
    /// Bytes of the input so far, as long as some are to be left out.
    taken: usize,
}

impl Transform for Page {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.budget.work().grant_for(input.len());
        let mut text = Vec::with_capacity(input.len());
        let (before, behind) = self.without_skipped(input);
        for piece in [before, behind] {
            match &mut self.decoded {
                Some(decoded) => decoded.push(piece, &mut text),
                None => text.extend_from_slice(piece),
            }
        }
        self.edit_and_encode(&text, false, output)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        let mut text = Vec::new();
        if let Some(decoded) = &mut self.decoded {
            decoded.finish(&mut text);
        }
        self.edit_and_encode(&text, true, output)
    }
}

impl Page {
    /// The parts of a piece of the input that are not left out.
    fn without_skipped<'i>(&mut self, input: &'i [u8]) -> (&'i [u8], &'i [u8]) {
        let Some(skipped) = &self.skipped else {
            return (input, b"");
        };
        let at = |place: usize| place.saturating_sub(self.taken).min(input.len());
        let before = input.get(..at(skipped.start)).unwrap_or_default();
        let behind = input.get(at(skipped.end)..).unwrap_or_default();
        self.taken += input.len();
        if self.taken >= skipped.end {
            self.skipped = None;
        }
        (before, behind)
    }

    fn edit_and_encode(
        &mut self,
        text: &[u8],
        is_last: bool,
        output: &mut Vec<u8>,
    ) -> Result<(), BodyError> {
        if self.encoded.is_none() {
            return self.edit(text, is_last, output);
        }
        let mut waiting = std::mem::take(&mut self.unencoded);
        self.edit(text, is_last, &mut waiting)?;
        // Text that was decoded is UTF-8; an edit may cut it at a piece's end only.
        let whole = match std::str::from_utf8(&waiting) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() && !is_last => error.valid_up_to(),
            Err(_) => waiting.len(),
        };
        let text = String::from_utf8_lossy(waiting.get(..whole).unwrap_or_default());
        if let Some(encoded) = &mut self.encoded {
            encoded.push(&text, is_last, output);
        }
        self.unencoded = waiting.get(whole..).unwrap_or_default().to_vec();
        Ok(())
    }

    fn edit(&mut self, text: &[u8], is_last: bool, output: &mut Vec<u8>) -> Result<(), BodyError> {
        let before = output.len();
        let Some(markup) = &mut self.markup else {
            output.extend_from_slice(text);
            return Ok(());
        };
        if !self.is_begun && (!text.is_empty() || is_last) {
            self.is_begun = true;
            if let Some(doctype) = &self.rules.doctype {
                output.extend_from_slice(doctype.as_bytes());
            }
        }
        markup.push(text);
        while let Some(token) = markup.next(is_last) {
            emit(&self.rules, &self.budget, token, output);
        }
        self.budget.work().make(output.len() - before);
        within_budget(&self.budget, "proxy-html")
    }
}

fn emit(rules: &HtmlRules, budget: &RequestBudget, token: Token, output: &mut Vec<u8>) {
    match token {
        Token::Text(text) => output.extend_from_slice(&text),
        Token::Comment(text) if !rules.strips_comments => output.extend_from_slice(&text),
        Token::Comment(_) => {}
        Token::Doctype(text) if rules.doctype.is_none() => output.extend_from_slice(&text),
        Token::Doctype(_) => {}
        Token::Script(text) if rules.is_extended => {
            let edited = url_map::in_text(&rules.urls, budget.work(), text, url_map::Place::Script);
            output.extend_from_slice(&edited);
        }
        Token::Script(text) => output.extend_from_slice(&text),
        Token::Tag(tag) => {
            budget.work().look_at(tag.len());
            attributes::edit(rules, budget.work(), &tag, output);
        }
    }
}

#[cfg(test)]
mod tests;
