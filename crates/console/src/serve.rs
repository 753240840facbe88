//! The console's server: accepts, reads requests, and answers them.
//!
//! Called by: the process, on its main thread, for as long as it runs.
//! Caveat: clients are strangers until they have passed the gate: connections, heads, content, and
//! time are bounded, in total and per network.
//! Out of scope: HTTP/2 and HTTP/3, which a few operators do not need.

use crate::{
    Backend, actions,
    connection::Connection,
    connections::{Connections, Place},
    editor, events,
    exchange::Response,
    gate, oidc,
    reading::{ReadError, ReadHead, read_body, read_head},
    routes::Kind,
};
use std::{io, net::SocketAddr, rc::Rc, time::Duration};
use tokio::{net::TcpStream, task::LocalSet, time::timeout};

/// Time for a handshake and a head, or between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// Time for the content of a request.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Time for sending a response, and for the end of a connection.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// Serves the console for as long as the server runs.
pub async fn serve(backend: Rc<dyn Backend>) {
    LocalSet::new().run_until(run(backend)).await;
}

async fn run(backend: Rc<dyn Backend>) {
    tokio::task::spawn_local(editor::watch(Rc::clone(&backend)));
    let open = Rc::new(Connections::default());
    loop {
        let (stream, client) = backend.socket().accept().await;
        let Some(place) = Connections::enter(&open, client.ip()) else {
            continue;
        };
        let backend = Rc::clone(&backend);
        tokio::task::spawn_local(async move {
            tokio::select! {
                // The client is gone, or too slow; no one is left to tell.
                _ = converse(&backend, stream, client, &place) => {}
                () = place.ended() => {}
            }
        });
    }
}

async fn converse(
    backend: &Rc<dyn Backend>,
    stream: TcpStream,
    client: SocketAddr,
    place: &Place,
) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr()?.ip();
    let session = backend.acceptor().map(|acceptor| acceptor.accept(local));
    let is_secure = session.is_some();
    let mut connection = Connection::new(stream, session);
    loop {
        let read = read_head(&mut connection, client.ip(), is_secure);
        let read = match timeout(HEAD_TIME_MAX, read).await? {
            Ok(read) => read,
            Err(ReadError::Gone) => return Ok(()),
            Err(ReadError::Refused(status)) => {
                let response = Response::new(status, "text/plain; charset=utf-8", "refused\n");
                send(&mut connection, &response, false, false).await?;
                break;
            }
        };
        // A successor has taken over while the client was silent: it connects there.
        if backend.socket().address().is_none() {
            return Ok(());
        }
        if !answer(backend, &mut connection, place, read).await? {
            break;
        }
    }
    timeout(FINISH_TIME_MAX, connection.finish()).await?
}

/// Answers a request. Returns whether the connection may serve another.
async fn answer(
    backend: &Rc<dyn Backend>,
    connection: &mut Connection,
    place: &Place,
    mut read: ReadHead,
) -> io::Result<bool> {
    let console = backend.settings();
    let users = backend.users_file();
    let state = backend.state();
    // Log-in tells about errors; to the gate there are no users then.
    let _ = state.refresh_users(&users);
    state.set_provider(console.oidc.as_ref().map(oidc::stamp));
    let now_s = saker_net::clock::realtime_s();
    let is_head = read.request.head.view().method_token() == b"HEAD";
    let admitted = match gate::admit(&read.request, &console, state, now_s) {
        Ok(admitted) => admitted,
        Err(response) => {
            let stays = read.stays && read.length == 0;
            send(connection, &response, is_head, stays).await?;
            return Ok(stays);
        }
    };
    if admitted.identity.is_some() {
        place.pass();
    }
    if read.length > admitted.route.body_bytes_max {
        let response = Response::error(413, "the content is too long");
        send(connection, &response, is_head, false).await?;
        return Ok(false);
    }
    match timeout(BODY_TIME_MAX, read_body(connection, &mut read)).await? {
        Ok(()) => {}
        Err(_) => return Ok(false),
    }
    if let (Kind::Events, Some(identity), false) =
        (admitted.route.kind, &admitted.identity, is_head)
    {
        events::stream(
            backend,
            connection,
            &read.request,
            (admitted.route, identity),
        )
        .await?;
        return Ok(false);
    }
    let response = actions::answer(backend, &read.request, &admitted).await;
    send(connection, &response, is_head, read.stays).await?;
    Ok(read.stays)
}

async fn send(
    connection: &mut Connection,
    response: &Response,
    is_head: bool,
    stays: bool,
) -> io::Result<()> {
    let mut bytes = response
        .head(Some(response.content.len()), stays)
        .into_bytes();
    if !is_head {
        bytes.extend_from_slice(&response.content);
    }
    timeout(SEND_TIME_MAX, connection.send(&bytes)).await?
}
