//! The request's budget as filters see it.
//!
//! Called by: `substitute` and `sed`, whose rules can be made to run for long by what they edit.
//! Out of scope: how work is counted (`saker_ap_expr::Work`).

use saker_pipeline::{BodyError, RequestBudget};
use saker_telemetry::{error_log, message};

/// Fails the body once the request has used up its budget. The client sees a truncated response.
///
/// # Errors
/// [`BodyError::Source`] if a limit is exceeded; the limit is logged.
pub fn within_budget(budget: &RequestBudget, filter: &str) -> Result<(), BodyError> {
    let Some(limit) = budget.exceeded() else {
        return Ok(());
    };
    error_log::log(
        &message::REQUEST_GIVEN_UP,
        format_args!("{filter}: {limit}"),
    );
    Err(BodyError::Source)
}
