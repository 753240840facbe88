use super::*;
use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType, SerialNumber, date_time_ymd};
use x509_parser::asn1_rs::Oid;

fn made(edit: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params =
        CertificateParams::new(vec!["www.example.org".to_owned(), "b.example".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    edit(&mut params);
    params
        .self_signed(&KeyPair::generate().unwrap())
        .unwrap()
        .der()
        .to_vec()
}

fn person() -> Vec<u8> {
    made(|params| {
        let name = &mut params.distinguished_name;
        name.push(DnType::CountryName, "DE");
        name.push(DnType::OrganizationName, "A, \"B\" <C>");
        name.push(DnType::OrganizationalUnitName, "#first ");
        name.push(DnType::CommonName, DnValue::Utf8String("Jörg\nX".into()));
        params.serial_number = Some(SerialNumber::from_slice(&[0x01, 0xff, 0x00]));
        params.not_before = date_time_ymd(2024, 2, 9);
        params.not_after = date_time_ymd(2061, 3, 1);
        params
            .subject_alt_names
            .push(SanType::Rfc822Name("a@b.c".try_into().unwrap()));
    })
}

#[test]
fn single_fields() {
    let der = person();
    let certificate = Certificate::parse(&der).unwrap();
    let now = 1_709_251_200; // 2024-03-01
    let value = |name: &str| certificate.variable(name, NameForm::Rfc2253, now);
    for (name, expected) in [
        ("M_VERSION", Some("3")),
        ("m_serial", Some("01FF00")),
        ("V_START", Some("Feb  9 00:00:00 2024 GMT")),
        ("V_END", Some("Mar  1 00:00:00 2061 GMT")),
        ("V_REMAIN", Some("13514")),
        ("A_SIG", Some("ecdsa-with-SHA256")),
        ("A_KEY", Some("id-ecPublicKey")),
        ("S_DN_C", Some("DE")),
        ("S_DN_CN", Some("Jörg\nX")),
        ("S_DN_OU_0", Some("#first ")),
        ("S_DN_OU_RAW", Some("#first ")),
        ("S_DN_OU_1", None),
        ("S_DN_Email", None),
        ("I_DN_O", Some("A, \"B\" <C>")),
        ("SAN_DNS_0", Some("www.example.org")),
        ("SAN_DNS_1", Some("b.example")),
        ("SAN_DNS_2", None),
        ("SAN_Email_0", Some("a@b.c")),
        ("SAN_OTHER_msUPN_0", None),
        ("SAN_", None),
        ("nonsense", None),
    ] {
        assert_eq!(value(name).as_deref(), expected, "{name}");
    }
    assert!(
        value("CERT")
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----\nMII")
    );
    assert!(
        value("CERT_RFC4523_CEA")
            .unwrap()
            .starts_with("{ serialNumber 130816, issuer rdnSequence:\"CN=")
    );
}

#[test]
fn whole_names() {
    let der = person();
    let certificate = Certificate::parse(&der).unwrap();
    let name = |form| certificate.variable("S_DN", form, 0).unwrap();
    assert_eq!(
        name(NameForm::Rfc2253),
        "CN=Jörg\\0AX,OU=\\#first\\ ,O=A\\, \\\"B\\\" \\<C\\>,C=DE"
    );
    assert_eq!(
        name(NameForm::Legacy),
        "/C=DE/O=A, \"B\" <C>/OU=#first /CN=J\\xC3\\xB6rg\\x0AX"
    );
}

#[test]
fn what_programs_are_told() {
    let der = person();
    let parts = Certificate::parse(&der).unwrap().parts();
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "S_DN_C",
        "S_DN_O",
        "S_DN_OU",
        "S_DN_CN",
        "I_DN_C",
        "I_DN_O",
        "I_DN_OU",
        "I_DN_CN",
        "SAN_DNS_0",
        "SAN_DNS_1",
        "SAN_Email_0",
    ];
    assert_eq!(names, expected);
}

#[test]
fn cut_short_at_any_byte_it_is_no_certificate_and_no_harm() {
    let der = person();
    for cut in 0..der.len() {
        assert!(Certificate::parse(&der[..cut]).is_none());
    }
    for at in 0..der.len() {
        let mut broken = der.clone();
        broken[at] ^= 0x55;
        if let Some(certificate) = Certificate::parse(&broken) {
            certificate.parts();
            for name in ["S_DN", "I_DN", "V_END", "M_SERIAL"] {
                certificate.variable(name, NameForm::Legacy, 0);
            }
            certificate.extension_values("1.2.3");
        }
    }
}

#[test]
fn numbers() {
    let number = |bytes: &'static [u8]| algorithms::name(&Oid::new(bytes.into()));
    assert_eq!(
        number(&[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37]),
        "1.3.6.1.4.1.311"
    );
    assert_eq!(number(&[0x88, 0x37, 0x03]), "2.999.3");
    assert_eq!(
        pem(&[1, 2, 3, 4]),
        "-----BEGIN CERTIFICATE-----\nAQIDBA==\n-----END CERTIFICATE-----\n"
    );
}
