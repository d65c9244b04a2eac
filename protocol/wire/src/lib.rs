//! What a brain, its node and other agents say to each other: one type for each thing, with its JSON. No rules, no I/O.
//!
//! Modules, in reading order: `ids`, `time` and `amount` (values that are parsed once), `artifact`, `question`, `task` (what is
//! to be done), `answer` (what comes back), `usage`, `line` (what a brain writes), `context` (what was
//! done before), `prompt` (what it reads).

macro_rules! schema_of_text {
    ($name:ident) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}
pub(crate) use schema_of_text;

pub mod amount;
pub mod ids;
pub mod time;

pub mod answer;
pub mod artifact;
pub mod context;
pub mod entry;
pub mod line;
pub mod prompt;
pub mod question;
pub mod task;
pub mod usage;

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_true(value: &bool) -> bool {
    *value
}
