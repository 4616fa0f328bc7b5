//! Text that is not JSON: it continues after its anchor, or where it was cut; anything else is
//! rejected.

use restitch::Limits;
use restitch::internal::prose::TextSplice;
use restitch::internal::prose::stitch_text;
use restitch::session::Status;
use restitch::splice::{Alignment, Expect, Seam, SpliceError};

const PROSE: &str = "The harbour was quiet that morning. Nets hung over the rails, stiff with salt, and nobody \
    spoke.\n\nBy noon the wind had turned. “It will rain,” said the pilot; he was right, as he was most days, \
    and by evening it fell in torrents.\n";
const MARKDOWN: &str = "# Größe\n\n- eins\n- zwei: `let a = 1;`\n\n```rust\nfn main() {\n    // 漢字 😀\n    \
    println!(\"{}\", 1);\n}\n```\n\n## Ende\n\nDas war's, und mehr war nicht.";

/// What models say instead of continuing.
const REFUSALS: [&str; 4] = [
    "I'm sorry, but I can't help with that.",
    "Sure, here is the rest:\n\n",
    "As an assistant I can't continue this text.\n\nIs there anything else?",
    "```\nnothing\n```\n",
];

/// Feeds the fragment in chunks of so many bytes, which end between characters.
fn joined(
    delivered: &str,
    fragment: &str,
    expect: Expect,
    chunk: usize,
) -> (String, Result<Seam, SpliceError>) {
    let mut new = String::new();
    let mut splice = TextSplice::new(delivered, expect, &Limits::default());
    let mut rest = fragment;
    while !rest.is_empty() {
        let end = (chunk.min(rest.len())..=rest.len())
            .find(|&end| rest.is_char_boundary(end))
            .unwrap();
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        if let Err(failure) = splice.feed(delivered, piece, &mut new) {
            assert_eq!(splice.finish(&mut new), Err(failure.clone()));
            return (delivered.to_owned() + &new, Err(failure));
        }
    }
    let seam = splice.finish(&mut new);
    (delivered.to_owned() + &new, seam)
}

/// Checks the same in any chunks.
fn join(delivered: &str, fragment: &str, expect: Expect) -> (String, Result<Seam, SpliceError>) {
    let [(text, seam), b, c] =
        [1, 4, usize::MAX].map(|chunk| joined(delivered, fragment, expect, chunk));
    assert!(
        (&text, &seam) == (&b.0, &b.1) && (&text, &seam) == (&c.0, &c.1),
        "{delivered:?} + {fragment:?}"
    );
    (text, seam)
}

fn for_every_cut(mut body: impl FnMut(&str, &str, &str)) {
    for text in [PROSE, MARKDOWN] {
        for (cut, _) in text.char_indices().skip(1) {
            let anchor = TextSplice::new(&text[..cut], Expect::Anchor, &Limits::default())
                .anchor()
                .unwrap()
                .clone();
            body(text, &text[..cut], &text[anchor.range.start..]);
        }
    }
}

#[test]
fn an_anchor_is_found_behind_any_envelope() {
    for_every_cut(|text, delivered, again| {
        let fenced = format!("```text\n{again}\n```\nThat is all.");
        let has_block = text == MARKDOWN;
        let mut fragments = vec![
            again.to_owned(),
            format!(" \n\n{again}"),
            format!("Hm.\nHere it goes on:\n\n{again}"),
        ];
        fragments.push(format!("<think>\nIt ends there.\n</think>\n\n{again}"));
        if !has_block {
            fragments.extend([fenced.clone(), format!("Here it goes on:\n\n{fenced}")]);
        }
        for fragment in fragments {
            // A text of one or two letters occurs in the words of the preamble.
            if delivered.len() < 4 && !fragment.trim_start().starts_with(delivered) {
                continue;
            }
            for expect in [Expect::Anchor, Expect::Any] {
                let (joined, seam) = join(delivered, &fragment, expect);
                assert_eq!(joined, text, "{delivered:?} + {fragment:?}: {seam:?}");
                let seam = seam.unwrap();
                assert_eq!(
                    (seam.offset, seam.alignment),
                    (delivered.len(), Alignment::Anchor)
                );
                assert_eq!(seam.ambiguous, delivered.trim().len() < 16, "{delivered:?}");
            }
        }
    });
}

#[test]
fn a_text_that_begins_again_is_followed() {
    for_every_cut(|text, delivered, again| {
        let (joined, seam) = join(delivered, text, Expect::Any);
        assert_eq!(joined, text, "{delivered:?}");
        let seam = seam.unwrap();
        let is_whole = again.len() == text.len();
        assert_eq!(
            seam.alignment,
            if is_whole {
                Alignment::Anchor
            } else {
                Alignment::Restart
            },
            "{delivered:?}"
        );
        assert_eq!(seam.overlap, delivered.len());
    });
}

