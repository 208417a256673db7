//! Which URLs are taken, before any host is looked up.

use proptest::prelude::*;
use webhooks::addresses::AddressRules;
use webhooks::target::Target;

/// What a URL is taken for, or the beginning of the reason why it is not.
fn read(url: &str, rules: &[&str]) -> Result<String, String> {
    let rules = AddressRules::parse(rules).unwrap();
    let target = Target::parse(url, &rules).map_err(|refused| refused.to_string())?;
    let scheme = if target.tls { "https" } else { "http" };
    Ok(format!("{scheme} {} {} {}", target.host, target.port, target.path))
}

#[test]
fn urls_that_are_taken() {
    for (url, parts) in [
        ("https://example.com", "https example.com 443 /"),
        ("https://example.com/", "https example.com 443 /"),
        ("HTTPS://EXAMPLE.com./hook?a=b&c=%20", "https example.com 443 /hook?a=b&c=%20"),
        ("https://example.com?x", "https example.com 443 /?x"),
        ("https://example.com:443/a", "https example.com 443 /a"),
        ("https://example.com:1024/", "https example.com 1024 /"),
        ("https://example.com:65535/", "https example.com 65535 /"),
        ("https://8.8.8.8/", "https 8.8.8.8 443 /"),
        ("https://8.8.8.8./", "https 8.8.8.8 443 /"),
        ("https://[2606:4700:4700::1111]:8443/x", "https [2606:4700:4700::1111] 8443 /x"),
        ("https://xn--bcher-kva.example/", "https xn--bcher-kva.example 443 /"),
        ("https://a_b.example.com/@user", "https a_b.example.com 443 /@user"),
        ("https://localhost.example.com/", "https localhost.example.com 443 /"),
        ("https://mysvc.example/", "https mysvc.example 443 /"),
        ("https://0x7f.example/", "https 0x7f.example 443 /"),
    ] {
        assert_eq!(read(url, &[]).as_deref(), Ok(parts), "{url}");
    }
}

const CHARACTER: &str = "the URL has the character";
const HTTPS: &str = "the URL must begin with https://";
const INTERNAL: &str = "the URL's host is an internal name";
const NUMBER: &str = "the URL's host \"";
const PORT: &str = "the URL's port";
const USER: &str = "the URL has a user name";
const V6: &str = "the URL's host [";

