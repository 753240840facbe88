<?php
// What is in the cart, after something was put into it.
require __DIR__ . '/lib.php';

for_nobody_else();
$visitor = visitor();
$added = number('add', PRODUCTS);
if ($visitor !== null && $added !== null) {
    open_session(['use_strict_mode' => 0]);
    $_SESSION['cart'][] = $added;
    session_write_close();
    header('Location: cart.php', true, 303);
    return;
}
page('Cart', $visitor === null ? '<p>Log in to fill it.</p>' : tiles($visitor['cart']));
