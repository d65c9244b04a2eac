//! Which traces are recorded, by the standard's samplers (`OTEL_TRACES_SAMPLER`).

/// What decides whether a trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// The same for every trace, whatever the caller says.
    Always(Root),
    /// What the caller has decided; for a trace that begins here, this.
    ParentBased(Root),
}

/// What decides where nobody has decided before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Root {
    /// Every trace.
    On,
    /// None.
    Off,
    /// This share of all traces: 0 to 1.
    Ratio(f64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self::ParentBased(Root::On)
    }
}

/// The samplers there are, by their names in the standard.
pub const NAMES: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

impl Sampler {
    /// The sampler of that name; `arg` is the share for those that take one.
    pub fn parse(name: &str, arg: Option<&str>) -> Result<Self, String> {
        let ratio = || match arg.map(str::parse::<f64>) {
            None => Ok(Root::Ratio(1.0)),
            Some(Ok(share)) if (0.0..=1.0).contains(&share) => Ok(Root::Ratio(share)),
            Some(_) => Err(format!(
                "OTEL_TRACES_SAMPLER_ARG is {:?}: a share from 0 to 1 is wanted, such as 0.25",
                arg.unwrap_or_default()
            )),
        };
        let root = match name.trim_start_matches("parentbased_") {
            "always_on" => Root::On,
            "always_off" => Root::Off,
            "traceidratio" => ratio()?,
            _ => return Err(format!("OTEL_TRACES_SAMPLER is {name:?}: use one of {}", NAMES.join(", "))),
        };
        Ok(if name.starts_with("parentbased_") { Self::ParentBased(root) } else { Self::Always(root) })
    }

    /// Whether `trace` is recorded; `parent` is what the caller has decided, if there is one.
    pub fn decide(self, parent: Option<bool>, trace: u128) -> bool {
        match (self, parent) {
            (Self::ParentBased(_), Some(sampled)) => sampled,
            (Self::ParentBased(root) | Self::Always(root), _) => root.takes(trace),
        }
    }
}

impl Root {
    fn takes(self, trace: u128) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Ratio(share) if share >= 1.0 => true,
            // The lower 63 bits, as every SDK does it: all nodes decide alike.
            Self::Ratio(share) => {
                let low = (trace & u128::from(u64::MAX)) as u64 >> 1;
                low < (share * (1u64 << 63) as f64) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_decision_is_honoured_unless_everything_is_asked_for() {
        let all = Sampler::parse("parentbased_always_on", None).unwrap();
        assert_eq!(all, Sampler::default());
        assert!(all.decide(None, 1) && all.decide(Some(true), 1) && !all.decide(Some(false), 1));
        assert!(Sampler::parse("always_on", None).unwrap().decide(Some(false), 1));
        assert!(!Sampler::parse("parentbased_always_off", None).unwrap().decide(None, 1));
    }

    #[test]
    fn a_share_of_the_traces_is_recorded_and_every_node_takes_the_same() {
        let quarter = Sampler::parse("parentbased_traceidratio", Some("0.25")).unwrap();
        let agent = protocol::ids::AgentId::parse("a").unwrap();
        let traces = (0..4_000).map(|number| {
            let id = protocol::ids::ConversationId::parse(&format!("c-{number}")).unwrap();
            protocol::trace::trace_begun_by(&agent, &id)
        });
        let taken = traces.filter(|trace| quarter.decide(None, *trace)).count();
        assert!((850..1_150).contains(&taken), "{taken} of 4000");
    }

    #[test]
    fn what_is_no_sampler_is_named() {
        assert!(Sampler::parse("jaeger_remote", None).unwrap_err().contains("parentbased_always_on"));
        assert!(Sampler::parse("traceidratio", Some("2")).unwrap_err().contains("OTEL_TRACES_SAMPLER_ARG"));
    }
}
