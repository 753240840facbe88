// A read-only npm registry with two packages, one of them scoped.
const http = require('http'), fs = require('fs'), path = require('path'), crypto = require('crypto');
const folder = process.argv[3];
const packages = { '@scope/pkg': 'scope-pkg-1.0.0.tgz', 'plain': 'plain-1.0.0.tgz' };
http.createServer((request, response) => {
    const [where, query] = request.url.split('?');
    const host = 'http://' + request.headers.host;
    for (const [name, file] of Object.entries(packages)) {
        const encoded = '/' + name.replace('/', '%2f');
        if ([encoded, encoded.replace('%2f', '%2F'), '/' + name].includes(where)) {
            const bytes = fs.readFileSync(path.join(folder, file));
            const shasum = crypto.createHash('sha1').update(bytes).digest('hex');
            response.setHeader('Content-Type', 'application/json');
            response.setHeader('Cache-Control', 'public, max-age=300');
            return response.end(JSON.stringify({ name, 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': { name, version: '1.0.0', dist: {
                shasum, tarball: `${host}/${name}/-/${file}` } } }, asked: request.url }));
        }
        if (where === `/${name}/-/${file}`) {
            response.setHeader('Content-Type', 'application/octet-stream');
            return response.end(fs.readFileSync(path.join(folder, file)));
        }
    }
    response.setHeader('Content-Type', 'application/json');
    response.statusCode = where.startsWith('/-/ping') ? 200 : 404;
    response.end(JSON.stringify({ asked: request.url, method: request.method, query }));
}).listen(Number(process.argv[2]), '127.0.0.1');