/// URLs, and how the reason begins why they are not taken.
const TABLE: &[(&str, &str)] = &[
    ("", HTTPS),
    ("example.com", HTTPS),
    ("//example.com/", HTTPS),
    ("https:/example.com/", HTTPS),
    ("https:example.com", HTTPS),
    ("ftp://example.com/", HTTPS),
    ("file:///etc/passwd", HTTPS),
    ("gopher://example.com/", HTTPS),
    ("javascript://example.com/", HTTPS),
    ("httpss://example.com/", HTTPS),
    ("http://example.com/", HTTPS),
    ("http://8.8.8.8/", HTTPS),
    (" https://example.com/", CHARACTER),
    ("https://example.com/ ", CHARACTER),
    ("https://exa mple.com/", CHARACTER),
    ("https://example.com/\r\nX-A: b", CHARACTER),
    ("https://example.com/\u{0}", CHARACTER),
    ("https://example.com\\@127.0.0.1/", CHARACTER),
    ("https:\\\\127.0.0.1/", CHARACTER),
    ("https://bücher.example/", CHARACTER),
    ("https://ⓛocalhost/", CHARACTER),
    ("https://127。0。0。1/", CHARACTER),
    ("https://１２７.0.0.1/", CHARACTER),
    ("https://exa\u{ad}mple.com/", CHARACTER),
    ("https://example.com/\u{202e}", CHARACTER),
    ("https://{host}/", CHARACTER),
    ("https://example.com/#part", "the URL has a fragment"),
    ("https://example.com#@127.0.0.1/", "the URL has a fragment"),
    ("https://user@example.com/", USER),
    ("https://user:password@example.com/", USER),
    ("https://example.com@127.0.0.1/", USER),
    ("https://@example.com/", USER),
    ("https:///path", NUMBER),
    ("https://?x", NUMBER),
    ("https://./", NUMBER),
    ("https://example..com/", NUMBER),
    ("https://example.com../", NUMBER),
    ("https://.example.com/", NUMBER),
    ("https://-a.example/", NUMBER),
    ("https://127.0.0.1%2f.example.com/", NUMBER),
    ("https://%6c%6f%63alhost/", NUMBER),
    ("https://exam%70le.com/", NUMBER),
    ("https://example.com,127.0.0.1/", NUMBER),
    ("https://example.com;a/", NUMBER),
    ("https://2130706433/", NUMBER),
    ("https://0x7f000001/", NUMBER),
    ("https://0x7f.1/", NUMBER),
    ("https://0X7F.0.0.1/", NUMBER),
    ("https://127.1/", NUMBER),
    ("https://127.0.1/", NUMBER),
    ("https://0177.0.0.1/", NUMBER),
    ("https://127.0.0.01/", NUMBER),
    ("https://127.0.0.1.1/", NUMBER),
    ("https://256.1.1.1/", NUMBER),
    ("https://0/", NUMBER),
    ("https://0x/", NUMBER),
    ("https://example.0x7f/", NUMBER),
    ("https://example.1/", NUMBER),
    ("https://1.2.3.4.5/", NUMBER),
    ("https://127.0.0.1/", "the address of the URL's host is not public: loopback address"),
    ("https://127.0.0.1./", "the address of the URL's host is not public: loopback address"),
    ("https://10.1.2.3/", "the address of the URL's host is not public: private address"),
    (
        "https://169.254.169.254/latest/meta-data/",
        "the address of the URL's host is not public: link-local address",
    ),
    ("https://168.63.129.16/", "the address of the URL's host is not public: metadata address"),
    ("https://0.0.0.0/", "the address of the URL's host is not public: unspecified address"),
    ("https://[::1]/", "the address of the URL's host is not public: loopback address"),
    ("https://[::]/", "the address of the URL's host is not public: unspecified address"),
    ("https://[::ffff:127.0.0.1]/", "the address of the URL's host is not public: loopback address"),
    ("https://[::ffff:7f00:1]/", "the address of the URL's host is not public: loopback address"),
    ("https://[fd00:ec2::254]/", "the address of the URL's host is not public: private address"),
    ("https://[64:ff9b::a00:1]/", "the address of the URL's host is not public: private address"),
    ("https://[2002:7f00:1::]/", "the address of the URL's host is not public: reserved address"),
    ("https://[fe80::1%25eth0]/", V6),
    ("https://[fe80::1%eth0]/", V6),
    ("https://[::1", V6),
    ("https://[]/", V6),
    ("https://[1.2.3.4]/", V6),
    ("https://[v1.a]/", V6),
    ("https://[::1]a/", NUMBER),
    ("https://::1/", NUMBER),
    ("https://localhost/", INTERNAL),
    ("https://LOCALHOST./", INTERNAL),
    ("https://a.localhost/", INTERNAL),
    ("https://localhost.localdomain/", INTERNAL),
    ("https://redis/", INTERNAL),
    ("https://kubernetes/", INTERNAL),
    ("https://kubernetes.default.svc/", INTERNAL),
    ("https://api.default.svc.cluster.local/", INTERNAL),
    ("https://metadata.google.internal/", INTERNAL),
    ("https://metadata/", INTERNAL),
    ("https://instance-data.ec2.internal/", INTERNAL),
    ("https://printer.local/", INTERNAL),
    ("https://nas.lan/", INTERNAL),
    ("https://home.arpa/", INTERNAL),
    ("https://router.home.arpa/", INTERNAL),
    ("https://host.docker.internal/", INTERNAL),
    ("https://example.com:/", PORT),
    ("https://example.com:0/", PORT),
    ("https://example.com:22/", PORT),
    ("https://example.com:80/", PORT),
    ("https://example.com:1023/", PORT),
    ("https://example.com:65536/", PORT),
    ("https://example.com:+443/", PORT),
    ("https://example.com:0443/", PORT),
    ("https://example.com:443:443/", PORT),
    ("https://example.com:0x1bb/", PORT),
];

