//! How many of the spans that a backend took it has rejected all the same: OTLP's `partial_success`, which the exporter of
//! the SDK reads and keeps to itself.

/// `ExportTraceServiceResponse.partial_success.rejected_spans` (OTLP 1.0): the first member of the first member.
pub(super) fn rejected(answer: &[u8]) -> Option<u64> {
    member(answer, 1)?.1.and_then(|partial| member(partial, 1))?.0
}

/// A member of a protobuf message: its number, or its bytes.
fn member(mut message: &[u8], wanted: u64) -> Option<(Option<u64>, Option<&[u8]>)> {
    while !message.is_empty() {
        let tag = number(&mut message)?;
        let found = match tag & 7 {
            0 => (Some(number(&mut message)?), None),
            2 => {
                let length = usize::try_from(number(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                (None, Some(bytes))
            }
            _ => return None,
        };
        if tag >> 3 == wanted {
            return Some(found);
        }
    }
    None
}

/// The number that `bytes` begin with, seven bits a byte.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use proptest::prelude::*;
    use prost::Message as _;

    #[test]
    fn what_was_rejected_is_read_from_the_answer() {
        for (rejected_spans, error_message) in [(0, ""), (1, "why"), (300, ""), (0, "a warning")] {
            let partial =
                ExportTracePartialSuccess { rejected_spans, error_message: error_message.to_owned() };
            let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
            assert_eq!(rejected(&answer).unwrap_or_default(), u64::try_from(rejected_spans).unwrap());
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(answer in proptest::collection::vec(any::<u8>(), 0..40)) {
            rejected(&answer);
        }
    }
}
