//! Edits of a table of fields by mod_headers.
//!
//! Difficulty: Apache has two tables of response fields and lays the one before the other in the
//! end, so that the same name may go out twice; users' configurations show it, and so it is the
//! same here (`super::lay`).

use saker_ap_expr::{Evaluation, Facts, Pattern, Work, words::expand_groups};
use saker_apache_model::modules::headers::{
    Action, EDITED_FIELDS_BYTES_MAX, Edit, Tag, Value, When,
};
use saker_http::Fields;
use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// The time at which a request came.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub at: SystemTime,
    pub began: Instant,
}

/// The context of edits: everything that they ask besides the table that they change.
pub struct EditContext<'w> {
    pub facts: &'w dyn Facts,
    pub received: Received,
    /// Lines of the request.
    pub request: &'w [(&'w [u8], &'w [u8])],
    /// The budget that edits are charged to; once it is exhausted nothing is edited any more.
    pub work: &'w Work,
}

/// A step is charged for as many fields that an edit has to look through.
const STEP_FIELDS: u64 = 16;

/// Charges an edit for the table that it looks through, and says whether there may be one.
fn may_edit(table: &Fields, work: &Work) -> bool {
    let (count, bytes) = size(table);
    work.look_at(bytes);
    work.steps(count / STEP_FIELDS);
    if bytes > EDITED_FIELDS_BYTES_MAX {
        // What is too large stays too large.
        work.make(usize::MAX);
    }
    !work.is_exhausted()
}

fn size(table: &Fields) -> (u64, usize) {
    table.iter().fold((0, 0), |(count, bytes), (name, value)| {
        (count + 1, bytes + name.len() + value.len())
    })
}

impl Received {
    pub fn now() -> Received {
        Received {
            at: SystemTime::now(),
            began: Instant::now(),
        }
    }
}

/// Returns true if the condition of an edit holds. Adds the request fields that it has asked for by
/// their names to `vary`.
pub fn holds(edit: &Edit, facts: &dyn Facts, vary: &mut Vec<String>) -> bool {
    match &edit.condition {
        When::Always | When::Early => true,
        When::Set(name) => facts.environment(name).is_some(),
        When::Unset(name) => facts.environment(name).is_none(),
        // As Apache: what can't be evaluated is as if there were no condition.
        When::Holds(expression) => {
            let mut evaluation = Evaluation::new(facts);
            let holds = expression.evaluate(&mut evaluation).unwrap_or(true);
            vary.extend(evaluation.dependencies.vary().map(str::to_owned));
            holds
        }
    }
}

/// Applies one edit to `table`. What `echo` finds in the request comes back.
pub fn apply(edit: &Edit, table: &mut Fields, context: &EditContext<'_>) -> Vec<(String, Vec<u8>)> {
    if !may_edit(table, context.work) {
        return Vec::new();
    }
    let echoed = apply_unbounded(edit, table, context);
    let (_, bytes) = size(table);
    context.work.make(bytes);
    if bytes > EDITED_FIELDS_BYTES_MAX {
        context.work.make(usize::MAX);
    }
    echoed
}

fn apply_unbounded(
    edit: &Edit,
    table: &mut Fields,
    context: &EditContext<'_>,
) -> Vec<(String, Vec<u8>)> {
    if !edit.has_field_name() {
        // No head that has been begun can say it: the response becomes an error.
        context.work.make(usize::MAX);
        return Vec::new();
    }
    let safe = |value: Vec<u8>| sendable(value, context);
    let name = || edit.name.to_string();
    let old = || table.first(&edit.name).map(<[u8]>::to_vec);
    match &edit.action {
        Action::Set(value) => table.set(name(), safe(text(value, context))),
        Action::Add(value) => table.append(name(), safe(text(value, context))),
        Action::Append(value) => {
            let joined = joined(old(), &safe(text(value, context)));
            set_first(table, &edit.name, joined);
        }
        Action::Merge(value) => merge(table, &edit.name, &safe(text(value, context))),
        // A type stands in no table, so it is always missing there.
        Action::SetIfEmpty(value)
            if edit.name.eq_ignore_ascii_case("Content-Type") || old().is_none() =>
        {
            table.set(name(), safe(text(value, context)))
        }
        Action::SetIfEmpty(_) | Action::Note => {}
        Action::Unset => {
            table.remove(&edit.name);
        }
        Action::Edit {
            pattern,
            replacement,
            all,
        } => {
            let replacing = Replacing {
                pattern,
                text: &text(replacement, context),
                all: *all,
                work: context.work,
            };
            rewrite(table, &edit.name, &replacing);
        }
        Action::Echo(pattern) => return echo(pattern, context),
    }
    Vec::new()
}

