//! The styles in which models continue a JSON document that was cut off. Each style is a pure
//! function of the document, the cut and a seed.
//!
//! A document was cut at a byte; the text before the cut was delivered. A *fragment* is a model's
//! answer to the request for the rest. Most fragments still have all required text: a reader that
//! understands them perfectly gets a document with the same JSON value. Scripts and tables use the
//! same names.
//!
//! Knows no calls and no servers, and not how a fragment is joined.
//!
//! ```
//! use restitch_sim::style::{Cut, ContinuationStyle, write};
//!
//! let document = r#"{"s":[{"id":1,"t":"Hello world"}]}"#;
//! let cut = Cut { document, offset: 24, anchor: 15, mark: None };
//! assert_eq!(write(ContinuationStyle::Value, &cut, 7).as_deref(), Some(r#""Hello world"}]}"#));
//! assert_eq!(write(ContinuationStyle::CommaExtra, &cut, 7), None);
//! ```

mod altered;
mod early_end;
pub(super) mod index;
mod new_root;
mod noise;
mod nothing_new;
mod print;
mod random;
mod recorded;
mod restart;
pub(super) mod spell;
mod wrap;

use index::Site;
#[doc(hidden)]
pub use random::Random;
use restart::Start;

/// Where a document was cut off.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// The complete document: valid JSON.
    pub document: &'a str,
    /// How many bytes of the document were delivered: more than none, fewer than all, and only
    /// whole characters.
    pub offset: usize,
    /// Where the text begins that the request asked the model to repeat: at most `offset`, at the
    /// start of a character.
    pub anchor: usize,
    /// The text that the request asked the model to write between the anchor and the new text.
    /// Styles that repeat the anchor write the mark right after it; the others ignore it.
    pub mark: Option<&'a str>,
}

/// A group of styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Repeats the anchor as requested, perhaps with text around it.
    Anchored,
    /// Continues directly after the cut, if nothing else was requested.
    Exact,
    /// Continues after the cut or inside the anchor, although the request asked for the complete
    /// anchor.
    Unasked,
    /// Starts again at some offset before the cut, or has one comma or closer too many or too few.
    Restart,
    /// Writes a new root with the cut element and the text after it.
    NewRoot,
    /// Is mostly best answered by closing the document and reporting it.
    Rest,
    /// Repeats the anchor as requested, but not letter by letter, or with something between it and
    /// the rest.
    Noise,
    /// Closes the document before its end.
    EarlyEnd,
    /// Copies text that the model sees instead of continuing, as small models were recorded to do.
    Recorded,
}

