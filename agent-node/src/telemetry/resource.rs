//! What is said of this process in its traces and logs.

use super::capture::Capture;
use opentelemetry_sdk::Resource;
use std::collections::HashMap;

/// The resource. `OTEL_SERVICE_NAME` counts first, then `attributes` (`OTEL_RESOURCE_ATTRIBUTES`), which the SDK reads too but
/// leaves percent-encoded, then `service`.
pub(super) fn resource(service: &str, attributes: &HashMap<String, String>, capture: &Capture) -> Resource {
    let given = Resource::builder().build();
    let name = opentelemetry::Key::from_static_str("service.name");
    let is_named = given.get(&name).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let ours = Resource::builder()
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let ours = match is_named {
        true => ours.build(),
        false => ours.with_service_name(service.to_owned()).build(),
    };
    let labels = ours.iter().map(|(key, value)| {
        let is_overridden = *key == name && std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let attribute = attributes.get(key.as_str()).filter(|_| !is_overridden);
        let label = capture.label(attribute.map_or(&value.as_str(), |attribute| attribute.as_str()));
        opentelemetry::KeyValue::new(capture.label(key.as_str()), label)
    });
    Resource::builder_empty().with_attributes(labels.collect::<Vec<_>>()).build()
}
