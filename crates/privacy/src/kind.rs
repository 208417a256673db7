//! The kinds of findings: their names, their labels unless configured, and what they are.

use crate::label::Label;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

macro_rules! kinds {
    ($($variant:ident $name:literal $label:ident $what:literal;)*) => {
        /// What a finding is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!($what, ".")] $variant,)*
            /// A rule of the configuration: its index among the own rules and lists.
            Own(u8),
        }

        /// The places of the kinds that are built in.
        #[derive(Clone, Copy)]
        enum Place {
            $($variant,)*
        }

        impl Kind {
            /// The place of a kind that is built in.
            fn place(self) -> Option<Place> {
                match self { $(Kind::$variant => Some(Place::$variant),)* Kind::Own(_) => None }
            }

            /// Every kind that is built in.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),*];

            /// The name in configurations, without that of own rules, which is "own".
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* Kind::Own(_) => "own" }
            }

            /// What the kind is, for people.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Kind::$variant => $what,)* Kind::Own(_) => "a rule of the configuration" }
            }

            /// The label of a text with such a finding, unless configured.
            #[must_use]
            pub fn label(self) -> Label {
                match self { $(Kind::$variant => Label::$label,)* Kind::Own(_) => Label::Secret }
            }
        }
    };
}

kinds! {
    Email "email" Internal "E-mail address";
    Phone "phone" Internal "Phone number, international or national";
    CreditCard "credit_card" Secret "Payment card number (Luhn, issuer ranges)";
    Iban "iban" Secret "IBAN (mod 97, length by country)";
    BankAccount "bank_account" Secret "Bank account, routing number or sort code beside a word that says so";
    Ipv4 "ipv4" Internal "IPv4 address";
    Ipv6 "ipv6" Internal "IPv6 address";
    Mac "mac" Internal "MAC address";
    UrlCredentials "url_credentials" Secret "User and password in a URL";
    ApiKey "api_key" Secret "API key or token with a known prefix";
    Jwt "jwt" Secret "JSON web token";
    PrivateKey "private_key" Secret "Private key in PEM or age form";
    Password "password" Secret "Password, key or token beside a word that says so";
    UsSsn "us_ssn" Secret "US social security number";
    UsItin "us_itin" Secret "US individual taxpayer number";
    CaSin "ca_sin" Secret "Canadian social insurance number (Luhn)";
    UkNhs "uk_nhs" Secret "UK NHS number (mod 11)";
    UkNino "uk_nino" Secret "UK national insurance number";
    DeTaxId "de_tax_id" Secret "German tax identification number (ISO 7064 mod 11, 10)";
    FrNir "fr_nir" Secret "French social security number (mod 97)";
    EsNif "es_nif" Secret "Spanish DNI (mod 23)";
    EsNie "es_nie" Secret "Spanish NIE (mod 23)";
    ItFiscalCode "it_fiscal_code" Secret "Italian codice fiscale (check letter)";
    NlBsn "nl_bsn" Secret "Dutch citizen service number (eleven test)";
    PlPesel "pl_pesel" Secret "Polish PESEL (date, check digit)";
    SePersonnummer "se_personnummer" Secret "Swedish personal identity number (date, Luhn)";
    FiHetu "fi_hetu" Secret "Finnish personal identity code (date, check character)";
    ChAhv "ch_ahv" Secret "Swiss AHV number (EAN-13)";
    BeNationalNumber "be_national_number" Secret "Belgian national number (date, mod 97)";
    InAadhaar "in_aadhaar" Secret "Indian Aadhaar number (Verhoeff)";
    InPan "in_pan" Secret "Indian permanent account number";
    AuTfn "au_tfn" Secret "Australian tax file number (mod 11)";
    AuAbn "au_abn" Internal "Australian business number (mod 89)";
    AuMedicare "au_medicare" Secret "Australian Medicare number (check digit)";
    SgNric "sg_nric" Secret "Singaporean NRIC or FIN (check letter)";
    KrRrn "kr_rrn" Secret "Korean resident registration number (date, check digit)";
    JpMyNumber "jp_my_number" Secret "Japanese individual number (mod 11)";
    BrCpf "br_cpf" Secret "Brazilian CPF (two check digits)";
    BrCnpj "br_cnpj" Internal "Brazilian CNPJ (two check digits)";
    DateOfBirth "date_of_birth" Secret "Date beside a word that says birth";
    Passport "passport" Secret "Passport number beside a word that says so";
    DriverLicence "driver_licence" Secret "Driving licence number beside a word that says so";
    BitcoinAddress "bitcoin_address" Internal "Bitcoin address (base58check, bech32)";
    EthereumAddress "ethereum_address" Internal "Ethereum address (EIP-55 where letters are mixed)";
}

impl Kind {
    /// The kind's bit in sets of kinds; own rules follow those that are built in.
    pub(crate) fn bit(self) -> u128 {
        match (self, self.place()) {
            (_, Some(place)) => 1 << place as u32,
            (Kind::Own(index), None) => 1 << (OWN_FROM + u32::from(index)),
            (_, None) => 0,
        }
    }

    /// The kind of that name, if one is built in.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The first bit of own rules.
pub(crate) const OWN_FROM: u32 = 64;

/// Own rules and lists together: the bits that are left.
pub const MAX_OWN: usize = 63;

/// The bit of words that speak against a finding: order, invoice, version.
pub(crate) const AGAINST: u128 = 1 << 127;

const _: () = assert!(Kind::ALL.len() <= OWN_FROM as usize);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Kind::from_name(&name)
            .ok_or_else(|| serde::de::Error::custom(format_args!("`{name}` is no kind of finding")))
    }
}
