# Certificates for topics over TLS, into the current folder; tls.rs says which.
# A certificate ends half a day after its whole days, so that both servers count the same days left.
end=$(date -u -d '300 days 12 hours' +%Y%m%d%H%M%SZ)
: >index.txt
echo 01 >number
printf '[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\ncrlnumber=number\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\ndefault_crl_days=300\nunique_subject=no\npolicy=any\n[any]\ncommonName=supplied\n' >ca.conf
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
signed() { # name, authority, subject, extensions
    key "$1"
    openssl req -new -key "$1.key" -utf8 -subj "$3" -out "$1.csr"
    printf '%b' "$4" >"$1.ext"
    printf '%04X' "$5" >serial
    openssl ca -batch -notext -preserveDN -config ca.conf -cert "$2.pem" -keyfile "$2.key" -in "$1.csr" -extfile "$1.ext" -enddate "$end" -out "$1.pem"
}
authority() {
    key "$1"
    openssl req -x509 -key "$1.key" -utf8 -subj "$2" -days 300 -sha256 -set_serial 7 -addext "$3" -addext "$4" -out "$1.pem"
}
authority site "/C=DE/O=Saker & Söhne/CN=server.test" "subjectAltName=DNS:server.test,DNS:*.test" "basicConstraints=critical,CA:FALSE"
authority clients "/C=DE/ST=Here/O=People, Inc./CN=Clients" "keyUsage=critical,keyCertSign,cRLSign" "basicConstraints=critical,CA:TRUE"
authority strange "/CN=Strange" "keyUsage=digitalSignature" "basicConstraints=critical,CA:FALSE"
signed alice clients "/C=DE/ST=Here/L=There/O=People, Inc./OU=One/OU=Two+title=Dr/CN=Alice \"A\" Müller/emailAddress=alice@people.test/DC=x" \
    "basicConstraints=CA:FALSE\nsubjectAltName=email:alice@people.test,email:a@people.test,DNS:alice.test,otherName:1.3.6.1.4.1.311.20.2.3;UTF8:alice@upn\n1.2.3.4=ASN1:UTF8String:from an extension\n" 4660
signed deputy clients "/O=People, Inc./CN=Deputy" "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n" 2
signed bob deputy "/O=People, Inc./CN=Bob" "basicConstraints=CA:FALSE\n" 3
cat deputy.pem >>bob.pem
signed mallory clients "/O=People, Inc./CN=Mallory" "basicConstraints=CA:FALSE\n" 4
signed foreign strange "/CN=Foreign" "basicConstraints=CA:FALSE\n" 5
openssl ca -config ca.conf -cert clients.pem -keyfile clients.key -revoke mallory.pem
openssl ca -config ca.conf -cert clients.pem -keyfile clients.key -gencrl -out clients.crl
mkdir hashed
cp clients.pem hashed/clients.pem
openssl rehash hashed
chmod 644 ./*
