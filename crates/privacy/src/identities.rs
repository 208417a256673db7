//! Numbers of persons and companies that are digits alone: their groups, and their checks.
//!
//! Each check names its source. Scores: see [`sink`](crate::sink).

use crate::checks::{ean_13, is_date, luhn, mod_11_10, number, verhoeff, weighted};
use crate::kind::Kind;
use crate::sink::{FAINT, LIKELY, SHAPE, SURE, WEAK};

/// A way to write a number.
#[derive(Debug)]
pub(crate) struct Form {
    /// Digits by group.
    pub lens: &'static [u8],
    /// Separators of which one stands between all groups; after `=`, the separators one by one.
    pub seps: &'static str,
    pub score: u8,
}

/// A kind of number with a fixed count of digits.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub kind: Kind,
    pub digits: usize,
    pub check: fn(&[u8]) -> bool,
    pub forms: &'static [Form],
}

const fn form(lens: &'static [u8], seps: &'static str, score: u8) -> Form {
    Form { lens, seps, score }
}

const fn rule(kind: Kind, digits: usize, check: fn(&[u8]) -> bool, forms: &'static [Form]) -> Numbered {
    Numbered { kind, digits, check, forms }
}

/// Every kind of number with a fixed count of digits.
pub(crate) const NUMBERS: &[Numbered] = &[
    rule(
        Kind::UsSsn,
        9,
        us_ssn,
        &[form(&[3, 2, 4], "-", LIKELY), form(&[3, 2, 4], " .", 52), form(&[9], "", FAINT)],
    ),
    rule(
        Kind::UsItin,
        9,
        us_itin,
        &[form(&[3, 2, 4], "-", LIKELY), form(&[3, 2, 4], " ", 45), form(&[9], "", FAINT)],
    ),
    rule(Kind::CaSin, 9, ca_sin, &[form(&[3, 3, 3], "-", 50), form(&[3, 3, 3], " ", 40), form(&[9], "", 20)]),
    rule(
        Kind::NlBsn,
        9,
        nl_bsn,
        &[form(&[9], "", 20), form(&[4, 2, 3], ". ", WEAK), form(&[3, 3, 3], ". ", WEAK)],
    ),
    rule(Kind::AuTfn, 9, au_tfn, &[form(&[3, 3, 3], " -", WEAK), form(&[9], "", 20)]),
    rule(
        Kind::UkNhs,
        10,
        uk_nhs,
        &[form(&[3, 3, 4], " ", 52), form(&[3, 3, 4], "-", 40), form(&[10], "", 20)],
    ),
    rule(Kind::AuMedicare, 10, au_medicare, &[form(&[4, 5, 1], " -", SHAPE), form(&[10], "", 20)]),
    rule(Kind::AuMedicare, 11, au_medicare, &[form(&[4, 5, 1, 1], "= -/", SHAPE), form(&[11], "", FAINT)]),
    rule(Kind::SePersonnummer, 10, se_short, &[form(&[6, 4], "-+", 70), form(&[10], "", WEAK)]),
    rule(Kind::SePersonnummer, 12, se_long, &[form(&[8, 4], "-+", LIKELY), form(&[12], "", SHAPE)]),
    rule(Kind::DeTaxId, 11, de_tax_id, &[form(&[2, 3, 3, 3], " ", 75), form(&[11], "", 50)]),
    rule(Kind::PlPesel, 11, pl_pesel, &[form(&[11], "", 55)]),
    rule(
        Kind::BeNationalNumber,
        11,
        be_national,
        &[form(&[2, 2, 2, 3, 2], "=..-.", SURE), form(&[6, 3, 2], " -", 70), form(&[11], "", SHAPE)],
    ),
    rule(Kind::AuAbn, 11, au_abn, &[form(&[2, 3, 3, 3], " ", 75), form(&[11], "", 50)]),
    rule(
        Kind::BrCpf,
        11,
        br_cpf,
        &[
            form(&[3, 3, 3, 2], "=..-", SURE),
            form(&[3, 3, 3, 2], " .-", SHAPE),
            form(&[9, 2], "-", 70),
            form(&[11], "", 50),
        ],
    ),
    rule(Kind::InAadhaar, 12, in_aadhaar, &[form(&[4, 4, 4], " -", SHAPE), form(&[12], "", 35)]),
    rule(Kind::JpMyNumber, 12, jp_my_number, &[form(&[4, 4, 4], " -", 40), form(&[12], "", 25)]),
    rule(Kind::KrRrn, 13, kr_rrn, &[form(&[6, 7], "-", LIKELY), form(&[13], "", 50)]),
    // Given out since October 2020 without a check digit.
    rule(Kind::KrRrn, 13, kr_rrn_date, &[form(&[6, 7], "-", 55), form(&[13], "", FAINT)]),
    rule(Kind::ChAhv, 13, ch_ahv, &[form(&[3, 4, 4, 2], ". -", SURE), form(&[13], "", 75)]),
    rule(Kind::BrCnpj, 14, br_cnpj, &[form(&[2, 3, 3, 4, 2], "=../-", SURE), form(&[14], "", SHAPE)]),
    rule(
        Kind::FrNir,
        15,
        fr_nir,
        &[form(&[15], "", LIKELY), form(&[1, 2, 2, 2, 3, 3, 2], " .-", SURE), form(&[13, 2], " -", LIKELY)],
    ),
];

