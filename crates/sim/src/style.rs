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
mod index;
mod new_root;
mod noise;
mod nothing_new;
mod print;
mod random;
mod recorded;
mod restart;
mod spell;
mod wrap;

use index::Site;
use random::Random;
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

/// Defines the enum, its list and its names from one table.
macro_rules! styles {
    ($($(#[doc = $doc:literal])+ $style:ident = $name:literal in $group:ident;)+) => {
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
    Anchor = "anchor" in Anchored;
    /// The same in a code fence.
    AnchorFence = "anchor-fence" in Anchored;
    /// The same in a code fence that is never closed.
    AnchorFenceOpen = "anchor-fence-open" in Anchored;
    /// The same in a code fence inside another one.
    AnchorFenceNested = "anchor-fence-nested" in Anchored;
    /// The same after a sentence.
    AnchorPreamble = "anchor-preamble" in Anchored;
    /// The same after a sentence that quotes some JSON.
    AnchorPreambleQuotes = "anchor-preamble-quotes" in Anchored;
    /// The same after a sentence and in a code fence.
    AnchorPreambleFence = "anchor-preamble-fence" in Anchored;
    /// The same, then prose with brackets and a code fence in it.
    AnchorEpilogue = "anchor-epilogue" in Anchored;
    /// The same after `<think>…</think>` that has brackets, quotes and a part of the document.
    AnchorThink = "anchor-think" in Anchored;
    /// The same after a line `PROGRESS: 45`, in percent.
    AnchorProgress = "anchor-progress" in Anchored;
    /// The rest alone, as requested: `D[cut..]`.
    Exact = "exact" in Exact;
    /// The rest alone, although the request asked for an anchor.
    ExactUnasked = "exact-unasked" in Unasked;
    /// The second half of the anchor, then the rest.
    HalfAnchor = "half-anchor" in Unasked;
    /// A line end, then the rest.
    Newline = "newline" in Unasked;
    /// The rest in a code fence.
    ExactFence = "exact-fence" in Unasked;
    /// The rest after a sentence.
    ExactPreamble = "exact-preamble" in Unasked;
    /// The rest after `<think>…</think>`.
    ExactThink = "exact-think" in Unasked;
    /// From the start of the cut line.
    Line = "line" in Restart;
    /// From the start of the cut string, number or literal; in a key, from its quote.
    Value = "value" in Restart;
    /// From the key of the innermost member that is cut.
    Member = "member" in Restart;
    /// From the start of the innermost array element that is cut.
    Element = "element" in Restart;
    /// From the bracket of the innermost array that is cut; without an array, from that of the
    /// container around the innermost.
    Parent = "parent" in Restart;
    /// The complete document.
    Root = "root" in Restart;
    /// As `value`, reformatted: other white space, other escapes, and another order of the members
    /// that were not delivered.
    ValueReformatted = "value-reformatted" in Restart;
    /// As `member`, with the same changes.
    MemberReformatted = "member-reformatted" in Restart;
    /// As `element`, reformatted, with all members of the cut element in another order.
    ElementReformatted = "element-reformatted" in Restart;
    /// As `parent`, with the same changes.
    ParentReformatted = "parent-reformatted" in Restart;
    /// As `root`, with the same changes.
    RootReformatted = "root-reformatted" in Restart;
    /// After a cut that follows a comma: the comma once more, then the rest.
    CommaExtra = "comma-extra" in Restart;
    /// After a cut before a comma: the rest without it. Not between two values that would become
    /// one.
    CommaMissing = "comma-missing" in Restart;
    /// As `anchor`, with too many closers.
    CloserExtra = "closer-extra" in Restart;
    /// As `anchor`, without the last closer.
    CloserMissing = "closer-missing" in Restart;
    /// `element` in a code fence.
    ElementFence = "element-fence" in Restart;
    /// `root` in a code fence.
    RootFence = "root-fence" in Restart;
    /// `element` after a sentence.
    ElementPreamble = "element-preamble" in Restart;
    /// `root` after a sentence.
    RootPreamble = "root-preamble" in Restart;
    /// `root` after `<think>…</think>`.
    RootThink = "root-think" in Restart;
    /// `root-reformatted` in a code fence.
    RootReformattedFence = "root-reformatted-fence" in Restart;
    /// A new root: the path to the cut element again, the complete element, the rest. Delivered
    /// values beside the path are left out. Laid out as the document is, or all in one line.
    NewRoot = "new-root" in NewRoot;
    /// The same reformatted, as `element-reformatted` is.
    NewRootReformatted = "new-root-reformatted" in NewRoot;
    /// As `new-root`, with one or two complete elements before the cut one.
    NewRootLast = "new-root-last" in NewRoot;
    /// As `new-root`, but the cut element begins with its cut member.
    NewRootRest = "new-root-rest" in Rest;
    /// As `new-root`, but it begins with the element after the cut one.
    NewRootWithout = "new-root-without" in Rest;
    /// The elements after the cut one, in brackets of their own, and nothing more.
    BareList = "bare-list" in Rest;
    /// The same with the complete cut element first.
    BareListCut = "bare-list-cut" in Rest;
    /// The elements after the cut one without brackets, and nothing more.
    Bare = "bare" in Rest;
    /// The same with the complete cut element first.
    BareCut = "bare-cut" in Rest;
    /// In a string: a quote, then the rest.
    Reopened = "reopened" in Rest;
    /// As `element`, but some delivered words, numbers or literals are different.
    DiffersElement = "differs-element" in Rest;
    /// As `root`, with the same differences.
    DiffersRoot = "differs-root" in Rest;
    /// As `value`, with the same differences.
    DiffersValue = "differs-value" in Rest;
    /// In a string, before a space: the rest without its leading spaces.
    Trimmed = "trimmed" in Rest;
    /// No text.
    Empty = "empty" in Rest;
    /// A refusal, as prose or as JSON.
    Refusal = "refusal" in Rest;
    /// The last 50 to 300 delivered bytes once more.
    SameAgain = "same-again" in Rest;
    /// Delivered text from the start of an element, a line or the root, up to the cut at most.
    OnlyDelivered = "only-delivered" in Rest;
    /// The delivered text, closed.
    ClosedDelivered = "closed-delivered" in Rest;
    /// The one element after the cut one, and nothing more.
    BareNext = "bare-next" in Rest;
    /// As `anchor`, with one or two wrong, missing or extra characters in the anchor, but not in
    /// its last four.
    AnchorTypo = "anchor-typo" in Noise;
    /// As `anchor`, with other white space in the anchor: line ends and their indentation become
    /// one space or nothing, or commas and colons have one space after them or none.
    AnchorWhite = "anchor-white" in Noise;
    /// As `anchor`, with curly quotes in the anchor.
    AnchorCurly = "anchor-curly" in Noise;
    /// As `anchor`, with escaped quotes and line ends of the anchor written as the characters
    /// themselves.
    AnchorUnescaped = "anchor-unescaped" in Noise;
    /// As `anchor`, after `...` or `…`.
    AnchorEllipsis = "anchor-ellipsis" in Noise;
    /// As `anchor`, with a line end between the anchor and the rest.
    AnchorLineEnd = "anchor-line-end" in Noise;
    /// The anchor twice, then the rest.
    AnchorTwice = "anchor-twice" in Noise;
    /// As `anchor`, without the first word or token of the anchor.
    AnchorWordless = "anchor-wordless" in Noise;
    /// As `anchor`, after a sentence that quotes the anchor or its end.
    AnchorQuoted = "anchor-quoted" in Noise;
    /// The anchor alone in a code fence, then the rest.
    AnchorFenceAlone = "anchor-fence-alone" in Noise;
    /// As `anchor`, with the request's tags around the anchor, or with one tag; all in one line.
    AnchorTagsLine = "anchor-tags-line" in Noise;
    /// The same with the tags on lines of their own.
    AnchorTagsLines = "anchor-tags-lines" in Noise;
    /// Only the closers of the open string and the open containers, perhaps after the anchor.
    EarlyClose = "early-close" in EarlyEnd;
    /// The same after `...` or `…`.
    EarlyEllipsis = "early-ellipsis" in EarlyEnd;
    /// The rest up to the end of the first, second or third next element or member, then `...`
    /// instead of the next ones, then the closers of the open containers; perhaps after the anchor.
    EarlyElement = "early-element" in EarlyEnd;
    /// The same with a comment instead of the `...`.
    EarlyComment = "early-comment" in EarlyEnd;
    /// The delivered text, the rest of the cut token or the scalar that is due, and the closers of
    /// all open containers.
    RootCopyClose = "root-copy-close" in Recorded;
    /// As `root`, without one delivered element or member, or with one of them twice.
    RootAltered = "root-altered" in Recorded;
    /// The complete cut element and nothing more, perhaps in a code fence.
    ElementOnly = "element-only" in Recorded;
    /// The cut element over and over, perhaps in code fences. The answer ends inside one.
    ElementLoop = "element-loop" in Recorded;
    /// As `root-copy-close`, without the delivered text.
    TokenClosed = "token-closed" in Recorded;
    /// As `root-copy-close`, with the anchor alone instead of the delivered text.
    AnchorClosed = "anchor-closed" in Recorded;
    /// Tags and sentences of the request, with the anchor in them, or before them.
    OwnWords = "own-words" in Recorded;
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
    let anchored = || site.anchored();
    let exact = || site.exact().to_owned();
    let restart = |from| restart::verbatim(&site, from);
    let text = match style {
        ContinuationStyle::Anchor => anchored(),
        ContinuationStyle::AnchorFence => wrap::fence(&anchored(), random),
        ContinuationStyle::AnchorFenceOpen => wrap::fence_open(&anchored(), random),
        ContinuationStyle::AnchorFenceNested => wrap::fence_nested(&anchored()),
        ContinuationStyle::AnchorPreamble => wrap::preamble(&anchored(), random),
        ContinuationStyle::AnchorPreambleQuotes => {
            wrap::preamble_quotes(&anchored(), &site, random)
        }
        ContinuationStyle::AnchorPreambleFence => {
            wrap::preamble(&wrap::fence(&anchored(), random), random)
        }
        ContinuationStyle::AnchorEpilogue => wrap::epilogue(&anchored(), random),
        ContinuationStyle::AnchorThink => wrap::think(&anchored(), &site, random),
        ContinuationStyle::AnchorProgress => wrap::progress(&anchored(), &site),
        ContinuationStyle::Exact | ContinuationStyle::ExactUnasked => exact(),
        ContinuationStyle::HalfAnchor => restart::half_anchor(&site)?,
        ContinuationStyle::Newline => format!("\n{}", site.exact()),
        ContinuationStyle::ExactFence => wrap::fence(&exact(), random),
        ContinuationStyle::ExactPreamble => wrap::preamble(&exact(), random),
        ContinuationStyle::ExactThink => wrap::think(&exact(), &site, random),
        ContinuationStyle::Line => restart(Start::Line)?,
        ContinuationStyle::Value => restart(Start::Value)?,
        ContinuationStyle::Member => restart(Start::Member)?,
        ContinuationStyle::Element => restart(Start::Element)?,
        ContinuationStyle::Parent => restart(Start::Parent)?,
        ContinuationStyle::Root => restart(Start::Root)?,
        ContinuationStyle::ValueReformatted => restart::reformatted(&site, Start::Value, random)?,
        ContinuationStyle::MemberReformatted => restart::reformatted(&site, Start::Member, random)?,
        ContinuationStyle::ElementReformatted => {
            restart::reformatted(&site, Start::Element, random)?
        }
        ContinuationStyle::ParentReformatted => restart::reformatted(&site, Start::Parent, random)?,
        ContinuationStyle::RootReformatted => restart::reformatted(&site, Start::Root, random)?,
        ContinuationStyle::CommaExtra => restart::comma_extra(&site)?,
        ContinuationStyle::CommaMissing => restart::comma_missing(&site)?,
        ContinuationStyle::CloserExtra => restart::closer_extra(&site, random)?,
        ContinuationStyle::CloserMissing => restart::closer_missing(&site)?,
        ContinuationStyle::ElementFence => wrap::fence(&restart(Start::Element)?, random),
        ContinuationStyle::RootFence => wrap::fence(&restart(Start::Root)?, random),
        ContinuationStyle::ElementPreamble => wrap::preamble(&restart(Start::Element)?, random),
        ContinuationStyle::RootPreamble => wrap::preamble(&restart(Start::Root)?, random),
        ContinuationStyle::RootThink => wrap::think(&restart(Start::Root)?, &site, random),
        ContinuationStyle::RootReformattedFence => {
            wrap::fence(&restart::reformatted(&site, Start::Root, random)?, random)
        }
        ContinuationStyle::NewRoot => new_root::element(&site, random)?,
        ContinuationStyle::NewRootReformatted => new_root::reformatted(&site, random)?,
        ContinuationStyle::NewRootLast => new_root::last(&site, random)?,
        ContinuationStyle::NewRootRest => new_root::rest(&site, random)?,
        ContinuationStyle::NewRootWithout => new_root::without(&site, random)?,
        ContinuationStyle::BareList => format!("[{}]", new_root::bare(&site, false)?),
        ContinuationStyle::BareListCut => format!("[{}]", new_root::bare(&site, true)?),
        ContinuationStyle::Bare => new_root::bare(&site, false)?,
        ContinuationStyle::BareCut => new_root::bare(&site, true)?,
        ContinuationStyle::Reopened => altered::reopened(&site)?,
        ContinuationStyle::DiffersElement => altered::differs(&site, Start::Element, random)?,
        ContinuationStyle::DiffersRoot => altered::differs(&site, Start::Root, random)?,
        ContinuationStyle::DiffersValue => altered::differs(&site, Start::Value, random)?,
        ContinuationStyle::Trimmed => altered::trimmed(&site)?,
        ContinuationStyle::Empty => String::new(),
        ContinuationStyle::Refusal => nothing_new::refusal(random),
        ContinuationStyle::SameAgain => nothing_new::same_again(&site, random)?,
        ContinuationStyle::OnlyDelivered => nothing_new::only_delivered(&site, random)?,
        ContinuationStyle::ClosedDelivered => nothing_new::closed_delivered(&site)?,
        ContinuationStyle::BareNext => new_root::next(&site)?,
        ContinuationStyle::AnchorTypo => noise::typo(&site, random)?,
        ContinuationStyle::AnchorWhite => noise::white(&site, random)?,
        ContinuationStyle::AnchorCurly => noise::curly(&site),
        ContinuationStyle::AnchorUnescaped => noise::unescaped(&site),
        ContinuationStyle::AnchorEllipsis => noise::ellipsis(&site, random),
        ContinuationStyle::AnchorLineEnd => noise::line_end(&site),
        ContinuationStyle::AnchorTwice => noise::twice(&site),
        ContinuationStyle::AnchorWordless => noise::wordless(&site)?,
        ContinuationStyle::AnchorQuoted => noise::quoted(&site, random),
        ContinuationStyle::AnchorFenceAlone => noise::fence_alone(&site, random),
        ContinuationStyle::AnchorTagsLine => noise::tags_line(&site, random),
        ContinuationStyle::AnchorTagsLines => noise::tags_lines(&site),
        ContinuationStyle::EarlyClose => early_end::close(&site, random)?,
        ContinuationStyle::EarlyEllipsis => early_end::ellipsis(&site, random)?,
        ContinuationStyle::EarlyElement => early_end::element(&site, random)?,
        ContinuationStyle::EarlyComment => early_end::comment(&site, random)?,
        ContinuationStyle::RootCopyClose => recorded::root_copy_close(&site)?,
        ContinuationStyle::RootAltered => recorded::root_altered(&site, random)?,
        ContinuationStyle::ElementOnly => recorded::element_only(&site, random)?,
        ContinuationStyle::ElementLoop => recorded::element_loop(&site, random)?,
        ContinuationStyle::TokenClosed => recorded::token_closed(&site)?,
        ContinuationStyle::AnchorClosed => recorded::anchor_closed(&site)?,
        ContinuationStyle::OwnWords => recorded::own_words(&site, random),
    };
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
