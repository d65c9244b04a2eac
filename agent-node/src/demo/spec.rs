//! What an API is to be: resources, their fields, how they relate. Read from prose, lists, YAML or JSON.

mod cut;
mod fields;
mod relations;
mod structured;
mod text;

pub(super) use structured::from_value;
pub(super) use text::from_text;

use super::words;
use serde::{Deserialize, Serialize};

/// More than this is not one API.
pub(super) const MAX_RESOURCES: usize = 24;
/// More than this is not one resource.
pub(super) const MAX_FIELDS: usize = 30;

/// An API to be built: the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) title: String,
    pub(super) resources: Vec<Resource>,
    pub(super) relations: Vec<Relation>,
    /// What was not said and had to be decided.
    pub(super) assumptions: Vec<String>,
}

/// One kind of thing that the API keeps. Names are in snake case, one of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) fields: Vec<Field>,
    pub(super) operations: Vec<Operation>,
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
        Self { name, path, fields: Vec::new(), operations: Operation::ALL.to_vec() }
    }

    pub(super) fn can(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Adds `field` unless it is there, is the id, which every resource has, or is one too many.
    pub(super) fn add(&mut self, field: Field) {
        let is_id =
            field.name == "id" || field.name == format!("{}_id", self.name) && field.refers_to.is_none();
        if !is_id
            && self.fields.len() < MAX_FIELDS
            && self.fields.iter().all(|known| known.name != field.name)
        {
            self.fields.push(field);
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
            None => return None,
        };
        self.resources.get_mut(at)
    }

    fn knows(&self, word: &str) -> Option<String> {
        let name = words::singular(&words::snake(word)?);
        self.resources.iter().find(|resource| resource.name == name).map(|resource| resource.name.clone())
    }

    /// Fills in what every API needs and nobody says.
    fn completed(mut self) -> Self {
        if self.title.is_empty() {
            self.title = self.resources.first().map(|first| first.name.clone()).unwrap_or_default();
        }
        let names: Vec<String> = self.resources.iter().map(|resource| resource.name.clone()).collect();
        for resource in &mut self.resources {
            for field in &mut resource.fields {
                fields::refer(field, &names);
            }
            if resource.fields.is_empty() {
                resource.add(fields::field("name"));
                let spoken = words::spoken(&resource.name);
                self.assumptions
                    .push(format!("nothing was said about the fields of {spoken}: it has a name"));
            }
        }
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
