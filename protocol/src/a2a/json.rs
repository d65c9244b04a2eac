//! ProtoJSON, read strictly (A2A §5.5): one object's members, taken by their names, and what is wrong with them.

use crate::time::WallTime;
use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Number, Value};

/// A member that breaks the rules: its path, and the rule (a `BadRequest.fieldViolation`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", before(.field))]
pub struct InvalidField {
    /// Where, as `message.parts[0].text`; empty for the whole.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

fn before(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

impl InvalidField {
    /// `problem` with `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The same, seen from the object whose member `parent` it is in.
    #[must_use]
    pub fn under(self, parent: &str) -> Self {
        let field = match self.field.as_str() {
            "" => parent.to_owned(),
            inner if inner.starts_with('[') => format!("{parent}{inner}"),
            inner => format!("{parent}.{inner}"),
        };
        Self { field, ..self }
    }
}

/// Something that ProtoJSON can hold.
pub trait FromProtoJson: Sized {
    /// What `value` holds, or which member of it breaks the rules.
    fn from_proto(value: Value) -> Result<Self, InvalidField>;
}

/// The members of one object, each taken once.
#[derive(Debug)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// The members of `value`, which must be an object.
    pub fn of(value: Value) -> Result<Self, InvalidField> {
        let is = kind(&value);
        let Value::Object(members) = value else {
            return Err(InvalidField::new("", format!("must be an object, is {is}")));
        };
        Ok(Self(members))
    }

    /// The member of this camelCase name or of its snake_case one. `null` is a value here.
    pub fn present(&mut self, name: &str) -> Result<Option<Value>, InvalidField> {
        let camel = self.0.remove(name);
        if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Ok(camel);
        }
        match (camel, self.0.remove(&snake(name))) {
            (Some(_), Some(_)) => Err(InvalidField::new(name, "is given twice, under both of its names")),
            (camel, snake) => Ok(camel.or(snake)),
        }
    }

    /// The same, with `null` as unset.
    pub fn any(&mut self, name: &str) -> Result<Option<Value>, InvalidField> {
        Ok(self.present(name)?.filter(|value| !value.is_null()))
    }

    /// A text; an empty one is unset (proto3 has no other way to say so).
    pub fn text(&mut self, name: &str) -> Result<Option<String>, InvalidField> {
        match self.any(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(other) => Err(must_be(name, "a string", &other)),
        }
    }

    /// A text that must be there.
    pub fn required_text(&mut self, name: &str) -> Result<String, InvalidField> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A boolean, if it is there.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, InvalidField> {
        match self.any(name)? {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(must_be(name, "a boolean", &other)),
        }
    }

    /// An int32: a number without a fraction, or a text that holds one.
    pub fn int32(&mut self, name: &str) -> Result<Option<i32>, InvalidField> {
        let Some(value) = self.any(name)? else { return Ok(None) };
        let number = match &value {
            Value::Number(number) => int32(number),
            Value::String(text) => text.parse::<Number>().ok().as_ref().and_then(int32),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        number.map(Some).ok_or_else(|| must_be(name, "a 32-bit integer", &value))
    }

    /// A `google.protobuf.Struct`: an object of anything; empty if unset.
    pub fn object(&mut self, name: &str) -> Result<Map<String, Value>, InvalidField> {
        match self.any(name)? {
            None => Ok(Map::new()),
            Some(Value::Object(members)) => Ok(members),
            Some(other) => Err(must_be(name, "an object", &other)),
        }
    }

    /// A list of texts; empty if unset.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, InvalidField> {
        self.list(name)
    }

    /// A list of messages; empty if unset.
    pub fn list<T: FromProtoJson>(&mut self, name: &str) -> Result<Vec<T>, InvalidField> {
        let items = match self.any(name)? {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(must_be(name, "a list", &other)),
        };
        let read = items.into_iter().enumerate().map(|(at, item)| {
            T::from_proto(item).map_err(|invalid| invalid.under(&format!("[{at}]")).under(name))
        });
        read.collect()
    }

