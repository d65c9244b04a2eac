//! Header names, as constants: a lookup by text would parse the name on each request.

use actix_web::http::header::HeaderName;
use protocol::{a2a::agent_policy, address_policy, signature, trace};

pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(crate) const API_KEY: HeaderName = HeaderName::from_static(agent_policy::API_KEY_HEADER);
pub(crate) const OUTBOUND: HeaderName = HeaderName::from_static(address_policy::OUTBOUND);
/// The key of a session of the console.
pub(crate) const CONSOLE_KEY: HeaderName = HeaderName::from_static("mesh-console-key");
pub(crate) const RECIPIENT: HeaderName = HeaderName::from_static(signature::RECIPIENT);
pub(crate) const MESSAGE_ID: HeaderName = HeaderName::from_static(signature::MESSAGE_ID);
pub(crate) const CONTENT_DIGEST: HeaderName = HeaderName::from_static(signature::CONTENT_DIGEST);
pub(crate) const SIGNATURE_INPUT: HeaderName = HeaderName::from_static(signature::SIGNATURE_INPUT);
pub(crate) const SIGNATURE: HeaderName = HeaderName::from_static(signature::SIGNATURE);
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static(trace::TRACEPARENT);
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static(trace::TRACESTATE);
pub(crate) const A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");
pub(crate) const A2A_EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");
pub(crate) const V03_EXTENSIONS: HeaderName = HeaderName::from_static("x-a2a-extensions");

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::{
        v03::EXTENSIONS_HEADER,
        version::{EXTENSIONS_PARAMETER, VERSION_PARAMETER},
    };

    #[test]
    fn the_a2a_header_names_match_the_protocol() {
        for (name, expected) in [
            (A2A_VERSION, VERSION_PARAMETER),
            (A2A_EXTENSIONS, EXTENSIONS_PARAMETER),
            (V03_EXTENSIONS, EXTENSIONS_HEADER),
        ] {
            assert!(name.as_str().eq_ignore_ascii_case(expected), "{name} is not {expected}");
        }
    }
}