/// Line breaks in a value would start fields of their own (RFC 9110 section 5.5). As in Apache, the
/// response becomes an error.
fn sendable(value: Vec<u8>, context: &EditContext<'_>) -> Vec<u8> {
    let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    if value.iter().any(is_control) {
        context.work.make(usize::MAX);
        return Vec::new();
    }
    value
}

/// A value for other texts, without line breaks.
fn safe(mut value: Vec<u8>) -> Vec<u8> {
    value
        .iter_mut()
        .filter(|byte| matches!(byte, b'\r' | b'\n' | 0))
        .for_each(|byte| *byte = b' ');
    value
}

fn joined(old: Option<Vec<u8>>, new: &[u8]) -> Vec<u8> {
    old.map_or_else(|| new.to_vec(), |old| [old.as_slice(), b", ", new].concat())
}

/// Changes the first line of a name; the others stay.
fn set_first(table: &mut Fields, name: &str, value: Vec<u8>) {
    let mut done = false;
    let mut changed = Fields::new();
    for (known, old) in table.iter() {
        let is_it = !done && known.eq_ignore_ascii_case(name);
        done |= is_it;
        changed.append(
            known.to_owned(),
            if is_it { value.clone() } else { old.to_vec() },
        );
    }
    if !done {
        changed.append(name.to_owned(), value);
    }
    *table = changed;
}

/// Adds an element to a list unless it is there, compared as it is written.
fn merge(table: &mut Fields, name: &str, new: &[u8]) {
    let old = table.first(name).map(<[u8]>::to_vec);
    let is_there = old
        .as_deref()
        .is_some_and(|old| elements(old).any(|element| element == new));
    if !is_there {
        set_first(table, name, joined(old, new));
    }
}

/// Between commas that stand in no quotes, without space before them.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    list.split(move |byte| {
        quoted ^= *byte == b'"';
        *byte == b',' && !quoted
    })
    .map(<[u8]>::trim_ascii_start)
}

/// Every line of the name, by a pattern.
fn rewrite(table: &mut Fields, name: &str, replacing: &Replacing<'_>) {
    let mut kept = Fields::new();
    let mut edited = Vec::new();
    for (known, value) in table.iter() {
        match known.eq_ignore_ascii_case(name) {
            true => edited.push((known.to_owned(), safe(replaced(replacing, value)))),
            false => kept.append(known.to_owned(), value.to_vec()),
        }
    }
    edited
        .into_iter()
        .for_each(|(name, value)| kept.append(name, value));
    *table = kept;
}

/// An edit with its value as it is for this request.
#[derive(Clone, Copy)]
struct Replacing<'r> {
    pattern: &'r Pattern,
    text: &'r [u8],
    all: bool,
    work: &'r Work,
}

/// More matches than a value has bytes there can't be; patterns that match nothing advance by a
/// byte. Later matches see what is before them, so that `^` is the value's beginning: Apache 2.4.71
/// loses it, and does not come to an end where such a match is empty.
fn replaced(replacing: &Replacing<'_>, value: &[u8]) -> Vec<u8> {
    let Replacing {
        pattern,
        text,
        all,
        work,
    } = *replacing;
    let (mut done, mut at) = (Vec::new(), 0);
    while let Ok(Some(spans)) = work.captures_at(pattern, value, at) {
        let Some(whole) = spans.get(0) else { break };
        done.extend_from_slice(value.get(at..whole.start).unwrap_or_default());
        let before = done.len();
        expand_groups(text, |group| spans.text(group, value), &mut done);
        work.make(done.len() - before);
        work.look_at(done.len() - before);
        at = whole.end;
        if !all || at >= value.len() {
            break;
        }
        if whole.is_empty() {
            done.extend_from_slice(value.get(at..=at).unwrap_or_default());
            at += 1;
        }
    }
    done.extend_from_slice(value.get(at..).unwrap_or_default());
    done
}

fn echo(pattern: &Pattern, context: &EditContext<'_>) -> Vec<(String, Vec<u8>)> {
    let wanted = context
        .request
        .iter()
        .filter(|(name, _)| pattern.is_match(name).unwrap_or(false));
    wanted
        .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec()))
        .collect()
}

