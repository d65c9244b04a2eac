//! Whether a text names a credential: the whole of what is known about names, over the words of [`table`].

mod letter;
mod table;

use letter::{folded, is_mixed};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::LazyLock,
};
use table::{
    COUNTED, FOREIGN_STEMS, OF_KEYS, ORDINARY_KEYS, PAIRS, PASSED, PASSING, PROGRAMS, SLASHED, STEMS, WORDS,
};

static STEMS_BY_START: LazyLock<BTreeMap<u8, Vec<&'static str>>> = LazyLock::new(|| {
    let mut all: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    let stems = STEMS.split_whitespace().chain(FOREIGN_STEMS.split_whitespace());
    stems.for_each(|stem| all.entry(stem.as_bytes()[0]).or_default().push(stem));
    all
});
static WHOLE: Words = LazyLock::new(|| WORDS.split_whitespace().collect());
static KEYED: Words = LazyLock::new(|| OF_KEYS.split_whitespace().collect());
static ORDINARY: Words = LazyLock::new(|| ORDINARY_KEYS.split_whitespace().collect());
static COUNTING: Words = LazyLock::new(|| COUNTED.split_whitespace().collect());
static PASSES: Words = LazyLock::new(|| PASSING.split_whitespace().collect());
static IS_PASSED: Words = LazyLock::new(|| PASSED.split_whitespace().collect());
static OF_PROGRAMS: Words = LazyLock::new(|| PROGRAMS.split_whitespace().collect());
static IN_PAIRS: Pairs = LazyLock::new(|| pairs(PAIRS));
static IN_SLASHED: Pairs = LazyLock::new(|| pairs(SLASHED));

type Words = LazyLock<BTreeSet<&'static str>>;
type Pairs = LazyLock<BTreeSet<(&'static str, &'static str)>>;

fn pairs(table: &'static str) -> BTreeSet<(&'static str, &'static str)> {
    table.split(',').filter_map(|pair| pair.trim().split_once(' ')).collect()
}

/// Whether `text` names a credential.
pub(super) fn names(text: &[u8]) -> bool {
    let read = Read::of(text);
    (0..read.words.len()).any(|at| read.is_name(at))
        || is_disguised(text)
        || !text.is_ascii() && std::str::from_utf8(text).is_ok_and(is_mixed)
}

/// A word, or what an identifier joins: `apiKey` is two.
struct Word {
    place: Range<usize>,
    /// Where it stands among the letters that were read.
    letters: Range<usize>,
    /// Whether it goes on in an identifier that began before it: behind a hump, `_`, `-`, `.` or a digit.
    is_joined: bool,
    /// The run of letters that it is of: more than the word if there are humps.
    run: Range<usize>,
}

/// A text as words in lower case.
struct Read<'a> {
    text: &'a [u8],
    letters: String,
    words: Vec<Word>,
}

impl<'a> Read<'a> {
    fn of(text: &'a [u8]) -> Self {
        let mut read = Read { text, letters: String::new(), words: Vec::new() };
        let (mut at, mut run, mut gap) = (0, Run::default(), 0..0);
        for chunk in text.utf8_chunks() {
            for char in chunk.valid().chars() {
                let place = at..at + char.len_utf8();
                at = place.end;
                match folded(char) {
                    Some(char) if char.is_alphabetic() => run.push(&mut read, char, &place, &gap),
                    Some(_) => {
                        if run.end(&mut read) {
                            gap = place.start..place.start;
                        }
                        gap.end = place.end;
                    }
                    None => {}
                }
            }
            if !chunk.invalid().is_empty() {
                run.end(&mut read);
                at += chunk.invalid().len();
                gap = at..at;
            }
        }
        run.end(&mut read);
        read
    }

