//! Seams over sockets: documents that are cut anywhere and continued in every style.
//!
//! A client gets the document's value, or an error. It must never get another value that the proxy
//! reports as complete; where a style makes such a value undetectable, the test counts the case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use restitch::Limits;
use restitch_sim::style::{ContinuationStyle, Cut, Group, write};
use restitch_sim::{Server, Sim};
use serde_json::{Value, json};

use super::{Answer, DOCUMENT, ask, request};
use crate::proxy::made::TestProxy;
use restitch_testing::Rng;
use restitch_testing::rows::Rows;

/// How a combination ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The document's value, reported as complete.
    Right,
    /// Reported as closed, and everything that is there is the document's.
    Closed,
    /// Reported as closed, but the text has something in a wrong place. The server would not
    /// continue from there; a model might have done so, up to an end that nothing tells from the
    /// right one.
    Damaged,
    /// Another value, which is not reported.
    Wrong,
}

/// A document, and a proxy in front of a server that answers with it.
struct Scene {
    text: String,
    truth: Value,
    sim: Server,
    proxy: restitch_proxy::Server,
}

/// A conversation's parameters.
#[derive(Clone, Copy, Debug)]
struct Combination {
    scene: usize,
    style: ContinuationStyle,
    cut: usize,
}

/// Returns documents that are hard to join: similar rows, tables, long texts, nesting.
fn documents() -> Vec<String> {
    let mut rng = Rng::new(41);
    let words = [
        "night",
        "the rain",
        "fell",
        "in torrents",
        "é",
        "occasional",
        "intervals",
        "wind",
        "and \"so\" on",
        "a/b",
    ];
    let mut text = |count: usize| {
        let picked: Vec<&str> = (0..count).map(|_| rng.pick(&words)).collect();
        Value::from(picked.join(" "))
    };
    let rows: Vec<Value> =
        (0..8).map(|n| json!({"id": 100 + n, "name": text(3), "tags": [text(1), text(1)], "ok": n % 3 == 0})).collect();
    let table: Vec<Value> = (0..12)
        .map(|n| json!([n, f64::from(n) / 4.0, n % 2 == 0, null, text(1)]))
        .collect();
    let sections: Vec<Value> = (0..3)
        .map(|n| json!({"type": "section", "title": text(2), "body": text(20), "items": [{"n": n, "t": text(2)}, {"n": n + 1, "t": text(4)}]}))
        .collect();
    let tree = json!({"a": {"b": {"c": [{"d": text(3), "e": [[1, 2], [3, 44]]}, {"d": text(2), "e": []}], "f": -1.5e-3}}, "g": text(6)});
    let values = [
        json!({"kind": "rows", "rows": rows}),
        json!(table),
        json!({"sections": sections, "done": true}),
        tree,
    ];
    let mut documents = vec![DOCUMENT.to_owned()];
    for value in values {
        documents.push(value.to_string());
        documents.push(serde_json::to_string_pretty(&value).unwrap());
    }
    documents
}

impl Scene {
    async fn new(text: String) -> Self {
        let truth = serde_json::from_str(&text).unwrap();
        let sim = Sim::new(text.clone(), "answer".parse().unwrap())
            .bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        let upstream = sim.url();
        let limits = Limits::default().with_max_backoff(Duration::ZERO);
        let proxy = TestProxy::new(upstream)
            .limits(limits)
            .bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        Self {
            text,
            truth,
            sim,
            proxy,
        }
    }

    /// Judges the answer as a client does, by the text and the report alone.
    fn judge(&self, answer: &Answer) -> Verdict {
        let value: Option<Value> = serde_json::from_str(&answer.text()).ok();
        let report = answer.report();
        match report["status"].as_str() {
            Some("complete") if value.as_ref() == Some(&self.truth) => Verdict::Right,
            Some("closed") if report["synthesized"].is_array() => match value {
                Some(value) if is_cut_short(&value, &self.truth) => Verdict::Closed,
                Some(_) => Verdict::Damaged,
                None => Verdict::Wrong,
            },
            _ => Verdict::Wrong,
        }
    }
}

/// Returns whether all of `part` is in `whole` at the same place, perhaps cut short; a `null` may
/// be synthesized.
fn is_cut_short(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Null, _) | (Value::Number(_), Value::Number(_)) => true,
        (Value::String(part), Value::String(whole)) => whole.starts_with(part.as_str()),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() <= whole.len()
                && part
                    .iter()
                    .zip(whole)
                    .all(|(part, whole)| is_cut_short(part, whole))
        }
        (Value::Object(part), Value::Object(whole)) => part.iter().all(|(key, part)| {
            whole
                .get(key)
                .is_some_and(|whole| is_cut_short(part, whole))
        }),
        _ => part == whole,
    }
}

