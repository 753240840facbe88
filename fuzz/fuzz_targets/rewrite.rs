//! Any rules over any request end, in bounded time, with an action that can be carried out:
//! locations without control characters (unless the rule said NE), paths that begin with a slash.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_ap_expr::{Facts, FileTest, LocalTime, Variable};
use saker_fuzz::Input as Knobs;
use saker_rewrite::{
    Action, Input, MapSource, Place, RewriteContext, Settings, TextMap, run_directory, run_server,
};
use std::{borrow::Cow, net::IpAddr, path::Path, sync::Arc};

struct Plain;

impl Facts for Plain {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(match variable {
            Variable::RequestScheme => b"http",
            Variable::ServerName => b"www.test",
            Variable::ServerPort => b"80",
            Variable::DocumentRoot | Variable::ContextDocumentRoot => b"/srv/www",
            _ => b"value?",
        }))
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Owned(name.to_vec()))
    }

    fn client_address(&self) -> Option<IpAddr> {
        None
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

impl RewriteContext for Plain {
    fn text_map(&self, _: &Path) -> Option<Arc<TextMap>> {
        Some(Arc::new(TextMap::parse(b"a b\nc d|e\n")))
    }

    fn external_map(&self, _: &str, _: &MapSource, key: &[u8]) -> Option<Vec<u8>> {
        Some(key.to_vec())
    }

    fn pick(&self, count: usize) -> usize {
        count - 1
    }

    fn look_ahead<'w>(&'w self, _: &[u8], _: bool) -> Option<Box<dyn Facts + 'w>> {
        Some(Box::new(Plain))
    }

    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        host == b"www.test" && port == 80
    }

    fn home_folder(&self, user: &[u8]) -> Option<Vec<u8>> {
        (user == b"a").then(|| b"/home/a".to_vec())
    }

    fn as_facts(&self) -> &dyn Facts {
        self
    }
}

// The first line is the request; the others are directives by their first letter.
fuzz_target!(|data: &[u8]| {
    let mut knobs = Knobs::new(data);
    let Some(knob) = knobs.byte() else { return };
    let mut lines = knobs.rest().split(|byte| *byte == b'\n');
    let request = lines.next().unwrap_or_default();
    let in_directory = knob & 1 != 0;
    let mut settings = if in_directory {
        Settings::directory(Place::Htaccess, b"/srv/www")
    } else {
        Settings::server()
    };
    settings.set_engine(true);
    for line in lines.take(20) {
        let Some((kind, rest)) = line.split_first() else {
            continue;
        };
        let text = String::from_utf8_lossy(rest);
        let _ = match kind {
            b'C' => settings.add_condition(rest).map(drop),
            b'O' => settings.add_option(&text).map(drop),
            b'B' => settings.set_base(rest),
            b'M' => settings
                .add_map("m", &text, None, |path| Some(path.into()))
                .map(drop),
            _ => settings.add_rule(rest).map(drop),
        };
    }
    let (path, query) = match request.iter().position(|byte| *byte == b'?') {
        Some(at) => (&request[..at], Some(&request[at + 1..])),
        None => (request, None),
    };
    let file = [b"/srv/www", path].concat();
    let input = Input {
        query,
        filename: in_directory.then_some(&file),
        is_subrequest: knob & 2 != 0,
        trace_level: knob >> 4,
        ..Input::new(path)
    };
    let run = || match in_directory {
        true => run_directory(&settings, &settings, &Plain, &input),
        false => run_server(&settings, &Plain, &input),
    };
    let outcome = run();
    assert_eq!(outcome.action, run().action);
    match outcome.action {
        Action::Redirect { status, .. } => assert!((300..400).contains(&status)),
        Action::Filename(path) | Action::Translate(path) => assert!(path.starts_with(b"/")),
        Action::InternalRedirect(_) => assert!(in_directory),
        Action::PassThrough(_) => assert!(!in_directory),
        Action::Status(status) => assert!((100..600).contains(&status)),
        Action::Pass | Action::Stay | Action::Proxy { .. } => {}
    }
});