    fn letters(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &self.letters[word.letters.clone()])
    }

    fn is_name(&self, at: usize) -> bool {
        let word = &self.words[at];
        let (this, run) = (self.letters(at), &self.letters[word.run.clone()]);
        let before = if at == 0 { "" } else { self.letters(at - 1) };
        // What the run says is said once.
        let is_last = word.letters.end == word.run.end;
        is_last && self.has_stem(at, run)
            || (is_word(this) || is_last && (is_word(run) || ends(run)))
                && !self.is_pinned(at, this)
                && !self.is_passed(at, before, run)
            || IN_PAIRS.contains(&(before, this))
            || IN_SLASHED.contains(&(before, this)) && self.is_behind(at, b"/")
            || (before, this) == ("p", "w") && self.is_behind(at, b".")
            || this == "p" && self.is_behind(at, b"/") && self.text[word.place.end..].starts_with(b":")
            || this == "in" && at > 1 && is_person(before) && ["log", "sign"].contains(&self.letters(at - 2))
            || this.starts_with('키') && ["api", "액세스"].contains(&before)
            || (before, this) == ("code", "for") && !self.is_of_program(at)
            || self.is_key(at, before, this)
            || self.is_spelled(at)
            || self.is_initial(at, this)
            || this == "env" && is_file(&self.text[..word.place.start])
            || this == "fa" && self.text[..word.place.start].ends_with(b"2")
    }

    fn is_behind(&self, at: usize, sign: &[u8]) -> bool {
        self.text[..self.words[at].place.start].ends_with(sign)
    }

    /// Whether it is what tests do and arguments: `all tests pass`, `pass the list`.
    fn is_passed(&self, at: usize, before: &str, run: &str) -> bool {
        let gap = |at: usize| match (self.words.get(at), self.words.get(at + 1)) {
            (Some(word), Some(next)) => self.text.get(word.place.end..next.place.start) == Some(b" "),
            _ => false,
        };
        run == "pass"
            && (at > 0 && gap(at - 1) && PASSES.contains(before)
                || gap(at) && IS_PASSED.contains(self.letters(at + 1)))
    }

    /// Whether it is the `for` of `write the code for`.
    fn is_of_program(&self, at: usize) -> bool {
        (at.saturating_sub(4)..at).any(|at| OF_PROGRAMS.contains(self.letters(at)))
    }

    /// Whether it is the `p` of `u: bob p: x`.
    fn is_initial(&self, at: usize, this: &str) -> bool {
        let is_label =
            |at: usize| self.text.get(self.words[at].place.end).is_some_and(|byte| b":=".contains(byte));
        let is_user =
            |at: &usize| ["u", "l", "id", "user", "usr"].contains(&self.letters(*at)) && is_label(*at);
        this == "p" && is_label(at) && (at.saturating_sub(4)..at).any(|at| is_user(&at))
    }

    /// Whether the word at `at` is the last of many letters that stand alone and spell a name: `p a s s w o r d`.
    fn is_spelled(&self, at: usize) -> bool {
        const LONGEST: usize = 16;
        let is_letter = |at: &usize| self.words.get(*at).is_some_and(|word| word.letters.len() == 1);
        if !is_letter(&at) || is_letter(&(at + 1)) {
            return false;
        }
        let first = (0..=at).rev().take(LONGEST).take_while(is_letter).last().unwrap_or(at);
        let spelled: String = (first..=at).map(|at| self.letters(at)).collect();
        at - first > 3 && has_stem(&spelled)
    }

    /// Whether a stem is in `run`, which ends with the word at `at`, and it is not tokens that are counted.
    fn has_stem(&self, at: usize, run: &str) -> bool {
        stems(run).any(|stem| stem != "token" || !self.is_counted(at, run))
    }

    /// Whether the word at `at` is tokens that are counted, not told: `max_tokens`, `512 tokens`, `tokenizer`.
    fn is_counted(&self, at: usize, run: &str) -> bool {
        if run.starts_with("tokeniz") || run.starts_with("tokenis") {
            return true;
        }
        let word = &self.words[at];
        let is_before = at > 0 && word.is_joined && COUNTING.contains(self.letters(at - 1));
        let digits = |text: &[u8], is_reversed: bool| {
            let mut gap = text.iter().copied().take(8).collect::<Vec<_>>();
            if is_reversed {
                gap = text.iter().rev().copied().take(8).collect();
            }
            gap.iter().find(|byte| !b" \"'\\:=,*_".contains(byte)).is_some_and(u8::is_ascii_digit)
        };
        let is_number_before = digits(&self.text[..word.place.start], true);
        let is_number_after = digits(&self.text[word.place.end..], false);
        run.ends_with("tokens") && (is_before && is_number_after || is_number_before && !is_number_after)
    }

    /// Whether it is Rust's `Pin`: a type, a path or a macro.
    fn is_pinned(&self, at: usize, this: &str) -> bool {
        let after = &self.text[self.words[at].place.end..];
        let is_path = after.starts_with(b"::") && after.get(2).is_some_and(u8::is_ascii_alphabetic);
        this == "pin"
            && (is_path
                || after.starts_with(b"<")
                || after.starts_with(b"!(")
                || after.starts_with(b"_project"))
    }

    /// Whether it is a key or a code of the kind that is a credential.
    fn is_key(&self, at: usize, before: &str, this: &str) -> bool {
        let word = &self.words[at];
        let singular = this.strip_suffix('s').unwrap_or(this);
        let (text, near) = (self.text, &self.text[word.place.end..]);
        let until = &text[..word.place.start];
        let is_parameter =
            until.ends_with(b"--") || near.starts_with(b"=") && matches!(until.last(), Some(b'?' | b'&'));
        if (before, this) == ("key", "code") && word.is_joined {
            return false;
        }
        if singular == "code" {
            let near = &near[..near.len().min(24)];
            let gap = near.iter().position(u8::is_ascii_alphanumeric).unwrap_or(near.len());
            let (gap, said) = near.split_at(gap);
            let digits = said.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
            // `"code": -32601`, `code: 404`, `Code::Ok`
            let is_status = gap.ends_with(b"-") || (1..4).contains(&digits) || gap.starts_with(b"::");
            let is_told = gap.iter().any(|byte| b":=".contains(byte)) && !is_status;
            return KEYED.contains(before) || digits >= 4 || is_told || is_parameter;
        }
        let Some(joint) = singular.strip_suffix("key") else { return false };
        let before = if joint.is_empty() { before } else { joint };
        let is_joined = word.is_joined || !joint.is_empty();
        let is_value =
            near.iter().find(|byte| !b" \"'*`\\".contains(byte)).is_some_and(|byte| b":=".contains(byte));
        // `OpenAI key: x`, but not `for (key: value)` nor a line `key: x` of its own.
        let is_whose = is_value
            && at > 0
            && until.ends_with(b" ")
            && !is_article(before)
            && !self.is_behind(at - 1, b"<")
            && { self.text[self.words[at - 1].place.end..word.place.start].iter().all(|byte| *byte == b' ') };
        // `"key": "x"`
        let is_member = until.ends_with(b"\"")
            && near.strip_prefix(b"\"").map(<[u8]>::trim_ascii_start).is_some_and(|rest| {
                rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
            });
        is_whose && !ORDINARY.contains(before)
            || is_member
            || KEYED.contains(before)
            || is_parameter
            || is_joined && !ORDINARY.contains(before)
    }
}

