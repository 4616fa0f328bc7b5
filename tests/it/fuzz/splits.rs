//! Two chunkings of one text give the same events, the same error, the same repairs and the same
//! report.

use restitch::repair::{RepairLevel, RepairOptions};
use restitch::{AllowedRoots, Document, Limits, SyntaxError, Trailing};

use crate::reference::Log;
use restitch_testing::{Rng, text_cuts, view};

/// Makes a document with options from an input's own bytes.
pub(crate) fn document(rng: &mut Rng) -> Document {
    let depth = if rng.below(4) == 0 {
        rng.below(6)
    } else {
        1024
    };
    let roots = if rng.below(2) == 0 {
        AllowedRoots::Containers
    } else {
        AllowedRoots::Any
    };
    let trailing = [
        Trailing::Stop,
        Trailing::Error,
        Trailing::Next,
        Trailing::Block,
    ][rng.below(4)];
    Document::with_options(depth, roots, trailing)
}

/// Pushes `text` from `from` on in pieces, up to an error.
pub(crate) fn push_from(
    document: &mut Document,
    text: &str,
    from: usize,
    cuts: &[usize],
    log: &mut Log,
) -> Result<(), SyntaxError> {
    let mut at = from;
    for end in cuts
        .iter()
        .copied()
        .filter(|&cut| cut > from)
        .chain([text.len()])
    {
        document.push_with(&text[at..end], log)?;
        at = end;
    }
    Ok(())
}

pub(crate) fn check(input: &[u8]) {
    let mut rng = Rng::of(input);
    let text = String::from_utf8_lossy(input);
    let fresh = document(&mut rng);
    let bytewise: Vec<usize> = (1..text.len())
        .filter(|&at| text.is_char_boundary(at))
        .collect();
    // Every other push is empty.
    let cuts = text_cuts(&text, &mut rng);
    let twice: Vec<usize> = cuts.into_iter().flat_map(|at| [at, at]).collect();
    let chunkings = [Vec::new(), bytewise, twice, text_cuts(&text, &mut rng)];
    check_chunkings(&text, &fresh, &chunkings);
    // A root that is no container ends with the byte after it, and a repair may hold that byte
    // back. In a short look-ahead guesses are decided before the text ends.
    let depth = 1 + rng.below(8);
    let limits = Limits::default().with_max_lookahead([8, 4096][rng.below(2)]);
    for trailing in [
        Trailing::Stop,
        Trailing::Error,
        Trailing::Next,
        Trailing::Block,
    ] {
        for level in RepairLevel::ALL {
            let fresh = Document::with_options(depth, AllowedRoots::Any, trailing);
            let fresh = fresh.repairing(RepairOptions::new(level).within(&limits));
            check_chunkings(&text, &fresh, &chunkings);
            if trailing == Trailing::Next {
                check_roots(&text, &fresh, &chunkings);
            }
        }
    }
}

/// Reads `text` in each chunking with a copy of `fresh`.
fn check_chunkings(text: &str, fresh: &Document, chunkings: &[Vec<usize>]) {
    let mut first = None;
    for cuts in chunkings {
        let (mut document, mut log) = (fresh.clone(), Log::default());
        let error = push_from(&mut document, text, 0, cuts, &mut log).err();
        let place = error.map(|error| document.explain(&error));
        let before = view(&document);
        let end = document.finish_with(&mut log).err();
        let mut again = Log::default();
        document.replay(&mut again);
        assert_eq!(
            again, log,
            "a replay gives the same events: {fresh:?} {text:?}"
        );
        // An excerpt shows the text of the push after the error, which is all that depends on the
        // chunks.
        let place = place.map(|place| (place.offset, place.line, place.column, place.path));
        let repairs: Vec<_> = document.repairs().cloned().collect();
        let seen = (log, error, place, before, end, view(&document), repairs);
        match &first {
            None => first = Some(seen),
            Some(first) => assert_eq!(&seen, first, "cut at {cuts:?}: {fresh:?} {text:?}"),
        }
    }
}

/// Checks that a document that forgets its roots tells the same as one that keeps them.
fn check_roots(text: &str, fresh: &Document, chunkings: &[Vec<usize>]) {
    let (mut kept, mut log) = (fresh.clone(), Log::default());
    let error = kept.push_with(text, &mut log).err();
    let _ = kept.finish_with(&mut log);
    for cuts in chunkings {
        let seen = root_by_root(fresh.clone(), text, cuts);
        assert_eq!(
            seen,
            (log.clone(), error),
            "root by root, cut at {cuts:?}: {fresh:?} {text:?}"
        );
    }
}

/// Reads `text` one root at a time, and drops each root that has ended. Returns the events and the
/// error, with offsets in all text.
fn root_by_root(mut document: Document, text: &str, cuts: &[usize]) -> (Log, Option<SyntaxError>) {
    let (mut log, mut error, mut at) = (Log::default(), None, 0);
    for end in cuts.iter().copied().chain([text.len()]) {
        while at < end && error.is_none() {
            if document.is_complete() {
                document.forget_roots();
            }
            let (base, mut of_root) = (document.base(), Log::default());
            match document.push_root_with(&text[at..end], &mut of_root) {
                Ok(taken) => at += taken,
                Err(SyntaxError { kind, offset }) => {
                    error = Some(SyntaxError {
                        kind,
                        offset: offset + base,
                    });
                }
            }
            append(&mut log, of_root, base);
        }
    }
    let (base, mut rest) = (document.base(), Log::default());
    let _ = document.finish_with(&mut rest);
    append(&mut log, rest, base);
    (log, error)
}

/// Appends events of a text that begins after `base` bytes.
fn append(log: &mut Log, events: Log, base: usize) {
    for mut told in events.0 {
        told.span = (told.span.0 + base, told.span.1 + base);
        match log
            .0
            .last_mut()
            .filter(|last| last.name == "fragment" && told.name == "fragment")
        {
            Some(last) => last.span.1 = told.span.1,
            None => log.0.push(told),
        }
    }
}