/// Social Security Administration, "Employment verification": areas 000, 666, 900–999, group 00 and serial 0000 are
/// never given out. 078-05-1120 was printed on a card that came with wallets.
fn us_ssn(d: &[u8]) -> bool {
    let (area, group, serial) = (number(&d[..3]), number(&d[3..5]), number(&d[5..]));
    area != 0 && area != 666 && area < 900 && group != 0 && serial != 0
}

/// IRS, Publication 1915: 9xx with the fourth and fifth digit 50–65, 70–88, 90–92, 94–99.
fn us_itin(d: &[u8]) -> bool {
    d[0] == 9 && matches!(number(&d[3..5]), 50..=65 | 70..=88 | 90..=92 | 94..=99)
}

/// Luhn; the first digit is a province, 9 for temporary residents, 0 for numbers of the tax agency; 8 is for businesses.
fn ca_sin(d: &[u8]) -> bool {
    d[0] != 8 && luhn(d)
}

/// The eleven test: weights 9 to 2, and −1 for the last.
fn nl_bsn(d: &[u8]) -> bool {
    (weighted(&d[..8], &[9, 8, 7, 6, 5, 4, 3, 2]) + 11 * 9 - u32::from(d[8])).is_multiple_of(11)
}

/// Australian Taxation Office: weights 1, 4, 3, 7, 5, 8, 6, 9, 10.
fn au_tfn(d: &[u8]) -> bool {
    weighted(d, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11)
}

