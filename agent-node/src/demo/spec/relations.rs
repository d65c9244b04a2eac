//! How resources relate ("members borrow books", "each comment belongs to a post") and what may be done with them.

use super::{
    Field, Kind, Operation, Relation, Spec, fields,
    ties::{self, Sort, Tie},
};
use crate::demo::words::{self, is_plural, is_stop, singular, words};

const NO_VERBS: [&str; 12] = [
    "with",
    "has",
    "have",
    "having",
    "contain",
    "contains",
    "include",
    "includes",
    "and",
    "or",
    "api",
    "endpoints",
];

/// Verbs that say whose a thing is, and what it then is.
const MAKES: [(&str, &str); 11] = [
    ("add", "added"),
    ("author", "authored"),
    ("create", "created"),
    ("make", "made"),
    ("own", "owned"),
    ("place", "placed"),
    ("post", "posted"),
    ("publish", "published"),
    ("submit", "submitted"),
    ("upload", "uploaded"),
    ("write", "written"),
];

/// What is said of a thing that somebody made: "placed by", if they "place" it.
fn made(deed: &str) -> Option<String> {
    let (_, done) = MAKES.iter().find(|(verb, _)| *verb == deed)?;
    Some(if deed == "own" { "belongs to".to_owned() } else { format!("{done} by") })
}

/// Finds the relations that `clause` tells of and gives each what it takes to keep it. Whether there are any.
pub(super) fn read(spec: &mut Spec, clause: &str) -> bool {
    let mut told = false;
    for part in clause.split([',', ';', ':', '(', ')']) {
        let said = words(part);
        for at in 0..said.len() {
            let tells = stands(spec, &said, at) || acts(spec, &said, at);
            told |= has_many(spec, &said, at) || tells;
        }
    }
    told
}

/// The resource that the words up to the one at `at` name.
fn named(spec: &Spec, said: &[String], at: usize) -> Option<String> {
    let of_two = at.checked_sub(1).and_then(|before| spec.recognises(&said[before..=at].join(" ")));
    of_two.or_else(|| spec.recognises(&said[at]))
}

/// As many words as a sentence has after what it is about.
const FAR: usize = 12;

/// "each comment belongs to a post", "a keeper works at a lighthouse".
fn stands(spec: &mut Spec, said: &[String], at: usize) -> bool {
    let known = named(spec, said, at);
    let follows = known.is_some() && is_plural(&said[at]);
    let rest: Vec<&str> = said[at + 1..].iter().take(FAR).map(String::as_str).collect();
    let Some(tie) = ties::tie(&rest.join(" "), follows) else { return false };
    let is_noun = |word: &str| !is_stop(word) && !words::is_frame(word) && !ties::is_before_verb(word);
    let is_owner = tie.sort == Sort::Owner && is_noun(&said[at]);
    let Some(owned) = known.or_else(|| is_owner.then(|| singular(&said[at]))) else { return false };
    let is_for_others = match tie.sort {
        Sort::Owner | Sort::Other => false,
        // "are placed by customers" is said of the customers.
        Sort::Place => tie.many && !tie.verb.ends_with(" by"),
        Sort::Act | Sort::Several => true,
    };
    // What is a field may stand before a verb by chance.
    let is_field =
        |word: &str| spec.resources.iter().any(|it| it.fields.iter().any(|field| field.name == word));
    if is_for_others || tie.sort == Sort::Place && tie.verb.split(' ').any(is_field) {
        return false;
    }
    keep(spec, &owned, &tie)
}

/// "a user has many posts"; "posts have comments" when both are resources.
fn has_many(spec: &mut Spec, said: &[String], at: usize) -> bool {
    if !matches!(said[at].as_str(), "has" | "have") || at == 0 {
        return false;
    }
    let Some(owner) = named(spec, said, at - 1) else { return false };
    let owned = said.iter().skip(at + 1).take(3).find(|word| spec.knows(word).is_some() && is_plural(word));
    let Some(owned) = owned.and_then(|word| spec.knows(word)).filter(|owned| *owned != owner) else {
        return false;
    };
    own_many(spec, &owner, &owned)
}

/// Each of `owned` belongs to one of `owner`, which keeps no list of them.
fn own_many(spec: &mut Spec, owner: &str, owned: &str) -> bool {
    let list = words::plural(owned);
    if let Some(resource) = spec.resource(owner) {
        resource.fields.retain(|field| field.name != list && field.name != format!("many_{list}"));
    }
    link(spec, owned, owner, "belongs to", true)
}

