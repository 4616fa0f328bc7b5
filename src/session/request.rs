//! What a further call asks for, in neutral terms; a provider's module writes it.

/// A call that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The first call after the original one is 1.
    pub number: u32,
    /// What is added to the original request. `None`: the original request is sent again as it was, since nothing of
    /// the document was delivered.
    pub turn: Option<Turn>,
}

/// The turns that ask a model to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The assistant's message: all text that was delivered.
    pub delivered: String,
    /// The tail of it that the answer is asked to repeat first.
    pub anchor: String,
    /// The user's message: the instruction, and the anchor between its tags.
    pub prompt: String,
}

impl Turn {
    pub(super) fn new(delivered: &str, anchor: &str) -> Self {
        let tag = tag(delivered);
        // First person, and nothing that sounds like an operator: such notices were seen to be refused as injections.
        let prompt = format!(
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle of the JSON document. Please carry on, so that I can append what you write to what I \
             have. First repeat the text between the two tags below, exactly as it stands there, then go straight on \
             with what follows it, to the end of the document. Please write nothing else: no explanation, no code \
             fence, and nothing that stands before that text.\n\n<{tag}>\n{anchor}\n</{tag}>"
        );
        Self { delivered: delivered.to_owned(), anchor: anchor.to_owned(), prompt }
    }
}

/// `overlap_context`, or with the first number that makes neither tag occur in the text.
fn tag(text: &str) -> String {
    const NAME: &str = "overlap_context";
    let free = |tag: &str| !text.contains(&format!("<{tag}>")) && !text.contains(&format!("</{tag}>"));
    if free(NAME) {
        return NAME.to_owned();
    }
    (2u32..).map(|n| format!("{NAME}_{n}")).find(|tag| free(tag)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_anchor_stands_verbatim_between_its_tags() {
        let turn = Turn::new("[\"a\", \"b", "\"a\", \"b");
        assert!(turn.prompt.ends_with("\n<overlap_context>\n\"a\", \"b\n</overlap_context>"), "{}", turn.prompt);
    }

    #[test]
    fn a_tag_that_the_text_holds_is_not_used() {
        let turn = Turn::new("[\"</overlap_context> <overlap_context_2>", "x");
        assert!(turn.prompt.ends_with("\n<overlap_context_3>\nx\n</overlap_context_3>"), "{}", turn.prompt);
    }
}
