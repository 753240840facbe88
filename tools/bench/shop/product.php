<?php
// One product, and what goes with it.
require __DIR__ . '/lib.php';

$number = number('p', PRODUCTS);
if ($number === null) {
    nothing_there();
    return;
}
[$name, $category, , $words] = PRODUCTS[$number];
for_caches('product', "product_$number", "category_$category");
$related = array_map(fn (int $step): int => ($number + 7 * $step) % count(PRODUCTS), range(1, 8));
page($name, "<img src=\"img/large-$number.jpg\" width=\"640\" height=\"640\" alt=\"" . text($name) . '"><p class="price">' . price($number) . '</p><p>'
    . text($words) . "</p>\n<h2>Goes with it</h2>\n" . tiles($related));
