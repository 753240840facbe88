//! Any first bytes mean the same however they arrive, and never more is used than was given; a real
//! handshake in which bytes were changed ends in a fault or a wait, and nothing of it comes through
//! as data; after a fault there is nothing but the end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, pki_types::CertificateDer,
    pki_types::pem::PemObject,
};
use saker_config::{
    HostTable, Model,
    model::{Address, Automatic, Listener, ListenerTls, Origin, Site, SiteName, SiteTls},
};
use saker_fuzz::{Input, cut};
use saker_tls::{
    Acceptor, INPUT_BYTES_MAX, Identities, ServerSession, Tickets, TlsError, local_certificate,
};
use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, LazyLock},
    time::Duration,
};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct World {
    acceptor: Acceptor,
    client: Arc<ClientConfig>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join("saker-fuzz-tls");
    let local = local_certificate(&dir, &[], None).expect("a temporary folder");
    let (names, tls) = (
        vec![SiteName::Exact("localhost".into())],
        SiteTls {
            automatic: Automatic::Local,
            ..SiteTls::default()
        },
    );
    let site = Site {
        names,
        tls: Arc::new(tls),
        ..Site::new(Origin::built_in())
    };
    let address = Address::Tcp((LOCAL, 443).into());
    let listener = Listener {
        tls: Some(ListenerTls::default()),
        ..Listener::new(address, Origin::built_in())
    };
    let model = Model {
        listeners: vec![listener.clone()],
        sites: vec![Arc::new(site)],
        ..Model::default()
    };
    let (identities, _) = Identities::load(&model, &Arc::new(HostTable::new(&model)), None);
    identities
        .install(&["localhost".into()], &local.chain_pem, &local.key_pem)
        .expect("its own certificate");
    let tickets = Arc::new(Tickets::own(Duration::from_secs(3600)));
    let acceptor = Acceptor::new(
        Arc::new(identities),
        &listener,
        tickets,
        &[b"h2", b"http/1.1"],
    );
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&local.authority_path).expect("kept"))
        .expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("both");
    World {
        acceptor,
        client: Arc::new(client.with_root_certificates(roots).with_no_client_auth()),
    }
});

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(mode)) = (input.u16(), input.byte()) else {
        return;
    };
    let bytes = input.rest();
    if mode & 1 == 0 {
        assert_eq!(
            first_bytes(&cut(bytes, knob)),
            first_bytes(&[bytes]),
            "cut by {knob}"
        );
    } else {
        tampered(bytes, usize::from(knob), mode >> 1);
    }
});

struct Peer {
    session: ServerSession,
    kept: Vec<u8>,
    plain: Vec<u8>,
    out: Vec<u8>,
}

impl Peer {
    fn new() -> Peer {
        Peer {
            session: WORLD.acceptor.accept(LOCAL),
            kept: Vec::new(),
            plain: Vec::new(),
            out: Vec::new(),
        }
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        self.kept.extend_from_slice(bytes);
        let received = self
            .session
            .receive(&mut self.kept, &mut self.plain, &mut self.out);
        if received.is_err() {
            assert_eq!(
                self.session
                    .receive(&mut [], &mut self.plain, &mut self.out),
                Err(TlsError::Ended)
            );
        }
        self.kept.drain(..received?.used);
        assert!(self.kept.len() <= INPUT_BYTES_MAX);
        Ok(())
    }
}

/// Returns the error, if there was one. No handshake succeeds by chance.
fn first_bytes(pieces: &[&[u8]]) -> Option<String> {
    let mut peer = Peer::new();
    let fault = pieces.iter().find_map(|piece| peer.give(piece).err());
    assert!(peer.plain.is_empty() && peer.session.is_handshaking() != fault.is_some());
    fault.map(|fault| fault.to_string())
}

/// Changes the client's bytes from `at` on (counted over its flights, each in pieces by `sizes`) by
/// XOR with `change`.
fn tampered(change: &[u8], at: usize, sizes: u8) {
    let mut peer = Peer::new();
    let mut client = ClientConnection::new(
        Arc::clone(&WORLD.client),
        "localhost".try_into().expect("a name"),
    )
    .expect("a client");
    client.writer().write_all(b"request").expect("room");
    let (mut sent_before, mut was_changed) = (0, false);
    for _ in 0..4 {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("memory");
        }
        for (offset, byte) in sent.iter_mut().enumerate() {
            let by = (sent_before + offset)
                .checked_sub(at)
                .and_then(|index| change.get(index))
                .copied()
                .unwrap_or(0);
            was_changed |= by != 0;
            *byte ^= by;
        }
        sent_before += sent.len();
        for piece in cut(&sent, u16::from(sizes)) {
            if peer.give(piece).is_err() {
                assert!(was_changed);
                return;
            }
        }
        let mut answer = &std::mem::take(&mut peer.out)[..];
        while !answer.is_empty() && client.read_tls(&mut answer).is_ok() {
            if client.process_new_packets().is_err() {
                return;
            }
        }
        let _ = client.reader().read(&mut [0; 64]);
    }
    assert!(peer.plain.is_empty() || peer.plain == b"request");
    assert!(was_changed || peer.plain == b"request");
}
