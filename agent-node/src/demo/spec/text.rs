//! Prose and lists: "books (title, isbn, year:int) and members with name and email; members borrow books".

use super::{
    Spec,
    cut::{brackets, clauses, outer_colon, phrases},
    fields, relations, structured,
    ties::{self, Tie},
};
use crate::demo::words::{is_frame, is_plural, is_stop, shortened, snake, words};
use std::collections::BTreeSet;

/// As much of a text as is read.
const MAX_TEXT: usize = 64 * 1024;

const HAVING: [&str; 14] = [
    "with",
    "has",
    "have",
    "having",
    "contain",
    "contains",
    "containing",
    "include",
    "includes",
    "including",
    "of",
    "consisting",
    "store",
    "stores",
];

/// What is wished for besides, and is no field.
const ASIDES: [&str; 10] = [
    "tests",
    "test",
    "documentation",
    "docs",
    "validation",
    "pagination",
    "authentication",
    "auth",
    "examples",
    "comments in the code",
];

/// Words of what may be done with things.
const RESTRICTING: [&str; 5] = ["read", "readonly", "append", "delete", "deleted"];

/// The API that `text` describes; without resources if it describes none.
pub(in crate::demo) fn from_text(text: &str) -> Spec {
    let text: String = text.chars().take(MAX_TEXT).collect();
    if let Some(spec) = structured::from_text(&text) {
        return spec;
    }
    let clauses = clauses(&text);
    let mut reading = Reading::default();
    reading.spec.title = clauses.iter().find_map(|clause| title(clause)).unwrap_or_default();
    for clause in &clauses {
        reading.clause(clause);
    }
    let Reading { mut spec, unread, .. } = reading;
    let mut told = BTreeSet::new();
    for (at, clause) in (1..).zip(&clauses) {
        if relations::read(&mut spec, clause) {
            told.insert(at);
        }
    }
    for (at, phrase) in unread {
        note(&mut spec, &phrase, told.contains(&at));
    }
    if spec.resources.is_empty()
        && let Some(name) = clauses.iter().find_map(|clause| before_api(clause))
        && spec.resource(&name).is_some()
    {
        spec.assumptions.push(format!("the only thing named is {name}, so that is the resource"));
    }
    relations::restrict(&mut spec, &text);
    spec.completed()
}

/// Says that `phrase` named nothing, if it is about a resource and not about the API as a whole.
fn note(spec: &mut Spec, phrase: &str, is_told: bool) {
    let said = words(phrase);
    let frames = |word: &&String| !is_stop(word) && is_frame(word) || RESTRICTING.contains(&word.as_str());
    let is_about_all = said.iter().any(|word| frames(&word));
    let is_wish = |word: &str| matches!(word, "must" | "should" | "shall" | "can" | "needs");
    let is_worth_it = |word: &String| is_wish(word) || spec.knows(word).is_some();
    let is_statement = || predicate(phrase).is_some() || ties::tie(phrase, false).is_some();
    let is_about_all = is_about_all && !is_statement();
    if !is_told && !is_about_all && !spec.resources.is_empty() && said.iter().any(is_worth_it) {
        spec.assume(format!("{:?} is not understood and left out", shortened(phrase, 80)));
    }
}

/// The thing at the end of `text`: its last one or two words that mean something.
fn noun(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '\''))
        .filter(|word| !word.is_empty())
        .collect();
    let end = words.iter().rposition(|word| !is_stop(word))? + 1;
    let start = words[..end].iter().rposition(|word| is_stop(word) || is_frame(word)).map_or(0, |at| at + 1);
    let tail = &words[start.max(end.saturating_sub(2)).min(end)..end];
    snake(&tail.join(" ")).filter(|name| !name.is_empty())
}

/// The words of a request that may name what it is about, where something is said of them: "each store", "tables".
fn thing(text: &str) -> Option<String> {
    let said = words(text);
    let one = match said.as_slice() {
        [one] if is_plural(one) => one,
        [article, one] if matches!(article.as_str(), "a" | "an" | "each" | "every") => one,
        _ => return None,
    };
    matches!(one.as_str(), "store" | "route" | "routes" | "table" | "tables").then(|| one.clone())
}

