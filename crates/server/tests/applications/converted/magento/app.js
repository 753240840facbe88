// A shop that counts how often it makes a page; /reset begins anew, for the next server.
let counts = {};
const seen = ['cookie', 'authorization', 'x-magento-cache-id', 'store', 'content-currency'];
require('http').createServer((request, response) => {
    const path = request.url.split('?')[0];
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    if (path === '/health_check.php') return response.end('healthy\n');
    if (path === '/reset') counts = {};
    const key = [request.url, ...seen.map(name => request.headers[name] || '')].join(' ');
    counts[key] = (counts[key] || 0) + 1;
    const field = (name, value) => response.setHeader(name, value);
    field('X-Powered-By', 'shop');
    if (path.startsWith('/page') || path === '/') {
        field('Cache-Control', 'public, max-age=600, s-maxage=600');
        field('X-Magento-Tags', 'cat_p,cat_p_1' + (path === '/page2' ? ',cms_2' : ''));
    } else if (path === '/login') {
        field('Cache-Control', 'public, max-age=600, s-maxage=600');
        field('Set-Cookie', 'X-Magento-Vary=group2; path=/');
    } else if (path === '/graphql') {
        field('Cache-Control', 'public, max-age=600, s-maxage=600');
        field('X-Magento-Tags', 'cat_p');
        const id = request.headers['x-magento-cache-id'];
        if (id) field('X-Magento-Cache-Id', id === 'old' ? 'new' : id);
    } else if (/^\/(pub\/)?(static|media)\//.test(path)) field('Cache-Control', 'max-age=31536000, public');
    else if (path === '/private') field('Cache-Control', 'private, max-age=600');
    else if (path === '/missing') {
        response.statusCode = 404;
        field('Cache-Control', 'public, max-age=600, s-maxage=600');
    } else field('Cache-Control', 'max-age=0, must-revalidate, no-cache, no-store');
    response.end(`run ${counts[key]} ${path}\n`);
}).listen(Number(process.argv[2]), '127.0.0.1');
