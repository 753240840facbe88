use super::*;
use std::{fs::File, io::Read, time::Instant};

fn shell(script: &str) -> ProgramPlan {
    ProgramPlan {
        file: "/bin/sh".into(),
        name: "the-name".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("A".into(), "b c".into())],
        folder: "/usr".into(),
        limits: ProgramLimits::default(),
        has_input: false,
        user: None,
    }
}

async fn output(plan: ProgramPlan) -> (String, ExitStatus) {
    let mut started = start(&plan, None).unwrap();
    let mut output = File::from(started.output.take().unwrap());
    let mut errors = File::from(started.errors.take().unwrap());
    let mut program = started.program;
    program.watch().unwrap();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    errors.read_to_string(&mut text).unwrap();
    program.ended().await;
    (text, program.reap().unwrap())
}

#[tokio::test]
async fn an_end_is_seen() {
    let (text, status) = output(shell("echo $A; pwd; echo no >&2; cat; exit 3")).await;
    assert_eq!((text.as_str(), status.code()), ("b c\n/usr\nno\n", Some(3)));
}

#[tokio::test]
async fn nothing_of_the_server_goes_along() {
    let mut plan = shell("");
    (plan.file, plan.arguments) = ("/usr/bin/env".into(), Vec::new());
    assert_eq!(output(plan).await.0, "A=b c\n");
    // Its own three, and the one that it lists the folder by.
    let (text, _) = output(shell("ls /proc/self/fd | wc -l")).await;
    assert_eq!(text.trim(), "4");
}

#[tokio::test]
async fn limits_hold() {
    let mut plan = shell("ulimit -t; ulimit -v; ulimit -p; ulimit -Ht");
    let mib = 64 << 20;
    plan.limits = ProgramLimits {
        cpu_s: Some((7, 9)),
        memory_bytes: Some((mib, mib)),
        processes: Some((500, u64::MAX)),
    };
    let (text, _) = output(plan).await;
    assert_eq!(text, "7\n65536\n500\n9\n");
}

#[tokio::test]
async fn groups_end_with_whoever_forgets_them() {
    let mut started = start(&shell("sleep 100 & sleep 100"), None).unwrap();
    let mut output = File::from(started.output.take().unwrap());
    let began = Instant::now();
    drop(started.program);
    // The stream ends when its last holder closes it.
    assert_eq!(output.read(&mut [0; 8]).unwrap(), 0);
    assert!(began.elapsed() < Duration::from_secs(50));
}

#[tokio::test]
async fn groups_can_be_asked() {
    let mut started = start(
        &shell("trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done"),
        None,
    )
    .unwrap();
    let mut output = File::from(started.output.take().unwrap());
    // The shell says something when its child is ended.
    let _errors = started.errors.take();
    let mut program = started.program;
    program.watch().unwrap();
    output.read_exact(&mut [0; 6]).unwrap();
    program.terminate();
    program.ended().await;
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(
        (text.as_str(), program.reap().unwrap().code()),
        ("asked\n", Some(5))
    );
}

#[test]
fn what_is_no_program_is_refused() {
    for (file, kind) in [
        ("/no/such", io::ErrorKind::NotFound),
        ("/etc/passwd", io::ErrorKind::PermissionDenied),
    ] {
        assert_eq!(
            start(
                &ProgramPlan {
                    file: file.into(),
                    ..shell("")
                },
                None
            )
            .unwrap_err()
            .kind(),
            kind
        );
    }
}

#[test]
fn programs_may_run_on_any_core() {
    std::thread::spawn(|| {
        let before = process::allowed_cores();
        process::pin_to_cores(&[*before.last().unwrap()]).unwrap();
        process::unpin();
        assert_eq!(process::allowed_cores(), before);
    })
    .join()
    .unwrap();
}

#[test]
fn nobody_runs_as_another_without_a_broker() {
    let plan = ProgramPlan {
        user: Some(ProgramUser {
            user: "nobody".into(),
            group: None,
        }),
        ..shell("")
    };
    assert!(
        start(&plan, None)
            .unwrap_err()
            .to_string()
            .contains("nobody")
    );
}
