# Functions for the `prepare` scripts of applications. $DIR is the folder to fill.

# file PATH TEXT…: a file that has been there for a day, so that validators are strong.
file() {
    local path="$DIR/$1"
    shift
    mkdir -p "$(dirname "$path")"
    printf '%s\n' "$*" >"$path"
    touch -d '2024-05-06 07:08:09 UTC' "$path"
}

# front PATH: a script that shows what the server tells programs.
front() {
    local path="$DIR/$1"
    mkdir -p "$(dirname "$path")"
    cat >"$path" <<'PHP'
<?php
header('Content-Type: text/plain; charset=utf-8');
header('Cache-Control: no-cache, private');
if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
if (isset($_GET['to'])) header('Location: ' . $_GET['to'], true, 302);
if (isset($_GET['cookie'])) setcookie('front', $_GET['cookie'], ['path' => '/', 'httponly' => true]);
$_SERVER['HTTP_HOST'] = preg_replace('/:\d+$/', '', $_SERVER['HTTP_HOST']);
$names = ['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'PHP_SELF', 'QUERY_STRING', 'REQUEST_URI', 'DOCUMENT_ROOT',
    'SCRIPT_FILENAME', 'HTTP_HOST', 'SERVER_NAME', 'SERVER_PROTOCOL', 'REMOTE_ADDR', 'CONTENT_TYPE', 'CONTENT_LENGTH',
    'HTTP_AUTHORIZATION', 'HTTP_X_REQUESTED_WITH', 'HTTPS', 'HTTP_PROXY'];
foreach ($names as $name) echo $name, '=', $_SERVER[$name] ?? '', "\n";
echo 'GET=', json_encode($_GET), "\nPOST=", json_encode($_POST), "\nCOOKIE=", json_encode($_COOKIE), "\nBODY=", file_get_contents('php://input'), "\n";
PHP
}

# copy FROM TO: a tree of a Debian package, which PHP may change.
copy() {
    test -e "$1" || { echo "$1 is missing: tools/install-test-programs"; return 1; }
    cp -rL "$1" "$DIR/$2"
}

# own PATH…: for the user of php-fpm.
own() {
    [ "$(id -u)" != 0 ] || (cd "$DIR" && chown -R www-data:www-data "$@")
}