/// Returns every style in turn, each at a cut where it applies. The anchor is not known here, so a
/// style may not apply at the server's cut because its fragment equals the anchored one.
fn combinations(scenes: &[Scene], count: usize) -> Vec<Combination> {
    let mut rng = Rng::new(17);
    let mut chosen = Vec::new();
    for &style in ContinuationStyle::ALL.iter().cycle().take(count) {
        let found = (0..400).find_map(|_| {
            let scene = rng.below(scenes.len());
            let document = scenes[scene].text.as_str();
            let cut = 1 + rng.below(document.len() - 1);
            let anchor =
                (cut.saturating_sub(40)..=cut).find(|&at| document.is_char_boundary(at))?;
            let near = Cut {
                document,
                offset: cut,
                anchor,
                mark: None,
            };
            write(style, &near, 0).map(|_| Combination { scene, style, cut })
        });
        chosen.push(found.unwrap_or_else(|| panic!("{style:?} applies nowhere")));
    }
    chosen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_style_gives_the_document_or_says_that_it_does_not() {
    let mut scenes = Vec::new();
    for text in documents() {
        scenes.push(Scene::new(text).await);
    }
    let scenes = Arc::new(scenes);
    let rounds = if Rows::of("seams over sockets").is_whole() {
        8
    } else {
        1
    };
    let count = rounds * ContinuationStyle::ALL.len();
    let combinations = Arc::new(combinations(&scenes, count));
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..LANES {
        let (scenes, combinations) = (Arc::clone(&scenes), Arc::clone(&combinations));
        lanes.spawn(async move {
            let mut seen = Vec::new();
            for (n, &combination) in combinations.iter().enumerate().skip(lane).step_by(LANES) {
                let Combination { scene, style, cut } = combination;
                let scene = &scenes[scene];
                let prompt = format!(
                    "{n} [[script: answer@{cut}!length | {} anchor]]",
                    style.name()
                );
                let answer = ask(&scene.proxy.url(), &request(true, &prompt)).await;
                assert!(answer.whole && answer.status == 200, "{combination:?}");
                seen.push((combination, scene.judge(&answer), answer.text()));
            }
            seen
        });
    }
    let mut table: BTreeMap<ContinuationStyle, [usize; 4]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (combination, verdict, text) in lanes.join_all().await.into_iter().flatten() {
        table.entry(combination.style).or_default()[verdict as usize] += 1;
        if verdict == Verdict::Wrong {
            wrong.push((combination, text));
        }
    }

    let is_open = |style: ContinuationStyle| {
        matches!(
            style.group(),
            Group::Rest | Group::Noise | Group::EarlyEnd | Group::Recorded
        )
    };
    let is_gated = |style: ContinuationStyle| {
        !is_open(style) && NOT_YET.iter().all(|(not_yet, _)| *not_yet != style)
    };

    // The server followed the script: each style answered its first continuations.
    let calls: Vec<_> = scenes.iter().flat_map(|scene| scene.sim.calls()).collect();
    let steps: Vec<String> = calls
        .iter()
        .filter_map(|call| call.step)
        .map(|step| step.to_string())
        .collect();
    println!(
        "{:24} {:>7} {:>7} {:>7} {:>7}",
        "style", "right", "closed", "damaged", "wrong"
    );
    for (style, row) in &table {
        let [right, closed, damaged, wrong] = row;
        let note = match NOT_YET.iter().find(|(not_yet, _)| not_yet == style) {
            Some((_, reason)) => reason,
            None if !is_gated(*style) && *wrong > 0 => "counted, not asserted",
            None => "",
        };
        println!(
            "{:24} {right:7} {closed:7} {damaged:7} {wrong:7}  {note}",
            style.name()
        );
        let asked = steps.iter().filter(|step| **step == style.name()).count();
        assert!(asked >= row.iter().sum(), "{style:?}");
    }
    let sum = |place: usize| table.values().map(|row| row[place]).sum::<usize>();
    let refused = calls
        .iter()
        .filter(|call| call.status.is_some_and(|status| status == 422))
        .count();
    println!(
        "{:24} {:7} {:7} {:7} {:7}",
        "all",
        sum(0),
        sum(1),
        sum(2),
        sum(3)
    );
    println!("{} calls, {refused} of them refused", calls.len());

    wrong.sort_by_key(|(combination, _)| {
        (
            is_gated(combination.style),
            combination.style,
            combination.cut,
        )
    });
    for (Combination { scene, style, cut }, text) in &wrong {
        let document = &scenes[*scene].text;
        let same = document
            .bytes()
            .zip(text.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let shown = |text: &str| {
            String::from_utf8_lossy(&text.as_bytes()[same..text.len().min(same + 60)]).into_owned()
        };
        let (got, due) = (shown(text), shown(document));
        println!(
            "wrong: {} in document {scene} cut at {cut}: at {same} {got:?} instead of {due:?}",
            style.name()
        );
    }
    let gated: Vec<_> = wrong
        .iter()
        .map(|(combination, _)| combination)
        .filter(|one| is_gated(one.style))
        .collect();
    assert!(gated.is_empty(), "wrong, and nobody says so: {gated:?}");
}

/// Conversations at a time.
const LANES: usize = 4;

/// Styles that still give another value without a report at one of these cuts, and why. They are
/// printed and not asserted.
const NOT_YET: &[(ContinuationStyle, &str)] = &[(
    ContinuationStyle::HalfAnchor,
    "not yet: behind `{`, half of the anchor reads as an empty object and what follows it",
)];