/// NHS Data Dictionary, "NHS number": weights 10 to 2; 11 − remainder, 11 stands for 0, 10 is not given out.
fn uk_nhs(d: &[u8]) -> bool {
    match 11 - weighted(&d[..9], &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11 {
        10 => false,
        check => check % 11 == u32::from(d[9]),
    }
}

/// Services Australia: first digit 2 to 6, weights 1, 3, 7, 9; the ninth is the check digit, then an issue number.
fn au_medicare(d: &[u8]) -> bool {
    (2..=6).contains(&d[0])
        && weighted(&d[..8], &[1, 3, 7, 9, 1, 3, 7, 9]) % 10 == u32::from(d[8])
        && d[9] != 0
}

/// Skatteverket: YYMMDD, 60 added to the day of coordination numbers, then Luhn over ten digits.
fn se_short(d: &[u8]) -> bool {
    let day = number(&d[4..6]) as u32;
    let day = if day > 60 { day - 60 } else { day };
    // The century is not told: 2000 has a 29th of February, as has every year that a short one may mean.
    is_date(2000 + number(&d[..2]) as u32 % 100, number(&d[2..4]) as u32, day) && luhn(d)
}

fn se_long(d: &[u8]) -> bool {
    matches!(number(&d[..2]), 18..=20) && se_short(&d[2..])
}

/// Bundeszentralamt für Steuern: the first digit is not 0; of the first ten, one digit comes two or three times and the
/// others once at most; check digit by ISO 7064 MOD 11,10.
fn de_tax_id(d: &[u8]) -> bool {
    let mut counts = [0_u8; 10];
    d[..10].iter().for_each(|&digit| counts[usize::from(digit)] += 1);
    let repeated = counts.iter().filter(|&&count| count > 1).count();
    let most = counts.iter().copied().max().unwrap_or(0);
    d[0] != 0 && repeated == 1 && most <= 3 && mod_11_10(d)
}

/// Polish register PESEL: the century is in the month (80 for 18xx, 20 for 20xx, …); weights 1, 3, 7, 9.
fn pl_pesel(d: &[u8]) -> bool {
    let (year, month, day) = (number(&d[..2]) as u32, number(&d[2..4]) as u32, number(&d[4..6]) as u32);
    let century = [1900, 2000, 2100, 2200, 1800][(month / 20) as usize % 5];
    let sum = weighted(d, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    is_date(century + year, month % 20, day) && sum.is_multiple_of(10)
}

/// Rijksregister: YYMMDD, serial, 97 − remainder; with 2 before it for births since 2000. Months of bis numbers have 20
/// or 40 added; an unknown day or month is 00.
fn be_national(d: &[u8]) -> bool {
    let (body, check) = (number(&d[..9]), number(&d[9..]));
    let (month, day, serial) = (number(&d[2..4]), number(&d[4..6]), number(&d[6..9]));
    let checked = 97 - body % 97 == check || 97 - (2_000_000_000 + body) % 97 == check;
    month <= 52 && month % 20 <= 12 && day <= 31 && (1..=998).contains(&serial) && checked
}

/// Australian Business Register: 1 less in the first digit, weights 10, 1, 3, … 19, sum divisible by 89.
fn au_abn(d: &[u8]) -> bool {
    let sum = weighted(d, &[10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    d[0] != 0 && (sum - 10).is_multiple_of(89)
}

/// Receita Federal: two check digits, weights 10 to 2 and 11 to 2.
fn br_cpf(d: &[u8]) -> bool {
    let digit = |sum: u32| sum * 10 % 11 % 10;
    digit(weighted(&d[..9], &[10, 9, 8, 7, 6, 5, 4, 3, 2])) == u32::from(d[9])
        && digit(weighted(&d[..10], &[11, 10, 9, 8, 7, 6, 5, 4, 3, 2])) == u32::from(d[10])
}

/// UIDAI: the first digit is 2 to 9, Verhoeff's check.
fn in_aadhaar(d: &[u8]) -> bool {
    d[0] >= 2 && verhoeff(d)
}

/// Ordinance of the Ministry of Internal Affairs no. 85 of 2014, article 5: weights 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2.
fn jp_my_number(d: &[u8]) -> bool {
    let rest = weighted(&d[..11], &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    (if rest <= 1 { 0 } else { 11 - rest }) == u32::from(d[11])
}

/// YYMMDD, then the sex with the century; weights 2 to 9, 2 to 5.
fn kr_rrn(d: &[u8]) -> bool {
    let sum = weighted(&d[..12], &[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]);
    kr_rrn_date(d) && (11 - sum % 11) % 10 == u32::from(d[12])
}

fn kr_rrn_date(d: &[u8]) -> bool {
    let century = match d[6] {
        1 | 2 | 5 | 6 => 1900,
        3 | 4 | 7 | 8 => 2000,
        _ => 1800,
    };
    is_date(century + number(&d[..2]) as u32, number(&d[2..4]) as u32, number(&d[4..6]) as u32)
}

/// EAN-13 with Switzerland's 756 before.
fn ch_ahv(d: &[u8]) -> bool {
    d[..3] == [7, 5, 6] && ean_13(d)
}

/// Receita Federal: two check digits, weights 2 to 9 from the right.
fn br_cnpj(d: &[u8]) -> bool {
    let digit = |sum: u32| if sum % 11 < 2 { 0 } else { 11 - sum % 11 };
    digit(weighted(&d[..12], &[5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2])) == u32::from(d[12])
        && digit(weighted(&d[..13], &[6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2])) == u32::from(d[13])
}

/// INSEE: sex, year, month (20–42 and 50–99 where it is unknown), department, then 97 − remainder.
pub(crate) fn fr_nir(d: &[u8]) -> bool {
    let month = number(&d[3..5]);
    let known = matches!(d[0], 1..=4 | 7 | 8) && matches!(month, 1..=12 | 20..=42 | 50..=99);
    known && number(&d[5..7]) != 0 && 97 - number(&d[..13]) % 97 == number(&d[13..])
}