#[test]
fn abuse_urls_that_are_not_taken() {
    for (url, reason) in TABLE {
        let refused = read(url, &[]).unwrap_err();
        assert!(refused.starts_with(reason), "{url:?}: {refused}");
    }
    let long = format!("https://example.com/{}", "a".repeat(2_029));
    assert_eq!(read(&long, &[]).unwrap_err(), "the URL has 2049 bytes; at most 2048 are taken");
    assert!(read(&format!("https://{}.com/", "a".repeat(64)), &[]).is_err());
    assert!(read(&format!("https://{}com/", "a.".repeat(126)), &[]).is_err());
}

#[test]
fn what_the_operator_allows_is_taken() {
    for (url, rules, parts) in [
        ("http://10.1.2.3/", &["10.0.0.0/8"][..], "http 10.1.2.3 80 /"),
        ("https://127.0.0.1:8443/", &["127.0.0.1"], "https 127.0.0.1 8443 /"),
        ("http://[::1]:8080/", &["::1"], "http [::1] 8080 /"),
        ("http://localhost:8080/", &["localhost"], "http localhost 8080 /"),
        (
            "http://hooks.team.svc.cluster.local/",
            &["*.svc.cluster.local"],
            "http hooks.team.svc.cluster.local 80 /",
        ),
        ("https://hooks/", &["hooks"], "https hooks 443 /"),
        // Its address decides, once it is looked up.
        ("http://hooks.example.com/", &["10.0.0.0/8"], "http hooks.example.com 80 /"),
        ("http://8.8.8.8/", &["8.8.8.8"], "http 8.8.8.8 80 /"),
    ] {
        assert_eq!(read(url, rules).as_deref(), Ok(parts), "{url}");
    }
}

#[test]
fn abuse_what_is_beside_the_allowed_is_not_taken() {
    for (url, rules, reason) in [
        ("http://11.1.2.3/", &["10.0.0.0/8"][..], HTTPS),
        ("http://localhost:22/", &["localhost"], PORT),
        ("http://localhost/", &["127.0.0.0/8"], INTERNAL),
        ("http://evil.example/", &["good.example"], HTTPS),
        ("http://a.good.example/", &["good.example"], HTTPS),
        (
            "http://169.254.169.254/",
            &["10.0.0.0/8", "hooks.corp"],
            "the address of the URL's host is not public: link-local",
        ),
        ("http://good.example@10.0.0.1/", &["good.example"], USER),
    ] {
        let refused = read(url, rules).unwrap_err();
        assert!(refused.starts_with(reason), "{url}: {refused}");
    }
}

proptest! {
    #[test]
    fn abuse_no_text_is_taken_twice_for_different_hosts(url in "(https?://)?[a-z0-9.:@/?#%\\[\\]\\\\_-]{0,40}") {
        // What was taken is written plainly, and then read as the same.
        if let Ok(target) = Target::parse(&url, &AddressRules::default()) {
            let plain = format!("https://{}{}", target.authority(), target.path);
            prop_assert_eq!(Target::parse(&plain, &AddressRules::default()), Ok(target));
        }
    }

    #[test]
    fn abuse_any_text_is_read_without_a_panic(text: String, rule: String) {
        let _ = Target::parse(&text, &AddressRules::default());
        let _ = Target::parse(&format!("https://{text}"), &AddressRules::default());
        let _ = AddressRules::parse([rule]);
    }
}
