//! Extended CONNECT (RFC 8441, RFC 9220): a stream that becomes a WebSocket, or any other protocol
//! that HTTP/1.1 reaches by `Upgrade`.
//!
//! Called by: the drivers, for CONNECT with `:protocol`.
//! Caveat: the request is dispatched as the GET with `Upgrade` that it would be over HTTP/1.1, so
//! that a site's rules apply to both; 101 is returned as 200. A handler that does not know
//! upgrades may answer the GET as such; its success becomes 501.
//! Out of scope: windows and frames. The client's end reads as uploads do and writes as responses
//! do.

use super::{
    completion_queue::{Completion, CompletionQueue},
    exchanges::Exchanges,
    stream::{DispatchTask, TunnelState},
    stream_body::StreamBody,
    upload::Upload,
    wire::{StreamId, Wire},
};
use crate::worker::Worker;
use saker_ap_expr::base64_encode;
use saker_http::{HeadView, RequestHead, Status};
use saker_pipeline::{
    BodyError, BodyStream, Chunk, Exchange, NoBody, RequestBody, Response, Tunnel, respond,
};
use saker_stream_proxy::{Relay, RelayEnd};
use sha1::{Digest, Sha1};
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// RFC 6455 section 1.3.
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Maximum size of a piece fetched from the upstream.
const PIECE_BYTES_MAX: usize = 32 << 10;

impl Exchanges {
    /// Dispatches the request.
    pub fn ask_for_tunnel(
        &mut self,
        id: StreamId,
        end_stream: bool,
        protocol: &[u8],
        view: HeadView<'_>,
        wire: &mut impl Wire,
    ) {
        if !self.begin_request(view, wire) {
            return self.drop_client(id, wire);
        }
        if end_stream {
            return self.refuse(id, Status::BAD_REQUEST, view, wire);
        }
        let key = protocol
            .eq_ignore_ascii_case(b"websocket")
            .then(websocket_key);
        let head = as_upgrade(view, protocol, key.as_deref());
        let services = self.session.worker.services();
        let site = Arc::clone(&services.generation.no_site);
        let exchange = Exchange::new(
            Rc::clone(&self.session.client),
            head,
            Box::new(NoBody),
            site,
            saker_net::clock::realtime_s(),
        );
        let upload = Rc::new(RefCell::new(Upload::new(None, 0, false)));
        self.start_dispatch(id, exchange, services, Some(upload));
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_connect = true;
            stream.tunnel = Some(TunnelState::Asked {
                accept: key.map(|key| websocket_accept(&key)),
            });
        }
    }

    /// Converts the upstream's response into the one for the client.
    pub(super) fn settle_tunnel(
        &mut self,
        id: StreamId,
        response: &mut Response,
    ) -> Option<Box<dyn Tunnel>> {
        let Some(TunnelState::Asked { accept }) = self
            .streams
            .get_mut(&id)
            .and_then(|stream| stream.tunnel.take())
        else {
            // Not asked for one; 101 is no status of HTTP/2 (RFC 9113 section 8.6).
            if response.tunnel.is_some() || response.status == Status::SWITCHING_PROTOCOLS {
                *response = respond::built_in_page(Response::new(Status::BAD_GATEWAY));
            }
            return None;
        };
        match response.tunnel.take() {
            Some(program)
                if accept.is_none()
                    || response.fields().first("sec-websocket-accept") == accept.as_deref() =>
            {
                response.status = Status::OK;
                let fields = response.fields_mut();
                // RFC 8441 section 5: these fields are not needed in HTTP/2 and HTTP/3.
                for name in ["upgrade", "connection", "sec-websocket-accept"] {
                    fields.remove(name);
                }
                return Some(program);
            }
            Some(_) => *response = respond::built_in_page(Response::new(Status::BAD_GATEWAY)),
            // RFC 9220 section 3.
            None if response.status.is_success() || response.status == Status::NOT_MODIFIED => {
                *response = respond::built_in_page(Response::new(Status::NOT_IMPLEMENTED));
            }
            None => {}
        }
        // The tunnel would have read it.
        let upload = self.streams.get(&id).and_then(|it| it.upload.as_ref());
        if let Some(upload) = upload {
            upload.borrow_mut().stop_keeping();
        }
        None
    }

    /// The head has been sent: content passes.
    pub(super) fn begin_tunnel(
        &mut self,
        id: StreamId,
        program: Box<dyn Tunnel>,
    ) -> Option<TunnelBody> {
        let stream = self.streams.get_mut(&id)?;
        let upload = Rc::clone(stream.upload.as_ref()?);
        let body = StreamBody {
            stream: id,
            upload,
            completions: Rc::clone(&self.completions),
            accounts: self.session.accounts().clone(),
            pace: None,
            // The other end has a limit for both directions.
            time: None,
            received: 0,
            sleep: None,
        };
        let slot = Rc::<RefCell<Slot>>::default();
        let client = Client {
            body,
            chunk: None,
            slot: Rc::clone(&slot),
        };
        let received = Rc::<Cell<u64>>::default();
        stream.tunnel = Some(TunnelState::Open(Rc::clone(&received)));
        let task = run(
            id,
            Rc::clone(&self.session.worker),
            Rc::clone(&self.completions),
            client,
            program,
            received,
        );
        stream.dispatch = Some(DispatchTask {
            task: tokio::task::spawn_local(task).abort_handle(),
            client_abort: Rc::default(),
            asked: None,
            upload: None,
        });
        Some(TunnelBody(slot))
    }
}

