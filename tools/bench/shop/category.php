<?php
// All products of a category, with an image each.
require __DIR__ . '/lib.php';

$category = number('c', CATEGORIES);
if ($category === null) {
    nothing_there();
    return;
}
for_caches('category', "category_$category");
page(CATEGORIES[$category], tiles(array_keys(array_filter(PRODUCTS, fn (array $product): bool => $product[1] === $category))));
