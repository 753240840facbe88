//! The answer of a program is the same however it arrives, no dialogue keeps more unread than it may,
//! nothing comes after the end, content is never more than what came, and no field has anything in
//! it that ends a line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_cgi::{
    Ajp, Dialogue, FastCgi, Lsapi, PlainCgi, Scgi, Uwsgi,
    fastcgi::Role,
    test_peer::{Heard, hear},
};
use saker_fuzz::{Input, cut};

fn dialogue(which: u8) -> Box<dyn Dialogue> {
    let mut dialogue: Box<dyn Dialogue> = match which % 7 {
        0 => Box::new(FastCgi::new(Role::Responder, true)),
        1 => Box::new(Lsapi::new()),
        2 => Box::new(Ajp::new(None)),
        3 => Box::new(PlainCgi::new(true)),
        4 => Box::new(PlainCgi::new(false)),
        5 => Box::new(Scgi::new()),
        _ => Box::new(Uwsgi::new(0, 0)),
    };
    dialogue.end(&mut Vec::new());
    dialogue
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(which), Some(knob)) = (input.byte(), input.u16()) else {
        return;
    };
    let bytes = input.rest();
    let heard = hear(&mut *dialogue(which), [bytes], true);
    assert_eq!(
        hear(&mut *dialogue(which), cut(bytes, knob), true),
        heard,
        "cut by {knob}"
    );
    let mut content = 0;
    for heard in &heard {
        match heard {
            Heard::Content(piece) | Heard::Log(piece) => content += piece.len(),
            Heard::Head(head) | Heard::Interim(head) | Heard::Switched(head) => {
                let text = head
                    .fields
                    .iter()
                    .flat_map(|(name, value)| [name.as_bytes(), value])
                    .chain(head.reason.as_deref());
                text.for_each(|text| {
                    assert!(
                        !text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
                        "{head:?}"
                    )
                });
            }
            _ => {}
        }
    }
    assert!(content <= bytes.len());
});
