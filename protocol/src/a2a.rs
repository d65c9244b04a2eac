//! A2A v1.0 as translation: its words as types, strict ProtoJSON in and out (A2A §5.5–5.7), its errors, its routes.
//! Servers and clients both use it.
//!
//! Reading accepts camelCase and the original snake_case names, enums by name or number, `null` as unset, both base64
//! alphabets and numeric texts for integers; unknown members are ignored. It refuses wrong types, unknown names of an
//! enum, a member given twice, two members of a oneof, and required members that are missing.
#![warn(clippy::wildcard_enum_match_arm, reason = "a translation names every case")]

pub mod json;

pub mod error;
pub mod version;

pub mod message;
pub mod part;

pub mod event;
pub mod push;
pub mod task;

pub mod card;
pub mod security;

pub mod card_signature;
pub mod jcs;

pub mod agent_policy;
pub mod hitl;
pub mod limits;
pub mod request;
pub mod route;

pub mod v03;

pub mod card_validation;
pub mod credential;
pub mod interaction;
pub mod remote_task;
