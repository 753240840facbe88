// A shop that counts how often it makes a page; /reset begins anew, for the next server.
let counts = {};
require('http').createServer((request, response) => {
    const path = request.url.split('?')[0];
    if (path === '/reset') counts = {};
    const key = request.method + request.url + (request.headers.cookie || '');
    counts[key] = (counts[key] || 0) + 1;
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    if (path.startsWith('/page') || path === '/') { response.setHeader('Cache-Control', 'public, max-age=600'); response.setHeader('X-Magento-Tags', 'cat_p,cat_p_1' + (path === '/page2' ? ',cms_2' : '')); }
    else if (path.startsWith('/private')) response.setHeader('Cache-Control', 'private, max-age=600');
    else if (path.startsWith('/cookie')) { response.setHeader('Cache-Control', 'public, max-age=600'); response.setHeader('Set-Cookie', 'a=b'); }
    else response.setHeader('Cache-Control', 'no-store, max-age=0');
    response.end(`run ${counts[key]} ${path}\n`);
}).listen(Number(process.argv[2]), '127.0.0.1');
