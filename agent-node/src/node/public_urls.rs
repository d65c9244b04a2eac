//! Under which public URL clients reach each agent of a process.

use super::NodeSetup;
use crate::{http::edge::PublicUrls, public_url::PublicUrl};
use anyhow::Context as _;
use std::collections::BTreeMap;

/// Gives each agent of `setup` without a public URL of its own that of the process: as it is if there is one agent, else the one
/// below it with the agent's id. Returns all of them. Fails if two agents have the same one.
pub(super) fn give(setup: &mut NodeSetup) -> anyhow::Result<PublicUrls> {
    let of_process = setup.advertise.public_url.clone();
    let are_several = setup.agents.len() > 1;
    let mut of_agents = BTreeMap::new();
    for spec in &mut setup.agents {
        let policy = &mut spec.settings.a2a;
        let own = policy.public_url.as_deref().map(str::parse::<PublicUrl>).transpose();
        let own = own.map_err(anyhow::Error::msg).with_context(|| format!("a2a.publicUrl of {}", spec.id))?;
        let shared =
            of_process.as_ref().map(|url| if are_several { url.of_agent(&spec.id) } else { url.clone() });
        let Some(url) = own.or(shared) else { continue };
        policy.public_url = Some(url.as_str().to_owned());
        if let Some((_, other)) = of_agents.insert(url.as_str().to_owned(), (url, spec.id.clone())) {
            let public = policy.public_url.as_deref().unwrap_or_default();
            anyhow::bail!(
                "{other} and {} have the same public URL, {public}: give each a path of its own",
                spec.id
            );
        }
    }
    Ok(PublicUrls::new(of_process, of_agents.into_values()))
}
