//! Two machines: the servers on one (`saker-bench stage`), the lab with its load on the other
//! (`saker-bench lab --stage HOST:PORT`).
//!
//! Called by: `main`. The stage starts only what is requested by the names of a row and a server;
//! one lab at a time connects, with lines of JSON over TCP. Figures are read on the stage, where
//! the processes are.
//! Caveat: anyone who can reach the port can start the stage's servers, so it belongs on the wire
//! between the two machines and not on an open network.
//! Out of scope: rows that need both ends in one process (idle connections, system calls, emulated
//! links).

mod ask;
mod messages;
mod serve;

pub use ask::{RemoteServer, Stage};
pub use serve::serve;

use crate::{
    row::{Kind, Row},
    subject::Subject,
};

/// True if it can be run on two machines.
pub fn can_be_apart(row: &Row) -> bool {
    matches!(row.kind, Kind::Compare { .. } | Kind::Own(_))
}

/// The floor listens on loopback alone.
pub fn can_be_there(subject: Subject) -> bool {
    subject != Subject::Floor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        arguments::Arguments,
        behind::SessionStore,
        conditions::Congestion,
        rows,
        runner::{Bench, Part},
        running_server::RunningServer,
        test_env::TestEnv,
    };
    use saker_testkit::{Client, Peer, PeerSite, require};
    use std::{
        net::{Ipv4Addr, TcpListener},
        sync::Arc,
        thread,
    };

    fn server_is_described(running: &RunningServer) -> bool {
        let nowhere = std::path::Path::new("/");
        let test_env = TestEnv {
            saker: nowhere,
            root: nowhere,
            host: Ipv4Addr::LOCALHOST,
            work: nowhere,
            tls: None,
            core: None,
            site: PeerSite::Files,
            sessions: SessionStore::Files,
            congestion: Congestion::Usual,
        };
        running
            .sheets(test_env)
            .iter()
            .any(|sheet| sheet.command.contains("lighttpd") && !sheet.files.is_empty())
    }

    #[test]
    fn a_server_is_started_asked_measured_and_stopped() {
        require(Peer::Lighttpd.program()).expect("lighttpd");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let arguments = Arguments {
                peers: vec![Peer::Lighttpd],
                saker: "/none".into(),
                ..Arguments::default()
            };
            let rows: Vec<&'static Row> =
                rows::all().filter(|row| row.name == "small-100").collect();
            let bench = Bench::prepare(&arguments, &rows, Part::Servers).expect("prepared");
            serve::converse(&listener.accept().expect("accepted").0, &bench, &rows)
        });
        let stage = Arc::new(Stage::connect(&address.to_string()).expect("connected"));
        assert!(stage.chain().contains("BEGIN CERTIFICATE"));
        let row = rows::all()
            .find(|row| row.name == "small-100")
            .expect("a row");
        let lighttpd = Subject::Peer(Peer::Lighttpd);
        for _ in 0..2 {
            let running =
                RunningServer::there(stage.start(row.name, lighttpd, false).expect("started"));
            let response = Client::connect(running.address())
                .expect("connects")
                .get("/small.html")
                .expect("answers");
            assert_eq!((response.status, response.body.len()), (200, 285));
            assert!(running.memory().rss_bytes > 0 && running.front().is_err());
            assert!(server_is_described(&running));
        }
        let complaint = stage
            .start(row.name, Subject::Peer(Peer::Nginx), false)
            .expect_err("it was not chosen there");
        assert!(complaint.contains("nginx is not there"), "{complaint}");
        let other = rows::all()
            .find(|row| row.name == "small-10")
            .expect("a row");
        assert!(
            stage
                .start(other.name, lighttpd, false)
                .expect_err("not prepared")
                .contains("small-10")
        );
    }
}
