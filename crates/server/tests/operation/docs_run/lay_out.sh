# What the pages take for granted on a machine; runs once, in the folder of the commands.
set -euo pipefail
hosts="localhost shop.example example.org www.example.org console.example.org"
echo "127.0.0.1 $hosts" >/etc/hosts

mkdir -p /srv/www/example.org /srv/shop /srv/wordpress /srv/files /path/to/directory
for folder in /srv/www /srv/www/example.org /srv/files /path/to/directory; do
    echo "$folder" >"$folder/index.html"
done
echo 'a{}' >/srv/www/style.css
echo '<?php echo 1;' >/srv/wordpress/index.php
echo '<?php header("Cache-Control: public, max-age=60"); echo "shop";' >/srv/shop/index.php
echo '<urlset><url><loc>https://shop.example/</loc></url></urlset>' >/srv/shop/sitemap.xml

mkdir -p /var/log/nginx /etc/saker /etc/varnish /usr/share/saker /usr/local/bin /opt/saker-0.3 /opt/php/sbin
echo 'a secret of some length for links' >/etc/saker/links.secret
echo 'a secret of the provider' >/etc/saker/oidc-secret
echo 'a secret of the provider' >/etc/saker/console-oidc-secret
echo 'secret' >/etc/saker/ldap-password
echo 'postgres://saker@127.0.0.1/panel' >/etc/saker/hosts.url
head -c 32 /dev/urandom | base64 >/etc/saker/cluster-secret
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=redis \
    -keyout /etc/ssl/redis.key -out /etc/ssl/redis.pem 2>/dev/null
cp /etc/ssl/redis.pem /etc/ssl/clients.pem
cp /etc/ssl/redis.pem /etc/saker/peer.pem
cp /etc/ssl/redis.pem /etc/saker/peer-ca.pem
cp /etc/ssl/redis.key /etc/saker/peer.key
cat >/etc/varnish/default.vcl <<'END'
vcl 4.1;
backend default {
  .host = "127.0.0.1";
  .port = "8080";
}
END
ln -sfn "$SAKER_DOCS_ROOT/contrib/proxies" /usr/share/saker/proxies
ln -sf "$SAKER_DOCS_PROGRAM" /usr/local/bin/saker
ln -sf "$SAKER_DOCS_PROGRAM" /opt/saker-0.3/saker
cp "$SAKER_DOCS_ROOT"/contrib/*.service "$SAKER_DOCS_ROOT"/contrib/*.socket /etc/systemd/system/
for fpm in /usr/sbin/php-fpm*; do ln -sf "$fpm" /opt/php/sbin/php-fpm8.3; done

# Beside the configuration of a page.
mkdir -p conf.d sites-enabled lists target/release
ln -sf "$SAKER_DOCS_PROGRAM" saker
ln -sfn "$SAKER_DOCS_ROOT/contrib" contrib
ln -sf "$SAKER_DOCS_ROOT/crates/server/tests/operation/docs_run/commands.py" target/release/saker
touch conf.d/more.toml sites-enabled/more.toml
printf 'https://shop.example/\nhttp://localhost/\n' >urls.txt
echo '/old /new' >redirects.txt
htpasswd -bcB users ann secret 2>/dev/null