/// Whether a file's name begins behind `before`: `.env`, but not `process.env`.
fn is_file(before: &[u8]) -> bool {
    let name = before.strip_suffix(b".");
    name.is_some_and(|path| {
        path.last().is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b")]_".contains(byte))
    })
}

fn is_person(word: &str) -> bool {
    ["me", "you", "us", "him", "her", "them"].contains(&word)
}

fn is_article(word: &str) -> bool {
    ["a", "an", "and", "or", "each", "every", "any", "no"].contains(&word)
}

/// The stems in `run`.
fn stems(run: &str) -> impl Iterator<Item = &'static str> {
    (0..run.len()).filter_map(|from| {
        let stems = STEMS_BY_START.get(&run.as_bytes()[from])?;
        let rest = &run.as_bytes()[from..];
        let is_ordinary = rest.starts_with(b"secretar") || rest.starts_with(b"secretly");
        stems.iter().find(|stem| rest.starts_with(stem.as_bytes()) && !is_ordinary).copied()
    })
}

fn has_stem(run: &str) -> bool {
    stems(run).next().is_some()
}

/// Whether `text` names a credential in letters and what looks like some: `p@ssw0rd`.
fn is_disguised(text: &[u8]) -> bool {
    const LONGEST: usize = 64;
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || b"@$!".contains(&byte);
    let plain = |byte: &u8| match byte {
        b'0' => 'o',
        b'1' | b'!' => 'i',
        b'3' => 'e',
        b'4' | b'@' => 'a',
        b'5' | b'$' => 's',
        b'7' => 't',
        byte => char::from(byte.to_ascii_lowercase()),
    };
    text.split(|byte| !is_of(*byte)).any(|word| {
        (5..LONGEST).contains(&word.len())
            && word.iter().any(|byte| b"013457@$!".contains(byte))
            && has_stem(&word.iter().map(plain).collect::<String>())
    })
}

