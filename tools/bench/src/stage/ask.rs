//! The side of the load: servers on the stage as if they were here.

use super::messages::{count, text};
use crate::{sheets::Sheet, subject::Subject};
use saker_testkit::Memory;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A server may take a while to start.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Stage {
    lines: Mutex<BufReader<TcpStream>>,
    chain: String,
}

/// A server there. Dropping it stops it.
#[derive(Debug)]
pub struct RemoteServer {
    stage: Arc<Stage>,
    pub address: SocketAddr,
    pub sheets: Vec<Sheet>,
}

impl Stage {
    pub fn connect(address: &str) -> Result<Stage, String> {
        let complaint = |error: std::io::Error| format!("the stage at {address}: {error}");
        let stream = TcpStream::connect(address).map_err(complaint)?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .map_err(complaint)?;
        let mut stage = Stage {
            lines: Mutex::new(BufReader::new(stream)),
            chain: String::new(),
        };
        stage.chain = text(&stage.ask(&json!({ "ask": "hello" }))?, "chain")?.to_owned();
        Ok(stage)
    }

    /// The certificate that its servers have, PEM.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// A server that is a yardstick may be asked without TLS.
    pub fn start(
        self: &Arc<Stage>,
        row: &str,
        subject: Subject,
        tls: bool,
    ) -> Result<RemoteServer, String> {
        let answer = self.ask(
            &json!({ "ask": "start", "row": row, "server": subject.to_string(), "tls": tls }),
        )?;
        let address = text(&answer, "address")?
            .parse()
            .map_err(|_| format!("no address in {answer}"))?;
        let sheets = answer
            .get("sheets")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(sheet)
            .collect();
        Ok(RemoteServer {
            stage: Arc::clone(self),
            address,
            sheets,
        })
    }

    fn ask(&self, question: &Value) -> Result<Value, String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let complaint = |error: std::io::Error| format!("the stage: {error}");
        writeln!(lines.get_mut(), "{question}").map_err(complaint)?;
        let mut line = String::new();
        lines.read_line(&mut line).map_err(complaint)?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| format!("the stage said `{}`: {error}", line.trim_end()))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("on the stage: {error}")),
            None => Ok(answer),
        }
    }
}

impl RemoteServer {
    /// CPU time so far, and memory. A stage that is gone has none; its load sees errors.
    pub fn figures(&self) -> (Duration, Memory) {
        let read = || -> Result<(Duration, Memory), String> {
            let answer = self.stage.ask(&json!({ "ask": "figures" }))?;
            let memory = Memory {
                rss_bytes: count(&answer, "rss")?,
                pss_bytes: count(&answer, "pss")?,
                peak_rss_bytes: count(&answer, "peak")?,
                anonymous_bytes: count(&answer, "anonymous")?,
            };
            Ok((Duration::from_nanos(count(&answer, "cpu_ns")?), memory))
        };
        read().unwrap_or_default()
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        // A stage that can't be reached has stopped it itself.
        let _ = self.stage.ask(&json!({ "ask": "stop" }));
    }
}

/// `[command, [[name, text], …]]`.
fn sheet(value: &Value) -> Option<Sheet> {
    let command = value.get(0)?.as_str()?.to_owned();
    let file = |pair: &Value| {
        Some((
            pair.get(0)?.as_str()?.to_owned(),
            pair.get(1)?.as_str()?.to_owned(),
        ))
    };
    Some(Sheet {
        command,
        files: value.get(1)?.as_array()?.iter().filter_map(file).collect(),
    })
}
