//! The examples of `deploy/`, as far as programs at hand can check them.
//!
//! Caveat: no container is started, and manifests are compared with no schema; references between
//! them are followed.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::cluster::Certificates;
use saker_testkit::{TempDir, require};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SAKER: &str = env!("CARGO_BIN_EXE_saker");

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// `saker check` of a configuration, with the directories of the container in one of the test's.
#[track_caller]
fn check(text: &str) -> String {
    let dir = TempDir::new("deploy").unwrap();
    let secret = dir.write("secret", "a secret of all servers of this cluster");
    let secret = secret.unwrap().display().to_string();
    let certificates = Certificates::make();
    let key = certificates.path("peer.key");
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    let text = text
        .replace("/etc/saker/cluster-secret", &secret)
        .replace("/etc/saker/cluster/secret", &secret)
        .replace("/etc/saker/peer-ca.pem", &certificates.path("ca.pem"))
        .replace("/etc/saker/peer.", &certificates.path("peer."))
        .replace("/var/lib/saker", &dir.join("state").display().to_string())
        .replace("/var/www/html", &dir.display().to_string());
    let file = dir.write("saker.toml", text).unwrap();
    let output = Command::new(SAKER)
        .args(["check", "-c"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

#[test]
fn configurations() {
    for name in [
        "compose/saker.toml",
        "compose/magento.toml",
        "peers/saker.toml",
    ] {
        let said = check(&fs::read_to_string(deploy().join(name)).unwrap());
        assert!(!said.contains("warning"), "{name}: {said}");
    }
}

#[test]
fn balancers() {
    for name in ["haproxy/haproxy.cfg", "compose/haproxy.cfg"] {
        let run = |path: &Path| {
            let mut command = Command::new(require("haproxy").unwrap());
            command.arg("-c").arg("-f").arg(path).output().unwrap()
        };
        let path = deploy().join(name);
        let output = run(&path);
        assert!(output.status.success(), "{name}: {}", said(&output));
        let dir = TempDir::new("deploy").unwrap();
        let broken = fs::read_to_string(&path).unwrap() + "    no-such-word\n";
        assert!(
            !run(&dir.write("broken.cfg", broken).unwrap())
                .status
                .success()
        );
    }
}

/// keepalived ends by a signal after a test of its configuration, whatever it found; it names the
/// file in each complaint.
#[test]
fn shared_address() {
    let complaints = |path: &Path| {
        let mut command = Command::new(require("keepalived").unwrap());
        let output = command.arg("--config-test").arg("-f").arg(path).output();
        let said = said(&output.unwrap());
        let name = path.display().to_string();
        let of_file = said.lines().filter(|line| line.contains(&name));
        let missing = |line: &&str| !line.contains("eth0");
        of_file
            .filter(missing)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let path = deploy().join("keepalived/keepalived.conf");
    assert_eq!(complaints(&path), [""; 0]);
    let dir = TempDir::new("deploy").unwrap();
    let broken = fs::read_to_string(&path).unwrap() + "no_such_word\n";
    let broken = dir.write("broken.conf", broken).unwrap();
    assert!(!complaints(&broken).is_empty());
}

#[test]
fn compose_files() {
    let dir = TempDir::new("deploy").unwrap();
    for entry in fs::read_dir(deploy().join("compose")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
    for secret in ["cluster-secret", "database-password"] {
        dir.write(secret, "x").unwrap();
    }
    let run = |name: &str| {
        let mut command = Command::new(require("docker-compose").unwrap());
        command.arg("-f").arg(dir.join(name)).arg("config");
        command.output().unwrap()
    };
    for name in ["wordpress.yml", "magento.yml"] {
        let output = run(name);
        assert!(output.status.success(), "{name}: {}", said(&output));
        assert!(said(&output).contains("saker-3"));
        let broken = fs::read_to_string(dir.join(name)).unwrap() + "no-such-key: 1\n";
        dir.write("broken.yml", broken).unwrap();
        assert!(!run("broken.yml").status.success());
        for (_, source) in mounts(&said(&output)) {
            assert!(Path::new(&source).exists(), "{name}: {source}");
        }
    }
}

/// Files of the host that are mounted: lines `- SOURCE:TARGET:MODE` with an absolute source.
fn mounts(text: &str) -> Vec<(String, String)> {
    let volumes = text.lines().filter_map(|line| {
        let volume = line.trim().strip_prefix("- ")?;
        let (source, target) = volume.split_once(':')?;
        source
            .starts_with('/')
            .then(|| (target.to_owned(), source.to_owned()))
    });
    volumes.collect()
}

fn manifests(name: &str) -> Vec<Value> {
    let script = "import json, sys, yaml\n\
                  print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let mut command = Command::new(require("python3").unwrap());
    command.args(["-c", script]);
    let output = command.arg(deploy().join("kubernetes").join(name)).output();
    let output = output.unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
}

fn names(list: &Value) -> Vec<&str> {
    let all = list.as_array().unwrap();
    all.iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

#[test]
fn manifests_refer_to_each_other() {
    let all = [manifests("saker.yaml"), manifests("redis.yaml")].concat();
    let of = |kind: &str, name: &str| {
        all.iter()
            .find(|one| one["kind"] == kind && one["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("{kind} {name}"))
    };
    for (workload, service) in [
        (of("DaemonSet", "saker"), of("Service", "saker")),
        (
            of("StatefulSet", "saker-redis"),
            of("Service", "saker-redis"),
        ),
    ] {
        let template = &workload["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        assert_eq!(&workload["spec"]["selector"]["matchLabels"], labels);
        assert_eq!(&service["spec"]["selector"], labels);
        let container = &template["spec"]["containers"][0];
        let ports = names(&container["ports"]);
        for port in service["spec"]["ports"].as_array().unwrap() {
            assert!(ports.contains(&port["targetPort"].as_str().unwrap()));
        }
        let claims = &workload["spec"]["volumeClaimTemplates"];
        let claimed = claims.as_array().into_iter().flatten();
        let mut volumes: Vec<&str> = claimed
            .map(|claim| claim["metadata"]["name"].as_str().unwrap())
            .collect();
        if template["spec"]["volumes"].is_array() {
            volumes.extend(names(&template["spec"]["volumes"]));
        }
        for mount in names(&container["volumeMounts"]) {
            assert!(volumes.contains(&mount), "{mount}");
        }
    }
    let volumes = &of("DaemonSet", "saker")["spec"]["template"]["spec"]["volumes"];
    let volumes = volumes.as_array().unwrap();
    let map = volumes
        .iter()
        .find(|volume| volume["name"] == "configuration");
    let map = map.unwrap()["configMap"]["name"].as_str().unwrap();
    let text = of("ConfigMap", map)["data"]["saker.toml"].as_str().unwrap();
    check(text);
    let engine = "redis://saker-redis:6379";
    assert!(text.contains(engine), "the Service of redis.yaml");
}