/// "members borrow books".
fn acts(spec: &mut Spec, said: &[String], at: usize) -> bool {
    let Some(from) = named(spec, said, at) else { return false };
    let rest = said.iter().skip(at + 1).take_while(|word| !matches!(word.as_str(), "and" | "or"));
    let mut rest = rest.filter(|word| !is_stop(word));
    let (Some(verb), Some(to)) = (rest.next(), rest.next()) else { return false };
    let holds = is_holding(verb);
    let Some(to) = spec.knows(to) else { return false };
    let is_verb = (holds || !NO_VERBS.contains(&verb.as_str()))
        && !verb.starts_with("belong")
        && spec.knows(verb).is_none()
        && verb.bytes().all(|b| b.is_ascii_lowercase())
        && verb.len() > 2;
    let knows_field =
        spec.resources.iter().any(|resource| resource.fields.iter().any(|field| field.name == *verb));
    // "create" and "write" are words of requests too, unless one thing does it to another.
    let is_frame = words::is_frame(verb) && (from == to || made(&infinitive(verb)).is_none());
    is_verb && !knows_field && !is_frame && act(spec, &from, verb, &to)
}

fn is_holding(verb: &str) -> bool {
    matches!(verb, "contain" | "contains" | "include" | "includes")
}

/// What some do with others is a resource of its own, which refers to both.
fn act(spec: &mut Spec, from: &str, verb: &str, to: &str) -> bool {
    let holds = is_holding(verb);
    let verb = infinitive(verb);
    let relation = Relation { from: from.to_owned(), verb: verb.clone(), to: to.to_owned() };
    if spec.relations.contains(&relation) {
        return true;
    }
    if let Some(made) = made(&verb).filter(|_| from != to) {
        return link(spec, to, from, &made, true);
    }
    if holds && let Some(holder) = spec.resource(from) {
        let list = words::plural(to);
        holder.fields.retain(|field| field.name != list);
    }
    // "borrow" makes a good name for a thing, "stored" and "contain" don't.
    let is_name = !holds && !verb.ends_with("ed") && !verb.contains(' ') && verb.len() > 2;
    let of_both = format!("{from}_{to}");
    let is_told = |known: &Relation| known.from == from && known.to == to;
    let is_taken = spec.knows(&of_both).is_some() && spec.relations.iter().any(is_told);
    let name = match is_name {
        true => verb.clone(),
        // What was sent, and what was received.
        false if is_taken => format!("{}_{of_both}", verb.split(' ').next().unwrap_or_default()),
        false => of_both,
    };
    if let Some(known) = spec.knows(&name) {
        spec.assume(format!(
            "\"{} {verb} {}\" is not told apart from what else is known of {}",
            words::spoken(&words::plural(from)),
            words::spoken(&words::plural(to)),
            words::a(&words::spoken(&known))
        ));
    } else if let Some(event) = spec.resource(&name) {
        event.add(reference(from));
        let other = reference(to);
        let name = if from == to { format!("other_{}", other.name) } else { other.name.clone() };
        event.add(Field { name, ..other });
        let path = event.path.clone();
        spec.assume(format!(
            "\"{} {verb} {}\" is kept as {path}, each with {} and {}",
            words::spoken(&words::plural(from)),
            words::spoken(&words::plural(to)),
            words::a(&words::spoken(from)),
            words::a(&words::spoken(to))
        ));
    }
    spec.relations.push(relation);
    true
}

/// Understands what was put off until all resources are known, or says that it is not understood.
pub(super) fn settle(spec: &mut Spec) {
    let owners = spec.resources.iter_mut();
    let pending: Vec<_> =
        owners.map(|owner| (owner.name.clone(), std::mem::take(&mut owner.pending))).collect();
    for (owner, phrases) in pending {
        for phrase in phrases {
            let tie = ties::tie(&phrase, false);
            if tie.as_ref().is_some_and(|tie| keep(spec, &owner, tie)) {
                continue;
            }
            let spoken = words::a(&words::spoken(&owner));
            let said = words::shortened(&phrase, 80);
            let may_be_field = tie.as_ref().is_none_or(|tie| !tie.is_sure);
            let field = fields::read(&phrase).filter(|_| may_be_field);
            match field.zip(spec.resource(&owner)) {
                Some((field, owner)) => {
                    let name = field.name.clone();
                    owner.add(field);
                    spec.assume(match fields::is_wordy(&phrase) {
                        true => format!("{said:?} of {spoken} is taken for a field: {name}"),
                        false => format!("of {said:?}, {spoken} has {name}; the rest is left out"),
                    });
                }
                None => spec.assume(format!("{said:?} of {spoken} is not understood and left out")),
            }
        }
    }
}

/// As much of a deed as a reference, which may stand beside others to the same kind of thing.
const ASSIGNED: &str = "assigned to";

