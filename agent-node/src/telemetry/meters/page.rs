//! The text that Prometheus reads (exposition format 0.0.4), and the one list of what may stand in it.

use super::Histogram;
use std::sync::atomic::Ordering::Relaxed;

/// A metric's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Latencies, in seconds.
    Histogram,
}

impl Type {
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
        /// A metric: what `GET /metrics` may show.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each says what it is in its help text")]
        pub enum Metric { $($name,)* }

        impl Metric {
            /// All of them.
            pub const ALL: &'static [Metric] = &[$(Metric::$name,)*];

            /// Name, type, label (empty if it has none), and what it says.
            pub fn describe(self) -> (&'static str, Type, &'static str, &'static str) {
                match self { $(Self::$name => ($text, Type::$kind, $label, $help),)* }
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
    SpansExported = "mesh_spans_exported_total", Counter, "", "Spans that the backend took";
    SpansDropped = "mesh_spans_dropped_total", Counter, "reason", "Spans that were lost: too many waited (full), the backend did not take them (failed), or took only others of their batch (rejected)";
    SpansWaiting = "mesh_spans_waiting", Gauge, "", "Spans on their way";
    StoreBytes = "mesh_store_bytes", Gauge, "", "Bytes of the store's files";
    StoreWaiting = "mesh_store_queue_waiting", Gauge, "", "Commits that wait for the store's writer";
    BoardSignals = "mesh_board_signals_total", Counter, "outcome", "Signals that came to the board";
    BoardSubscribers = "mesh_board_subscribers", Gauge, "", "Readers that follow the board";
    BoardClaims = "mesh_board_claims_total", Counter, "outcome", "What came of claims on open tasks";
    BoardHeld = "mesh_board_claims_held", Gauge, "", "Claims on open tasks that are held";
    RegistryAgents = "mesh_registry_agents", Gauge, "state", "Agents the registry of this process knows";
}

/// A page that is being written. A metric without a line of its own does not stand in it.
#[derive(Default)]
pub struct Page(String);

impl Page {
    /// Metrics with a label: one line for each value.
    pub fn family(&mut self, metric: Metric, lines: impl IntoIterator<Item = (impl AsRef<str>, u64)>) {
        let label = self.head(metric);
        let name = metric.describe().0;
        for (value, count) in lines {
            self.line(&format!("{name}{{{label}=\"{}\"}} {count}", value.as_ref()));
        }
    }

    /// A metric without one.
    pub fn one(&mut self, metric: Metric, count: u64) {
        self.head(metric);
        self.line(&format!("{} {count}", metric.describe().0));
    }

    /// Latencies.
    pub fn histogram(&mut self, metric: Metric, histogram: &Histogram) {
        self.head(metric);
        let (name, mut sum) = (metric.describe().0, 0);
        for (at, count) in histogram.counts.iter().enumerate() {
            sum += count.load(Relaxed);
            let bound = histogram.bounds.get(at).map_or_else(|| "+Inf".to_owned(), |bound| seconds(*bound));
            self.line(&format!("{name}_bucket{{le=\"{bound}\"}} {sum}"));
        }
        self.line(&format!("{name}_sum {}", seconds(histogram.micros.load(Relaxed))));
        self.line(&format!("{name}_count {sum}"));
    }

    fn head(&mut self, metric: Metric) -> &'static str {
        let (name, kind, label, help) = metric.describe();
        self.line(&format!("# HELP {name} {help}\n# TYPE {name} {}", kind.word()));
        label
    }

    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// What was written.
    pub fn text(self) -> String {
        self.0
    }
}

fn seconds(micros: u64) -> String {
    format!("{}", micros as f64 / 1_000_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::meters::Meters;
    use std::time::Duration;

    #[test]
    fn latencies_are_cumulative_and_counted_once() {
        let meters = Meters::default();
        for micros in [100, 250, 251, 4_000_000] {
            meters.commit.took(Duration::from_micros(micros));
        }
        let mut page = Page::default();
        page.histogram(Metric::Commit, &meters.commit);
        let text = page.text();
        for line in [
            "_bucket{le=\"0.00025\"} 2",
            "_bucket{le=\"0.0005\"} 3",
            "_bucket{le=\"+Inf\"} 4",
            "_count 4",
            "_sum 4.000601",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
    }

    #[test]
    fn names_are_unique_and_say_their_unit() {
        let names: std::collections::BTreeSet<_> =
            Metric::ALL.iter().map(|metric| metric.describe().0).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            let (name, kind, _, _) = metric.describe();
            assert_eq!(name.ends_with("_total"), kind == Type::Counter, "{name}");
            assert_eq!(name.ends_with("_seconds"), kind == Type::Histogram, "{name}");
        }
    }
}