/// Defines the enum, its list, its names and its fragments from one table.
macro_rules! styles {
    ($($(#[doc = $doc:literal])+ $style:ident = $name:literal in $group:ident => $write:expr;)+) => {
        /// One style of continuation. In the descriptions `D` is the document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ContinuationStyle {
            $($(#[doc = $doc])+ $style,)+
        }

        impl ContinuationStyle {
            /// All styles, group by group.
            pub const ALL: &'static [ContinuationStyle] = &[$(ContinuationStyle::$style,)+];

            /// Returns the name in scripts and tables, in kebab-case.
            pub fn name(self) -> &'static str {
                match self {
                    $(ContinuationStyle::$style => $name,)+
                }
            }

            fn fragment(self, site: &Site<'_>, random: &mut Random) -> Option<String> {
                let write: fn(&Site<'_>, &mut Random) -> Option<String> = match self {
                    $(ContinuationStyle::$style => $write,)+
                };
                write(site, random)
            }

            /// Returns the group of the style.
            pub fn group(self) -> Group {
                match self {
                    $(ContinuationStyle::$style => Group::$group,)+
                }
            }
        }
    };
}

styles! {
    /// The anchor and the rest: `D[anchor..]`.
    Anchor = "anchor" in Anchored => |site, _| Some(site.anchored());
    /// The same in a code fence.
    AnchorFence = "anchor-fence" in Anchored => |site, random| Some(wrap::fence(&site.anchored(), random));
    /// The same in a code fence that is never closed.
    AnchorFenceOpen = "anchor-fence-open" in Anchored => |site, random| Some(wrap::fence_open(&site.anchored(), random));
    /// The same in a code fence inside another one.
    AnchorFenceNested = "anchor-fence-nested" in Anchored => |site, _| Some(wrap::fence_nested(&site.anchored()));
    /// The same after a sentence.
    AnchorPreamble = "anchor-preamble" in Anchored => |site, random| Some(wrap::preamble(&site.anchored(), random));
    /// The same after a sentence that quotes some JSON.
    AnchorPreambleQuotes = "anchor-preamble-quotes" in Anchored => |site, random| Some(wrap::preamble_quotes(&site.anchored(), site, random));
    /// The same after a sentence and in a code fence.
    AnchorPreambleFence = "anchor-preamble-fence" in Anchored => |site, random| Some(wrap::preamble(&wrap::fence(&site.anchored(), random), random));
    /// The same, then prose with brackets and a code fence in it.
    AnchorEpilogue = "anchor-epilogue" in Anchored => |site, random| Some(wrap::epilogue(&site.anchored(), random));
    /// The same after `<think>…</think>` that has brackets, quotes and a part of the document.
    AnchorThink = "anchor-think" in Anchored => |site, random| Some(wrap::think(&site.anchored(), site, random));
    /// The same after a line `PROGRESS: 45`, in percent.
    AnchorProgress = "anchor-progress" in Anchored => |site, _| Some(wrap::progress(&site.anchored(), site));
    /// The rest alone, as requested: `D[cut..]`.
    Exact = "exact" in Exact => |site, _| Some(site.exact().to_owned());
    /// The rest alone, although the request asked for an anchor.
    ExactUnasked = "exact-unasked" in Unasked => |site, _| Some(site.exact().to_owned());
    /// The second half of the anchor, then the rest.
    HalfAnchor = "half-anchor" in Unasked => |site, _| restart::half_anchor(site);
    /// A line end, then the rest.
    Newline = "newline" in Unasked => |site, _| Some(format!("\n{}", site.exact()));
    /// The rest in a code fence.
    ExactFence = "exact-fence" in Unasked => |site, random| Some(wrap::fence(site.exact(), random));
    /// The rest after a sentence.
    ExactPreamble = "exact-preamble" in Unasked => |site, random| Some(wrap::preamble(site.exact(), random));
    /// The rest after `<think>…</think>`.
    ExactThink = "exact-think" in Unasked => |site, random| Some(wrap::think(site.exact(), site, random));
    /// From the start of the cut line.
    Line = "line" in Restart => |site, _| restart::verbatim(site, Start::Line);
    /// From the start of the cut string, number or literal; in a key, from its quote.
    Value = "value" in Restart => |site, _| restart::verbatim(site, Start::Value);
    /// From the key of the innermost member that is cut.
    Member = "member" in Restart => |site, _| restart::verbatim(site, Start::Member);
    /// From the start of the innermost array element that is cut.
    Element = "element" in Restart => |site, _| restart::verbatim(site, Start::Element);
    /// From the bracket of the innermost array that is cut; without an array, from that of the
    /// container around the innermost.
    Parent = "parent" in Restart => |site, _| restart::verbatim(site, Start::Parent);
    /// The complete document.
    Root = "root" in Restart => |site, _| restart::verbatim(site, Start::Root);
    /// As `value`, reformatted: other white space, other escapes, and another order of the members
    /// that were not delivered.
    ValueReformatted = "value-reformatted" in Restart => |site, random| restart::reformatted(site, Start::Value, random);
    /// As `member`, with the same changes.
    MemberReformatted = "member-reformatted" in Restart => |site, random| restart::reformatted(site, Start::Member, random);
    /// As `element`, reformatted, with all members of the cut element in another order.
    ElementReformatted = "element-reformatted" in Restart => |site, random| restart::reformatted(site, Start::Element, random);
    /// As `parent`, with the same changes.
    ParentReformatted = "parent-reformatted" in Restart => |site, random| restart::reformatted(site, Start::Parent, random);
    /// As `root`, with the same changes.
    RootReformatted = "root-reformatted" in Restart => |site, random| restart::reformatted(site, Start::Root, random);
    /// After a cut that follows a comma: the comma once more, then the rest.
    CommaExtra = "comma-extra" in Restart => |site, _| restart::comma_extra(site);
    /// After a cut before a comma: the rest without it. Not between two values that would become
    /// one.
    CommaMissing = "comma-missing" in Restart => |site, _| restart::comma_missing(site);
    /// As `anchor`, with too many closers.
    CloserExtra = "closer-extra" in Restart => restart::closer_extra;
    /// As `anchor`, without the last closer.
    CloserMissing = "closer-missing" in Restart => |site, _| restart::closer_missing(site);
    /// `element` in a code fence.
    ElementFence = "element-fence" in Restart => |site, random| Some(wrap::fence(&restart::verbatim(site, Start::Element)?, random));
    /// `root` in a code fence.
    RootFence = "root-fence" in Restart => |site, random| Some(wrap::fence(&restart::verbatim(site, Start::Root)?, random));
    /// `element` after a sentence.
    ElementPreamble = "element-preamble" in Restart => |site, random| Some(wrap::preamble(&restart::verbatim(site, Start::Element)?, random));
    /// `root` after a sentence.
    RootPreamble = "root-preamble" in Restart => |site, random| Some(wrap::preamble(&restart::verbatim(site, Start::Root)?, random));
    /// `root` after `<think>…</think>`.
    RootThink = "root-think" in Restart => |site, random| Some(wrap::think(&restart::verbatim(site, Start::Root)?, site, random));
    /// `root-reformatted` in a code fence.
    RootReformattedFence = "root-reformatted-fence" in Restart => |site, random| Some(wrap::fence(&restart::reformatted(site, Start::Root, random)?, random));
    /// A new root: the path to the cut element again, the complete element, the rest. Delivered
    /// values beside the path are left out. Laid out as the document is, or all in one line.
    NewRoot = "new-root" in NewRoot => new_root::element;
    /// The same reformatted, as `element-reformatted` is.
    NewRootReformatted = "new-root-reformatted" in NewRoot => new_root::reformatted;
    /// As `new-root`, with one or two complete elements before the cut one.
    NewRootLast = "new-root-last" in NewRoot => new_root::last;
    /// As `new-root`, but the cut element begins with its cut member.
    NewRootRest = "new-root-rest" in Rest => new_root::rest;
    /// As `new-root`, but it begins with the element after the cut one.
    NewRootWithout = "new-root-without" in Rest => new_root::without;
    /// The elements after the cut one, in brackets of their own, and nothing more.
    BareList = "bare-list" in Rest => |site, _| Some(format!("[{}]", new_root::bare(site, false)?));
    /// The same with the complete cut element first.
    BareListCut = "bare-list-cut" in Rest => |site, _| Some(format!("[{}]", new_root::bare(site, true)?));
    /// The elements after the cut one without brackets, and nothing more.
    Bare = "bare" in Rest => |site, _| new_root::bare(site, false);
    /// The same with the complete cut element first.
    BareCut = "bare-cut" in Rest => |site, _| new_root::bare(site, true);
    /// In a string: a quote, then the rest.
    Reopened = "reopened" in Rest => |site, _| altered::reopened(site);
    /// As `element`, but some delivered words, numbers or literals are different.
    DiffersElement = "differs-element" in Rest => |site, random| altered::differs(site, Start::Element, random);
    /// As `root`, with the same differences.
    DiffersRoot = "differs-root" in Rest => |site, random| altered::differs(site, Start::Root, random);
    /// As `value`, with the same differences.
    DiffersValue = "differs-value" in Rest => |site, random| altered::differs(site, Start::Value, random);
    /// In a string, before a space: the rest without its leading spaces.
    Trimmed = "trimmed" in Rest => |site, _| altered::trimmed(site);
    /// No text.
    Empty = "empty" in Rest => |_, _| Some(String::new());
    /// A refusal, as prose or as JSON.
    Refusal = "refusal" in Rest => |_, random| Some(nothing_new::refusal(random));
    /// The last 50 to 300 delivered bytes once more.
    SameAgain = "same-again" in Rest => nothing_new::same_again;
    /// Delivered text from the start of an element, a line or the root, up to the cut at most.
    OnlyDelivered = "only-delivered" in Rest => nothing_new::only_delivered;
    /// The delivered text, closed.
    ClosedDelivered = "closed-delivered" in Rest => |site, _| nothing_new::closed_delivered(site);
    /// The one element after the cut one, and nothing more.
    BareNext = "bare-next" in Rest => |site, _| new_root::next(site);
    /// As `anchor`, with one or two wrong, missing or extra characters in the anchor, but not in
    /// its last four.
    AnchorTypo = "anchor-typo" in Noise => noise::typo;
    /// As `anchor`, with other white space in the anchor: line ends and their indentation become
    /// one space or nothing, or commas and colons have one space after them or none.
    AnchorWhite = "anchor-white" in Noise => noise::white;
    /// As `anchor`, with curly quotes in the anchor.
    AnchorCurly = "anchor-curly" in Noise => |site, _| Some(noise::curly(site));
    /// As `anchor`, with escaped quotes and line ends of the anchor written as the characters
    /// themselves.
    AnchorUnescaped = "anchor-unescaped" in Noise => |site, _| Some(noise::unescaped(site));
    /// As `anchor`, after `...` or `…`.
    AnchorEllipsis = "anchor-ellipsis" in Noise => |site, random| Some(noise::ellipsis(site, random));
    /// As `anchor`, with a line end between the anchor and the rest.
    AnchorLineEnd = "anchor-line-end" in Noise => |site, _| Some(noise::line_end(site));
    /// The anchor twice, then the rest.
    AnchorTwice = "anchor-twice" in Noise => |site, _| Some(noise::twice(site));
    /// As `anchor`, without the first word or token of the anchor.
    AnchorWordless = "anchor-wordless" in Noise => |site, _| noise::wordless(site);
    /// As `anchor`, after a sentence that quotes the anchor or its end.
    AnchorQuoted = "anchor-quoted" in Noise => |site, random| Some(noise::quoted(site, random));
    /// The anchor alone in a code fence, then the rest.
    AnchorFenceAlone = "anchor-fence-alone" in Noise => |site, random| Some(noise::fence_alone(site, random));
    /// As `anchor`, with the request's tags around the anchor, or with one tag; all in one line.
    AnchorTagsLine = "anchor-tags-line" in Noise => |site, random| Some(noise::tags_line(site, random));
    /// The same with the tags on lines of their own.
    AnchorTagsLines = "anchor-tags-lines" in Noise => |site, _| Some(noise::tags_lines(site));
    /// Only the closers of the open string and the open containers, perhaps after the anchor.
    EarlyClose = "early-close" in EarlyEnd => early_end::close;
    /// The same after `...` or `…`.
    EarlyEllipsis = "early-ellipsis" in EarlyEnd => early_end::ellipsis;
    /// The rest up to the end of the first, second or third next element or member, then `...`
    /// instead of the next ones, then the closers of the open containers; perhaps after the anchor.
    EarlyElement = "early-element" in EarlyEnd => early_end::element;
    /// The same with a comment instead of the `...`.
    EarlyComment = "early-comment" in EarlyEnd => early_end::comment;
    /// The delivered text, the rest of the cut token or the scalar that is due, and the closers of
    /// all open containers.
    RootCopyClose = "root-copy-close" in Recorded => |site, _| recorded::root_copy_close(site);
    /// As `root`, without one delivered element or member, or with one of them twice.
    RootAltered = "root-altered" in Recorded => recorded::root_altered;
    /// The complete cut element and nothing more, perhaps in a code fence.
    ElementOnly = "element-only" in Recorded => recorded::element_only;
    /// The cut element over and over, perhaps in code fences. The answer ends inside one.
    ElementLoop = "element-loop" in Recorded => recorded::element_loop;
    /// As `root-copy-close`, without the delivered text.
    TokenClosed = "token-closed" in Recorded => |site, _| recorded::token_closed(site);
    /// As `root-copy-close`, with the anchor alone instead of the delivered text.
    AnchorClosed = "anchor-closed" in Recorded => |site, _| recorded::anchor_closed(site);
    /// Tags and sentences of the request, with the anchor in them, or before them.
    OwnWords = "own-words" in Recorded => |site, random| Some(recorded::own_words(site, random));
}

impl ContinuationStyle {
    /// Returns the style of this [name](Self::name).
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|style| style.name() == name)
    }
}