/// Gives what is said of `from` a place in the plan, if there is one.
fn keep(spec: &mut Spec, from: &str, tie: &Tie) -> bool {
    let target: Vec<String> = tie.target.iter().filter(|word| !is_stop(word)).cloned().collect();
    let known = (0..target.len()).find_map(|at| {
        let of_two = target.get(at..at + 2).and_then(|two| spec.recognises(&two.join(" ")));
        of_two.or_else(|| spec.recognises(&target[at]))
    });
    let Some(name) = words::snake(&target[..target.len().min(2)].join(" ")) else { return false };
    let first_word = tie.verb.trim_start_matches("is ").split(' ').next().unwrap_or_default();
    let (verb, to) = match (tie.sort, known) {
        (Sort::Owner, known) => match known.or_else(|| Some(spec.resource(&name)?.name.clone())) {
            Some(to) => ("belongs to", to),
            None => return told_by_name(spec, from, tie, &name),
        },
        (Sort::Other, Some(to)) if tie.verb == ASSIGNED => (ASSIGNED, to),
        (Sort::Other, Some(to)) => ("refers to", to),
        (Sort::Other, None) => return told_by_name(spec, from, tie, &name),
        (Sort::Place, Some(to)) => (tie.verb.as_str(), to),
        (Sort::Act, Some(to)) => return act(spec, from, first_word, &to),
        (Sort::Several, Some(to)) => return to != from && own_many(spec, from, &to),
        (Sort::Several, None) => {
            let list = Field { kind: Kind::List, ..fields::field(&words::plural(&singular(&name))) };
            return add(spec, from, Field { required: tie.required, ..list });
        }
        (Sort::Place | Sort::Act, None) => return false,
    };
    match tie.deed(&MAKES).filter(|_| tie.many) {
        Some(deed) if made(deed).is_some() && tie.may_be_one_each => {}
        Some(deed) if made(deed).is_none() => return act(spec, &to, deed, from),
        Some(_) | None if tie.many => return act(spec, from, verb, &to),
        Some(_) | None => {}
    }
    if tie.sort == Sort::Place {
        let those = words::spoken(&words::plural(from));
        spec.assume(format!("\"{those} {} {}\": each refers to one", tie.of_many(), a(&to)));
    }
    link(spec, from, &to, verb, tie.required)
}

fn a(name: &str) -> String {
    words::a(&words::spoken(name))
}

/// What is no resource is kept by its name.
fn told_by_name(spec: &mut Spec, from: &str, tie: &Tie, name: &str) -> bool {
    let field = Field { kind: Kind::String, required: tie.required, ..fields::field(&singular(name)) };
    spec.assume(format!(
        "{} is no resource of this plan: {} has a field {} with what it is called",
        words::spoken(&field.name),
        a(from),
        field.name
    ));
    add(spec, from, field)
}

fn add(spec: &mut Spec, to: &str, field: Field) -> bool {
    spec.resource(to).map(|resource| resource.add(field)).is_some()
}

fn infinitive(verb: &str) -> String {
    match verb.strip_suffix("es").or_else(|| verb.strip_suffix('s')) {
        Some(stem) if verb.ends_with("ches") || verb.ends_with("shes") || verb.ends_with("sses") => {
            stem.to_owned()
        }
        Some(_) if verb.ends_with("ss") => verb.to_owned(),
        Some(_) => verb[..verb.len() - 1].to_owned(),
        None => verb.to_owned(),
    }
}

fn reference(target: &str) -> Field {
    Field {
        name: format!("{target}_id"),
        kind: Kind::Reference,
        required: true,
        refers_to: Some(target.to_owned()),
        is_typed: false,
    }
}

/// Gives each of `owned` a reference to one of `owner`.
fn link(spec: &mut Spec, owned: &str, owner: &str, verb: &str, required: bool) -> bool {
    let relation = Relation { from: owned.to_owned(), verb: verb.to_owned(), to: owner.to_owned() };
    let is_told = |known: &&Relation| known.from == owned && known.to == owner;
    let told: Vec<String> = spec.relations.iter().filter(is_told).map(|known| known.verb.clone()).collect();
    let is_general = |verb: &str| matches!(verb, "belongs to" | "refers to");
    // Two deeds by the same kind of thing are two references; in general words it is the same one.
    if told.iter().any(|known| known == verb || is_general(known) || is_general(verb)) {
        return true;
    }
    let own_name =
        format!("{}_{owner}_id", verb.trim_start_matches("is ").split(' ').next().unwrap_or_default());
    let field = match (owned == owner, told.is_empty()) {
        // Somebody has to be the first.
        (true, _) => Field { name: format!("parent_{owner}_id"), required: false, ..reference(owner) },
        (false, true) => Field { required, ..reference(owner) },
        (false, false) => Field { name: own_name, required, ..reference(owner) },
    };
    if let Some(resource) = spec.resource(owned) {
        resource.fields.retain(|known| known.name != owner || known.is_typed);
        resource.add(field);
    }
    spec.relations.push(relation);
    true
}

/// "read-only" and "append-only" leave operations out.
pub(super) fn restrict(spec: &mut Spec, text: &str) {
    let lower = text.to_lowercase();
    let allowed: &[Operation] = if lower.contains("read-only") || lower.contains("readonly") {
        &[Operation::List, Operation::Get]
    } else if lower.contains("append-only") {
        &[Operation::List, Operation::Get, Operation::Create]
    } else if lower.contains("no delete")
        || lower.contains("without delete")
        || lower.contains("never deleted")
    {
        &[Operation::List, Operation::Get, Operation::Create, Operation::Update]
    } else {
        &Operation::ALL
    };
    for resource in &mut spec.resources {
        resource.operations.retain(|operation| allowed.contains(operation));
    }
}
