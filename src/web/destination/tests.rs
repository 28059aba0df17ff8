//! Every spelling of an address that must not be fetched, and those that may.

use super::*;

fn guest(text: &str, allowed: &[&str]) -> Result<String, WebError> {
    let allowed: Vec<String> = allowed.iter().map(|range| (*range).to_owned()).collect();
    let url = parse(text)?;
    check(&url, &AddressPolicy::new(&allowed).expect("ranges"))?;
    Ok(url.into())
}

#[test]
fn p9_private_addresses_are_refused_in_every_spelling() {
    for text in [
        "http://127.0.0.1/",
        "http://127.0.0.1:8080/x?y",
        "http://2130706433/",
        "http://017700000001/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0x7f.1/",
        "http://0X7F.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1./",
        "http://0/",
        "http://0.0.0.0/",
        "http://%31%32%37.0.0.1/",
        "http://127%2e0.0.1/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http:127.0.0.1/",
        "http:\\\\127.0.0.1\\x",
        "http:///127.0.0.1/",
        "ht\ntp://127.0.0.1/",
        "HTTP://LOCALHOST/",
        "http://localhost./",
        "http://LoCaLhOsT:8000/",
        "http://a.localhost/",
        "http://ｌｏｃａｌｈｏｓｔ/",
        "http://printer.local/",
        "http://wiki.internal/",
        "http://metadata/computeMetadata/v1/",
        "http://metadata.google.internal/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
        "http://[::]/",
        "http://[::1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:8.8.8.8]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[64:ff9b::8.8.8.8]/",
        "http://[64:ff9b:1::1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001::1]/",
        "http://[fe80::1]/",
        "http://[FE80::1]/",
        "http://[fc00::1]/",
        "http://[fd12::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://10.255.255.255/",
        "http://100.64.0.1/",
        "http://172.16.0.1/",
        "http://172.31.255.255/",
        "http://192.168.1.1/",
        "http://192.0.0.192/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        " `http://127.0.0.1/` ",
        "\"http://127.0.0.1/\"",
    ] {
        let refused = guest(text, &[]).expect_err(text);
        assert!(
            matches!(&refused, WebError::Forbidden(words) if words.contains("public internet")),
            "{text}: {refused}"
        );
    }
}

#[test]
fn invalid_addresses_are_reported() {
    for text in [
        "",
        "example.com",
        "www.example.com/page",
        "/etc/passwd",
        "not an address",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:text/html,x",
        "javascript:alert(1)",
        "http://",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://256.256.256.256/",
        "http://1.2.3.4.5/",
        "http://a b/",
        "http://example.com:99999/",
        "http://[::1/",
    ] {
        assert!(matches!(guest(text, &[]), Err(WebError::BadUrl(_))), "{text}: {:?}", guest(text, &[]));
    }
    let long = format!("https://example.org/{}", "x".repeat(URL_BYTES));
    assert!(matches!(guest(&long, &[]), Err(WebError::BadUrl(_))));
}

#[test]
fn public_urls_are_accepted_normalized_and_without_fragment() {
    for (text, meant) in [
        ("https://example.org", "https://example.org/"),
        (" 'https://example.org/a?b=c#d' ", "https://example.org/a?b=c"),
        ("`https://example.org/x`", "https://example.org/x"),
        ("<https://example.org/(x)>", "https://example.org/(x)"),
        ("“https://example.org/”", "https://example.org/"),
        ("http://8.8.8.8:8080/", "http://8.8.8.8:8080/"),
        ("http://134744072/", "http://8.8.8.8/"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
        ("https://münchen.example/ä", "https://xn--mnchen-3ya.example/%C3%A4"),
        ("https://notlocalhost.com/", "https://notlocalhost.com/"),
        ("https://localhost.example.org/", "https://localhost.example.org/"),
        ("https://international.com/", "https://international.com/"),
    ] {
        assert_eq!(guest(text, &[]).as_deref(), Ok(meant), "{text}");
    }
}

#[test]
fn allowed_private_ranges_permit_only_themselves() {
    let allowed = ["127.0.0.1", "10.1.0.0/16", "::1"];
    for text in ["http://127.0.0.1:9000/x", "http://2130706433/", "http://10.1.2.3/", "http://[::1]/"] {
        assert!(guest(text, &allowed).is_ok(), "{text}");
    }
    for text in ["http://127.0.0.2/", "http://10.2.0.0/", "http://[::ffff:127.0.0.1]/", "http://192.168.0.1/"]
    {
        assert!(matches!(guest(text, &allowed), Err(WebError::Forbidden(_))), "{text}");
    }
    // What a name leads to is checked when it is known.
    assert!(guest("http://localhost:9000/", &allowed).is_ok());
}

#[test]
fn p9_urls_with_credentials_or_ports_of_other_services_are_refused() {
    for text in ["http://me@example.org/", "https://me:secret@example.org/", "https://:secret@example.org/"] {
        let refused = guest(text, &[]).expect_err(text);
        assert!(
            matches!(&refused, WebError::Forbidden(words) if !words.contains("secret")),
            "{text}: {refused}"
        );
    }
    for port in [0, 22, 25, 110, 587, 6667, 10080] {
        let text = format!("http://example.org:{port}/");
        assert!(matches!(guest(&text, &[]), Err(WebError::Forbidden(_))), "{text}");
    }
    for port in [80, 81, 443, 3000, 8080, 8443] {
        assert!(guest(&format!("http://example.org:{port}/"), &[]).is_ok(), "{port}");
    }
    let url = parse("https://me:secret@example.org/x").expect("an operator's");
    assert_eq!(without_credentials(&url), "https://example.org/x");
}
