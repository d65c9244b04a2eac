//! Phrases that say how one thing stands to another: "belongs to a lighthouse", "is stored in a warehouse", "has many lamps".

use crate::demo::words::{is_plural, words};

/// Such a phrase, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tie {
    pub(super) sort: Sort,
    /// As it was said: `stored in`, `borrows`.
    pub(super) verb: String,
    /// The words for the other thing, the noun last.
    pub(super) target: Vec<String>,
    /// Whether there is more than one of the other thing.
    pub(super) many: bool,
    /// Whether many are spoken of, and that may be why: "are placed by customers", each by one.
    pub(super) may_be_one_each: bool,
    pub(super) required: bool,
    /// Whether it could be nothing else, such as a thing with a word about it.
    pub(super) is_sure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// "belongs to": the other thing is one, whatever else is said of it.
    Owner,
    /// "refers to", "is part of": the other thing may be one.
    Other,
    /// "is stored in", "works at": whether it is about another thing shows in whether it is known.
    Place,
    /// "borrows": something that is done, if what follows is known.
    Act,
    /// "has many", "a list of".
    Several,
}

impl Tie {
    /// How many things say it: "are stored in", "work at".
    pub(super) fn of_many(&self) -> String {
        let (first, rest) = self.verb.split_once(' ').unwrap_or((&self.verb, ""));
        let first = match first {
            "is" => "are".to_owned(),
            _ if first.ends_with("ed") || DONE.contains(&first) => format!("are {first}"),
            _ => first.strip_suffix('s').filter(|_| is_plural(first)).unwrap_or(first).to_owned(),
        };
        format!("{first} {rest}").trim_end().to_owned()
    }

