//! A file of one YAML document that is read elsewhere: its value, and faults with the lines of its keys.

use super::{ConfigFault, yaml};
use crate::text_file;
use serde_json::Value;
use std::path::Path;

pub(crate) struct Document {
    file: String,
    node: yaml::YamlNode,
}

impl Document {
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigFault> {
        let file = path.display().to_string();
        let text = text_file::read(path).map_err(|error| ConfigFault::of_file(path, error.to_string()))?;
        let mut documents = yaml::documents(&text).map_err(|error| ConfigFault {
            file: file.clone(),
            line: error.line,
            key: String::new(),
            what: error.what,
        })?;
        match (documents.pop(), documents.len()) {
            (Some(node), 0) => Ok(Self { file, node }),
            (None, _) => Err(ConfigFault::of_file(path, "is empty")),
            (Some(_), more) => {
                Err(ConfigFault::of_file(path, format!("has {} documents; one is wanted", more + 1)))
            }
        }
    }

    pub(crate) fn value(&self) -> Value {
        self.node.to_json()
    }

    /// The keys of the map at `name`, in the order of the file.
    pub(crate) fn keys(&self, name: &str) -> Vec<String> {
        let Some(yaml::YamlValue::Map(members)) = self.node.get(name).map(|node| &node.value) else {
            return Vec::new();
        };
        members.iter().map(|(key, ..)| key.clone()).collect()
    }

    /// A fault of the value at `key`, with the line of it or of what it is missing in.
    pub(crate) fn fault(&self, key: &str, what: &str) -> ConfigFault {
        ConfigFault {
            file: self.file.clone(),
            line: self.node.line_at(key).filter(|_| !key.is_empty()),
            key: key.to_owned(),
            what: what.to_owned(),
        }
    }
}
