//! The list of metrics, and their text in the OpenMetrics format, which Prometheus reads.

use prometheus_client::{
    encoding::text,
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::{self, Registry},
};

/// A metric's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    Counter,
    Gauge,
    /// Latencies, in seconds, or numbers of tokens.
    Histogram,
}

impl MetricType {
    /// Its name in the format.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! metrics {
    ($($name:ident = $text:literal, $kind:ident, $label:literal, $help:literal;)*) => {
        /// A metric of `GET /metrics`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric { $($name,)* }

        impl Metric {
            /// All of them.
            pub const ALL: &'static [Metric] = &[$(Metric::$name,)*];

            /// Name, type, label (empty if it has none) and help text.
            pub fn describe(self) -> (&'static str, MetricType, &'static str, &'static str) {
                match self { $(Self::$name => ($text, MetricType::$kind, $label, $help),)* }
            }
        }
    };
}

metrics! {
    Accepted = "mesh_messages_accepted_total", Counter, "type", "Messages taken by agents of this process";
    Duplicates = "mesh_messages_duplicate_total", Counter, "", "Messages that had been taken before";
    Refused = "mesh_messages_refused_total", Counter, "reason", "Messages that agents of this process refused";
    HttpRefused = "mesh_http_refused_total", Counter, "reason", "HTTP requests of any kind that were refused, also those that no agent saw";
    Ended = "mesh_tasks_ended_total", Counter, "state", "Tasks that ended at agents of this process";
    Running = "mesh_tasks_running", Gauge, "", "Tasks that agents of this process are doing";
    Conversations = "mesh_conversations_open", Gauge, "pattern", "Conversations that go on";
    Steps = "mesh_steps_total", Counter, "", "Steps of conversations that became durable";
    Commit = "mesh_step_commit_seconds", Histogram, "", "From deciding a step to its being durable";
    Think = "mesh_think_seconds", Histogram, "", "From a question to a brain to its answer, waiting for a free place included";
    ModelTokens = "gen_ai_client_token_usage", Histogram, "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, gen_ai_token_type, agent, capability", "Tokens of a call of a model: read (input) or written (output)";
    CallSeconds = "gen_ai_client_operation_duration_seconds", Histogram, "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, error_type, agent, capability", "Calls of models (chat) and of tools (execute_tool)";
    ModelCost = "mesh_model_cost_total", Counter, "gen_ai_request_model, agent, capability", "Cost of calls of models whose price is known, in the unit of the mesh";
    UnpricedTokens = "mesh_model_unpriced_tokens_total", Counter, "gen_ai_request_model, agent, capability", "Tokens of calls of models whose price is unknown";
    Thinking = "mesh_thinking", Gauge, "", "Turns being thought";
    Panics = "mesh_rule_panics_total", Counter, "", "Rules that panicked; each ended its conversation";
    OutboxWaiting = "mesh_outbox_waiting", Gauge, "", "Messages on their way";
    Attempts = "mesh_outbox_attempts_total", Counter, "outcome", "Tries to deliver a message";
    GivenUp = "mesh_outbox_given_up_total", Counter, "reason", "Messages that were given up; those that matter became dead letters";
    Rounds = "mesh_auction_rounds_total", Counter, "", "Calls for proposals";
    BidsHeard = "mesh_auction_bids_heard_total", Counter, "", "Bids that managers of this process heard";
    Awards = "mesh_auction_awards_total", Counter, "", "Awards that managers of this process made";
    BidsMade = "mesh_auction_bids_made_total", Counter, "", "Bids that agents of this process made";
    Swept = "mesh_retention_removed_total", Counter, "kind", "What was kept long enough and let go of";
    Connections = "mesh_connections_open", Gauge, "credential", "Open connections of callers with a credential (yes) and without (no)";
    ConnectionsClosed = "mesh_connections_closed_total", Counter, "reason", "Connections that a limit closed: new ones at once (limit), idle ones in favour of a new one (idle)";
    SpansExported = "mesh_spans_exported_total", Counter, "", "Spans that the backend took";
    SpansDropped = "mesh_spans_dropped_total", Counter, "reason", "Spans that were lost: too many waited (full), the backend did not take them (failed), or took only others of their batch (rejected)";
    SpansCut = "mesh_spans_cut_total", Counter, "", "Spans whose attributes were cut because the backend found them too large";
    SpansWaiting = "mesh_spans_waiting", Gauge, "", "Spans on their way";
    StoreBytes = "mesh_store_bytes", Gauge, "", "Bytes of the store's files";
    StoreWaiting = "mesh_store_queue_waiting", Gauge, "", "Commits that wait for the store's writer";
    BoardSignals = "mesh_board_signals_total", Counter, "outcome", "Signals that came to the board";
    BoardSubscribers = "mesh_board_subscribers", Gauge, "", "Readers that follow the board";
    BoardClaims = "mesh_board_claims_total", Counter, "outcome", "What came of claims on open tasks";
    BoardHeld = "mesh_board_claims_held", Gauge, "", "Claims on open tasks that are held";
    RegistryAgents = "mesh_registry_agents", Gauge, "state", "Agents the registry of this process knows";
}

