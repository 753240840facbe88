//! OCSP responses for stapling (SSLUseStapling): fetched in the background, cached in the state
//! directory, used from the next handshake on.
//!
//! Called by: the supervisor, for as long as the server runs.
//! Caveat: responders are slow, wrong, or down for days, and no handshake may wait for them. A
//! response is refreshed halfway through its validity, and after failures every ten minutes; the
//! old one is used until it expires. Saved responses are used at once after a restart.

use saker_acme::Client;
use saker_serving::tls_state::TlsState;
use saker_telemetry::{error_log, message};
use saker_tls::{Certificate, OcspQuestion};
use std::{
    cell::RefCell,
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{task::JoinSet, time::timeout};

/// Interval at which certificates are checked.
const LOOK: Duration = Duration::from_millis(500);
/// Asked for at a time.
const TASKS_MAX: usize = 8;
/// Far more than responses have.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

/// Time of the next query for each certificate, by fingerprint.
type Schedule = HashMap<String, i64>;

/// Runs as long as the server.
pub async fn tend(tls: impl Fn() -> Arc<TlsState>, state_dir: &Path) {
    let folder = state_dir.join("ocsp");
    let mut schedule = Schedule::new();
    let mut tasks: JoinSet<(String, i64)> = JoinSet::new();
    let client: RefCell<Option<Rc<Client>>> = RefCell::default();
    loop {
        let now = now_s();
        for certificate in tls().identities.stapled() {
            let Some(question) = certificate.question() else {
                continue;
            };
            let due = match schedule.get(&question.fingerprint) {
                Some(due) => *due,
                None => from_disk(&certificate, question, &folder, now).unwrap_or(now),
            };
            if due > now || tasks.len() >= TASKS_MAX {
                schedule.insert(question.fingerprint.clone(), due);
                continue;
            }
            // Until the task says otherwise.
            schedule.insert(question.fingerprint.clone(), i64::MAX);
            if let Some(client) = client_of(&client) {
                tasks.spawn(fetch(Client::clone(&client), certificate, folder.clone()));
            }
        }
        tokio::time::sleep(LOOK).await;
        while let Some(done) = tasks.try_join_next() {
            if let Ok((fingerprint, due)) = done {
                schedule.insert(fingerprint, due);
            }
        }
    }
}

/// Made when first needed: it reads all authorities that the system trusts.
fn client_of(client: &RefCell<Option<Rc<Client>>>) -> Option<Rc<Client>> {
    let mut client = client.borrow_mut();
    if client.is_none() {
        *client = Client::new(None).map(Rc::new).ok();
    }
    client.clone()
}

/// Staples the stored response, if it is still valid. Returns the time of its renewal.
fn from_disk(
    certificate: &Certificate,
    question: &OcspQuestion,
    folder: &Path,
    now: i64,
) -> Option<i64> {
    let path = file_of(folder, question);
    let is_small =
        fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= RESPONSE_BYTES_MAX);
    let response = is_small.then(|| fs::read(&path)).and_then(Result::ok)?;
    certificate.take_staple(response, now).ok()
}

fn file_of(folder: &Path, question: &OcspQuestion) -> PathBuf {
    folder.join(format!("{}.der", question.fingerprint))
}

/// Fetches, staples, and stores a response. Returns the time of the next attempt.
async fn fetch(client: Client, certificate: Arc<Certificate>, folder: PathBuf) -> (String, i64) {
    let Some(question) = certificate.question() else {
        return (String::new(), i64::MAX);
    };
    let terms = certificate.stapling();
    let asked = client.post(
        &question.url,
        "application/ocsp-request",
        question.request.clone(),
    );
    let answer = match timeout(Duration::from_millis(terms.timeout_ms), asked).await {
        Ok(answer) => answer,
        Err(_) => Err("it did not answer in time".into()),
    };
    let now = now_s();
    let outcome = answer.and_then(|answer| {
        certificate
            .take_staple(answer.clone(), now)
            .map(|due| (answer, due))
    });
    let due = match outcome {
        Ok((answer, due)) => {
            if let Err(error) = keep(&file_of(&folder, question), &folder, &answer) {
                error_log::log(
                    &message::CERTIFICATE_STATE,
                    format_args!("{}: {error}", folder.display()),
                );
            }
            due
        }
        Err(reason) => {
            error_log::log(
                &message::OCSP_RESPONSE_MISSING,
                format_args!("{}: {}: {reason}", certificate.name(), question.url),
            );
            now + i64::try_from(terms.retry_s).unwrap_or(i64::MAX / 2)
        }
    };
    (question.fingerprint.clone(), due)
}

/// Whole or not at all.
fn keep(path: &Path, folder: &Path, answer: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let draft = path.with_extension("new");
    fs::write(&draft, answer)?;
    fs::rename(draft, path)
}

fn now_s() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or(0)
}