    /// What the other thing does: "borrow", if it is "borrowed by". One of the verbs known here or of `more`, each with
    /// what is then done.
    pub(super) fn deed(&self, more: &[(&'static str, &str)]) -> Option<&'static str> {
        let done = self.verb.strip_suffix(" by")?;
        let known = DID.iter().chain(more).find(|(_, word)| *word == done).map(|(deed, _)| *deed);
        let regular = |deed: &&str| done == format!("{}ed", deed.strip_suffix('e').unwrap_or(deed));
        known.or_else(|| DOING.into_iter().find(regular))
    }

    /// Whether it comes to one thing that another one refers to.
    pub(super) fn is_reference(&self) -> bool {
        self.is_plain() || self.sort == Sort::Place && !self.many
    }

    /// Whether the words leave no doubt that it names another thing.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.sort, Sort::Owner | Sort::Other)
    }
}

const OWNERS: [[&str; 2]; 5] =
    [["belongs", "to"], ["belong", "to"], ["belonging", "to"], ["owned", "by"], ["possessed", "by"]];

const OTHERS: [[&str; 2]; 21] = [
    ["refers", "to"],
    ["refer", "to"],
    ["referring", "to"],
    ["relates", "to"],
    ["relate", "to"],
    ["related", "to"],
    ["associated", "with"],
    ["connected", "to"],
    ["connected", "with"],
    ["linked", "to"],
    ["linked", "with"],
    ["assigned", "to"],
    ["attached", "to"],
    ["tied", "to"],
    ["part", "of"],
    ["member", "of"],
    ["child", "of"],
    ["reference", "to"],
    ["relation", "to"],
    ["pointer", "to"],
    ["key", "to"],
];

/// Verbs of one word that say the same.
const REFERENCES: [&str; 1] = ["references"];

/// Words that a verb may have before it and that change nothing.
const BEFORE: [&str; 22] = [
    "that",
    "which",
    "who",
    "also",
    "each",
    "it",
    "they",
    "always",
    "usually",
    "often",
    "normally",
    "only",
    "must",
    "should",
    "shall",
    "will",
    "then",
    "either",
    "currently",
    "both",
    "does",
    "do",
];

/// Those that make it optional.
pub(super) const OPTIONALLY: [&str; 7] =
    ["may", "can", "could", "might", "optionally", "sometimes", "possibly"];

const AUXILIARY: [&str; 8] = ["is", "are", "was", "were", "be", "been", "gets", "get"];

/// Those that say something of one thing.
const OF_ONE: [&str; 3] = ["is", "was", "gets"];

const PREPOSITIONS: [&str; 12] =
    ["to", "in", "at", "on", "from", "with", "for", "under", "into", "inside", "within", "by"];

/// Verbs that stand before a preposition, in the form that many things do them.
const STANDING: [&str; 24] = [
    "apply",
    "attach",
    "come",
    "connect",
    "depend",
    "dwell",
    "enroll",
    "enrol",
    "go",
    "lead",
    "lie",
    "link",
    "live",
    "point",
    "report",
    "reside",
    "sign",
    "sit",
    "sleep",
    "stand",
    "stay",
    "study",
    "subscribe",
    "work",
];

/// Verbs with something that they are done to, in the form that many things do them.
const DOING: [&str; 34] = [
    "attend", "author", "borrow", "buy", "carry", "contain", "create", "drive", "follow", "hold", "include",
    "keep", "lead", "lend", "like", "love", "maintain", "make", "manage", "operate", "own", "place", "play",
    "post", "publish", "read", "rent", "sell", "serve", "submit", "teach", "use", "visit", "write",
];

/// Participles that don't end in `ed`.
const DONE: [&str; 29] = [
    "bought", "built", "done", "driven", "found", "given", "grown", "held", "hung", "kept", "known", "led",
    "lent", "made", "put", "read", "ridden", "run", "sent", "shown", "sold", "sung", "worn", "drawn",
    "eaten", "taken", "taught", "won", "written",
];

/// What those of [`DONE`] are called that are of [`DOING`].
const DID: [(&str, &str); 11] = [
    ("buy", "bought"),
    ("drive", "driven"),
    ("hold", "held"),
    ("keep", "kept"),
    ("lead", "led"),
    ("lend", "lent"),
    ("make", "made"),
    ("read", "read"),
    ("sell", "sold"),
    ("teach", "taught"),
    ("write", "written"),
];

/// More than one, in words; the longer ones first.
const MANY: [&[&str]; 19] = [
    &["any", "number", "of"],
    &["at", "least", "one"],
    &["zero", "or", "more"],
    &["one", "or", "more"],
    &["none", "or", "more"],
    &["a", "collection", "of"],
    &["a", "list", "of"],
    &["a", "set", "of"],
    &["a", "few"],
    &["lots", "of"],
    &["list", "of"],
    &["several"],
    &["multiple"],
    &["various"],
    &["numerous"],
    &["some"],
    &["many"],
    &["two"],
    &["three"],
];

const ONE: [&str; 16] = [
    "a", "an", "the", "one", "its", "their", "his", "her", "own", "exactly", "another", "single", "certain",
    "given", "specific", "other",
];

/// Those that never stand within a name.
const COUNTING: [&str; 9] = ["a", "an", "the", "its", "their", "his", "her", "exactly", "another"];

/// Where what is said of the other thing has ended.
const ENDS: [&str; 21] = [
    "who", "that", "which", "so", "to", "for", "where", "when", "in", "on", "at", "per", "as", "from", "by",
    "with", "via", "using", "if", "and", "or",
];

/// As many words as one phrase has.
const FAR: usize = 16;

/// What `phrase` says, if it is such a phrase. Whether it begins right after the thing it is about, `follows`, decides
/// what can be a verb.
pub(super) fn tie(phrase: &str, follows: bool) -> Option<Tie> {
    let said = phrase.split(['(', ')', ',', ';', ':', '.', '?', '[', '{']).next().unwrap_or_default();
    let said: Vec<String> = words(said).into_iter().take(FAR).collect();
    let (mut rest, mut required, mut is_verb) = (&said[..], !phrase.contains("optional"), follows);
    while let [first, after @ ..] = rest
        && (BEFORE.contains(&first.as_str()) || OPTIONALLY.contains(&first.as_str()))
    {
        required &= !OPTIONALLY.contains(&first.as_str());
        // "can swim": what follows is a verb. "each", "that" may stand before anything.
        is_verb |= !matches!(first.as_str(), "each" | "only" | "both" | "either");
        rest = after;
    }
    if !follows || is_having(rest) {
        let listed = if is_having(rest) { &rest[1..] } else { rest };
        if let Some(target) = several(listed) {
            let target = noun(target);
            let sort = Sort::Several;
            let verb = "has".to_owned();
            let tie = Tie { sort, verb, target, many: true, may_be_one_each: false, required, is_sure: true };
            return (!tie.target.is_empty()).then_some(tie);
        }
    }
    if is_having(rest) {
        return None;
    }
    let (sort, taken, verb) = verb(rest, is_verb)?;
    let (is_bare, begins) = (rest.len() == 2, rest[0].clone());
    let may_be_one_each = !OF_ONE.contains(&begins.as_str()) && several(&rest[taken..]).is_none();
    let rest = &rest[taken..];
    let (many, mut rest) = match several(rest) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    while let [first, after @ ..] = rest
        && (ONE.contains(&first.as_str()) || first == "optional")
    {
        rest = after;
    }
    let target = noun(rest);
    let is_each = matches!(sort, Sort::Owner | Sort::Other);
    let many = many || target.last().is_some_and(|noun| is_plural(noun)) && !is_each;
    // "post tags", "notes in red": things, perhaps.
    let is_sure = is_verb || !(is_thing_perhaps(&begins) || is_bare && sort == Sort::Act);
    (!target.is_empty()).then_some(Tie { sort, verb, target, many, may_be_one_each, required, is_sure })
}

/// Whether `word` stands before a verb and names nothing.
pub(super) fn is_before_verb(word: &str) -> bool {
    BEFORE.contains(&word) || OPTIONALLY.contains(&word) || AUXILIARY.contains(&word) || word.ends_with("ly")
}

fn is_having(said: &[String]) -> bool {
    matches!(said.first().map(String::as_str), Some("has" | "have" | "having"))
}

/// What follows words for more than one.
fn several(said: &[String]) -> Option<&[String]> {
    let begins = |words: &&&[&str]| said.len() > words.len() && said.iter().zip(**words).all(|(a, b)| a == b);
    let words = MANY.iter().find(begins)?;
    said.get(words.len()..)
}

fn is_form_of(word: &str, verbs: &[&str]) -> bool {
    let is_ending = |end: &str| matches!(end, "" | "s" | "es");
    verbs.iter().any(|verb| word.strip_prefix(verb).is_some_and(is_ending))
}

/// Whether `word` may be the name of things as well as what one of them does.
fn is_thing_perhaps(word: &str) -> bool {
    is_plural(word) && !is_form_of(word, &STANDING) && !is_form_of(word, &DOING)
}

fn noun(said: &[String]) -> Vec<String> {
    said.iter().take_while(|word| !ENDS.contains(&word.as_str())).take(4).cloned().collect()
}

/// What sort of verb `said` begins with, how many words it takes, and what it is.
fn verb(said: &[String], is_verb: bool) -> Option<(Sort, usize, String)> {
    let has_auxiliary = said.first().is_some_and(|word| AUXILIARY.contains(&word.as_str()));
    let at = usize::from(has_auxiliary);
    let at = at + usize::from(said.get(at).is_some_and(|word| matches!(word.as_str(), "a" | "an" | "the")));
    let at = at + usize::from(said.get(at).is_some_and(|word| word == "always" || word == "optionally"));
    let first = said.get(at)?.as_str();
    let second = said.get(at + 1).map(String::as_str).unwrap_or_default();
    let is_pair = |pairs: &[[&str; 2]]| pairs.contains(&[first, second]);
    let pair = |sort| Some((sort, at + 2, format!("{first} {second}")));
    if is_pair(&OWNERS) {
        return pair(Sort::Owner);
    }
    if is_pair(&OTHERS) {
        return pair(Sort::Other);
    }
    if REFERENCES.contains(&first) {
        return Some((Sort::Other, at + 1, first.to_owned()));
    }
    let is_article = at > usize::from(has_auxiliary);
    if is_article {
        return None;
    }
    let leads = PREPOSITIONS.contains(&second);
    if leads && (first.len() > 4 && first.ends_with("ed") || DONE.contains(&first)) {
        return pair(Sort::Place);
    }
    if has_auxiliary {
        return PREPOSITIONS.contains(&first).then(|| (Sort::Place, at + 1, format!("is {first}")));
    }
    let is_some_form = is_verb || is_plural(first);
    // "notes for the driver" and "books by an author" are things.
    if leads && second != "by" && (is_form_of(first, &STANDING) || is_some_form && second != "for") {
        return pair(Sort::Place);
    }
    let word = |at: usize| said.get(at).map(String::as_str).unwrap_or_default();
    // "takes place in a room"
    if (is_some_form || first == "take")
        && !leads
        && PREPOSITIONS.contains(&word(at + 2))
        && COUNTING.contains(&word(at + 3))
    {
        return Some((Sort::Place, at + 3, format!("{first} {second} {}", word(at + 2))));
    }
    let counts = COUNTING.contains(&second) || several(&said[at + 1..]).is_some();
    if counts || is_verb && is_form_of(first, &DOING) && !second.is_empty() && !leads {
        return Some((Sort::Act, at + 1, first.to_owned()));
    }
    // "borrows books"
    let may_do = is_plural(first) || is_form_of(first, &DOING);
    (may_do && said.len() == at + 2 && is_plural(second) && !leads)
        .then(|| (Sort::Act, at + 1, first.to_owned()))
}

#[cfg(test)]
mod tests;