    /// A list of at least one message.
    pub fn some<T: FromProtoJson>(&mut self, name: &str) -> Result<Vec<T>, InvalidField> {
        let list = self.list(name)?;
        if list.is_empty() {
            Err(InvalidField::new(name, "is required, with one element at least"))
        } else {
            Ok(list)
        }
    }

    /// A map from texts to messages; empty if unset.
    pub fn map<T: FromProtoJson>(
        &mut self,
        name: &str,
    ) -> Result<std::collections::BTreeMap<String, T>, InvalidField> {
        let members = self.object(name)?;
        let read = members.into_iter().map(|(key, value)| {
            let value = T::from_proto(value).map_err(|invalid| invalid.under(&key).under(name))?;
            Ok((key, value))
        });
        read.collect()
    }

    /// A message, if it is there.
    pub fn message<T: FromProtoJson>(&mut self, name: &str) -> Result<Option<T>, InvalidField> {
        self.any(name)?.map(|value| T::from_proto(value).map_err(|invalid| invalid.under(name))).transpose()
    }

    /// A message that must be there.
    pub fn required<T: FromProtoJson>(&mut self, name: &str) -> Result<T, InvalidField> {
        self.message(name)?.ok_or_else(|| missing(name))
    }

    /// A timestamp: RFC 3339 with up to nine digits of a second.
    pub fn time(&mut self, name: &str) -> Result<Option<WallTime>, InvalidField> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        WallTime::parse(&text).map(Some).map_err(|error| InvalidField::new(name, error.to_string()))
    }

    /// The first whole millisecond that is not before a timestamp.
    pub fn time_or_later(&mut self, name: &str) -> Result<Option<WallTime>, InvalidField> {
        let text = self.0.get(name).or_else(|| self.0.get(&snake(name))).and_then(Value::as_str);
        let digits = text.and_then(|text| text.split_once('.')).map(|(_, fraction)| fraction);
        let beyond = digits
            .unwrap_or_default()
            .bytes()
            .take_while(u8::is_ascii_digit)
            .skip(3)
            .any(|digit| digit != b'0');
        Ok(self.time(name)?.map(|time| WallTime(time.0.saturating_add(i64::from(beyond)))))
    }
}

impl FromProtoJson for String {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let is = kind(&value);
        let Value::String(text) = value else {
            return Err(InvalidField::new("", format!("must be a string, is {is}")));
        };
        Ok(text)
    }
}

/// The member of an enum that `value` names, by name or by number. `names` are in the order of their numbers, from 0.
pub fn choice<T: Copy>(value: &Value, names: &[(&str, T)]) -> Result<T, InvalidField> {
    let found = match value {
        Value::String(text) => names.iter().find(|(name, _)| name == text),
        Value::Number(number) => {
            int32(number).and_then(|number| usize::try_from(number).ok()).and_then(|number| names.get(number))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        InvalidField::new("", format!("must be one of {}, is {}", names.join(", "), said(value)))
    })
}

/// `text` with its bytes in standard base64 and padded, however it was written.
pub fn base64_of_any_kind(text: String) -> Result<String, InvalidField> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
    const URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);
    let is_url = text.bytes().any(|byte| byte == b'-' || byte == b'_');
    let bytes = if is_url { URL.decode(&text) } else { PLAIN.decode(&text) };
    let bytes = bytes.map_err(|error| InvalidField::new("", format!("must be base64: {error}")))?;
    Ok(PLAIN.encode(bytes))
}

/// The bytes that standard base64 stands for.
pub fn bytes_of(base64: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(base64).ok()
}

fn int32(number: &Number) -> Option<i32> {
    if let Some(integer) = number.as_i64() {
        return i32::try_from(integer).ok();
    }
    let float = number.as_f64()?;
    let fits = float.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float);
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and fits")]
    fits.then_some(float as i32)
}

fn snake(camel: &str) -> String {
    let mut snake = String::with_capacity(camel.len() + 4);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn missing(name: &str) -> InvalidField {
    InvalidField::new(name, "is required")
}

fn must_be(name: &str, what: &str, is: &Value) -> InvalidField {
    InvalidField::new(name, format!("must be {what}, is {}", said(is)))
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.chars().take(80).collect::<String>()),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
