//! The filters of tasks on the command line: those of the console and of `GET /a2a/tasks`.

use super::{
    endpoints::AgentEndpoint,
    exit::{CliError, Exit},
    parsing::in_one_line,
    past_time::past_time,
};
use crate::tasks::search::TaskSearch;
use clap::{Args, CommandFactory as _, Parser, builder::PossibleValuesParser};
use console::views::tasks::state_words;
use protocol::{ids::AgentId, time::WallTime};

/// Which tasks are meant. What is absent selects all.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct TaskFilterArgs {
    /// Only tasks in these states.
    #[arg(long, value_parser = PossibleValuesParser::new(state_words()))]
    state: Option<String>,
    /// Only tasks of this agent.
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Only tasks that ask for this capability.
    #[arg(long, value_name = "NAME")]
    capability: Option<String>,
    /// Only tasks that wait for a `person`, for a `place` (a bidder, a free place or a quota), for any `agent`, or for the agent of this id.
    #[arg(long, value_name = "WHAT")]
    waiting_for: Option<String>,
    /// Only tasks that this principal has requested, such as `user:local`; `me` is you.
    #[arg(long, value_name = "WHO")]
    requester: Option<String>,
    /// Only tasks of this space.
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Only tasks with this text in the description or the id.
    #[arg(long)]
    text: Option<String>,
    /// Only tasks that have changed since a time such as 2026-11-01T00:00:00Z, or for so long as 2h.
    #[arg(long, value_name = "TIME", value_parser = past_time)]
    since: Option<WallTime>,
    /// Only tasks that have not changed after this time, or for so long.
    #[arg(long, value_name = "TIME", value_parser = past_time)]
    until: Option<WallTime>,
    /// Only tasks that have cost so much or more.
    #[arg(long, value_name = "COST")]
    min_cost: Option<f64>,
}

impl TaskFilterArgs {
    /// The filters of terms such as `state=open`, whose names are those of the flags.
    pub(super) fn of_terms(terms: &[String]) -> Result<Self, CliError> {
        #[derive(Parser)]
        struct FilterTerms {
            #[command(flatten)]
            filter: TaskFilterArgs,
        }
        let invalid = |why: String| CliError::new(Exit::Usage, format!("--where: {why}"));
        let command = FilterTerms::command();
        let names: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_long()).collect();
        for term in terms {
            match term.split_once('=') {
                None => return Err(invalid(format!("{term:?} is no filter; one like state=open is wanted"))),
                Some((name, _)) if !names.contains(&name) => {
                    let names = names.join(", ");
                    return Err(invalid(format!("{name:?} is no filter; one of {names} is wanted")));
                }
                Some(_) => {}
            }
        }
        let words = terms.iter().map(|term| format!("--{term}"));
        let parsed = FilterTerms::try_parse_from(std::iter::once("mesh".to_owned()).chain(words));
        Ok(parsed.map_err(|error| invalid(in_one_line(&error.render().to_string())))?.filter)
    }

    /// The query of `GET /a2a/tasks`, for at most `limit` tasks.
    pub(super) fn search(&self, limit: usize) -> TaskSearch {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        TaskSearch {
            state: text(&self.state),
            capability: text(&self.capability),
            waiting_for: text(&self.waiting_for),
            requester: text(&self.requester),
            space: text(&self.space),
            text: text(&self.text),
            since: self.since.map(|since| since.to_string()).unwrap_or_default(),
            until: self.until.map(|until| until.to_string()).unwrap_or_default(),
            min_cost: self.min_cost.map(|cost| cost.to_string()).unwrap_or_default(),
            ..TaskSearch::newest(limit)
        }
    }

    /// The agents that are asked.
    pub(super) fn select(&self, mut endpoints: Vec<AgentEndpoint>) -> Vec<AgentEndpoint> {
        endpoints.retain(|endpoint| self.agent.as_ref().is_none_or(|agent| *agent == endpoint.agent));
        endpoints
    }

    /// Whether nothing is left out.
    pub(super) fn selects_all(&self) -> bool {
        self.agent.is_none() && self.search(0).selects_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_the_flags_of_the_list() {
        let terms = ["state=open", "text=a = b", "min-cost=0.5", "waiting-for=person"].map(str::to_owned);
        let search = TaskFilterArgs::of_terms(&terms).unwrap().search(7);
        let expected = TaskSearch {
            state: "open".to_owned(),
            text: "a = b".to_owned(),
            min_cost: "0.5".to_owned(),
            waiting_for: "person".to_owned(),
            ..TaskSearch::newest(7)
        };
        assert_eq!(search, expected);
        let names =
            "agent, capability, waiting-for, requester, space, text, since, until, min-cost is wanted";
        for (term, named) in [
            ("open", "\"open\""),
            ("state=odd", "--state"),
            ("odd=1", "\"odd\" is no filter"),
            ("odd=1", names),
            ("help=", "one of state, "),
            ("since=soon", "--since"),
        ] {
            let failure = TaskFilterArgs::of_terms(&[term.to_owned()]).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains(named) && failure.message.lines().count() == 1, "{failure:?}");
        }
    }
}