/// Passes on until both ways have ended, or one end is gone.
async fn run(
    id: StreamId,
    worker: Rc<Worker>,
    completions: Rc<CompletionQueue>,
    mut client: Client,
    mut program: Box<dyn Tunnel>,
    received: Rc<Cell<u64>>,
) {
    let mut relay = Relay::default();
    let end = poll_fn(|cx| {
        let mut buffers = worker.buffers.borrow_mut();
        let polled = relay.poll(cx, &mut client, program.as_mut(), &mut buffers.read);
        received.set(relay.bytes_in());
        polled
    })
    .await;
    client.slot.borrow_mut().finish(end == RelayEnd::Cut);
    completions.push(Completion::TunnelOver(id));
}

/// RFC 8441 section 5: the equivalent HTTP/1.1 request. Fields required by HTTP/1.1 are added here.
fn as_upgrade(view: HeadView<'_>, protocol: &[u8], key: Option<&[u8]>) -> RequestHead {
    const OURS: [&[u8]; 4] = [b"sec-websocket-key", b"content-length", b"te", b"expect"];
    let target = String::from_utf8_lossy(view.target()).into_owned();
    let theirs = view
        .fields()
        .filter(|(name, _)| !OURS.iter().any(|own| own.eq_ignore_ascii_case(name)));
    let ours = [
        (&b"connection"[..], &b"upgrade"[..]),
        (b"upgrade", protocol),
    ];
    let key = key.map(|key| (&b"sec-websocket-key"[..], key));
    RequestHead::build("GET", &target, view.version(), &[])
        .with_fields(theirs.chain(ours).chain(key))
}

/// RFC 6455 section 4.1: a nonce of 16 bytes.
fn websocket_key() -> Vec<u8> {
    let random = || RandomState::new().build_hasher();
    let halves =
        [random(), random()].map(|hasher| std::hash::Hasher::finish(&hasher).to_be_bytes());
    base64_encode(&halves.concat())
}

/// RFC 6455 section 4.2.2.
fn websocket_accept(key: &[u8]) -> Vec<u8> {
    base64_encode(&Sha1::digest([key, WEBSOCKET_GUID].concat()))
}

/// The client's end, as the relay sees it.
struct Client {
    body: StreamBody,
    /// Come, and more than the reader had room for.
    chunk: Option<Chunk>,
    slot: Rc<RefCell<Slot>>,
}

/// The slot for bytes to the client: one piece at a time.
#[derive(Default)]
struct Slot {
    piece: Option<Chunk>,
    /// Nothing follows the piece; with an error if it should have.
    end: Option<Result<(), BodyError>>,
    /// The stream is gone.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Slot {
    fn finish(&mut self, is_cut: bool) {
        self.end.get_or_insert(if is_cut {
            Err(BodyError::Source)
        } else {
            Ok(())
        });
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl Tunnel for Client {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let chunk = match self.chunk.take() {
            Some(chunk) => chunk,
            None => match std::task::ready!(self.body.poll_chunk(cx)) {
                Some(Ok(chunk)) => chunk,
                Some(Err(_)) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                None => return Poll::Ready(Ok(0)),
            },
        };
        let bytes = chunk.len().min(buf.len());
        buf[..bytes].copy_from_slice(&chunk.bytes()[..bytes]);
        self.chunk = (bytes < chunk.len()).then(|| chunk.slice(bytes..chunk.len()));
        Poll::Ready(Ok(bytes))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut slot = self.slot.borrow_mut();
        if slot.is_abandoned {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if slot.piece.is_some() {
            slot.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let piece = &buf[..buf.len().min(PIECE_BYTES_MAX)];
        slot.piece = Some(Chunk::new(piece.into()));
        slot.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.slot.borrow_mut().finish(false);
        Ok(())
    }
}

/// The other end of the slot, a response's body.
pub struct TunnelBody(Rc<RefCell<Slot>>);

impl BodyStream for TunnelBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut slot = self.0.borrow_mut();
        match (slot.piece.take(), slot.end) {
            (Some(piece), _) => {
                slot.writer.take().into_iter().for_each(Waker::wake);
                Poll::Ready(Some(Ok(piece)))
            }
            (None, Some(Ok(()))) => Poll::Ready(None),
            (None, Some(Err(error))) => Poll::Ready(Some(Err(error))),
            (None, None) => {
                slot.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for TunnelBody {
    fn drop(&mut self) {
        let mut slot = self.0.borrow_mut();
        slot.is_abandoned = true;
        slot.writer.take().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::Version;

    #[test]
    fn the_proof_of_rfc_6455_section_1_3() {
        assert_eq!(
            websocket_accept(b"dGhlIHNhbXBsZSBub25jZQ=="),
            b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        let (one, other) = (websocket_key(), websocket_key());
        assert!(one.len() == 24 && one != other);
    }

    #[test]
    fn an_extended_connect_walks_as_a_get() {
        let fields = [
            ("Host", "a"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "theirs"),
            ("TE", "trailers"),
        ];
        let asked = RequestHead::build("CONNECT", "/chat?x", Version::Http2, &fields);
        let head = as_upgrade(asked.view(), b"websocket", Some(b"ours"));
        let view = head.view();
        assert_eq!(
            (view.method_token(), view.target(), view.version()),
            (&b"GET"[..], &b"/chat?x"[..], Version::Http2)
        );
        assert_eq!(view.start_line(), b"GET /chat?x HTTP/2.0");
        assert_eq!(view.all("sec-websocket-key").collect::<Vec<_>>(), [b"ours"]);
        assert_eq!(
            (view.first("upgrade"), view.first("te"), view.first("host")),
            (Some(&b"websocket"[..]), None, Some(&b"a"[..]))
        );
    }
}