#[test]
fn an_exact_continuation_is_taken_from_its_first_byte_on() {
    for_every_cut(|text, delivered, _| {
        let rest = &text[delivered.len()..];
        let (joined, seam) = join(delivered, rest, Expect::Exact);
        assert_eq!(
            (joined.as_str(), seam.map(|seam| seam.alignment)),
            (text, Ok(Alignment::Exact))
        );
        let mut new = String::new();
        let mut splice = TextSplice::new(delivered, Expect::Exact, &Limits::default());
        splice.feed(delivered, "x", &mut new).unwrap();
        assert_eq!((new.as_str(), splice.pending()), ("x", 0));
    });
    assert_eq!(
        join("text", "", Expect::Exact),
        ("text".to_owned(), Err(SpliceError::Empty))
    );
}

#[test]
fn what_does_not_repeat_the_anchor_is_refused() {
    for_every_cut(|text, delivered, _| {
        for refusal in REFUSALS {
            let (joined, seam) = join(delivered, refusal, Expect::Any);
            // So does one in a refusal.
            if delivered.len() < 4 && seam.is_ok() {
                continue;
            }
            assert_eq!(
                (joined.as_str(), seam),
                (delivered, Err(SpliceError::NoAlignment)),
                "{refusal:?}"
            );
        }
        // It continues right at the cut, which nobody asked for.
        let rest = &text[delivered.len()..];
        if delivered.len() > 4 && !rest.trim().is_empty() {
            assert!(
                join(delivered, rest, Expect::Anchor).1.is_err(),
                "{delivered:?}"
            );
        }
    });
    for blank in ["", " \n\t"] {
        assert_eq!(
            join("text", blank, Expect::Any),
            ("text".to_owned(), Err(SpliceError::Empty))
        );
    }
    // In the middle of a line it is a quotation.
    let (paragraph, _) = PROSE.split_once('\n').unwrap();
    let quoted = format!("You wrote “{paragraph}” and I have nothing to add.");
    assert_eq!(
        join(paragraph, &quoted, Expect::Any).1,
        Err(SpliceError::NoAlignment)
    );
}

#[test]
fn what_brings_nothing_new_joins_nothing() {
    for_every_cut(|text, delivered, again| {
        let anchor = &again[..again.len() - (text.len() - delivered.len())];
        for fragment in [
            anchor,
            delivered,
            &format!("Here it is:\n\n{delivered}"),
            anchor.trim_end(),
        ] {
            if delivered.len() < 4 && !fragment.starts_with(delivered) {
                continue;
            }
            let (joined, seam) = join(delivered, fragment, Expect::Any);
            let alignment = seam.map(|seam| seam.alignment);
            assert_eq!(
                (joined.as_str(), alignment),
                (delivered, Ok(Alignment::Repeat)),
                "{fragment:?}"
            );
        }
    });
}

#[test]
fn a_fence_around_text_with_blocks_of_its_own() {
    let open = "Run this first, in any folder:\n\n```sh\nmake inst";
    let rest = "all\nmake check\n```\n\nThen go on.";
    let whole = format!("{open}{rest}");
    // The block is opened again.
    assert_eq!(
        join(
            open,
            &format!("```sh\n{}{rest}", &open["Run ".len()..]),
            Expect::Any
        )
        .0,
        whole
    );
    assert_eq!(
        join(
            open,
            &format!("```markdown\n{whole}\n```\nDone."),
            Expect::Any
        )
        .0,
        whole
    );
    let plain = "A text about fences and what they hold, cut";
    let fragment = format!("```\n{plain} here:\n```sh\nls\n```\nEnd.\n```");
    assert_eq!(
        join(plain, &fragment, Expect::Any).0,
        format!("{plain} here:\n```sh\nls\n```\nEnd.")
    );
}

#[test]
fn what_waits_is_bounded() {
    let limits = Limits::default().with_max_pending_bytes(100);
    let mut new = String::new();
    let mut splice = TextSplice::new(PROSE, Expect::Any, &limits);
    assert_eq!(splice.feed(PROSE, &"no ".repeat(33), &mut new), Ok(()));
    assert_eq!(splice.pending(), 99);
    assert_eq!(
        splice.feed(PROSE, "no", &mut new),
        Err(SpliceError::Pending(100))
    );
    assert_eq!((splice.pending(), new.as_str()), (0, ""));
}

#[test]
fn parts_of_a_text() {
    let check = |parts: &[&str], expect, status, text: &str, failures, seams| {
        let stitched = stitch_text(parts.iter().copied(), expect, &Limits::default());
        assert_eq!(
            (stitched.status, stitched.text.as_str()),
            (status, text),
            "{parts:?}"
        );
        assert_eq!(
            (stitched.failures, stitched.seams.len()),
            (failures, seams),
            "{parts:?}"
        );
    };
    check(
        &["One", " two", "\n"],
        Expect::Exact,
        Status::Complete,
        "One two\n",
        0,
        2,
    );
    check(
        &["One t", "One two, th", "One two, three."],
        Expect::Any,
        Status::Complete,
        "One two, three.",
        0,
        2,
    );
    check(
        &["One t", "No.", "One two."],
        Expect::Any,
        Status::Closed,
        "One two.",
        1,
        1,
    );
    check(&["", "One"], Expect::Any, Status::Closed, "One", 1, 0);
    check(&["One"], Expect::Anchor, Status::Complete, "One", 0, 0);
    check(&["", " "], Expect::Any, Status::Failed, " ", 1, 0);
    check(&[], Expect::Any, Status::Failed, "", 0, 0);
}