/// "… for a library: …", "a todo API".
fn title(clause: &str) -> Option<String> {
    let head = clause.split([':', '(']).next().unwrap_or_default();
    let lower = head.to_lowercase();
    if !words(head).iter().any(|word| is_frame(word)) {
        return None;
    }
    let after_for = lower.rfind(" for ").and_then(|at| lower.get(at + 5..));
    let subject = after_for.and_then(|rest| {
        let until = rest.split_whitespace().take_while(|word| !HAVING.contains(word) && *word != "and");
        let taken: Vec<_> = until.filter(|word| !is_stop(word) && !is_frame(word)).take(4).collect();
        (!taken.is_empty()).then(|| words(&taken.join(" ")).join(" "))
    });
    subject.or_else(|| before_api(head).map(|name| name.replace('_', " ")))
}

fn before_api(clause: &str) -> Option<String> {
    let lower = clause.to_lowercase();
    let ends = [" api", " rest", " backend", " service", " app", " crud", " system", " platform", " website"];
    let at = ends.iter().filter_map(|end| lower.find(end)).min()?;
    let before: Vec<_> = lower.get(..at)?.split_whitespace().collect();
    let end = before.iter().rposition(|word| !is_frame(word))? + 1;
    let start = before[..end].iter().rposition(|word| is_stop(word) || is_frame(word)).map_or(0, |at| at + 1);
    snake(&before[start.max(end.saturating_sub(3))..end].join(" "))
}

#[derive(Default)]
struct Reading {
    spec: Spec,
    /// The resource whose fields are being listed.
    open: Option<String>,
    /// What has been listed for it.
    listed: Vec<String>,
    /// `Books:` at the end of a line: the list items that follow are its fields.
    headed: Option<String>,
    /// What the sentence is about, if it lists nothing.
    subject: Option<String>,
    /// How many clauses were read.
    clauses: usize,
    /// What named nothing, and in which clause it stood.
    unread: Vec<(usize, String)>,
}

impl Reading {
    fn clause(&mut self, clause: &str) {
        self.clauses += 1;
        self.subject = None;
        let bare = clause.trim_start();
        let stripped = bare.trim_start_matches(|c: char| "-*•#>".contains(c) || c.is_ascii_digit());
        let stripped = stripped.trim_start_matches(['.', ')']).trim();
        let is_item = stripped.len() < bare.trim_end().len();
        if stripped.is_empty() {
            return;
        }
        match outer_colon(stripped) {
            // `… with name:string, age:int`
            Some((_, right)) if fields::begins_with_kind(right) => self.sequence(stripped),
            // `a cinema: movies (title, year), …`
            Some((left, right)) if !is_many(left) && begins_with_things(right) => {
                self.headed = None;
                if let Some(name) = noun(left).filter(|_| self.spec.title.is_empty()) {
                    self.spec.title = name.replace('_', " ");
                }
                self.sequence(right);
            }
            Some((left, right)) if is_name(left) => {
                self.headed = None;
                if right.trim().is_empty() {
                    self.headed =
                        snake(&words(left).into_iter().filter(|w| !is_stop(w)).collect::<Vec<_>>().join(" "));
                } else if let Some(name) = noun(left) {
                    self.fields(&name, &phrases(right));
                }
            }
            Some((_, right)) if !right.trim().is_empty() => {
                self.headed = None;
                self.sequence(right);
            }
            Some(_) => self.headed = None,
            None => match self.headed.clone() {
                Some(name) if is_item => self.fields(&name, &phrases(stripped)),
                Some(_) | None => {
                    self.headed = None;
                    self.sequence(stripped);
                }
            },
        }
    }

    fn sequence(&mut self, text: &str) {
        for phrase in phrases(text) {
            self.phrase(&phrase);
        }
        self.close();
    }

