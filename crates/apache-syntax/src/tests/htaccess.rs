//! `.htaccess` files against the real Apache: what it answers 500 to is refused with the sentence
//! of its error log, and what it serves is accepted.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_ap_expr::words::words;
use saker_apache_syntax::{OnDisk, Permission, Setup, load, parse_htaccess};
use saker_testkit::{ServerProcess, TempDir, free_port, require};
use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "authz_host",
    "authn_core",
    "authn_file",
    "auth_basic",
    "authz_user",
    "access_compat",
    "alias",
    "rewrite",
    "env",
    "headers",
    "dir",
    "mime",
    "negotiation",
    "autoindex",
    "setenvif",
    "expires",
    "deflate",
    "filter",
    "macro",
];
/// The content of `<Directory>`, `::`, and the file with its lines divided by ` | `.
const FILES: &[&str] = &[
    "AllowOverride All :: SetEnv a b",
    "AllowOverride All :: Options -Indexes | RewriteEngine On | RewriteRule ^x$ y [L]",
    "AllowOverride All :: <IfModule mod_rewrite.c> | RewriteEngine On | RewriteBase / | </IfModule>",
    "AllowOverride All :: <FilesMatch \"\\.php$\"> | Require all denied | </FilesMatch>",
    "AllowOverride All :: <If \"true\"> | SetEnv a b | </If> | <Else> | SetEnv a c | </Else>",
    "AllowOverride All :: Order allow,deny | Allow from all",
    "AllowOverride All :: ExpiresActive On | ExpiresByType image/png \"access plus 1 month\"",
    "AllowOverride All :: <Limit GET> | Require all granted | </Limit>",
    "AllowOverride All :: <Limit FROB> | Require all granted | </Limit>",
    "AllowOverride All :: <Files x> | Options None | <If \"true\"> | SetEnv a b | </If> | </Files>",
    "AllowOverride All :: <Files x>",
    "AllowOverride All :: </Files>",
    "AllowOverride All :: <Files x> | </If>",
    "AllowOverride All :: <Directory /x> | </Directory>",
    "AllowOverride All :: <Location /x> | </Location>",
    "AllowOverride All :: <VirtualHost *> | </VirtualHost>",
    "AllowOverride All :: DocumentRoot /",
    "AllowOverride All :: Include x.conf",
    "AllowOverride All :: Define a b",
    "AllowOverride All :: LoadModule a b",
    "AllowOverride All :: SetEnv a b c",
    "AllowOverride All :: RewriteEngine Maybe",
    "AllowOverride All :: Bogus On",
    "AllowOverride All :: php_value a b",
    "AllowOverride All :: <IfModule mod_php.c> | php_value a b | </IfModule>",
    "AllowOverride All :: AllowOverride None",
    "AllowOverride All :: RewriteMap a txt:/x",
    "AllowOverride All :: <Macro m $a> | SetEnv a $a | </Macro> | Use m b",
    "AllowOverride All :: Use nothing",
    "AllowOverride All :: <RequireAll> | Require all granted | SetEnv a b | </RequireAll>",
    "AllowOverride All :: <RequireAll> | </RequireAll>",
    "AllowOverride All :: <Else> | </Else>",
    "AllowOverride All :: Error stop here",
    "AllowOverride All :: Alias /a /b",
    "AllowOverride All :: <IfDefine X> | </IfModule>",
    "AllowOverride All :: <IfModule mod_env.c> | SetEnv a b",
    "AllowOverride All :: Options Indexes +ExecCGI",
    "AllowOverride AuthConfig :: AuthType Basic | AuthName x",
    "AllowOverride AuthConfig :: SetEnv a b",
    "AllowOverride AuthConfig :: <Files x> | SetEnv a b | </Files>",
    "AllowOverride FileInfo :: Options None",
    "AllowOverride FileInfo :: ErrorDocument 404 /x | AddType a/b .c | Header set A b",
    "AllowOverride Indexes :: DirectoryIndex a.html",
    "AllowOverride Limit :: Order deny,allow",
    "AllowOverride Limit :: Require all granted",
    "AllowOverride Options :: Options ExecCGI Indexes",
    "AllowOverride Options=Indexes,MultiViews :: Options Indexes MultiViews",
    "AllowOverride Options=Indexes,MultiViews :: Options ExecCGI",
    "AllowOverride Options=Indexes :: Options All",
    "AllowOverride Options=Indexes :: Options None",
    "AllowOverride Options=Indexes :: Options -ExecCGI",
    "AllowOverride FileInfo | AllowOverrideList Options :: Options None",
    "AllowOverride None | AllowOverrideList SetEnv <Files :: <Files x> | SetEnv a b | </Files>",
    "AllowOverride None | AllowOverrideList SetEnv :: <IfModule mod_env.c> | SetEnv a b | </IfModule>",
    "AllowOverride None | AllowOverrideList SetEnv :: Options None",
    "AllowOverride None Nonfatal=Override | AllowOverrideList Options :: SetEnv a b",
    "AllowOverride All Nonfatal=Unknown :: Bogus On | <Bogus> | </Bogus>",
    "AllowOverride All Nonfatal=Unknown :: DocumentRoot /",
    "AllowOverride FileInfo Nonfatal=Override :: DocumentRoot / | Options None",
    "AllowOverride FileInfo Nonfatal=Override :: Bogus",
    "AllowOverride All Nonfatal=All :: Bogus | DocumentRoot /",
];

