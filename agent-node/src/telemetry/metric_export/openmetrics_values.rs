//! The values of a page in the OpenMetrics format as OTLP's metrics, under their names on the page. Reads what
//! [`MetricsPage`](super::super::meters::openmetrics::MetricsPage) writes: counters, gauges and histograms.

use super::attribute;
use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
        metric::Data, number_data_point::Value,
    },
};

/// The metrics of `page`, which count from `since` and were read at `now` (nanoseconds since 1970).
pub(super) fn metrics(page: &str, since: u64, now: u64) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in page.lines() {
        if let Some((_, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = text;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let unit = if name.ends_with("_seconds") { "s" } else { "" };
            let (name, description, unit) = (name.to_owned(), help.to_owned(), unit.to_owned());
            metrics.push(Metric { name, description, unit, data: data(kind), ..Metric::default() });
        } else if let Some((sample, metric)) = sample(line).zip(metrics.last_mut()) {
            add(metric, sample, since, now);
        }
    }
    metrics
}

fn data(kind: &str) -> Option<Data> {
    let cumulative = AggregationTemporality::Cumulative.into();
    match kind {
        "counter" => {
            Some(Data::Sum(Sum { is_monotonic: true, aggregation_temporality: cumulative, ..Sum::default() }))
        }
        "gauge" => Some(Data::Gauge(Gauge::default())),
        "histogram" => {
            Some(Data::Histogram(Histogram { aggregation_temporality: cumulative, ..Histogram::default() }))
        }
        _ => None,
    }
}

/// A line with a value.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, mut rest) = series.split_once('{').unwrap_or((series, "}"));
    let mut labels = Vec::new();
    while let Some((label, quoted)) = rest.split_once("=\"") {
        let (value, after) = unquoted(quoted)?;
        labels.push((label, value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(Sample { name, labels, value })
}

/// The text up to the closing quote, without its escapes, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn add(metric: &mut Metric, sample: Sample<'_>, since: u64, now: u64) {
    let limit = sample.labels.iter().find(|(name, _)| *name == "le").map(|(_, limit)| limit.clone());
    let others = sample.labels.iter().filter(|(name, _)| *name != "le");
    let attributes: Vec<_> = others.map(|(name, value)| attribute(name, value)).collect();
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.data_points.push(number(&sample, attributes, since, now)),
        Some(Data::Gauge(gauge)) => gauge.data_points.push(number(&sample, attributes, 0, now)),
        Some(Data::Histogram(histogram)) => {
            let points = &mut histogram.data_points;
            let at = points.iter().position(|point| point.attributes == attributes).unwrap_or_else(|| {
                points.push(HistogramDataPoint {
                    attributes,
                    start_time_unix_nano: since,
                    time_unix_nano: now,
                    ..HistogramDataPoint::default()
                });
                points.len() - 1
            });
            observe(&mut points[at], &sample, limit.as_deref());
        }
        _ => {}
    }
}

fn number(sample: &Sample<'_>, attributes: Vec<KeyValue>, since: u64, now: u64) -> NumberDataPoint {
    let value = match sample.value.parse() {
        Ok(whole) => Value::AsInt(whole),
        Err(_) => Value::AsDouble(sample.value.parse().unwrap_or_default()),
    };
    NumberDataPoint {
        attributes,
        start_time_unix_nano: since,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

/// Adds a line of a histogram. Buckets are in the order of their limits, and count what is below, too.
fn observe(point: &mut HistogramDataPoint, sample: &Sample<'_>, limit: Option<&str>) {
    if sample.name.ends_with("_sum") {
        point.sum = sample.value.parse().ok();
    } else if sample.name.ends_with("_count") {
        point.count = sample.value.parse().unwrap_or_default();
    } else if let Some(limit) = limit {
        let below: u64 = point.bucket_counts.iter().sum();
        let count = sample.value.parse::<u64>().unwrap_or_default();
        point.bucket_counts.push(count.saturating_sub(below));
        if let Some(limit) = limit.parse::<f64>().ok().filter(|limit| limit.is_finite()) {
            point.explicit_bounds.push(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::meters::openmetrics::MetricsPage, *};
    use crate::telemetry::meters::{Meters, openmetrics};
    use protocol::task::TaskState;

    #[test]
    fn the_values_of_a_page_become_sums_gauges_and_histograms() {
        let meters = Meters::default();
        for seconds in [0.0001, 0.0003, 4.0] {
            meters.commit.observe(seconds);
        }
        meters.end(TaskState::Completed);
        let mut page = MetricsPage::default();
        page.add(openmetrics::Metric::Commit, meters.commit.clone());
        page.add(openmetrics::Metric::Ended, meters.ended.clone());
        page.family(openmetrics::Metric::RegistryAgents, [("a \"quoted\\ one\"\n", 2)]);
        page.one(openmetrics::Metric::Thinking, 5);
        let found = metrics(&page.text(), 3, 7);
        let names: Vec<_> = found.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(
            names,
            ["mesh_step_commit_seconds", "mesh_tasks_ended", "mesh_registry_agents", "mesh_thinking"]
        );
        let Some(Data::Histogram(commit)) = &found[0].data else { panic!("{:?}", found[0]) };
        let [point] = &commit.data_points[..] else { panic!("{commit:?}") };
        assert_eq!((point.count, point.sum, found[0].unit.as_str()), (3, Some(4.0004), "s"));
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts[..2], [1, 1]);
        assert_eq!((point.bucket_counts.last(), point.start_time_unix_nano), (Some(&1), 3));
        let Some(Data::Sum(ended)) = &found[1].data else { panic!("{:?}", found[1]) };
        let completed = ended.data_points.iter().find(|point| point.value == Some(Value::AsInt(1))).unwrap();
        assert_eq!(completed.attributes, [attribute("state", "completed")]);
        assert!(ended.is_monotonic && ended.data_points.len() == 4);
        let Some(Data::Gauge(agents)) = &found[2].data else { panic!("{:?}", found[2]) };
        assert_eq!(agents.data_points[0].attributes, [attribute("state", "a \"quoted\\ one\"\n")]);
        let Some(Data::Gauge(thinking)) = &found[3].data else { panic!("{:?}", found[3]) };
        assert_eq!(
            (thinking.data_points[0].value, thinking.data_points[0].time_unix_nano),
            (Some(Value::AsInt(5)), 7)
        );
    }
}
