//! How resources relate ("members borrow books", "each comment belongs to a post") and what may be done with them.

use super::{Field, Kind, MAX_RESOURCES, Operation, Relation, Resource, Spec};
use crate::demo::words::{self, is_stop, singular, words};

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

/// Verbs that say whose a thing is.
const MAKES: [&str; 11] =
    ["place", "create", "write", "own", "post", "submit", "make", "add", "publish", "upload", "author"];

/// Finds the relations that `clauses` tell of and gives each what it takes to keep them.
pub(super) fn read(spec: &mut Spec, clauses: &[String]) {
    for clause in clauses {
        let said = words(clause);
        for at in 0..said.len() {
            belongs(spec, &said, at);
            has_many(spec, &said, at);
            acts(spec, &said, at);
        }
    }
}

fn belongs(spec: &mut Spec, said: &[String], at: usize) {
    let is_it =
        matches!(said[at].as_str(), "belongs" | "belong") && said.get(at + 1).is_some_and(|to| to == "to");
    let owner = said.iter().skip(at + 2).find(|word| !is_stop(word));
    let (Some(owned), Some(owner), true) = (said[..at].last(), owner, is_it) else { return };
    let (owned, owner) = (singular(owned), singular(owner));
    if is_stop(&owned) || spec.resource(&owner).is_none() || spec.resource(&owned).is_none() {
        return;
    }
    link(spec, &owned, &owner, "belongs to");
}

/// "a user has many posts"; "posts have comments" when both are resources.
fn has_many(spec: &mut Spec, said: &[String], at: usize) {
    if !matches!(said[at].as_str(), "has" | "have") || at == 0 {
        return;
    }
    let Some(owner) = spec.knows(&said[at - 1]) else { return };
    let owned =
        said.iter().skip(at + 1).take(3).find(|word| spec.knows(word).is_some() && words::is_plural(word));
    let Some(owned) = owned.and_then(|word| spec.knows(word)).filter(|owned| *owned != owner) else { return };
    let list = words::plural(&owned);
    if let Some(resource) = spec.resource(&owner) {
        resource.fields.retain(|field| field.name != list && field.name != format!("many_{list}"));
    }
    link(spec, &owned, &owner, "belongs to");
}

/// "members borrow books": a resource of its own, which refers to both.
fn acts(spec: &mut Spec, said: &[String], at: usize) {
    let Some(from) = spec.knows(&said[at]) else { return };
    let mut rest = said.iter().skip(at + 1).filter(|word| !is_stop(word));
    let (Some(verb), Some(to)) = (rest.next(), rest.next()) else { return };
    let holds = matches!(verb.as_str(), "contain" | "contains" | "include" | "includes");
    let Some(to) = spec.knows(to).filter(|to| *to != from) else { return };
    let is_verb = (holds || !NO_VERBS.contains(&verb.as_str()))
        && !verb.starts_with("belong")
        && spec.knows(verb).is_none()
        && verb.bytes().all(|b| b.is_ascii_lowercase())
        && verb.len() > 2;
    let knows_field =
        spec.resources.iter().any(|resource| resource.fields.iter().any(|field| field.name == *verb));
    if !is_verb || knows_field || words::is_frame(verb) {
        return;
    }
    let verb = infinitive(verb);
    let relation = Relation { from: from.clone(), verb: verb.clone(), to: to.clone() };
    if spec.relations.contains(&relation) {
        return;
    }
    if MAKES.contains(&verb.as_str()) {
        link(spec, &to, &from, "belongs to");
        return;
    }
    if holds && let Some(holder) = spec.resource(&from) {
        let list = words::plural(&to);
        holder.fields.retain(|field| field.name != list);
    }
    // "borrow" makes a good name for a thing, "stored" and "contain" don't.
    let name = if holds || verb.ends_with("ed") { format!("{from}_{to}") } else { verb.clone() };
    if spec.resources.len() < MAX_RESOURCES && spec.knows(&name).is_none() {
        let mut event = Resource::new(&name);
        event.add(reference(&from));
        event.add(reference(&to));
        spec.assumptions.push(format!(
            "\"{} {verb} {}\" is kept as {}, each with {} and {}",
            words::spoken(&words::plural(&from)),
            words::spoken(&words::plural(&to)),
            event.path,
            words::a(&words::spoken(&from)),
            words::a(&words::spoken(&to))
        ));
        spec.resources.push(event);
    }
    spec.relations.push(relation);
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
    }
}

fn link(spec: &mut Spec, owned: &str, owner: &str, verb: &str) {
    let relation = Relation { from: owned.to_owned(), verb: verb.to_owned(), to: owner.to_owned() };
    if owned == owner || spec.relations.contains(&relation) {
        return;
    }
    if let Some(resource) = spec.resource(owned) {
        resource.fields.retain(|field| field.name != owner);
        resource.add(reference(owner));
    }
    spec.relations.push(relation);
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
