//! Values of texts with variables, for a request.
//!
//! Called by: features whose settings have such texts (request fields and variables of upstreams,
//! keys of limits).
//! Caveat: nothing is recorded: callers have marked the outcome as one of this request alone.
//! Out of scope: texts whose outcome is cached with its dependencies (`ExchangeFacts`).

use crate::{Exchange, ExchangeFacts};
use saker_matchers::{
    Captures, Evaluation, FieldSink, MatchError, Repeated, Sink, Template, TextSink,
};

/// Returns the value of a text as one line; variables without a value are empty.
///
/// # Errors
/// The request's budget is used up, or a pattern of a map takes too many steps.
pub fn value(template: &Template, exchange: &Exchange) -> Result<Vec<u8>, MatchError> {
    if let Some(text) = template.constant() {
        return Ok(text.as_bytes().to_vec());
    }
    let mut sink = FieldSink::default();
    expand(template, exchange, &mut sink)?;
    Ok(sink.finish())
}

/// Returns the value of a text as it is, for comparisons.
///
/// # Errors
/// As for [`value`].
pub fn text(template: &Template, exchange: &Exchange) -> Result<Vec<u8>, MatchError> {
    let mut sink = TextSink::default();
    expand(template, exchange, &mut sink)?;
    Ok(sink.0)
}

/// Returns the text with other values of what the request has twice: which of them an application
/// takes is not known.
///
/// # Errors
/// As for [`value`].
pub fn text_of_repeated(
    template: &Template,
    exchange: &Exchange,
    repeated: Repeated,
) -> Result<Vec<u8>, MatchError> {
    let captures = match template.uses_captures() {
        true => exchange.captures(),
        false => Captures::default(),
    };
    let facts = ExchangeFacts::new(exchange, None);
    let mut sink = TextSink::default();
    let evaluation = Evaluation::new(&facts).with_captures(&captures);
    template.expand(&mut evaluation.with_repeated(repeated), &mut sink)?;
    Ok(sink.0)
}

fn expand(template: &Template, exchange: &Exchange, sink: &mut dyn Sink) -> Result<(), MatchError> {
    let captures = match template.uses_captures() {
        true => exchange.captures(),
        false => Captures::default(),
    };
    let facts = ExchangeFacts::new(exchange, None);
    template.expand(&mut Evaluation::new(&facts).with_captures(&captures), sink)
}
