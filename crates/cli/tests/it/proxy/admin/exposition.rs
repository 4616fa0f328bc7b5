//! A strict reader of the part of the OpenMetrics text format that the proxy writes.

use std::collections::{BTreeMap, BTreeSet};

pub(in crate::proxy) type Labels = BTreeMap<String, String>;

/// The boundaries of the GenAI conventions of OpenTelemetry (semantic conventions for generative AI
/// metrics). The proxy has some of them.
const CONVENTION: [(&str, &[f64]); 6] = [
    ("gen_ai_client_operation_duration_seconds", DURATION),
    ("gen_ai_server_request_duration_seconds", DURATION),
    (
        "gen_ai_client_operation_time_to_first_chunk_seconds",
        DURATION,
    ),
    (
        "gen_ai_server_time_to_first_token_seconds",
        &[
            0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
            10.0,
        ],
    ),
    (
        "gen_ai_server_time_per_output_token_seconds",
        &[
            0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
        ],
    ),
    (
        "gen_ai_client_token_usage",
        &[
            1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0,
            4194304.0, 16777216.0, 67108864.0,
        ],
    ),
];
const DURATION: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// What `/metrics` says.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Exposition {
    /// The type of each metric, by its name.
    pub(in crate::proxy) types: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Exposition {
    /// Reads a text to its end. Panics at the first mistake.
    pub(in crate::proxy) fn read(text: &str) -> Self {
        let body = text
            .strip_suffix("# EOF\n")
            .unwrap_or_else(|| panic!("it ends without a mark: {text}"));
        let mut read = Self::default();
        let mut open = (String::new(), String::new());
        for line in body.split_terminator('\n') {
            if let Some(comment) = line.strip_prefix("# ") {
                let words: Vec<_> = comment.splitn(3, ' ').collect();
                let [word, name, rest] = words[..] else {
                    panic!("{line}")
                };
                match word {
                    "HELP" => assert!(rest.ends_with('.') && !rest.ends_with(".."), "{line}"),
                    "TYPE" => {
                        open = (name.to_owned(), rest.to_owned());
                        assert_eq!(
                            read.types.insert(name.to_owned(), rest.to_owned()),
                            None,
                            "{line}: twice"
                        );
                    }
                    "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (name, labels, value) = sample(line);
            let suffix = name
                .strip_prefix(&open.0)
                .unwrap_or_else(|| panic!("{line}: not of {}", open.0));
            let suffixes: &[&str] = match open.1.as_str() {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_sum", "_count", "_bucket"],
                other => panic!("{other}"),
            };
            assert!(suffixes.contains(&suffix), "{line}");
            assert_eq!(
                read.samples.insert((name, labels), value),
                None,
                "{line}: twice"
            );
        }
        read.check_histograms();
        read
    }

    /// Buckets only rise, and the last one has all observations.
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<(&str, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.samples {
            let Some(histogram) = name.strip_suffix("_bucket") else {
                continue;
            };
            let mut labels = labels.clone();
            let bound = labels.remove("le").unwrap();
            let bound = if bound == "+Inf" {
                f64::INFINITY
            } else {
                bound.parse().unwrap()
            };
            buckets
                .entry((histogram, labels))
                .or_default()
                .push((bound, *value));
        }
        for ((name, labels), mut buckets) in buckets {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(
                buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
                "{name}: {buckets:?}"
            );
            if let Some((_, bounds)) = CONVENTION.iter().find(|(metric, _)| *metric == name) {
                let is_known = |bound: f64| bound.is_infinite() || bounds.contains(&bound);
                assert!(
                    buckets.iter().all(|bucket| is_known(bucket.0)) && buckets.len() > 4,
                    "{name}: {buckets:?}"
                );
            }
            let (last, all) = *buckets.last().unwrap();
            assert_eq!(last, f64::INFINITY, "{name}");
            assert_eq!(
                all,
                self.samples[&(format!("{name}_count"), labels)],
                "{name}"
            );
        }
    }

    /// Returns the sum of a sample's values over all label sets that have these labels.
    pub(in crate::proxy) fn sum(&self, name: &str, with: &[(&str, &str)]) -> f64 {
        let has = |labels: &Labels| {
            with.iter()
                .all(|(key, value)| labels.get(*key).is_some_and(|own| own == value))
        };
        self.samples
            .iter()
            .filter(|((own, labels), _)| own == name && has(labels))
            .map(|(_, value)| value)
            .sum()
    }

    /// Compares the sum of samples with a line such as `name{label="value"} 1`.
    #[track_caller]
    pub(in crate::proxy) fn check(&self, line: &str) {
        let (name, labels, value) = sample(line);
        let with: Vec<_> = labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(self.sum(&name, &with), value, "{line}: {self:?}");
    }

    /// Returns the number of calls that ended with an error, or, if it is empty, without one.
    pub(in crate::proxy) fn calls(&self, error: &str) -> f64 {
        let healthy = "gen_ai_client_operation_duration_seconds_count";
        self.ended(healthy, "restitch_call_errors_total", error)
    }

    /// Returns the number of answers that ended with an error, or, if it is empty, without one.
    pub(in crate::proxy) fn answers(&self, error: &str) -> f64 {
        let healthy = "gen_ai_server_request_duration_seconds_count";
        self.ended(healthy, "restitch_answer_errors_total", error)
    }

    fn ended(&self, healthy: &str, errors: &str, error: &str) -> f64 {
        let all_errors = self.sum(healthy, &[("error_type", "_OTHER")]);
        assert_eq!(self.sum(errors, &[]), all_errors, "{errors}");
        let name = if error.is_empty() { healthy } else { errors };
        self.sum(name, &[("error_type", error)])
    }

    /// Returns the values of a label, over all samples of this name.
    pub(in crate::proxy) fn values(&self, name: &str, label: &str) -> Vec<&str> {
        let of_name = self.samples.keys().filter(|(own, _)| own == name);
        let mut values: Vec<_> = of_name
            .filter_map(|(_, labels)| labels.get(label).map(String::as_str))
            .collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Returns the label's values whose count is above zero.
    pub(in crate::proxy) fn counted(&self, name: &str, label: &str) -> Vec<&str> {
        let is_counted = |value: &&str| self.sum(name, &[(label, *value)]) > 0.0;
        self.values(name, label)
            .into_iter()
            .filter(is_counted)
            .collect()
    }

    /// Adds the metrics of another proxy that this one lacks.
    pub(in crate::proxy) fn add(&mut self, other: Self) {
        self.types.extend(other.types);
        self.samples.extend(other.samples);
    }

    /// Returns the names of the labels of a metric's samples, except the bound of a bucket.
    pub(in crate::proxy) fn labels_of(&self, family: &str) -> BTreeSet<&str> {
        let is_of = |name: &str| {
            ["", "_total", "_bucket", "_sum", "_count"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix) == Some(family))
        };
        let samples = self.samples.keys().filter(|(name, _)| is_of(name));
        let labels = samples.flat_map(|(_, labels)| labels.keys().map(String::as_str));
        labels.filter(|label| *label != "le").collect()
    }
}

/// Reads a line such as `name{label="value"} 1`.
fn sample(line: &str) -> (String, Labels, f64) {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((label, value)) = rest.split_once("=\"") {
            assert!(is_name(label), "{line}");
            let (text, after) = quoted(value);
            assert_eq!(labels.insert(label.to_owned(), text), None, "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
            if after.starts_with('}') {
                break;
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("{line}"));
    }
    let value = rest.strip_prefix(' ').and_then(|value| value.parse().ok());
    (
        name.to_owned(),
        labels,
        value.unwrap_or_else(|| panic!("{line}")),
    )
}

/// Reads a label's value up to its closing quote. Returns the rest, too.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                other => panic!("no such escape: {other:?} in {text}"),
            },
            letter => value.push(letter),
        }
    }
    panic!("no end: {text}")
}

#[test]
fn the_reader_refuses_what_is_wrong() {
    let wrong = |text: &str| std::panic::catch_unwind(|| Exposition::read(text)).is_err();
    let head = "# HELP a B.\n# TYPE a counter\n";
    assert!(!wrong(&format!(
        "{head}a_total{{x=\"\\\"\\n\\\\\",y=\"\"}} 1\n# EOF\n"
    )));
    for samples in [
        "a 1\n",
        "b_total 1\n",
        "a_total\n",
        "a_total{x=\"a\"b\"} 1\n",
        "a_total{x=\"a\nb\"} 1\n",
        "a_total{x=\"\\t\"} 1\n",
        "a_total{x=\"1\",x=\"2\"} 1\n",
        "a_total{} 1\na_total{} 1\n",
        "\n",
    ] {
        assert!(wrong(&format!("{head}{samples}# EOF\n")), "{samples}");
    }
    assert!(wrong(head));
}