fn is_word(word: &str) -> bool {
    WHOLE.contains(word) || word.strip_suffix('s').is_some_and(|word| WHOLE.contains(word))
}

/// Whether `run` ends in what ends names of credentials: `requirepass`, `bindpw`.
fn ends(run: &str) -> bool {
    let ordinary = ["bypass", "compass", "trespass", "surpass", "overpass", "underpass", "encompass"];
    run.ends_with("pass") && !ordinary.contains(&run) || run.ends_with("pw")
}

/// A run of letters that is being read.
#[derive(Default)]
struct Run {
    begun: Option<usize>,
    first: usize,
    last: [Option<char>; 2],
    last_place: usize,
}

impl Run {
    fn push(&mut self, read: &mut Read<'_>, char: char, place: &Range<usize>, gap: &Range<usize>) {
        let at = read.letters.len();
        let is_upper = char.is_uppercase();
        let word = |is_joined| Word { place: place.clone(), letters: at..at, is_joined, run: at..at };
        match (self.begun, self.last) {
            (None, _) => {
                let between = read.text.get(gap.clone()).unwrap_or_default();
                let is_joined = gap.end == place.start
                    && !between.is_empty()
                    && between.len() <= 4
                    && between.iter().all(|byte| b"_-.".contains(byte) || byte.is_ascii_digit());
                self.first = read.words.len();
                self.begun = Some(at);
                read.words.push(word(is_joined && !read.words.is_empty()));
            }
            // `apiKey`
            (Some(_), [_, Some(last)]) if is_upper && last.is_lowercase() => read.words.push(word(true)),
            // `APIKey`: the hump began a letter before.
            (Some(_), [Some(before), Some(last)])
                if char.is_lowercase() && last.is_uppercase() && before.is_uppercase() =>
            {
                let from = at - last.to_lowercase().map(char::len_utf8).sum::<usize>();
                if let Some(word) = read.words.last_mut() {
                    word.letters.end = from;
                    word.place.end = self.last_place;
                }
                let place = self.last_place..place.end;
                read.words.push(Word { place, letters: from..at, is_joined: true, run: at..at });
            }
            (Some(_), _) => {}
        }
        read.letters.extend(char.to_lowercase());
        let end = read.letters.len();
        if let Some(word) = read.words.last_mut() {
            word.letters.end = end;
            word.place.end = place.end;
        }
        self.last = [self.last[1], Some(char)];
        self.last_place = place.start;
    }

    /// Ends the run; whether there was one.
    fn end(&mut self, read: &mut Read<'_>) -> bool {
        let Some(begun) = self.begun.take() else { return false };
        let end = read.letters.len();
        read.words[self.first..].iter_mut().for_each(|word| word.run = begun..end);
        self.last = [None, None];
        true
    }
}
