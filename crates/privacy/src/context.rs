//! Words beside a finding that speak for it or against it.

use crate::kind::{AGAINST, Kind};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Bytes before a finding in which its words are looked for.
const BEFORE: usize = 64;

/// Bytes after it.
const AFTER: usize = 24;

/// Words that speak for kinds, separated by commas; a star ends a stem.
const FOR: &[(&[Kind], &str)] = &[
    (
        &[Kind::Phone],
        "phone,telephone,tel,call,mobile,cell,cellphone,fax,whatsapp,sms,text me,reach me,ring me,hotline,extension,\
         telefon*,handy,mobil,rufnummer,anruf*,téléphone,portable,appel*,teléfono,telefono,móvil,celular,cellulare,\
         telefone,telefoon,telefoonnummer,mobiel,puhelin,telefonnummer,numer telefonu,dial,signal",
    ),
    (
        &[Kind::CreditCard],
        "card,credit,debit,visa,mastercard,amex,american express,discover,cc,pan,kreditkarte,carte,tarjeta,carta,cartão,kaart,maestro,jcb,diners,payment",
    ),
    (&[Kind::Iban], "iban,account,konto,compte,cuenta,conto,rekening,bank"),
    (
        &[Kind::BankAccount],
        "account number,account no,account #,acct,a/c,bank account,checking,savings account,routing,aba,sort code,\
         kontonummer,bankleitzahl,blz,numéro de compte,número de cuenta,rekeningnummer,account_number,accountnumber,direct deposit,\
         bsb,ifsc,wire transfer,account:",
    ),
    (
        &[Kind::Ipv4, Kind::Ipv6],
        "ip,ipv4,ipv6,address,host,server,gateway,dns,ping,subnet,client,remote,peer,adresse",
    ),
    (&[Kind::Mac], "mac,ethernet,wifi,hardware,bssid,adapter,device"),
    (&[Kind::UsSsn], "ssn,ssns,social security,social,ss#,soc sec"),
    (&[Kind::UsItin], "itin,individual taxpayer,taxpayer,tax id,tax payer"),
    (&[Kind::CaSin], "sin,social insurance,assurance sociale,nas"),
    (&[Kind::UkNhs], "nhs,national health,health service,patient"),
    (&[Kind::UkNino], "nino,national insurance,ni number,ni no"),
    (
        &[Kind::DeTaxId],
        "steuer*,steuer-id,idnr,tin,tax id,tax number,tax identification,steueridentifikationsnummer",
    ),
    (
        &[Kind::FrNir],
        "nir,sécurité sociale,securite sociale,sécu,insee,social security,carte vitale,numéro de sécu",
    ),
    (&[Kind::EsNif, Kind::EsNie], "dni,nif,nie,documento nacional,identidad,extranjero,identity"),
    (&[Kind::ItFiscalCode], "codice fiscale,cf,fiscal code,fiscale"),
    (&[Kind::NlBsn], "bsn,burgerservicenummer,sofi*,citizen service,persoonsnummer"),
    (&[Kind::PlPesel], "pesel,ewidenc*,dowód,identity"),
    (&[Kind::SePersonnummer], "personnummer,personal number,personal identity,pnr,samordningsnummer"),
    (&[Kind::FiHetu], "hetu,henkilötunnus,henkilotunnus,personal identity,personbeteckning"),
    (&[Kind::ChAhv], "ahv,avs,ahv-nummer,ahv-nr,oasi,numéro avs,versichertennummer"),
    (
        &[Kind::BeNationalNumber],
        "rijksregister*,registre national,national number,nationaal nummer,insz,niss,rrn,nationalregister*",
    ),
    (&[Kind::InAadhaar], "aadhaar,aadhar,adhaar,uidai,uid,आधार"),
    (&[Kind::InPan], "pan,permanent account,income tax"),
    (&[Kind::AuTfn], "tfn,tax file,tax file number"),
    (&[Kind::AuAbn], "abn,australian business,business number"),
    (&[Kind::AuMedicare], "medicare"),
    (&[Kind::SgNric], "nric,fin,singpass,identity card,ic number,ic no"),
    (&[Kind::KrRrn], "rrn,resident registration,주민등록번호,주민번호,resident number"),
    (&[Kind::JpMyNumber], "my number,mynumber,individual number,マイナンバー,個人番号"),
    (&[Kind::BrCpf], "cpf,cadastro de pessoa*,contribuinte"),
    (&[Kind::BrCnpj], "cnpj,cadastro nacional"),
    (
        &[Kind::DateOfBirth],
        "birth,birthdate,birthday,born,dob,d.o.b,date of birth,geboren,geburtsdatum,geb,né,née,naissance,nacimiento,\
         nacido,nacida,nascita,nato,nata,nascimento,nascido,nascida,geboortedatum,født,född,födelsedatum,syntynyt,\
         syntymäaika,urodzenia,urodzony,生年月日,생년월일,出生",
    ),
    (
        &[Kind::Passport],
        "passport,passports,passeport,reisepass*,passnummer,pasaporte,passaporto,passaporte,paspoort,pass no,pass nr,travel document,\
         パスポート,여권,护照,паспорт",
    ),
    (
        &[Kind::DriverLicence],
        "driver license,drivers license,driver's license,driver licence,drivers licence,driver's licence,driving licence,\
         driving license,dl,dl#,licence no,licence number,license number,license no,führerschein*,permis de conduire,permis,\
         licencia de conducir,carnet de conducir,patente,patente di guida,rijbewijs*,carta de condução,cnh,körkort,ajokortti",
    ),
    (&[Kind::BitcoinAddress], "bitcoin,btc,wallet,crypto,satoshi,address"),
    (&[Kind::EthereumAddress], "ethereum,eth,wallet,crypto,address,erc20,erc-20"),
    (
        &[Kind::Password],
        "password,passwd,pwd,passphrase,secret,token,api key,apikey,api-key,api_key,access key,secret key,bearer,\
         authorization,credential*,client secret,auth,private key,accountkey,sharedaccesskey,passwort,mot de passe,\
         contraseña,senha,wachtwoord,signing key,encryption key,webhook secret,license key,pin",
    ),
];

