//! `check`, `inspect` and `stitch` read the same text and must agree on whether it is whole.

use restitch::session::{Status, stitch};
use restitch::splice::Expect;
use restitch::{AllowedRoots, Document, Limits, SyntaxErrorKind};
use restitch_cli::check::check;

use restitch_testing::Rng;
use restitch_testing::rows::Rows;
use restitch_testing::tree::Tree;

/// The verdict of `check` on a text. It ignores text after the root that does not touch the root,
/// because the others read only a later root in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Whole,
    Cut,
    Wrong,
}

fn checked(text: &str) -> Verdict {
    let checked = check(text.as_bytes());
    match checked.error {
        Some(SyntaxErrorKind::TrailingText(_)) => {
            if touches(text, checked.offset) {
                Verdict::Wrong
            } else {
                Verdict::Whole
            }
        }
        Some(_) => Verdict::Wrong,
        None if checked.complete => Verdict::Whole,
        None => Verdict::Cut,
    }
}

/// Whether the text at `offset`, after the root, touches the root and is illegal there.
fn touches(text: &str, offset: usize) -> bool {
    let (root, after) = text.split_at(offset);
    if root.ends_with([' ', '\n', '\t', '\r']) {
        return false;
    }
    let is_scalar = !root.starts_with(['{', '[']);
    let next = after.strip_prefix(',').map(str::trim_start);
    is_scalar
        || next.is_some_and(|next| next.starts_with(['{', '[', '"']))
        || after.starts_with(|c: char| {
            matches!(c, '{' | '[' | '}' | ']' | '"' | ':') || c.is_ascii_digit()
        })
}

/// Returns whether a text is whole, and its JSON. `inspect` does the same with it.
fn closed(text: &str) -> (Verdict, String) {
    let mut document = Document::with_roots(Limits::default().parser.max_depth, AllowedRoots::Any);
    // Prose is not cut JSON: `- 1` begins a list.
    let is_wrong = document.push(text).is_err() || document.is_prose();
    let is_whole = !is_wrong && (document.finish().is_ok() || document.is_complete());
    let verdict = if is_whole {
        Verdict::Whole
    } else if is_wrong {
        Verdict::Wrong
    } else {
        Verdict::Cut
    };
    (verdict, document.complete().unwrap_or_default())
}

/// Whether the text after the root decides: `inspect` may choose an object or an array there, and a
/// reference (`[1]`) is prose if more prose follows.
fn is_decided_later(text: &str) -> bool {
    let checked = check(text.as_bytes());
    if !matches!(checked.error, Some(SyntaxErrorKind::TrailingText(_))) {
        return false;
    }
    let (root, after) = text.split_at(checked.offset);
    let is_scalar = !root.trim_start().starts_with(['{', '[']);
    let number = root.trim().trim_matches(['[', ']']);
    let is_reference = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty();
    (is_scalar || !touches(text, checked.offset)) && (is_reference || after.contains(['{', '[']))
}

fn agree(text: &str) -> Verdict {
    let (close, json) = closed(text);
    let verdict = if is_decided_later(text) {
        close
    } else {
        checked(text)
    };
    assert_eq!(close, verdict, "{text:?}");
    let stitched = stitch([text], Expect::Any, &Limits::default());
    assert_eq!(stitched.json, json, "{text:?}");
    assert_eq!(
        stitched.status == Status::Complete,
        verdict == Verdict::Whole,
        "{text:?}"
    );
    assert_eq!(
        stitched.status == Status::Closed,
        verdict == Verdict::Cut && !json.is_empty(),
        "{text:?}"
    );
    verdict
}

#[test]
fn check_inspect_and_stitch_agree() {
    const BYTES: [&str; 24] = [
        "0", "1", "-", ".", "e", "+", "\"", "\\", "u", "d83d", "{", "}", "[", "]", ",", ":", " ",
        "\n", "t", "true", "null", "é", "😀", "x",
    ];
    let mut rng = Rng::new(15);
    let mut seen = [0; 3];
    let mut rows = Rows::of("texts of three commands");
    for _ in 0..20_000 {
        let depth = rng.below(4);
        let mut text = Tree::random(&mut rng, depth)
            .write(&mut rng)
            .trim_start()
            .to_owned();
        for _ in 0..rng.below(4) {
            let at = rng.below(text.len() + 1);
            let at = (0..=at)
                .rev()
                .find(|&at| text.is_char_boundary(at))
                .unwrap();
            match rng.below(3) {
                0 => text.truncate(at),
                1 => text.insert_str(at, rng.pick(&BYTES)),
                _ if at < text.len() => drop(text.remove(at)),
                _ => {}
            }
        }
        if !rows.runs_next() {
            continue;
        }
        // `check` knows no envelope: the text begins with its root.
        if text.starts_with([
            '{', '[', '"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9',
        ]) {
            seen[agree(&text) as usize] += 1;
        }
    }
    let least = rows.share(500);
    assert!(seen.iter().all(|&count| count > least), "{seen:?}");
}
