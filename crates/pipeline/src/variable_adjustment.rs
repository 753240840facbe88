//! The final adjustment of the variables that a program receives (ProxyFCGISetEnvIf).
//!
//! Called by: the gateway, after all variables are set. Rules leave it in the extensions of the
//! exchange, and set [`Script::is_adjusted`](crate::Script::is_adjusted).
//! Caveat: it examines the exchange as it is when the request is sent, not when the rules ran.
//! Out of scope: the variables themselves (the gateway).

use crate::Exchange;
use std::rc::Rc;

type Variables = Vec<(Vec<u8>, Vec<u8>)>;
type Adjust = dyn Fn(&Exchange, Variables) -> Variables;

/// Transforms the variables that a program receives.
#[derive(Clone)]
pub struct VariableAdjustment(Rc<Adjust>);

impl VariableAdjustment {
    pub fn new(adjust: impl Fn(&Exchange, Variables) -> Variables + 'static) -> VariableAdjustment {
        VariableAdjustment(Rc::new(adjust))
    }

    /// Returns the adjusted variables.
    pub fn apply(&self, exchange: &Exchange, variables: Variables) -> Variables {
        (self.0)(exchange, variables)
    }
}
