//! `google.protobuf`'s own messages as JSON.

use super::Member;
use chrono::{DateTime, SecondsFormat};
use prost_types::{Struct, Timestamp, Value as Any, value::Kind};
use protocol::a2a::json::Invalid;
use serde_json::{Map, Number, Value};

/// Beyond this, a double does not tell whole numbers apart.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// A `Struct` as a member.
pub(super) fn structure(name: &'static str, of: Option<Struct>) -> Result<Member, Invalid> {
    let read = of.map(members).transpose();
    Ok((name, read.map_err(|invalid| invalid.under(name))?.map(Value::Object)))
}

fn members(of: Struct) -> Result<Map<String, Value>, Invalid> {
    let member = |(name, value): (String, Any)| match json(value) {
        Ok(value) => Ok((name, value)),
        Err(invalid) => Err(invalid.under(&name)),
    };
    of.fields.into_iter().map(member).collect()
}

/// A `Value` as it is.
pub(super) fn json(value: Any) -> Result<Value, Invalid> {
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::NumberValue(number)) => Value::Number(whole_or_not(number)?),
        Some(Kind::StructValue(inner)) => Value::Object(members(inner)?),
        Some(Kind::ListValue(items)) => {
            let item = |(at, value)| json(value).map_err(|invalid| invalid.under(&format!("[{at}]")));
            let items: Result<_, _> = items.values.into_iter().enumerate().map(item).collect();
            Value::Array(items?)
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
fn whole_or_not(number: f64) -> Result<Number, Invalid> {
    if number.fract() == 0.0 && number.abs() <= WHOLE {
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| Invalid::new("", format!("must be a finite number, is {number}")))
}

/// A `Timestamp` as a member.
pub(super) fn timestamp(name: &'static str, of: Option<Timestamp>) -> Result<Member, Invalid> {
    let written = of.map(|Timestamp { seconds, nanos }| {
        let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
        let time = nanos.and_then(|nanos| DateTime::from_timestamp(seconds, nanos));
        let time = time.filter(|_| (-62_135_596_800..=253_402_300_799).contains(&seconds));
        let time = time.ok_or_else(|| Invalid::new(name, "is no time of the years 1 to 9999"))?;
        Ok::<_, Invalid>(Value::String(time.to_rfc3339_opts(SecondsFormat::Nanos, true)))
    });
    Ok((name, written.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_where_they_are() {
        let read = |number| json(Any { kind: Some(Kind::NumberValue(number)) });
        assert_eq!(read(42.0).unwrap().to_string(), "42");
        assert_eq!(read(-0.5).unwrap().to_string(), "-0.5");
        assert_eq!(read(1e300).unwrap().as_f64(), Some(1e300));
        for number in [f64::NAN, f64::INFINITY] {
            assert!(read(number).is_err(), "{number}");
        }
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        let read = |seconds, nanos| timestamp("t", Some(Timestamp { seconds, nanos }));
        assert_eq!(read(0, 1).unwrap().1.unwrap(), "1970-01-01T00:00:00.000000001Z");
        for (seconds, nanos) in [(0, -1), (0, 1_000_000_000), (i64::MAX, 0), (253_402_300_800, 0)] {
            assert_eq!(read(seconds, nanos).unwrap_err().field, "t", "{seconds} {nanos}");
        }
    }
}
