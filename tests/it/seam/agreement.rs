//! Two answers that each fit in more than one place, and the only place where both fit.

use std::collections::BTreeMap;
use std::time::Duration;

use restitch::AllowedRoots;
use restitch::Limits;
use restitch::session::{CallEnd, Input, Output, Session, SessionEvent, Stitched, stitch};
use restitch::splice::{Alignment, Expect};

use super::factor;
use super::reading::read;
use super::rows::cuts_of;
use super::style::{ContinuationStyle, Cut, write};
use super::support::Rng;
use super::{documents, join};

fn stitched(parts: &[&str], expect: Expect) -> Stitched {
    stitch(parts.iter().copied(), expect, &Limits::default())
}

#[test]
fn what_two_answers_agree_in_is_joined() {
    let cut = r#"{"a": "rain fell in tor"#;
    let (one, other) = (r#"torrents", "b": 1}"#, r#"in torrents", "b": 1}"#);
    for parts in [[cut, one, other], [cut, other, one]] {
        let stitched = stitched(&parts, Expect::Any);
        assert_eq!(stitched.json, r#"{"a": "rain fell in torrents", "b": 1}"#);
        assert_eq!(stitched.failures, 1);
        let seams: Vec<_> = stitched.seams.iter().map(|seam| (seam.alignment, seam.agreed)).collect();
        assert_eq!(seams, [(Alignment::Overlap, true)]);
    }
    // One of the answers may be cut itself, and a refusal may come between them.
    let stitched = stitched(&[cut, r#"torrents", "b": 1"#, "{\"error\": 1}", other], Expect::Any);
    assert_eq!(stitched.json, r#"{"a": "rain fell in torrents", "b": 1}"#);
}

#[test]
fn one_answer_alone_decides_nothing() {
    let cut = r#"{"a": "rain fell in tor"#;
    let one = r#"torrents", "b": 1}"#;
    for again in [one, &one[..one.len() - 1], r#" torrents", "b": 1}"#] {
        let stitched = stitched(&[cut, one, again], Expect::Any);
        assert_eq!((stitched.failures, stitched.seams.len()), (2, 0), "{again}");
    }
}

#[test]
fn answers_that_differ_decide_nothing() {
    let cut = r#"{"a": "rain fell in tor"#;
    let stitched = stitched(&[cut, r#"torrents", "b": 1}"#, r#"in torrents", "b": 2}"#], Expect::Any);
    assert_eq!((stitched.failures, stitched.seams.len()), (2, 0));
}

/// Returns the text that two answers give, if they agree, and whether it is complete.
fn agreed(parts: [&str; 3], expect: Expect) -> Option<(String, bool)> {
    let mut session = Session::with(Limits::default(), expect, AllowedRoots::Any);
    for part in parts {
        session.handle_input(Duration::ZERO, Input::Text(part));
        session.handle_input(Duration::ZERO, Input::CallEnd(CallEnd::Closed));
    }
    let mut outputs = std::iter::from_fn(|| session.poll_output());
    let is_agreed =
        outputs.any(|output| matches!(output, Output::Event(SessionEvent::Joined { seam, .. }) if seam.agreed));
    is_agreed.then(|| (session.document().text().to_owned(), session.document().is_complete()))
}

/// No pair of styles is joined, because the two agree, in a place where the document does not have the text.
#[test]
fn agreement_is_never_wrong() {
    let (mut seen, mut wrong) = (BTreeMap::<_, usize>::new(), Vec::new());
    let samples = (3000..).map(documents::sample).filter(|sample| sample.text.len() < 600);
    for (seed, sample) in (3000..).zip(samples.take(100 * factor() as usize)) {
        let truth = read(&sample.text).unwrap();
        let mut rng = Rng::new(seed);
        for cut in cuts_of(&sample.text, 4, &mut rng) {
            let delivered = &sample.text[..cut];
            let place = Cut { document: &sample.text, offset: cut, anchor: join::anchor(delivered) };
            let written =
                ContinuationStyle::ALL.iter().filter_map(|&style| Some((style, write(style, &place, rng.next())?)));
            let all: Vec<(ContinuationStyle, String)> = written.collect();
            let expect = Expect::Anchor;
            // The other styles are joined, or fail for another reason: their answers are not kept.
            let how = |fragment: &str| join::join(delivered, fragment, expect, usize::MAX).how;
            let open: Vec<_> = all.iter().filter(|(_, fragment)| how(fragment) == "Ambiguous").collect();
            for ((first, one), (second, other)) in
                open.iter().flat_map(|one| open.iter().map(move |other| (one, other)))
            {
                let Some((text, is_whole)) = agreed([delivered, one, other], expect) else { continue };
                *seen.entry((first.name(), second.name())).or_default() += 1;
                let node = read(&text);
                let is_right =
                    node.is_some_and(|node| if is_whole { node.is(&truth) } else { node.may_become(&truth) });
                if !is_right {
                    wrong.push(format!(
                        "{} at {cut}, {}, {}: {text:?} + {one:?} + {other:?}",
                        sample.name,
                        first.name(),
                        second.name()
                    ));
                }
            }
        }
    }
    println!("{seen:?}");
    for row in wrong.iter().take(6) {
        println!("{row}");
    }
    assert!(seen.values().sum::<usize>() > 0);
    assert!(wrong.is_empty(), "{} wrong", wrong.len());
}
