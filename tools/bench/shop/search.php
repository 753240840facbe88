<?php
// Products whose name or description has the word in it.
require __DIR__ . '/lib.php';

$word = is_string($_GET['q'] ?? null) ? trim($_GET['q']) : '';
for_caches('search');
$has = fn (array $product): bool => $word !== '' && (stripos($product[0], $word) !== false || stripos($product[3], $word) !== false);
$found = array_slice(array_keys(array_filter(PRODUCTS, $has)), 0, 24);
page('Search', '<p>' . count($found) . ' products for ' . text($word) . '</p>' . tiles($found));
