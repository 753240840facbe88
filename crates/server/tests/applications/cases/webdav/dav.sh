# Apache's mod_dav as a server behind the proxy.
port="$1" dir="$2"
mkdir -p "$dir/dav" "$dir/dav-run"
modules=/usr/lib/apache2/modules
{
    for name in mpm_event authz_core mime dav dav_fs; do echo "LoadModule ${name}_module $modules/mod_$name.so"; done
    [ "$(id -u)" != 0 ] || echo "User www-data
Group www-data"
    cat <<CONF
ServerRoot $dir/dav-run
ServerName app.test
Listen 127.0.0.1:$port
PidFile $dir/dav-run/pid
DefaultRuntimeDir $dir/dav-run
ErrorLog $dir/dav-run/error.log
TypesConfig /etc/mime.types
DavLockDB $dir/dav-run/DavLock
DocumentRoot $dir/dav
<Directory $dir/dav>
Dav On
Require all granted
</Directory>
CONF
} >"$dir/dav-run/httpd.conf"
[ "$(id -u)" != 0 ] || chown -R www-data "$dir/dav" "$dir/dav-run"
exec apache2 -f "$dir/dav-run/httpd.conf" -DFOREGROUND