/// Returns the name of the tags that a request puts around the anchor: one whose tags the delivered
/// text does not have.
pub fn anchor_tag(delivered: &str) -> String {
    let is_taken = |name: &str| {
        delivered.contains(&format!("<{name}>")) || delivered.contains(&format!("</{name}>"))
    };
    let numbered = (2..).map(|number| format!("{ANCHOR_TAG}_{number}"));
    std::iter::once(ANCHOR_TAG.to_owned())
        .chain(numbered)
        .find(|name| !is_taken(name))
        .unwrap_or_default()
}

/// Returns the first offset from `at` on where a character begins.
pub(crate) fn ceil_char_boundary(text: &str, at: usize) -> usize {
    let offsets = at..=text.len();
    let mut starts = offsets.filter(|at| text.is_char_boundary(*at));
    starts.next().unwrap_or(text.len())
}

/// The tag of a text that has no such tag.
const ANCHOR_TAG: &str = "overlap_context";

/// Returns the fragment that a model writes in this style; the same seed produces the same
/// fragment.
///
/// Returns `None` if the style does not apply at the cut: no container is open that could be
/// started again, there is nothing before the cut to leave out, or nothing that could differ. Also
/// if the document is not JSON, or the offsets break the rules of [`Cut`]. The result is never
/// equal to that of `anchor` or `exact`, except for `exact-unasked`.
pub fn write(style: ContinuationStyle, cut: &Cut<'_>, seed: u64) -> Option<String> {
    let site = Site::new(cut)?;
    let mut random =
        Random::new(seed ^ (cut.offset as u64).rotate_left(32) ^ cut.document.len() as u64);
    let random = &mut random;
    let text = style.fragment(&site, random)?;
    let is_own = matches!(
        style,
        ContinuationStyle::Anchor | ContinuationStyle::Exact | ContinuationStyle::ExactUnasked
    );
    // Without an anchor to repeat, noise around it is noise of its own.
    if style.group() == Group::Noise && cut.anchor == cut.offset {
        return None;
    }
    (is_own || (text != site.exact() && text != site.anchored())).then_some(text)
}
