//! What the rules find, and what they do not, in single lines.

use privacy::{Kind, Rules};

fn kinds(text: &str) -> Vec<(Kind, &str)> {
    Rules::default().find(text).into_iter().map(|it| (it.kind, &text[it.range])).collect()
}

#[test]
fn one_of_each() {
    let cases = [
        ("Mail bob.smith+x@mail.example.co.uk now", Kind::Email, "bob.smith+x@mail.example.co.uk"),
        ("Call +49 (0)30 1234567 today", Kind::Phone, "+49 (0)30 1234567"),
        ("my number is (555) 234-5678.", Kind::Phone, "(555) 234-5678"),
        ("phone 5552345678", Kind::Phone, "5552345678"),
        ("4111 1111 1111 1111", Kind::CreditCard, "4111 1111 1111 1111"),
        ("GB82 WEST 1234 5698 7654 32 is it", Kind::Iban, "GB82 WEST 1234 5698 7654 32"),
        ("iban DE89370400440532013000.", Kind::Iban, "DE89370400440532013000"),
        ("from 203.0.113.7:8080", Kind::Ipv4, "203.0.113.7"),
        ("at 2001:db8::8a2e:370:7334,", Kind::Ipv6, "2001:db8::8a2e:370:7334"),
        ("00:1B:44:11:3A:B7", Kind::Mac, "00:1B:44:11:3A:B7"),
        ("00-1B-44-11-3A-B7", Kind::Mac, "00-1B-44-11-3A-B7"),
        ("postgres://bob:s3cret@db.example/x", Kind::UrlCredentials, "bob:s3cret"),
        (
            "key=ghp_0123456789abcdefghijABCDEFGHIJ012345",
            Kind::ApiKey,
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        ),
        ("AWS AKIAIOSFODNN7EXAMPLE", Kind::ApiKey, "AKIAIOSFODNN7EXAMPLE"),
        ("password: hunter2!x", Kind::Password, "hunter2!x"),
        ("ssn 078-05-1120", Kind::UsSsn, "078-05-1120"),
        ("SIN 046 454 286", Kind::CaSin, "046 454 286"),
        ("NHS number 943 476 5919", Kind::UkNhs, "943 476 5919"),
        ("NINO AB 12 34 56 C", Kind::UkNino, "AB 12 34 56 C"),
        ("DNI 12345678Z", Kind::EsNif, "12345678Z"),
        ("NIE X1234567L", Kind::EsNie, "X1234567L"),
        ("CF RSSMRA85T10A562S", Kind::ItFiscalCode, "RSSMRA85T10A562S"),
        ("HETU 131052-308T", Kind::FiHetu, "131052-308T"),
        ("756.9217.0769.85", Kind::ChAhv, "756.9217.0769.85"),
        ("NRIC S1234567D", Kind::SgNric, "S1234567D"),
        ("CPF 111.444.777-35", Kind::BrCpf, "111.444.777-35"),
        ("CNPJ 11.222.333/0001-81", Kind::BrCnpj, "11.222.333/0001-81"),
        ("ABN 51 824 753 556", Kind::AuAbn, "51 824 753 556"),
        ("born March 4, 1990 in", Kind::DateOfBirth, "March 4, 1990"),
        ("DOB: 1990-03-04", Kind::DateOfBirth, "1990-03-04"),
        ("passport X12345678", Kind::Passport, "X12345678"),
        ("account number 12345678", Kind::BankAccount, "12345678"),
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", Kind::BitcoinAddress, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ];
    let wrong: Vec<_> = (cases.iter())
        .filter(|(text, kind, found)| kinds(text) != [(*kind, *found)])
        .map(|(text, ..)| (text, kinds(text)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_in_what_only_looks_alike() {
    let texts = [
        "Order 4111111111111112 shipped on 2024-03-15 at 10:30:45.",
        "pi is 3.14159265358979323846, e is 2.718281828459045",
        "version 1.2.3.4 of std::vector and icon@2x.png, git@github.com:a/b.git",
        "commit da39a3ee5e6b4b0d3255bfef95601890afd80709, 550e8400-e29b-41d4-a716-446655440000",
        "It cost $1,234,567,890 in 1999, or 12 % of 100 000 000.",
        "127.0.0.1 and 0.0.0.0 and ::1",
        "password: required, token: str, max_tokens=4096",
    ];
    for text in texts {
        assert_eq!(kinds(text), [], "{text}");
    }
}

#[test]
fn other_forms_of_digits_and_invisible_characters_hide_nothing() {
    let cases = [
        ("card \u{ff14}\u{ff11}\u{ff11}\u{ff11} 1111 1111 1111", Kind::CreditCard),
        ("4111\u{a0}1111\u{202f}1111\u{2009}1111", Kind::CreditCard),
        ("4111\u{2011}1111\u{2011}1111\u{2011}1111", Kind::CreditCard),
        ("4111\u{200b}1111\u{2060}1111\u{ad}1111", Kind::CreditCard),
        ("+\u{664}\u{669} 30 \u{661}\u{662}\u{663}4567", Kind::Phone),
        ("bob\u{200d}@exam\u{ad}ple.com", Kind::Email),
        ("bob\u{ff20}example\u{ff0e}com", Kind::Email),
        ("IBAN \u{1d403}\u{1d404}89 3704 0044 0532 0130 00", Kind::Iban),
        ("SSN \u{1d7d0}19-09-9999", Kind::UsSsn),
    ];
    for (text, kind) in cases {
        let found = Rules::default().find(text);
        assert_eq!(found.iter().map(|it| it.kind).collect::<Vec<_>>(), [kind], "{text:?}");
        let first = &text[found[0].range.clone()];
        // What is replaced has the invisible characters inside it, and what is left has none of it.
        assert!(!text.replacen(first, "", 1).contains("1111") || kind != Kind::CreditCard, "{text:?}");
    }
}

#[test]
fn words_and_settings_decide_on_weak_forms() {
    let text = "his number 130692544";
    assert_eq!(kinds(text), []);
    let rules = Rules::default();
    let named = rules.scan_value("social_insurance_number", "130692544").findings;
    assert_eq!(named.iter().map(|it| it.kind).collect::<Vec<_>>(), [Kind::CaSin]);
    let eager = Rules::new(&privacy::Settings { min_score: 20, ..Default::default() }).unwrap();
    assert!(!eager.find(text).is_empty());
    let only: privacy::Settings = toml::from_str("kinds = ['email']").unwrap();
    assert!(Rules::new(&only).unwrap().find("call 555-234-5678").is_empty());
    for wrong in ["kinds = ['emial']", "emails = true", "[labels]\nemail = 'top'"] {
        assert!(toml::from_str::<privacy::Settings>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn own_rules_say_what_is_wrong_with_them() {
    let cases = [
        ("[[rule]]\nname = 'a b'\npattern = 'x'", "rule `a b`: a name is"),
        ("[[rule]]\nname = 'email'\npattern = 'x'", "rule `email`: a name is"),
        ("[[rule]]\nname = 'x'\npattern = '('", "rule `x`: regex parse error"),
        ("[[rule]]\nname = 'x'\npattern = '(a{1000}){1000}'", "rule `x`: Compiled regex exceeds size limit"),
        ("[[list]]\nname = 'x'\nwords = []", "list `x`: 0 words; a list has 1 to 10000 words"),
        ("min_score = 101", "`min_score` is 101; it must be 0 to 100"),
        ("max_findings = 0", "`max_findings` is 0; it must be 1 to 10000"),
    ];
    for (text, starts) in cases {
        let error = Rules::new(&toml::from_str(text).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with(starts), "{error}");
    }
}
