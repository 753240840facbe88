<?php
// The front page: some of everything.
require __DIR__ . '/lib.php';

for_caches('front');
page('The shop', '<p>' . text(implode(', ', CATEGORIES)) . '.</p>' . tiles(range(0, count(PRODUCTS) - 1, 14)));
