//! No text makes the expression parser or the evaluator fall over, and what parses can be evaluated
//! twice with the same result.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_ap_expr::{
    Evaluation, Expression, ExpressionOptions, Facts, FileTest, LocalTime, StringExpression,
    Variable,
};
use saker_fuzz::Input;
use std::{borrow::Cow, net::IpAddr};

struct Echo;

impl Facts for Echo {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(variable.name().as_bytes()))
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Owned(name.to_vec()))
    }

    fn client_address(&self) -> Option<IpAddr> {
        "127.0.0.1".parse().ok()
    }

    fn local_time(&self) -> LocalTime {
        LocalTime {
            year: 2026,
            month: 1,
            day: 2,
            hour: 3,
            minute: 4,
            second: 5,
            weekday: 5,
        }
    }

    fn file_test(&self, path: &[u8], _: FileTest) -> bool {
        path.len() % 2 == 0
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Some(knob) = input.byte() else { return };
    let text = input.rest();
    let options = ExpressionOptions {
        tls_require: knob & 1 != 0,
        restricted: knob & 2 != 0,
        in_htaccess: knob & 4 != 0,
        no_vary: knob & 8 != 0,
    };
    match Expression::compile(text, options) {
        Ok(expression) => {
            let run = || {
                let mut evaluation = Evaluation::new(&Echo);
                (
                    expression.evaluate(&mut evaluation),
                    evaluation.dependencies,
                )
            };
            assert_eq!(run(), run());
        }
        Err(error) => assert!(error.at <= text.len() && !error.message.is_empty()),
    }
    if let Ok(string) = StringExpression::compile(text, options) {
        let first = string.evaluate(&mut Evaluation::new(&Echo));
        assert_eq!(first, string.evaluate(&mut Evaluation::new(&Echo)));
        if let Some(constant) = string.constant() {
            assert_eq!(first.as_deref(), Ok(constant));
        }
    }
});