    fn phrase(&mut self, mut phrase: &str) {
        // One after the other and not each within the one before: a text may be nothing but brackets.
        while let Some(after) = self.bracketed(phrase) {
            if after.trim().is_empty() {
                return;
            }
            phrase = after;
        }
        if self.open.is_some() && is_sentence(phrase) {
            self.close();
        }
        let stands = || predicate(phrase).filter(|(.., tie)| tie.is_reference());
        // "notes are shared with users": no "shared" has users.
        let is_with = |(.., tie): &(_, _, Tie)| tie.verb.ends_with(" with");
        let has = || having(phrase).filter(|_| !predicate(phrase).as_ref().is_some_and(is_with));
        let saying = has().or_else(|| stands().map(|(left, right, _)| (left, right)));
        let named = |(left, right)| {
            let verb = phrase.get(str::len(left)..).unwrap_or_default().trim_start();
            Some((noun(left).or_else(|| verb.starts_with("ha").then(|| thing(left))?)?, right))
        };
        if let Some((name, right)) = saying.and_then(named) {
            self.close();
            self.open = Some(name);
            self.listed.push(right.to_owned());
        } else if self.open.is_some() {
            self.listed.push(phrase.to_owned());
        } else if let (Some(name), Some(more)) = (&self.subject, goes_on(phrase)) {
            self.open = Some(name.clone());
            self.listed.push(more.to_owned());
        } else {
            self.bare(phrase);
        }
    }

    /// "recipes (name, portions) and menus (title)": the first of them. What is left to read, if it was one.
    fn bracketed<'p>(&mut self, phrase: &'p str) -> Option<&'p str> {
        let (before, inner, after) = brackets(phrase)?;
        let is_field = self.open.is_some() && noun(before).is_some_and(|name| !is_plural(&name));
        let named = noun(before).or_else(|| thing(before));
        let is_thing = self.open.is_none() && named.as_ref().is_some_and(|name| is_plural(name));
        if is_field || !is_thing && fields::is_annotation(inner) {
            return None;
        }
        let name = named?;
        self.close();
        self.fields(&name, &phrases(inner));
        if ties::tie(after, false).is_none() {
            return Some(after);
        }
        self.fields(&name, &[after.trim().to_owned()]);
        Some("")
    }

    /// "recipes", "order items", "members borrow books".
    fn bare(&mut self, phrase: &str) {
        self.subject = predicate(phrase).and_then(|(left, ..)| noun(left));
        if ties::tie(phrase, false).is_some() {
            return self.unread.push((self.clauses, phrase.to_owned()));
        }
        let said: Vec<_> =
            words(phrase).into_iter().filter(|word| !is_stop(word) && !is_frame(word)).collect();
        let asks_for_one = || {
            ["crud", "endpoints", "manage", "managing"].iter().any(|w| words(phrase).iter().any(|p| p == w))
        };
        // "the lighthouse blinks"
        let begins = phrase.split(' ').next().unwrap_or_default().to_lowercase();
        let is_deed = matches!(begins.as_str(), "a" | "an" | "the" | "each" | "every")
            && said.first().is_some_and(|first| self.spec.knows(first).is_some());
        match said.as_slice() {
            [_, _] if is_deed => self.unread.push((self.clauses, phrase.to_owned())),
            [one] if is_plural(one) || asks_for_one() => self.name(one),
            [first, last] if is_plural(last) && !is_plural(first) => self.name(&format!("{first} {last}")),
            [first, middle, last] if is_plural(first) && is_plural(last) && !is_plural(middle) => {
                self.name(first);
                self.name(last);
            }
            _ => self.unread.push((self.clauses, phrase.to_owned())),
        }
    }

    fn name(&mut self, name: &str) {
        let _ = self.spec.resource(name);
    }

    fn close(&mut self) {
        let Some(owner) = self.open.take() else { return };
        let listed = std::mem::take(&mut self.listed);
        let all_plural =
            listed.len() > 1 && listed.iter().all(|item| noun(item).is_some_and(|name| is_plural(&name)));
        let any_tie = || listed.iter().any(|item| ties::tie(item, false).is_some());
        if all_plural && self.spec.knows(&owner).is_none() && !is_plural(&owner) && !any_tie() {
            listed.iter().filter_map(|item| noun(item)).for_each(|name| self.name(&name));
        } else {
            self.fields(&owner, &listed);
        }
    }

    fn fields(&mut self, name: &str, phrases: &[String]) {
        let is_aside =
            |phrase: &&String| ASIDES.contains(&phrase.to_lowercase().trim().trim_start_matches("with "));
        let phrases: Vec<&String> = phrases.iter().filter(|phrase| !is_aside(phrase)).collect();
        let is_tie = |phrase: &&String| ties::tie(phrase, false).is_some();
        let says = |phrase: &&String| fields::read(phrase).is_some() || is_tie(phrase);
        // "each recipe is by a chef", after "crème brûlée recipes"
        let shortened = phrases.iter().all(is_tie).then(|| self.spec.recognises(name)).flatten();
        let name = shortened.as_deref().unwrap_or(name);
        if self.spec.knows(name).is_none() && !phrases.iter().any(says) {
            return;
        }
        if let Some(resource) = self.spec.resource(name) {
            phrases.into_iter().for_each(|phrase| resource.hear(phrase));
        }
    }
}

