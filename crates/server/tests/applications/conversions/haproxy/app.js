// Shows what it is told.
require('http').createServer((request, response) => {
    let body = '';
    request.on('data', chunk => body += chunk);
    request.on('end', () => {
        const f = request.headers;
        response.setHeader('Content-Type', 'application/json');
        const status = /status=(\d+)/.exec(request.url);
        if (status) response.statusCode = Number(status[1]);
        response.end(JSON.stringify({ method: request.method, url: request.url, tenant: f['x-tenant'], upload: f['x-upload'],
            forwarded: f['x-forwarded-for'], body }));
    });
}).listen(Number(process.argv[2]), '127.0.0.1');
