//! What an API is to be: resources, their fields, how they relate. Read from prose, lists, YAML or JSON.

mod cut;
mod fields;
mod relations;
mod structured;
mod text;
mod ties;

pub(super) use structured::from_value;
pub(super) use text::from_text;

use super::words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// More than this is not one API.
pub(super) const MAX_RESOURCES: usize = 24;
/// More than this is not one resource.
pub(super) const MAX_FIELDS: usize = 30;

/// More than this is nothing that anybody reads.
pub(super) const MAX_ASSUMPTIONS: usize = 100;

/// An API to be built: the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) title: String,
    pub(super) resources: Vec<Resource>,
    pub(super) relations: Vec<Relation>,
    /// What was not said and had to be decided.
    pub(super) assumptions: Vec<String>,
    /// Resources for which there was no room.
    #[serde(skip)]
    pub(super) crowded_out: BTreeSet<String>,
}

/// One kind of thing that the API keeps. Names are in snake case, one of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) fields: Vec<Field>,
    pub(super) operations: Vec<Operation>,
    /// What was said of it that is understood only when all resources are known, if at all.
    #[serde(skip)]
    pending: Vec<String>,
    /// Fields for which there was no room.
    #[serde(skip)]
    crowded_out: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Field {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// The resource whose id it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refers_to: Option<String>,
    /// Whether the type was said and not guessed; what is in a plan is.
    #[serde(skip)]
    is_typed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    String,
    Integer,
    Decimal,
    Boolean,
    Date,
    Email,
    Url,
    List,
    Reference,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Decimal => "decimal",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Email => "email",
            Self::Url => "url",
            Self::List => "list of strings",
            Self::Reference => "reference",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Operation {
    List,
    Get,
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) const ALL: [Self; 5] = [Self::List, Self::Get, Self::Create, Self::Update, Self::Delete];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Relation {
    pub(super) from: String,
    pub(super) verb: String,
    pub(super) to: String,
}

impl Resource {
    pub(super) fn new(name: &str) -> Self {
        let name = words::singular(name);
        let path = format!("/{}", words::plural(&name).replace('_', "-"));
        let operations = Operation::ALL.to_vec();
        Self { name, path, fields: Vec::new(), operations, pending: Vec::new(), crowded_out: 0 }
    }

    pub(super) fn can(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Adds `field` unless it is there, is the id, which every resource has, or is one too many.
    pub(super) fn add(&mut self, field: Field) {
        let is_id =
            field.name == "id" || field.name == format!("{}_id", self.name) && field.refers_to.is_none();
        if is_id || self.fields.iter().any(|known| known.name == field.name) {
            return;
        }
        if self.fields.len() < MAX_FIELDS {
            self.fields.push(field);
        } else {
            self.crowded_out += 1;
        }
    }

    /// Takes in what `phrase` says of it.
    fn hear(&mut self, phrase: &str) {
        let field = fields::read(phrase).filter(|_| ties::tie(phrase, false).is_none());
        if field.is_none() || fields::says_more(phrase) || fields::is_wordy(phrase) {
            self.pending.push(phrase.to_owned());
        }
        if let Some(field) = field {
            self.add(field);
        }
    }
}

impl Spec {
    /// The resource of that name, made if there is room.
    fn resource(&mut self, name: &str) -> Option<&mut Resource> {
        let name = words::singular(&words::snake(name)?);
        let at = match self.resources.iter().position(|resource| resource.name == name) {
            Some(at) => at,
            None if self.resources.len() < MAX_RESOURCES => {
                self.resources.push(Resource::new(&name));
                self.resources.len() - 1
            }
            None => {
                self.crowded_out.insert(name);
                return None;
            }
        };
        self.resources.get_mut(at)
    }

    /// The resource of that name, or the only one whose name ends with it.
    fn recognises(&self, word: &str) -> Option<String> {
        let tail = || Some(format!("_{}", words::singular(&words::snake(word)?)));
        let ends = |tail: String| {
            let mut those = self.resources.iter().filter(|resource| resource.name.ends_with(&tail));
            those.next().filter(|_| those.next().is_none()).map(|resource| resource.name.clone())
        };
        self.knows(word).or_else(|| ends(tail()?))
    }

    fn knows(&self, word: &str) -> Option<String> {
        let name = words::singular(&words::snake(word)?);
        self.resources.iter().find(|resource| resource.name == name).map(|resource| resource.name.clone())
    }

    fn assume(&mut self, what: String) {
        if self.assumptions.len() == MAX_ASSUMPTIONS {
            self.assumptions.push("there is more that is not said here: make the text shorter".to_owned());
        }
        if self.assumptions.len() < MAX_ASSUMPTIONS && !self.assumptions.contains(&what) {
            self.assumptions.push(what);
        }
    }

    /// Says what was left out for want of room.
    fn own_up(&mut self) {
        let lost: Vec<String> = self.crowded_out.iter().map(|name| words::spoken(name)).collect();
        if !lost.is_empty() {
            let named = words::shortened(&words::listed(&lost), 200);
            self.assumptions.push(format!(
                "a plan has at most {MAX_RESOURCES} resources; {} left out: {named}",
                if lost.len() == 1 { "1 is".to_owned() } else { format!("{} are", lost.len()) }
            ));
        }
        let full: Vec<_> =
            self.resources.iter().filter(|resource| resource.crowded_out > 0).cloned().collect();
        for Resource { name, crowded_out, .. } in full {
            let name = words::a(&words::spoken(&name));
            self.assumptions
                .push(format!("{name} has at most {MAX_FIELDS} fields; {crowded_out} more are left out"));
        }
    }

    /// Fills in what every API needs and nobody says.
    fn completed(mut self) -> Self {
        relations::settle(&mut self);
        self.own_up();
        if self.title.is_empty() {
            self.title = self.resources.first().map(|first| words::spoken(&first.name)).unwrap_or_default();
        }
        let names: Vec<String> = self.resources.iter().map(|resource| resource.name.clone()).collect();
        let mut noted = Vec::new();
        for resource in &mut self.resources {
            for field in &mut resource.fields {
                fields::refer(field, &names);
                field.is_typed = false;
                let one = words::singular(&field.name);
                if field.kind == Kind::List && one != resource.name && names.contains(&one) {
                    let (list, owner) =
                        (words::spoken(&field.name), words::a(&words::spoken(&resource.name)));
                    let what = format!("the {list} of {owner} are kept as texts, not as references");
                    noted.push(what);
                }
            }
            if resource.fields.is_empty() {
                resource.add(fields::field("name"));
                let spoken = words::spoken(&resource.name);
                noted.push(format!("nothing was said about the fields of {spoken}: it has a name"));
            }
        }
        noted.into_iter().for_each(|what| self.assume(what));
        self
    }

    /// `books, members and loans`.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> =
            self.resources.iter().map(|resource| words::spoken(&words::plural(&resource.name))).collect();
        words::listed(&names)
    }
}

#[cfg(test)]
mod tests;
