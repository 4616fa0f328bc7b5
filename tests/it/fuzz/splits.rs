//! Two chunkings of one text give the same events, the same error and the same report.

use restitch::AllowedRoots;
use restitch::{Document, SyntaxError, Trailing};

use crate::reference::Log;
use crate::support::{Rng, text_cuts, view};

/// Makes a document with options from an input's own bytes.
pub(crate) fn document(rng: &mut Rng) -> Document {
    let depth = if rng.below(4) == 0 { rng.below(6) } else { 1024 };
    let roots = if rng.below(2) == 0 { AllowedRoots::Containers } else { AllowedRoots::Any };
    let trailing = [Trailing::Stop, Trailing::Error, Trailing::Next, Trailing::Block][rng.below(4)];
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
    for end in cuts.iter().copied().filter(|&cut| cut > from).chain([text.len()]) {
        document.push_with(&text[at..end], log)?;
        at = end;
    }
    Ok(())
}

pub(crate) fn check(input: &[u8]) {
    let mut rng = Rng::of(input);
    let text = String::from_utf8_lossy(input);
    let fresh = document(&mut rng);
    let bytewise: Vec<usize> = (1..text.len()).filter(|&at| text.is_char_boundary(at)).collect();
    let mut first = None;
    for cuts in [Vec::new(), bytewise, text_cuts(&text, &mut rng), text_cuts(&text, &mut rng)] {
        let (mut document, mut log) = (fresh.clone(), Log::default());
        let error = push_from(&mut document, &text, 0, &cuts, &mut log).err();
        let place = error.map(|error| document.explain(&error));
        let before = view(&document);
        let end = document.finish_with(&mut log).err();
        let mut again = Log::default();
        document.replay(&mut again);
        assert_eq!(again, log, "a replay gives the same events: {text:?}");
        // An excerpt shows the text of the push after the error, which is all that depends on the chunks.
        let place = place.map(|place| (place.offset, place.line, place.column, place.path));
        let seen = (log, error, place, before, end, view(&document));
        match &first {
            None => first = Some(seen),
            Some(first) => assert_eq!(&seen, first, "cut at {cuts:?}: {text:?}"),
        }
    }
}