/// Apache's own configuration: a directory per file of the table.
fn configuration(folder: &TempDir, port: u16) -> String {
    let shown = folder.display();
    let mut text = format!(
        "ServerRoot {shown}\nListen 127.0.0.1:{port}\nServerName localhost\nPidFile {shown}/pid\nErrorLog {shown}/error.log\nDocumentRoot {shown}/www\n\
         User www-data\nGroup www-data\nStartServers 1\nDefaultRuntimeDir {shown}\nTypesConfig mime.types\n"
    );
    folder.write("mime.types", "text/plain txt\n").unwrap();
    for module in MODULES {
        writeln!(
            text,
            "LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so"
        )
        .unwrap();
    }
    for (number, file) in FILES.iter().enumerate() {
        let (directives, lines) = file.split_once(" :: ").unwrap();
        folder
            .write(
                &format!("www/{number}/.htaccess"),
                lines.replace(" | ", "\n"),
            )
            .unwrap();
        folder
            .write(&format!("www/{number}/f.txt"), "hello")
            .unwrap();
        writeln!(
            text,
            "<Directory {shown}/www/{number}>\nRequire all granted\n{}\n</Directory>",
            directives.replace(" | ", "\n")
        )
        .unwrap();
    }
    text
}

fn status(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    // A file that brings Apache's process down resets the connection.
    if stream.read_to_string(&mut answer).is_err() {
        return "reset".into();
    }
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn permission(directives: &str) -> Permission {
    let mut permission = Permission::default();
    let mut list = Vec::new();
    for line in directives.split(" | ") {
        let arguments = words(line.as_bytes());
        match line.starts_with("AllowOverrideList") {
            true => list.extend(
                arguments[1..]
                    .iter()
                    .map(|name| String::from_utf8(name.to_ascii_lowercase()).unwrap()),
            ),
            false => permission = Permission::parse(&arguments[1..]).unwrap(),
        }
    }
    permission.list.extend(list);
    permission
}

#[test]
fn refused_with_the_same_sentence() {
    let folder = TempDir::new("htaccess").unwrap();
    let port = free_port().unwrap();
    let file = folder
        .write("httpd.conf", configuration(&folder, port))
        .unwrap();
    let mut command = Command::new(require("apache2").unwrap());
    command
        .args(["-DFOREGROUND", "-f"])
        .arg(&file)
        .stdout(Stdio::null())
        .stdin(Stdio::null());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = ServerProcess::start(&mut command, address).unwrap();
    let loaded = load(&Setup::new(&*folder, &file), &OnDisk);
    assert!(
        !loaded.has_errors(),
        "{:?}",
        loaded.errors().collect::<Vec<_>>()
    );
    let mut wrong = Vec::new();
    for (number, file) in FILES.iter().enumerate() {
        let (directives, _) = file.split_once(" :: ").unwrap();
        let name = folder.join(format!("www/{number}/.htaccess"));
        let theirs = status(address, &format!("/{number}/f.txt"));
        let text = fs::read(&name).unwrap();
        let ours = parse_htaccess(
            &text,
            &name.display().to_string(),
            &loaded.environment,
            &permission(directives),
            &OnDisk,
        );
        let log = fs::read_to_string(folder.join("error.log")).unwrap();
        let said = log
            .lines()
            .filter_map(|line| line.split_once(&format!("{}: ", name.display())))
            .next_back()
            .map(|(_, message)| message);
        let same = match &ours {
            Ok(_) => theirs != "500",
            Err(error) => theirs == "500" && said.is_some_and(|said| said.contains(&error.message)),
        };
        if !same {
            wrong.push(format!(
                "{file}\n  Apache: {theirs} {said:?}\n  Saker: {:?}",
                ours.err().map(|error| error.message)
            ));
        }
    }
    drop(server);
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        FILES.len(),
        wrong.join("\n")
    );
}
