//! Text of an exact number of tokens, for servers whose tokenizer is elsewhere.
//!
//! Common short English words are one token each in nearly every vocabulary, so N of them are N tokens. Whoever can
//! count (a local tokenizer, or the server) is asked first, and words that are not one token are left out.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The word that every text begins with: a first word has no space before it, which makes it another token.
const FIRST: &str = "The";
/// Fewer words than this make texts that repeat themselves.
const FEWEST: usize = 48;

const WORDS: &str = "\
able about above across action after again age ago air all along also always among and animal another answer any \
apple area arm army art ask away baby back bad ball bank base bath bear beat because become bed before began best \
better big bird black blood blue board boat body book both box boy bread bring brother brown build business but buy \
call came can car care carry case cat cause center century certain chair chance change child city class clean clear \
close cloud coat cold color come common company cook cool copy corn cost could country course cover cow cross cry cup \
cut dance dark day dead deal deep dinner direct dog door double down draw dream dress drink drive drop dry during each \
early earth ease east eat edge egg eight either else end energy enough even evening event ever every example eye face \
fact fall family far farm fast father fear feel feet few field fight figure fill final find fine finger fire first \
fish five floor flow flower fly follow food foot for force forest form forward found four free fresh friend from front \
fruit full game garden gas gave general get girl give glass go gold good got grass gray great green ground group grow \
had hair half hand happy hard has hat have head hear heart heat heavy held help her here high hill him his history \
hold hole home hope horse hot hour house how human hundred ice idea if image in inside into iron is island job join \
just keep key kind king kitchen knew know lady lake land language large last late law lay lead learn leave left leg \
less letter level lie life light like line list little live local long look lost lot love low machine made main make \
man many map mark market matter may mean meat men metal middle might mile milk mind minute miss modern moment money \
month moon more morning most mother mountain mouth move much music must name near neck need never new next night nine \
north not note nothing now number ocean of off office often oil old on once one only open or order other our out over \
own page paper park part party pass past path pay people perhaps person picture piece place plan plane plant play \
point police poor position power press pretty price problem product public pull push put question quick quiet race \
rain ran reach read ready real reason record red rest rich ride right ring rise river road rock room rose round rule \
run said salt same sand sat saw say school science sea season second see seem sell send sense serve set seven several \
shape share she ship short should show side sign silver since sing sit six size skin sleep slow small snow social soft \
soil some son song soon sound south space speak spring square stand star start state stay step still stone stood stop \
store story street strong student study such sugar summer sun sure table take talk tall teacher team tell ten test \
than that the their them then there these they thing think this those thought thousand three through time to today \
together told too took top town trade train travel tree trip true try turn two type under until up upon use usual \
valley value very view village voice walk wall want war warm was wash watch water way weather week weight well went \
were west what wheel when where which while white who whole why wide wife wild will wind window winter wish with woman \
wood word work world would write wrong year yellow yes yet you young your";

/// Words that are one token each.
#[derive(Clone, Debug)]
pub(super) struct Words(Vec<&'static str>);

impl Words {
    /// All of them, unchecked.
    pub(super) fn all() -> Words {
        Words(WORDS.split_whitespace().collect())
    }

    /// `count` tokens: that many words, at least one. Random ones after the first.
    pub(super) fn text(&self, count: usize, rng: &mut ChaCha8Rng) -> String {
        let mut text = FIRST.to_owned();
        for _ in 1..count {
            text.push(' ');
            text.push_str(self.0[rng.random_range(0..self.0.len())]);
        }
        text
    }

    /// As [`Words::text`], to go on after another text: `count` words, each with a space before it.
    pub(super) fn more(&self, count: usize, rng: &mut ChaCha8Rng) -> String {
        let mut text = String::new();
        for _ in 0..count {
            text.push(' ');
            text.push_str(self.0[rng.random_range(0..self.0.len())]);
        }
        text
    }
}

/// Finds the words that are one token, with a counter that may be slow: groups are counted, and halved while they do
/// not come out even.
pub(super) struct Sieve {
    /// Groups of words to count, the next one last.
    open: Vec<Vec<&'static str>>,
    kept: Vec<&'static str>,
}

impl Sieve {
    pub(super) fn new() -> Sieve {
        Sieve { open: vec![Words::all().0], kept: Vec::new() }
    }

    /// The next text to count; none when done.
    pub(super) fn next(&self) -> Option<String> {
        self.open.last().map(|group| format!("{FIRST} {}", group.join(" ")))
    }

    /// Takes the number of tokens of the text that [`Sieve::next`] gave.
    pub(super) fn counted(&mut self, tokens: usize) {
        let Some(mut group) = self.open.pop() else { return };
        if tokens == group.len() + 1 {
            self.kept.append(&mut group);
        } else if group.len() > 1 {
            let half = group.split_off(group.len() / 2);
            self.open.extend([half, group]);
        }
    }

    /// The words, if enough are left.
    pub(super) fn words(mut self) -> Option<Words> {
        // In the list's order, however the groups were cut.
        self.kept.sort_unstable();
        (self.kept.len() >= FEWEST).then_some(Words(self.kept))
    }
}

/// Two texts whose sizes differ by a known number of words, for a server that only tells how long a prompt was.
pub(super) fn probes() -> [(String, usize); 2] {
    let words = Words::all().0;
    let text = |count: usize| (format!("{FIRST} {}", words[..count].join(" ")), count + 1);
    [text(words.len() / 4), text(words.len())]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn as_many_words_as_asked_for() {
        let words = Words::all();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for count in [1, 2, 500] {
            assert_eq!(words.text(count, &mut rng).split(' ').count(), count);
        }
        assert_eq!(words.more(3, &mut rng).split(' ').count(), 4);
        assert_ne!(words.text(64, &mut rng), words.text(64, &mut rng));
    }

    #[test]
    fn no_word_twice() {
        let words = Words::all().0;
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
        assert!(words.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase())));
    }

    #[test]
    fn words_of_several_tokens_are_left_out() {
        // A tokenizer that needs two tokens for words of more than five letters.
        let count = |text: &str| text.split(' ').map(|word| 1 + usize::from(word.len() > 5)).sum::<usize>();
        let mut sieve = Sieve::new();
        let mut asked = 0;
        while let Some(text) = sieve.next() {
            sieve.counted(count(&text));
            asked += 1;
        }
        let words = sieve.words().unwrap();
        let expected: HashSet<_> = Words::all().0.into_iter().filter(|word| word.len() <= 5).collect();
        assert_eq!(words.0.into_iter().collect::<HashSet<_>>(), expected);
        // Halving asks at most twice as often as there are words.
        assert!(asked < 2 * Words::all().0.len(), "{asked}");
        // One that makes two tokens of everything leaves nothing.
        let mut sieve = Sieve::new();
        while let Some(text) = sieve.next() {
            sieve.counted(2 * text.split(' ').count());
        }
        assert!(sieve.words().is_none());
    }
}
