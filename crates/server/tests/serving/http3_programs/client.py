"""aioquic as a second client of HTTP/3. Usage: client.py HOST:PORT COMMAND ARGUMENTS; says in JSON what came.

download PATH MOVES   one GET; the client goes to another port so many times on the way
upload PATH BYTES     one POST
many PATH...          GETs at once
resume PATH           two connections; the second asks in 0-RTT
"""

import asyncio
import hashlib
import json
import socket
import ssl
import sys
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset


class Answer:
    def __init__(self):
        self.done = asyncio.get_running_loop().create_future()
        self.headers = {}
        self.bytes = 0
        self.sum = hashlib.sha256()

    def told(self):
        return {"status": self.headers.get(":status"), "bytes": self.bytes, "sha256": self.sum.hexdigest()}


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.answers = {}

    def quic_event_received(self, event):
        if isinstance(event, (ConnectionTerminated, StreamReset)):
            for answer in self.answers.values():
                if not answer.done.done():
                    answer.done.set_exception(RuntimeError(repr(event)))
            return
        for meaning in self.http.handle_event(event):
            answer = self.answers.get(getattr(meaning, "stream_id", None))
            if answer is None:
                continue
            if isinstance(meaning, HeadersReceived):
                answer.headers.update({name.decode(): value.decode() for name, value in meaning.headers})
            if isinstance(meaning, DataReceived):
                answer.bytes += len(meaning.data)
                answer.sum.update(meaning.data)
            if meaning.stream_ended and not answer.done.done():
                answer.done.set_result(answer)

    def ask(self, method, authority, path, content=b""):
        stream = self._quic.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
        if content:
            head.append(("content-length", str(len(content))))
        answer = self.answers[stream] = Answer()
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head], end_stream=not content)
        if content:
            self.http.send_data(stream, content, end_stream=True)
        self.transmit()
        return answer

    async def move(self):
        """The same connection from another port."""
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0, 0, 0))
        client = self

        class Door(asyncio.DatagramProtocol):
            def datagram_received(self, data, address):
                client.datagram_received(data, address)

        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Door, sock=sock)
        before, self._transport = self._transport, transport
        before.close()
        self.change_connection_id()
        await self.ping()


def configuration(**more):
    config = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", **more)
    config.verify_mode = ssl.CERT_NONE
    config.max_data = config.max_stream_data = 16 << 20
    return config


async def download(host, port, path, moves):
    authority = f"{host}:{port}"
    async with connect(host, port, configuration=configuration(), create_protocol=Client) as client:
        began = time.monotonic()
        answer = client.ask("GET", authority, path)
        moved = 0
        while not answer.done.done():
            await asyncio.wait([answer.done], timeout=0.05)
            length = int(answer.headers.get("content-length", "0"))
            if moved < moves and answer.bytes * (moves + 1) > length * (moved + 1) and not answer.done.done():
                moved += 1
                await client.move()
        return (await answer.done).told() | {"moved": moved, "seconds": time.monotonic() - began}


async def upload(host, port, path, size):
    content = bytes(index % 251 for index in range(size))
    async with connect(host, port, configuration=configuration(), create_protocol=Client) as client:
        return (await client.ask("POST", f"{host}:{port}", path, content).done).told()


async def many(host, port, paths):
    async with connect(host, port, configuration=configuration(), create_protocol=Client) as client:
        answers = [client.ask("GET", f"{host}:{port}", path) for path in paths]
        return [(await answer.done).told() for answer in answers]


async def resume(host, port, path):
    tickets, told = [], []
    for _ in range(2):
        config = configuration(session_ticket=tickets[-1] if tickets else None)
        named = {"create_protocol": Client, "session_ticket_handler": tickets.append, "wait_connected": not told}
        async with connect(host, port, configuration=config, **named) as client:
            answer = await client.ask("GET", f"{host}:{port}", path).done
            told.append(answer.told() | {"early": client._quic.tls.early_data_accepted, "resumed": client._quic.tls.session_resumed})
            for _ in range(50):
                if tickets:
                    break
                await asyncio.sleep(0.02)
    return told


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    command, rest = sys.argv[2], sys.argv[3:]
    made = {
        "download": lambda: download(host, int(port), rest[0], int(rest[1])),
        "upload": lambda: upload(host, int(port), rest[0], int(rest[1])),
        "many": lambda: many(host, int(port), rest),
        "resume": lambda: resume(host, int(port), rest[0]),
    }[command]()
    print(json.dumps(asyncio.run(asyncio.wait_for(made, 300))))


main()