/// Words that speak against findings that are weak by themselves.
const WORDS_AGAINST: &str = "order,orders,order number,invoice,tracking,version,release,build,commit,ticket,issue,sku,isbn,doi,\
     part number,part no,serial,revision,firmware,checksum,hash,sha,sha1,sha256,md5,digest,section,figure,model number,\
     timestamp,epoch,unix,confirmation,reference,ref,batch,lot,port,article,chapter,page,bestellnummer,rechnung,commande,pedido,\
     error code,case,product,item,upc,ean,gtin,imei";

/// The words, as one automaton.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    words: AhoCorasick,
    /// By word: what it speaks for, and whether it is a stem.
    means: Vec<(u128, bool)>,
}

impl Context {
    /// The words that are built in, and those of own rules with their bits.
    pub(crate) fn new<'a>(
        own: impl Iterator<Item = (u128, &'a str)>,
    ) -> Result<Self, aho_corasick::BuildError> {
        let mut words: Vec<String> = Vec::new();
        let mut means: Vec<(u128, bool)> = Vec::new();
        let mut add = |word: &str, bits: u128| {
            let stem = word.ends_with('*');
            let word = word.trim().trim_end_matches('*').to_lowercase();
            match words.iter().position(|known| *known == word) {
                _ if word.is_empty() => {}
                Some(at) => means[at] = (means[at].0 | bits, means[at].1 || stem),
                None => {
                    words.push(word);
                    means.push((bits, stem));
                }
            }
        };
        for (kinds, list) in FOR {
            let bits = kinds.iter().fold(0, |bits, kind| bits | kind.bit());
            for word in list.split(',') {
                add(word, bits);
                // As names of fields have them: date_of_birth, date-of-birth, dateOfBirth.
                for joint in ["_", "-", ""].into_iter().filter(|_| word.trim().contains(' ')) {
                    add(&word.trim().replace(' ', joint), bits);
                }
            }
        }
        WORDS_AGAINST.split(',').for_each(|word| add(word, AGAINST));
        own.for_each(|(bits, word)| add(word, bits));
        let mut builder = AhoCorasick::builder();
        builder.ascii_case_insensitive(true).match_kind(MatchKind::Standard).kind(Some(AhoCorasickKind::DFA));
        let words = builder.build(&words)?;
        Ok(Context { words, means })
    }

    /// What the words around a place of a text speak for.
    pub(crate) fn around(&self, text: &[u8], start: usize, end: usize) -> u128 {
        let before = &text[start.saturating_sub(BEFORE)..start];
        let after = &text[end..text.len().min(end + AFTER)];
        // What comes after speaks for a finding, hardly ever against it.
        self.within(before) | (self.within(after) & !AGAINST)
    }

    /// What the words of a text speak for.
    pub(crate) fn within(&self, text: &[u8]) -> u128 {
        let mut bits = 0;
        for found in self.words.find_overlapping_iter(text) {
            let (means, stem) = self.means[found.pattern().as_usize()];
            if bits & means != means && begins(text, found.start()) && (stem || ends(text, found.end())) {
                bits |= means;
            }
        }
        bits
    }
}

/// Whether a word can begin there: not inside another, unless a capital begins a part of an identifier.
fn begins(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| text[at]) else { return true };
    let hump = before.is_ascii_lowercase() && text.get(at).is_some_and(u8::is_ascii_uppercase);
    !text[at].is_ascii_alphanumeric() || !before.is_ascii_alphanumeric() || before.is_ascii_digit() || hump
}

/// Whether a word can end there; a plural's "s" may follow.
fn ends(text: &[u8], at: usize) -> bool {
    let closed = |at: usize| match (at.checked_sub(1).map(|at| text[at]), text.get(at)) {
        (Some(last), Some(next)) => {
            !next.is_ascii_alphabetic() || (last.is_ascii_lowercase() && next.is_ascii_uppercase())
        }
        _ => true,
    };
    closed(at) || (text[at] == b's' && closed(at + 1)) || !text[at - 1].is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn words_are_whole_whatever_their_case() {
        let context = Context::new(std::iter::empty()).unwrap();
        let phone = Kind::Phone.bit();
        for text in [
            "Tel: ",
            "my phone_number=",
            "textMe",
            "phones ",
            "userPhone ",
            "TELEFONNUMMER ",
            "Telefonnummern",
        ] {
            assert_ne!(context.within(text.as_bytes()) & phone, 0, "{text}");
        }
        for text in ["hotel ", "telling ", "microphoned", ""] {
            assert_eq!(context.within(text.as_bytes()) & phone, 0, "{text}");
        }
        assert_ne!(context.within("né le ".as_bytes()) & Kind::DateOfBirth.bit(), 0);
        assert_ne!(context.within("order 12 ".as_bytes()) & AGAINST, 0);
        for name in ["dateOfBirth", "date_of_birth", "date-of-birth", "Date of Birth"] {
            assert_ne!(context.within(name.as_bytes()) & Kind::DateOfBirth.bit(), 0, "{name}");
        }
    }
}