fn text(value: &Value, context: &EditContext<'_>) -> Vec<u8> {
    match value {
        Value::Expression(expression) => expression
            .evaluate(&mut Evaluation::new(context.facts))
            .unwrap_or_default(),
        Value::Format(tags) => tags
            .iter()
            .flat_map(|tag| tag_text(tag, context).into_owned())
            .collect(),
    }
}

fn tag_text<'t>(tag: &'t Tag, context: &'t EditContext<'_>) -> Cow<'t, [u8]> {
    let null = || Cow::Borrowed(&b"(null)"[..]);
    match tag {
        Tag::Text(text) => Cow::Borrowed(text),
        Tag::Environment(name) => context
            .facts
            .environment(name)
            .map_or_else(null, |value| Cow::Owned(safe(value.into_owned()))),
        Tag::Tls(name) => context.facts.tls_variable(name).unwrap_or_else(null),
        Tag::ReceivedAt => {
            let since = context
                .received
                .at
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            Cow::Owned(format!("t={}", micros(since)).into_bytes())
        }
        Tag::Duration => {
            Cow::Owned(format!("D={}", micros(context.received.began.elapsed())).into_bytes())
        }
        Tag::Load => Cow::Owned(load().into_bytes()),
        Tag::Idle => Cow::Borrowed(b"i=100"),
        Tag::Busy => Cow::Borrowed(b"b=0"),
    }
}

fn micros(time: Duration) -> u128 {
    time.as_micros()
}

/// The load averages of the last 1, 5 and 15 minutes.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split_ascii_whitespace().take(3).collect();
    format!("l={}", averages.join("/"))
}

