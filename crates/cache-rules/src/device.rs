//! The device class of a client by its User-Agent: phone, tablet or other.
//!
//! Called by: the page cache, for keys and for the field that tells the application.
//! Caveat: every User-Agent claims to be several browsers. Words decide, in the order that is
//! common in rule sets for Varnish: tablets first, because they claim to be phones, too.
//! Out of scope: models and versions, which would give each its own key.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Mobile,
    Tablet,
    Desktop,
}

const TABLETS: [&[u8]; 9] = [
    b"ipad",
    b"tablet",
    b"kindle",
    b"silk/",
    b"playbook",
    b"nook",
    b"xoom",
    b"gt-p",
    b"sm-t",
];
const PHONES: [&[u8]; 14] = [
    b"iphone",
    b"ipod",
    b"windows phone",
    b"iemobile",
    b"blackberry",
    b"bb10",
    b"opera mini",
    b"opera mobi",
    b"webos",
    b"symbian",
    b"nokia",
    b"midp",
    b"mobile safari",
    b"fennec",
];

impl Device {
    /// Without a User-Agent: like any other browser.
    pub fn of(user_agent: Option<&[u8]>) -> Device {
        let Some(text) = user_agent else {
            return Device::Desktop;
        };
        let text = text.to_ascii_lowercase();
        let says = |word: &[u8]| memchr::memmem::find(&text, word).is_some();
        let is_android = says(b"android");
        match () {
            // Android's guide for browsers: only phones say "Mobile".
            () if TABLETS.iter().any(|word| says(word)) || is_android && !says(b"mobile") => {
                Device::Tablet
            }
            () if is_android || PHONES.iter().any(|word| says(word)) => Device::Mobile,
            () if says(b"mobile") => Device::Mobile,
            () => Device::Desktop,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Device::Mobile => "mobile",
            Device::Tablet => "tablet",
            Device::Desktop => "desktop",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers() {
        let rows: &[(Device, &str)] = &[
            (
                Device::Desktop,
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
            ),
            (
                Device::Desktop,
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.0 Safari/605.1.15",
            ),
            (
                Device::Desktop,
                "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0",
            ),
            (
                Device::Desktop,
                "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            ),
            (Device::Desktop, "curl/8.0"),
            (Device::Desktop, ""),
            (
                Device::Mobile,
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile/15E148 Safari/604.1",
            ),
            (
                Device::Mobile,
                "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Mobile Safari/537.36",
            ),
            (
                Device::Mobile,
                "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) Chrome/120.0 Mobile Safari/537.36 (compatible; Googlebot/2.1)",
            ),
            (
                Device::Mobile,
                "Mozilla/5.0 (Android 13; Mobile; rv:120.0) Gecko/120.0 Firefox/120.0",
            ),
            (
                Device::Mobile,
                "Opera/9.80 (J2ME/MIDP; Opera Mini/9.80 (S60; SymbOS)) Presto/2.5.25",
            ),
            (
                Device::Tablet,
                "Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X) AppleWebKit/605.1.15 Version/16.0 Mobile/15E148 Safari/604.1",
            ),
            (
                Device::Tablet,
                "Mozilla/5.0 (Linux; Android 13; SM-X900) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
            ),
            (
                Device::Tablet,
                "Mozilla/5.0 (Android 13; Tablet; rv:120.0) Gecko/120.0 Firefox/120.0",
            ),
            (
                Device::Tablet,
                "Mozilla/5.0 (Linux; Android 5.1.1; KFGIWI) Silk/120.0 like Chrome/120.0 Mobile Safari/537.36",
            ),
        ];
        for (device, text) in rows {
            assert_eq!(Device::of(Some(text.as_bytes())), *device, "{text}");
        }
        assert_eq!(Device::of(None), Device::Desktop);
    }
}
