<?php
// Whoever says a name gets a session; it is a shop for load tools.
require __DIR__ . '/lib.php';

for_nobody_else();
if (is_string($_POST['name'] ?? null)) {
    open_session(['cookie_httponly' => true, 'cookie_samesite' => 'Lax']);
    session_regenerate_id();
    $_SESSION = ['customer' => $_POST['name'], 'cart' => []];
    session_write_close();
    header('Location: index.php', true, 303);
    return;
}
page('Log in', '<form method="post"><label>Name <input name="name"></label><button>Log in</button></form>');
