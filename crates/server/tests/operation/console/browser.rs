//! Debian's Chromium, driven through its remote debugging pipe.
//!
//! Called by: `pages`.
//! Caveat: the pipe is two FIFOs, so that no debugging port is open while tests run.

use saker_testkit::{PATIENCE, TempDir, poll, require};
use serde_json::{Value, json};
use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    session: String,
    last: u64,
    /// Errors of pages: of scripts, of the policy, and of the network.
    problems: Vec<String>,
    /// The script of axe-core, once it has been read.
    axe: String,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    pub fn start() -> Browser {
        let profile = TempDir::new("chromium").unwrap();
        let (commands, answers) = (profile.join("commands"), profile.join("answers"));
        let made = Command::new("mkfifo")
            .args([&commands, &answers])
            .status()
            .unwrap();
        assert!(made.success());
        let child = Command::new("bash")
            .args(["-c", "exec \"$0\" \"${@:3}\" 3<\"$1\" 4>\"$2\""])
            .arg(require("chromium").unwrap())
            .args([&commands, &answers])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args([
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg("--remote-debugging-pipe")
            .arg(format!(
                "--user-data-dir={}",
                profile.join("data").to_string_lossy()
            ))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = OpenOptions::new().write(true).open(commands).unwrap();
        let answers = BufReader::new(File::open(answers).unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let parsed = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands,
            messages,
            session: String::new(),
            last: 0,
            problems: Vec::new(),
            axe: String::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.commands
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == id {
                // A page that is going away gives no value.
                let error = message["error"]["message"].as_str().unwrap_or_default();
                let is_leaving = error.contains("navigated") || error.contains("context");
                if method == "Runtime.evaluate" && is_leaving {
                    return Value::Null;
                }
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        let is_problem = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                parameters["type"] == "error" || parameters["type"] == "assert"
            }
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            Some("Page.javascriptDialogOpening") => {
                panic!("a page has run a script of a client: {message}")
            }
            _ => false,
        };
        if is_problem {
            self.problems.push(message.to_string());
        }
    }

    /// Errors since the last call.
    pub fn problems(&mut self) -> Vec<String> {
        self.evaluate("1");
        std::mem::take(&mut self.problems)
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Evaluates until it is true of a whole page. One that is going away gives no value, and one that
    /// is still read may lack its rest.
    pub fn wait_for(&mut self, condition: &str) {
        let guarded = format!(
            "(() => {{ try {{ return document.readyState === 'complete' && Boolean({condition}); }} \
             catch (error) {{ return false; }} }})()"
        );
        let held = poll(PATIENCE, || (self.evaluate(&guarded) == true).then_some(()));
        if held.is_none() {
            let page = self.evaluate("location.href + document.body.innerText");
            panic!("{condition} at {page}");
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for("document.readyState === 'complete' && location.protocol === 'http:'");
    }

    /// Width of the window, and whether the user prefers dark pages.
    pub fn look(&mut self, width: u32, is_dark: bool) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// Serious and critical findings of axe-core about the page.
    pub fn serious_violations(&mut self) -> String {
        // A page has it once.
        let is_there = self.evaluate("typeof axe === 'object'") == true;
        if !is_there && self.axe.is_empty() {
            let output = Command::new(require("axe-core-source").unwrap())
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            self.axe = String::from_utf8(output.stdout).unwrap();
        }
        if !is_there {
            let source = format!("{}; 1", self.axe);
            self.evaluate(&source);
        }
        let found = self.evaluate(
            "axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations \
             .filter((one) => ['serious', 'critical'].includes(one.impact)) \
             .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary).join(' | ')}`) \
             .join('\\n'))",
        );
        found.as_str().unwrap().to_owned()
    }

    pub fn screenshot(&mut self, path: &Path) {
        let taken = self.call(
            "Page.captureScreenshot",
            json!({ "captureBeyondViewport": true }),
        );
        let text = taken["data"].as_str().unwrap().to_owned();
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(File::create(path).unwrap())
            .spawn()
            .unwrap();
        decoder
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(decoder.wait().unwrap().success());
    }
}
