//! The one page of the shop that PHP makes: it says how PHP is run, and nothing that a stranger
//! could use.

use super::pages;

/// A few facts, and a temperature that is another with every request.
const BODY: &str = r#"<?php
$rows = [
    'PHP' => PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION,
    'run as' => ['litespeed' => 'lsphp, over LSAPI', 'fpm-fcgi' => 'php-fpm, over FastCGI', 'cgi-fcgi' => 'php-cgi, over FastCGI'][PHP_SAPI] ?? PHP_SAPI,
    'started by' => ($_SERVER['SERVER_SOFTWARE'] ?? '') . ', with the first request',
    'over' => ($_SERVER['SERVER_PROTOCOL'] ?? '') . (empty($_SERVER['HTTPS']) ? '' : ', encrypted'),
    'compiled code kept (opcache)' => function_exists('opcache_get_status') && (@opcache_get_status(false)['opcache_enabled'] ?? false) ? 'yes' : 'no',
    'this page took' => number_format((microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) * 1000, 2) . ' ms',
];
?><h1>The kiln</h1>
<p>It has <b><?= 1180 + crc32((string) microtime()) % 90 ?> degrees</b> inside. Ask again and it has another temperature: this page is made by PHP each time.</p>
<dl>
<?php foreach ($rows as $name => $value): ?>
  <dt><?= htmlspecialchars($name) ?></dt><dd><?= htmlspecialchars($value) ?></dd>
<?php endforeach ?>
</dl>
<p>Saker has found this PHP by itself. <code>saker serve --php off</code> serves the shop without it.</p>
"#;

pub fn page() -> String {
    pages::page("The kiln, Kestrel &amp; Clay", BODY)
}
