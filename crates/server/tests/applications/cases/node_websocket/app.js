// An HTTP and WebSocket server without packages.
const http = require('http'), crypto = require('crypto');
const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', chunk => body += chunk);
    request.on('end', () => {
        const url = new URL(request.url, 'http://x');
        response.setHeader('Content-Type', 'application/json');
        if (url.searchParams.has('to')) { response.writeHead(302, { Location: url.searchParams.get('to') }); return response.end(); }
        if (url.searchParams.has('cookie')) response.setHeader('Set-Cookie', ['sid=' + url.searchParams.get('cookie') + '; Path=/', 'b=2']);
        response.statusCode = Number(url.searchParams.get('status') || 200);
        if (url.pathname === '/events') {
            response.setHeader('Content-Type', 'text/event-stream');
            for (let i = 0; i < 3; i++) response.write(`data: ${i}\n\n`);
            return response.end();
        }
        const f = request.headers;
        response.end(JSON.stringify({ method: request.method, url: request.url, host: (f.host || '').split(':')[0], proto: process.argv[3] ? undefined : f['x-forwarded-proto'],
            authorization: f.authorization, cookie: f.cookie, type: f['content-type'], upgrade: f.upgrade, body }, null, 1));
    });
});
server.on('upgrade', (request, socket) => {
    if (request.url.startsWith('/refuse')) return socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno');
    const key = crypto.createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
    const wanted = request.headers['sec-websocket-protocol'];
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + key +
        (wanted ? '\r\nSec-WebSocket-Protocol: ' + wanted.split(',')[0] : '') + '\r\n\r\n');
    socket.on('error', () => {});
    socket.on('data', frame => {
        const length = frame[1] & 0x7f, mask = frame.subarray(2, 6), text = Buffer.from(frame.subarray(6, 6 + length));
        for (let i = 0; i < length; i++) text[i] ^= mask[i % 4];
        const answer = Buffer.concat([Buffer.from(request.url + ' '), text]);
        socket.write(Buffer.concat([Buffer.from([0x81, answer.length]), answer]));
    });
});
server.listen(Number(process.argv[2]), '127.0.0.1');