/// The edits in order, but for those of the other time.
pub fn apply_all(
    edits: &[Arc<Edit>],
    early: bool,
    table: &mut Fields,
    context: &EditContext<'_>,
) -> Vec<(String, Vec<u8>)> {
    let (mut echoed, mut vary) = (Vec::new(), Vec::new());
    for edit in edits
        .iter()
        .filter(|edit| edit.is_early() == early && holds(edit, context.facts, &mut vary))
    {
        if context.work.is_exhausted() {
            break;
        }
        echoed.append(&mut apply(edit, table, context));
    }
    echoed
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_ap_expr::PatternOptions;
    use saker_config::model::Origin;
    use saker_pipeline::Environment;

    fn run(name: &str, action: Action) -> String {
        let mut table = Fields::new();
        table.append("A", &b"1"[..]);
        table.append("L", &b"x, \"y, z\""[..]);
        table.append("A", &b"2"[..]);
        let mut environment = Environment::default();
        environment.set(b"E", b"value");
        let request: [(&[u8], &[u8]); 2] = [(b"TS-One", b"1"), (b"Other", b"2")];
        let work = Work::default();
        let context = EditContext {
            facts: &environment,
            received: Received::now(),
            request: &request,
            work: &work,
        };
        let edit = Edit {
            action,
            name: name.into(),
            origin: Origin::built_in(),
            condition: When::Always,
            asks_request: false,
            looks_ahead: false,
            variables: Vec::new(),
        };
        let echoed = apply(&edit, &mut table, &context);
        let lines = table
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
        let echoed = echoed
            .iter()
            .map(|(name, value)| format!("echo {name}={}", String::from_utf8_lossy(value)));
        lines.chain(echoed).collect::<Vec<_>>().join("|")
    }

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes(), saker_ap_expr::ExpressionOptions::default()).unwrap()
    }

    fn pattern(text: &str) -> Pattern {
        Pattern::compile(text, PatternOptions::default()).unwrap()
    }

    fn edit(text: &str, replacement: &str, all: bool) -> Action {
        Action::Edit {
            pattern: pattern(text),
            replacement: value(replacement),
            all,
        }
    }

    #[test]
    fn each_action_does_what_apache_does() {
        let list = "L=x, \"y, z\"";
        let cases = [
            ("a", Action::Set(value("3")), format!("A=3|{list}")),
            (
                "A",
                Action::Append(value("3")),
                format!("A=1, 3|{list}|A=2"),
            ),
            (
                "A",
                Action::Add(value("%{E}e")),
                format!("A=1|{list}|A=2|A=value"),
            ),
            ("A", Action::Unset, list.to_owned()),
            (
                "A",
                Action::SetIfEmpty(value("3")),
                format!("A=1|{list}|A=2"),
            ),
            (
                "B",
                Action::SetIfEmpty(value("3")),
                format!("A=1|{list}|A=2|B=3"),
            ),
            ("L", Action::Merge(value("x")), format!("A=1|{list}|A=2")),
            (
                "L",
                Action::Merge(value("z\"")),
                format!("A=1|{list}, z\"|A=2"),
            ),
            (
                "L",
                edit("[xy]", "<$0&>", false),
                "A=1|A=2|L=<x&>, \"y, z\"".to_owned(),
            ),
            (
                "L",
                edit("[xy]", "<$0>", true),
                "A=1|A=2|L=<x>, \"<y>, z\"".to_owned(),
            ),
            ("A", edit("$", ";s", true), format!("{list}|A=1;s|A=2;s")),
            ("A", edit("^", "s", true), format!("{list}|A=s1|A=s2")),
            (
                "L",
                edit("(?<=[x,]).", "<$0>", true),
                "A=1|A=2|L=x<,>< >\"y,< >z\"".to_owned(),
            ),
            (
                "x",
                Action::Echo(pattern("^TS")),
                format!("A=1|{list}|A=2|echo TS-One=1"),
            ),
            (
                "B",
                Action::Set(value("a\\r\\nC: d")),
                format!("A=1|{list}|A=2|B="),
            ),
            (
                "B",
                Action::Set(value("expr=%{env:E}x")),
                format!("A=1|{list}|A=2|B=valuex"),
            ),
        ];
        for (name, action, expected) in cases {
            assert_eq!(run(name, action), expected, "{name}");
        }
    }

    /// Edits one after the other until they are given up; how many were made, and bytes of the
    /// table then.
    fn grown(first: &str, more: Action) -> (usize, usize) {
        let mut table = Fields::new();
        table.append("X", first.as_bytes().to_vec());
        let (environment, work) = (Environment::default(), Work::default());
        let context = EditContext {
            facts: &environment,
            received: Received::now(),
            request: &[],
            work: &work,
        };
        let edit = Edit {
            action: more,
            name: "X".into(),
            origin: Origin::built_in(),
            condition: When::Always,
            asks_request: false,
            looks_ahead: false,
            variables: Vec::new(),
        };
        let mut count = 0;
        while !work.is_exhausted() {
            apply(&edit, &mut table, &context);
            count += 1;
        }
        (count, size(&table).1)
    }

    #[test]
    fn what_edits_make_is_bounded() {
        let bytes_max = saker_ap_expr::TEXT_BYTES_MAX as usize + EDITED_FIELDS_BYTES_MAX;
        let (count, bytes) = grown("aaaaaaaa", edit(".", "$0$0$0$0", true));
        assert!(count < 15 && bytes < bytes_max, "{count} {bytes}");
        let (count, bytes) = grown("aaaaaaaa", edit("^(.*)$", "$1$1$1$1", false));
        assert!(count < 15 && bytes < bytes_max, "{count} {bytes}");
        let (count, bytes) = grown("a", Action::Append(value(&"x".repeat(4096))));
        assert!(
            count <= 2 + EDITED_FIELDS_BYTES_MAX / 4096 && bytes < 2 * EDITED_FIELDS_BYTES_MAX,
            "{count} {bytes}"
        );
        let (count, _) = grown("a", Action::Add(value("x")));
        assert!(count < 40_000, "many small lines: {count}");
    }

    #[test]
    fn a_table_as_large_as_allowed_is_edited() {
        let (environment, work) = (Environment::default(), Work::default());
        let context = EditContext {
            facts: &environment,
            received: Received::now(),
            request: &[],
            work: &work,
        };
        let set = |bytes: usize| Edit {
            action: Action::Set(value(&"x".repeat(bytes - 1))),
            name: "X".into(),
            origin: Origin::built_in(),
            condition: When::Always,
            asks_request: false,
            looks_ahead: false,
            variables: Vec::new(),
        };
        let mut table = Fields::new();
        apply(&set(EDITED_FIELDS_BYTES_MAX), &mut table, &context);
        assert_eq!(
            (size(&table).1, work.is_exhausted()),
            (EDITED_FIELDS_BYTES_MAX, false)
        );
        apply(&set(EDITED_FIELDS_BYTES_MAX + 1), &mut table, &context);
        assert!(work.is_exhausted());
    }
}
