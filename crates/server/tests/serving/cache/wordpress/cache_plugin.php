<?php
// What a cache plugin does, as LiteSpeed's public documents say it: control and tags by page, private pages for those who are known, purges when
// something changes, and a vary cookie by role. Every tag has the site's prefix.
const PREFIX = 'd41_';

// Each run of PHP leaves a byte.
file_put_contents(ABSPATH . 'made', '.', FILE_APPEND | LOCK_EX);

function lsc_tags(array $tags): void
{
    $named = array_map(fn ($tag) => PREFIX . $tag, $tags);
    header('X-LiteSpeed-Tag: ' . implode(',', array_merge($named, [PREFIX])));
}

function lsc_purge(array $tags): void
{
    static $all = [];
    $all = array_unique(array_merge($all, array_map(fn ($tag) => 'tag=' . PREFIX . $tag, $tags)));
    $list = implode(',', $all);
    header("X-LiteSpeed-Purge: public,$list;private,$list");
}

function lsc_of_post(int $id): void
{
    if (get_post_status($id) === 'publish' && get_post_type($id) === 'post') {
        lsc_purge(["Po.$id", 'F', 'H', 'FD']);
    }
}

// The first word a page says of itself counts: what is nobody else's comes first.
add_action('template_redirect', function () {
    if (is_404() || is_search() || is_preview()) {
        header('X-LiteSpeed-Cache-Control: no-cache');
        return;
    }
    $is_known = is_user_logged_in() || array_filter(array_keys($_COOKIE), fn ($name) => str_starts_with($name, 'comment_author_'));
    header('X-LiteSpeed-Cache-Control: ' . ($is_known ? 'private,max-age=600' : 'public,max-age=600'));
    $tags = is_singular() ? ['Po.' . get_queried_object_id()] : [];
    foreach (['F' => is_front_page(), 'H' => is_home(), 'FD' => is_feed(), 'PGS' => is_paged()] as $tag => $is_it) {
        if ($is_it) {
            $tags[] = $tag;
        }
    }
    lsc_tags($tags);
}, 20);
foreach (['admin_init', 'login_init', 'rest_api_init'] as $hook) {
    add_action($hook, fn () => header('X-LiteSpeed-Cache-Control: no-cache'));
}
add_action('save_post', 'lsc_of_post');
add_action('trashed_post', fn ($id) => lsc_purge(["Po.$id", 'F', 'H', 'FD']));
add_action('comment_post', function ($id, $approved) {
    if ($approved === 1) {
        lsc_purge(['Po.' . get_comment($id)->comment_post_ID]);
    }
}, 10, 2);
add_action('transition_comment_status', fn ($new, $old, $comment) => lsc_purge(['Po.' . $comment->comment_post_ID]), 10, 3);
// Who logs in gets the variant of his role.
add_action('set_logged_in_cookie', fn ($cookie, $expire, $expiration, $user) =>
    setcookie('_lscache_vary', md5('role' . implode(',', get_userdata($user)->roles)), 0, '/'), 10, 4);
add_action('clear_auth_cookie', fn () => setcookie('_lscache_vary', ' ', 1, '/'));

add_action('init', function () {
    if (isset($_GET['told'])) {
        header('X-LiteSpeed-Cache-Control: no-cache');
        $names = ['X-LSCACHE', 'HTTP_X_LSCACHE', 'LSWS_EDITION', 'SERVER_SOFTWARE', 'LSCACHE_VARY_VALUE', 'HTTP_X_LSCACHE_VARY_VALUE'];
        foreach ($names as $name) {
            echo "$name=", $_SERVER[$name] ?? '-', "\n";
        }
        exit;
    }
    if (isset($_GET['users'])) {
        header('X-LiteSpeed-Cache-Control: no-cache');
        for ($number = 0; $number < (int) $_GET['users']; $number++) {
            $id = wp_insert_user(['user_login' => "reader$number", 'user_pass' => 'x', 'display_name' => "Reader-$number-", 'role' => 'subscriber']);
            $vary = md5('role' . implode(',', get_userdata($id)->roles));
            echo LOGGED_IN_COOKIE, '=', rawurlencode(wp_generate_auth_cookie($id, time() + 3600, 'logged_in')), "; _lscache_vary=$vary\n";
        }
        exit;
    }
    if (isset($_GET['fragment'])) {
        $user = wp_get_current_user();
        header('X-LiteSpeed-Cache-Control: private,no-vary,max-age=600');
        lsc_tags(['fragment']);
        echo 'basket of ', $user->exists() ? $user->display_name : 'nobody', ' ', str_repeat(md5($user->user_login), 100);
        exit;
    }
});
