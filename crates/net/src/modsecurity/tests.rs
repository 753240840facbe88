use super::*;
use std::{path::PathBuf, sync::Arc};

/// The package is among what `tools/install-test-programs` installs.
fn rules(text: &str) -> Arc<RuleSet> {
    Arc::new(RuleSet::new(&[Part::Text(text.into())]).expect("package libmodsecurity3"))
}

fn begin(
    rules: &Arc<RuleSet>,
    target: &str,
    fields: &[(&str, &str)],
) -> (Transaction, Option<Intervention>) {
    let mut transaction = Transaction::new(rules, "id-1").unwrap();
    transaction.connection(
        "192.0.2.1:4711".parse().unwrap(),
        "[2001:db8::1]:80".parse().unwrap(),
    );
    transaction.uri(target.as_bytes(), b"POST", "1.1");
    fields
        .iter()
        .for_each(|(name, value)| transaction.request_field(name.as_bytes(), value.as_bytes()));
    transaction.request_head();
    let intervention = transaction.intervention();
    (transaction, intervention)
}

const BAD: &str = "SecRuleEngine On\nSecRule ARGS:a \"@streq bad\" \"id:1,phase:1,deny,status:406,log,msg:'that is bad'\"\n";
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

#[test]
fn rules_refuse_and_let_pass() {
    let rules = rules(BAD);
    let (mut refused, intervention) = begin(&rules, "/?a=bad", &[]);
    let intervention = intervention.unwrap();
    assert_eq!((intervention.status, intervention.redirect), (406, None));
    assert!(intervention.line.unwrap().contains("[unique_id \"id-1\"]"));
    assert_eq!(refused.intervention(), None, "it is told once");
    assert_eq!(begin(&rules, "/?a=good", &[("X", "bad")]).1, None);
}

#[test]
fn lines_of_rules_are_told() {
    let rules = rules(
        "SecRuleEngine DetectionOnly\nSecRule ARGS:a \"@streq bad\" \"id:1,phase:1,deny,log,msg:'that is bad'\"\n",
    );
    let (mut transaction, intervention) = begin(&rules, "/?a=bad", &[]);
    assert_eq!(intervention, None);
    let lines = transaction.take_lines();
    assert!(
        lines.len() == 1 && lines[0].contains("[msg \"that is bad\"]"),
        "{lines:?}"
    );
    assert!(transaction.take_lines().is_empty());
    transaction.answered(200);
    transaction.logging();
}

#[test]
fn a_redirect_has_its_place() {
    let rules =
        rules("SecRuleEngine On\nSecAction \"id:1,phase:1,redirect:https://example.org/no\"\n");
    let intervention = begin(&rules, "/", &[]).1.unwrap();
    assert_eq!(
        (intervention.status, intervention.redirect.as_deref()),
        (302, Some("https://example.org/no"))
    );
}

#[test]
fn content_is_looked_at() {
    let rules = rules(
        "SecRuleEngine On\nSecRequestBodyAccess On\nSecResponseBodyAccess On\nSecRequestBodyLimit 20\nSecRequestBodyLimitAction Reject\n\
         SecRule ARGS_POST:a \"@streq bad\" \"id:1,phase:2,deny,status:403\"\nSecRule RESPONSE_BODY \"@contains secret\" \"id:2,phase:4,deny,status:502\"\n",
    );
    let (mut transaction, _) = begin(&rules, "/", &[FORM]);
    assert!(
        transaction.append_request_content(b"a=b") && transaction.append_request_content(b"ad")
    );
    transaction.request_content();
    assert_eq!(
        transaction.intervention().map(|found| found.status),
        Some(403)
    );
    let (mut transaction, _) = begin(&rules, "/", &[FORM]);
    transaction.append_request_content(&[b'x'; 21]);
    assert!(transaction.intervention().is_some(), "over the limit");
    let (mut transaction, _) = begin(&rules, "/", &[FORM]);
    transaction.append_request_content(b"a=good");
    transaction.request_content();
    assert_eq!(transaction.intervention(), None);
    transaction.response_field(b"Content-Type", b"text/html");
    transaction.response_head(200, "HTTP/1.1");
    assert_eq!(transaction.intervention(), None);
    assert!(transaction.append_response_content(b"a secret"));
    transaction.response_content();
    assert_eq!(
        transaction.intervention().map(|found| found.status),
        Some(502)
    );
}

#[test]
fn mistakes_are_told() {
    let fault = RuleSet::new(&[
        Part::Text(BAD.into()),
        Part::Text("\n\nSecNothing x\n".into()),
    ])
    .unwrap_err();
    assert!(
        fault.part == Some(1)
            && fault.message.contains("Line: 3")
            && fault.message.contains("SecNothing"),
        "{fault:?}"
    );
    let fault = RuleSet::new(&[Part::File(PathBuf::from("/nonexistent/rules.conf"))]).unwrap_err();
    assert!(
        fault.part == Some(0) && fault.message.contains("/nonexistent/rules.conf"),
        "{fault:?}"
    );
    assert!(RuleSet::new(&[Part::Text(b"a\0b".to_vec())]).is_err());
    assert!(RuleSet::new(&[]).is_ok());
}

#[test]
fn threads_share_a_rule_set() {
    let rules = rules(BAD);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let rules = &rules;
            scope.spawn(move || {
                for turn in 0..300 {
                    let is_bad = (turn + number) % 3 == 0;
                    let (mut transaction, intervention) =
                        begin(rules, if is_bad { "/?a=bad" } else { "/?a=ok" }, &[FORM]);
                    assert_eq!(intervention.is_some(), is_bad);
                    // And from one thread to another.
                    std::thread::scope(|inner| {
                        inner.spawn(|| transaction.request_content()).join()
                    })
                    .unwrap();
                    transaction.logging();
                }
            });
        }
    });
}

#[test]
fn sets_are_made_by_several_threads() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| drop(rules(BAD))));
        }
    });
}

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// In a process of its own, since the memory of other tests would count.
#[test]
fn what_is_made_is_freed() {
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    alone.args([
        "--ignored",
        "--exact",
        "modsecurity::tests::alone_what_is_made_is_freed",
    ]);
    let output = alone.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "counts what the process has; run by what_is_made_is_freed"]
fn alone_what_is_made_is_freed() {
    let rules = rules(BAD);
    let some = |count: usize| {
        for turn in 0..count {
            let (mut transaction, _) = begin(
                &rules,
                if turn % 2 == 0 { "/?a=bad" } else { "/?a=ok" },
                &[FORM],
            );
            transaction.append_request_content(&[b'x'; 10_000]);
            transaction.request_content();
            transaction.logging();
        }
    };
    some(500);
    let before = resident_bytes();
    some(4000);
    let grown = resident_bytes().saturating_sub(before);
    // Each had more than 10 kB: 40 MB, were they kept.
    assert!(grown < 8 << 20, "{grown} bytes more");
    for _ in 0..50 {
        let set = Arc::new(RuleSet::new(&[Part::Text(BAD.into())]).unwrap());
        let (transaction, _) = begin(&set, "/", &[]);
        assert!(transactions_alive() > 0);
        drop(set);
        // The transaction has it still.
        drop(transaction);
    }
}
