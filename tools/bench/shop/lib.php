<?php
// What all pages of the shop have in common. A page costs some 20 to 40 ms of PHP, as those of real shops do at least: prices go through rules
// that are computed anew each time. The same page has the same bytes whoever serves it, and for each customer his own.
declare(strict_types=1);

require __DIR__ . '/catalogue.php';
require __DIR__ . '/sessions.php';

const SESSION = 'shop_session';
const RULES_PER_PRICE = 500;
const RULES_PER_PAGE = 15000;

/** Nobody, or who is logged in, with his cart. */
function visitor(): ?array
{
    static $visitor = null;
    if ($visitor === null && isset($_COOKIE[SESSION])) {
        open_session(['use_strict_mode' => 0]);
        $_SESSION += ['customer' => 'customer ' . substr(md5((string) session_id()), 0, 6), 'cart' => [3, 17]];
        $visitor = $_SESSION;
        // The next request of his need not wait for the rest of this page.
        session_write_close();
    }
    return $visitor;
}

/** Pages of guests are for all, for an hour: said to LSCache and to every other shared cache. */
function for_caches(string ...$tags): void
{
    if (visitor() !== null) {
        for_nobody_else();
        return;
    }
    header('Cache-Control: public, max-age=0, s-maxage=3600');
    header('X-LiteSpeed-Cache-Control: public,max-age=3600');
    // Whoever has a session gets other pages than these.
    header('X-LiteSpeed-Vary: cookie=' . SESSION);
    header('X-LiteSpeed-Tag: ' . implode(',', $tags));
}

function for_nobody_else(): void
{
    header('Cache-Control: private, no-store');
    header('X-LiteSpeed-Cache-Control: no-cache');
}

function rules(string $of, int $count): string
{
    for ($rule = 0; $rule < $count; $rule++) {
        $of = hash('sha256', $of . $rule);
    }
    return $of;
}

function price(int $number): string
{
    $cents = PRODUCTS[$number][2] + hexdec(substr(rules("product $number", RULES_PER_PRICE), 0, 2));
    return number_format($cents / 100, 2) . ' EUR';
}

function text(string $text): string
{
    return htmlspecialchars($text, ENT_QUOTES);
}

function tile(int $number): string
{
    [$name, $category] = PRODUCTS[$number];
    return "<li class=\"tile\"><a href=\"product.php?p=$number\"><img src=\"img/small-$number.jpg\" width=\"160\" height=\"160\" alt=\"" . text($name)
        . '"><span class="name">' . text($name) . '</span></a><span class="group">' . text(CATEGORIES[$category])
        . '</span><span class="price">' . price($number) . "</span><form action=\"cart.php\" method=\"get\"><input type=\"hidden\" name=\"add\" value=\"$number\">"
        . "<button>Into the cart</button></form></li>\n";
}

function tiles(array $numbers): string
{
    return "<ul class=\"tiles\">\n" . implode('', array_map('tile', $numbers)) . "</ul>\n";
}

function page(string $title, string $content): void
{
    $seal = rules($title, RULES_PER_PAGE);
    $visitor = visitor();
    $who = $visitor === null ? '<a href="login.php">Log in</a>' : 'Hello, ' . text($visitor['customer']);
    $cart = count($visitor['cart'] ?? []);
    $menu = '';
    foreach (CATEGORIES as $number => $name) {
        $menu .= "<li><a href=\"category.php?c=$number\">" . text($name) . '</a></li>';
    }
    echo '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>', text($title), "</title>\n",
        "<link rel=\"stylesheet\" href=\"shop.css\">\n<script src=\"shop.js\" defer></script></head>\n<body><header><img src=\"img/logo.jpg\" alt=\"The shop\">",
        "<ul class=\"menu\">$menu</ul><form action=\"search.php\"><input name=\"q\"><button>Search</button></form><p class=\"visitor\">$who, ",
        "<a href=\"cart.php\">cart ($cart)</a></p></header>\n<main><h1>", text($title), "</h1>\n$content</main>\n<footer>Offer $seal</footer></body></html>\n";
}

/** A number of the query, if there is such a thing. */
function number(string $name, array $among): ?int
{
    $number = filter_var($_GET[$name] ?? null, FILTER_VALIDATE_INT);
    return $number !== false && isset($among[$number]) ? $number : null;
}

function nothing_there(): void
{
    http_response_code(404);
    for_nobody_else();
    page('Nothing there', '<p>We do not have this.</p>');
}