fn is_many(text: &str) -> bool {
    noun(text).is_some_and(|name| is_plural(&name))
}

/// "books (title, isbn), …", "plots with number and size": things with fields of their own.
fn begins_with_things(text: &str) -> bool {
    let phrases = phrases(text);
    let Some(first) = phrases.first() else { return false };
    let bracketed = brackets(first).filter(|(_, inner, _)| !fields::is_annotation(inner));
    let name = bracketed.map(|(before, _, _)| before).or_else(|| having(first).map(|(left, _)| left));
    name.is_some_and(is_many)
}

/// "items are stored in warehouses": about two things, and no field of a third.
fn is_sentence(phrase: &str) -> bool {
    if ties::tie(phrase, false).is_some() {
        return false;
    }
    let said: Vec<_> = phrase.split_whitespace().collect();
    let is_bare = !phrase.contains(['(', ':']);
    matches!(said.as_slice(), [first, _, .., last] if is_bare && is_plural(first) && is_plural(last))
}

/// Whether `text` before a colon is the name of a resource rather than an introduction.
fn is_name(text: &str) -> bool {
    let words: Vec<_> = text
        .split_whitespace()
        .filter(|word| !matches!(word.to_lowercase().as_str(), "a" | "an" | "the" | "each" | "every"))
        .collect();
    (1..=2).contains(&words.len())
        && words.iter().all(|word| !is_stop(word) && !is_frame(word))
        && snake(text).is_some()
        && !text.contains(['(', ','])
}

/// What a sentence is about, and what it says of it: "each check-up", "is done by a doctor".
fn predicate(phrase: &str) -> Option<(&str, &str, Tie)> {
    if ties::tie(phrase, false).is_some() {
        return None;
    }
    let ends = phrase.match_indices(' ').map(|(at, _)| at).take(FAR);
    ends.filter_map(|at| Some((&phrase[..at], &phrase[at + 1..], ties::tie(&phrase[at + 1..], false)?)))
        .next()
}

/// What `phrase` says more of what its sentence is about.
fn goes_on(phrase: &str) -> Option<&str> {
    let has = ["has ", "have "].iter().find_map(|verb| phrase.strip_prefix(verb));
    has.or_else(|| ties::tie(phrase, false).map(|_| phrase))
}

/// As many words as come before what a sentence says.
const FAR: usize = 6;

fn having(phrase: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for word in phrase.split(' ') {
        let lower = word.to_lowercase();
        let is_of = lower == "of" && !phrase[..at].to_lowercase().ends_with("consists ");
        let after = phrase.get(at + word.len()..).unwrap_or_default().trim_start();
        // "a store has": what is stored may be meant, or a shop.
        let is_thing =
            lower.starts_with("store") && ["has ", "have "].iter().any(|verb| after.starts_with(verb));
        if at > 0 && HAVING.contains(&lower.as_str()) && !is_of && !is_thing && !after.is_empty() {
            return Some((&phrase[..at], phrase.get(at + word.len()..).unwrap_or_default().trim()));
        }
        at += word.len() + 1;
    }
    None
}
