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

/// A value, and the first and the last one where there are several.
pub type Repeatable = (Vec<u8>, Option<[Vec<u8>; 2]>);

/// Returns the value of a text as it is, for comparisons, and behind it those of the first and the
/// last value of what the request has twice, if there is such: which of them an application takes
/// is not known. Most requests have nothing twice, and the text is evaluated once.
///
/// # Errors
/// As for [`value`].
pub fn text_and_repeated(
    template: &Template,
    exchange: &Exchange,
) -> Result<Repeatable, MatchError> {
    let captures = match template.uses_captures() {
        true => exchange.captures(),
        false => Captures::default(),
    };
    let facts = ExchangeFacts::new(exchange, None);
    let evaluate = |repeated| {
        let mut sink = TextSink::default();
        let evaluation = Evaluation::new(&facts).with_captures(&captures);
        let mut evaluation = evaluation.with_repeated(repeated);
        template.expand(&mut evaluation, &mut sink)?;
        Ok::<_, MatchError>((sink.0, evaluation.has_repeated()))
    };
    let (usual, has_repeated) = evaluate(Repeated::Watched)?;
    if !has_repeated {
        return Ok((usual, None));
    }
    let (first, _) = evaluate(Repeated::First)?;
    let (last, _) = evaluate(Repeated::Last)?;
    Ok((usual, Some([first, last])))
}

fn expand(template: &Template, exchange: &Exchange, sink: &mut dyn Sink) -> Result<(), MatchError> {
    let captures = match template.uses_captures() {
        true => exchange.captures(),
        false => Captures::default(),
    };
    let facts = ExchangeFacts::new(exchange, None);
    template.expand(&mut Evaluation::new(&facts).with_captures(&captures), sink)
}
