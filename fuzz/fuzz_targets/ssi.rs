//! A page with server-side includes means the same however it is cut, ends, and never makes more of
//! a value than a value may be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut};
use saker_ssi::{
    Answer, Demand, Lazy, Matched, Page, Settings, SsiContext, Step, VALUE_BYTES_MAX, Variables,
};

#[derive(Default)]
struct Small {
    variables: Variables,
    complaints: usize,
}

impl SsiContext for Small {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn lazy(&self, _: Lazy, format: &[u8]) -> Vec<u8> {
        format.to_vec()
    }

    fn time(&self, format: &[u8], _: i64) -> Vec<u8> {
        format.to_vec()
    }

    fn short_size(&self, bytes: u64) -> Vec<u8> {
        bytes.to_string().into_bytes()
    }

    fn holds(&mut self, expression: &[u8], _: &mut Matched, _: &[u8]) -> Result<bool, String> {
        if expression.is_empty() {
            Err("empty".into())
        } else {
            Ok(expression.len() % 2 == 0)
        }
    }

    fn is_accessible(&mut self, path: &[u8]) -> bool {
        path.len() % 2 == 0
    }

    fn complain(&mut self, fault: String) {
        assert!(!fault.is_empty());
        self.complaints += 1;
    }
}

fn run(settings: &Settings, pieces: &[&[u8]]) -> (Vec<u8>, usize) {
    let (mut world, mut page, mut pieces, mut out) = (
        Small::default(),
        Page::new(settings.clone()),
        pieces.iter(),
        Vec::new(),
    );
    world.variables.set(b"A", b"a value");
    loop {
        match page.step(&mut world) {
            Step::Text(text) => out.extend(text),
            Step::Hungry => match pieces.next() {
                Some(piece) => page.push(piece),
                None => page.end(),
            },
            Step::Demand(demand) => {
                let answer = match &demand {
                    Demand::Look(_) => Answer::Found {
                        bytes: 1234,
                        modified_s: 5,
                    },
                    Demand::Command(command) if command.len() % 2 == 0 => Answer::Failed,
                    _ => Answer::Done,
                };
                page.answer(answer, &mut world);
            }
            Step::End => break,
        }
    }
    for (_, value) in world.variables.iter() {
        assert!(format!("{value:?}").len() <= 8 * VALUE_BYTES_MAX);
    }
    (out, world.complaints)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(cuts)) = (input.byte(), input.u16()) else {
        return;
    };
    let mut settings = Settings {
        legacy_expressions: knob & 1 != 0,
        may_run: knob & 2 != 0,
        ..Settings::default()
    };
    if knob & 4 != 0 {
        (settings.start_tag, settings.end_tag) =
            (b"<<<?".as_slice().into(), b">>>".as_slice().into());
    }
    let page = input.rest();
    assert_eq!(run(&settings, &[page]), run(&settings, &cut(page, cuts)));
});