/// The metrics of one answer to `GET /metrics`.
#[derive(Default)]
pub struct MetricsPage(Registry);

type MetricLabel = [(&'static str, String); 1];

impl MetricsPage {
    /// Adds a metric that counts for itself.
    pub fn add(&mut self, metric: Metric, value: impl registry::Metric) {
        let (name, _, _, help) = metric.describe();
        // The encoder appends `_total` to the names of counters.
        self.0.register(name.trim_end_matches("_total"), help, value);
    }

    /// Adds a counter or gauge with a label: its value for each value of the label.
    pub fn family(&mut self, metric: Metric, values: impl IntoIterator<Item = (impl Into<String>, u64)>) {
        let (_, kind, label, _) = metric.describe();
        let values = values.into_iter().map(|(value, count)| ([(label, value.into())], count));
        if kind == MetricType::Counter {
            let family = Family::<MetricLabel, Counter>::default();
            for (label, count) in values {
                family.get_or_create(&label).inc_by(count);
            }
            self.add(metric, family);
        } else {
            let family = Family::<MetricLabel, Gauge>::default();
            for (label, count) in values {
                family.get_or_create(&label).set(gauge(count));
            }
            self.add(metric, family);
        }
    }

    /// Adds a counter or gauge without a label.
    pub fn one(&mut self, metric: Metric, count: u64) {
        match metric.describe().1 == MetricType::Counter {
            true => self.add(metric, ConstCounter::new(count)),
            false => self.add(metric, ConstGauge::new(gauge(count))),
        }
    }

    /// The text.
    pub fn text(self) -> String {
        let mut text = String::new();
        // Writing to a `String` does not fail.
        let _ = text::encode(&mut text, &self.0);
        text
    }
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::meters::Meters;
    use protocol::task::TaskState;

    #[test]
    fn samples_have_the_names_of_the_list() {
        let meters = Meters::default();
        for seconds in [0.0001, 0.00025, 0.000251, 4.0] {
            meters.commit.observe(seconds);
        }
        meters.end(TaskState::Completed);
        let mut page = MetricsPage::default();
        page.add(Metric::Commit, meters.commit.clone());
        page.add(Metric::Ended, meters.ended.clone());
        page.family(Metric::RegistryAgents, [("alive", 2)]);
        page.family(Metric::Swept, [("records", 3)]);
        page.one(Metric::Steps, 4);
        page.one(Metric::Thinking, 5);
        let text = page.text();
        for line in [
            "mesh_step_commit_seconds_bucket{le=\"0.00025\"} 2",
            "mesh_step_commit_seconds_bucket{le=\"0.0005\"} 3",
            "mesh_step_commit_seconds_bucket{le=\"+Inf\"} 4",
            "mesh_step_commit_seconds_count 4",
            "mesh_tasks_ended_total{state=\"completed\"} 1",
            "mesh_tasks_ended_total{state=\"failed\"} 0",
            "mesh_registry_agents{state=\"alive\"} 2",
            "mesh_retention_removed_total{kind=\"records\"} 3",
            "mesh_steps_total 4",
            "mesh_thinking 5",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in {text}");
        }
    }

    #[test]
    fn names_are_unique_and_say_their_unit() {
        let names: std::collections::BTreeSet<_> =
            Metric::ALL.iter().map(|metric| metric.describe().0).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            let (name, kind, _, _) = metric.describe();
            assert_eq!(name.ends_with("_total"), kind == MetricType::Counter, "{name}");
            let is_tokens = *metric == Metric::ModelTokens;
            assert_eq!(name.ends_with("_seconds"), kind == MetricType::Histogram && !is_tokens, "{name}");
        }
    }
}
