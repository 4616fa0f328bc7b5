//! The grammar of the rest of a cut document, as text. The workspace `judge` checks the same
//! grammars with an engine that enforces them.

use restitch::internal::carve::{CarveError, Carved, MAX_DEPTH, Syntax, carve};
use restitch::{AllowedRoots, Document, Trailing};
use restitch_testing::{at_least, corpus_documents};

fn document(text: &str) -> Document {
    let mut document = Document::with_options(1024, AllowedRoots::Any, Trailing::Stop);
    document.push(text).unwrap();
    document
}

fn carved(text: &str) -> Carved {
    carve(&document(text), None).unwrap()
}

/// The start rule of a grammar in GBNF without its head, and the rule for the rest of the token.
fn start_of(carved: &Carved) -> String {
    let headless = Carved {
        head: String::new(),
        ..carved.clone()
    };
    let printed = headless.print(Syntax::Gbnf);
    let mut lines = printed.lines();
    let start = lines.next().unwrap().strip_prefix("root ::= ").unwrap();
    match lines.next().unwrap().strip_prefix("rest ::= ") {
        Some(rest) => format!("{start}; {rest}"),
        None => start.to_owned(),
    }
}

#[test]
fn the_start_has_the_rest_of_the_token_and_a_tail_for_each_container() {
    for (text, expect) in [
        ("", "w v w"),
        ("{", "fields w"),
        ("[", "items w"),
        ("[{", "fields a w"),
        ("{\"a\" ", "pair o w"),
        ("{\"a\": ", "w v o w"),
        ("{\"a\": 1", "rest? o w; d frac? exp? | frac exp? | exp"),
        ("{\"a\": 1 ", "o w"),
        ("{\"a\": 1,", "w m o w"),
        ("[1,", "w v a w"),
        ("[{\"a\": [1] ", "o a w"),
        ("[{\"a\": [[", "items a o a w"),
        ("{} ", "w"),
    ] {
        assert_eq!(start_of(&carved(text)), expect, "{text}");
    }
}

#[test]
fn each_cut_token_has_its_rest() {
    for (text, expect) in [
        ("[\"", "rest a w; c* \"\\\"\""),
        ("[\"a", "rest a w; c* \"\\\"\""),
        ("{\"a", "rest pair o w; c* \"\\\"\""),
        ("{\"a\\", "rest pair o w; esc c* \"\\\"\""),
        ("[\"\\u", "rest a w; h h h h c* \"\\\"\""),
        ("[\"\\u1", "rest a w; h h h c* \"\\\"\""),
        ("[\"\\u12", "rest a w; h h c* \"\\\"\""),
        ("[\"\\ud7", "rest a w; h h c* \"\\\"\""),
        ("[\"\\uDC0", "rest a w; h c* \"\\\"\""),
        // Half of a surrogate pair needs the other half.
        (
            "[\"\\ud8",
            "rest a w; h h \"\\\\\" \"u\" [dD] [c-fC-F] h h c* \"\\\"\"",
        ),
        (
            "[\"x\\ud83d",
            "rest a w; \"\\\\\" \"u\" [dD] [c-fC-F] h h c* \"\\\"\"",
        ),
        (
            "[\"\\uD83D\\",
            "rest a w; \"u\" [dD] [c-fC-F] h h c* \"\\\"\"",
        ),
        ("[\"\\ud83d\\uD", "rest a w; [c-fC-F] h h c* \"\\\"\""),
        ("[\"\\ud83d\\ude0", "rest a w; h c* \"\\\"\""),
        ("[\"\\ud83d\\ude00", "rest a w; c* \"\\\"\""),
        ("[-", "rest a w; int frac? exp?"),
        ("[0", "rest? a w; frac exp? | exp"),
        ("[-0", "rest? a w; frac exp? | exp"),
        ("[10", "rest? a w; d frac? exp? | frac exp? | exp"),
        ("[1.", "rest a w; d exp?"),
        ("[1.5", "rest? a w; d exp? | exp"),
        ("[1e", "rest a w; [-+]? d"),
        ("[1e+", "rest a w; d"),
        ("[1e+5", "rest? a w; d"),
        ("[t", "\"rue\" a w"),
        ("[nul", "\"l\" a w"),
        ("7", "rest? w; d frac? exp? | frac exp? | exp"),
    ] {
        assert_eq!(start_of(&carved(text)), expect, "{text}");
    }
}

#[test]
fn before_the_root_the_rest_is_a_root_that_the_document_allows() {
    for (text, expect) in [
        ("", "w (object | array) w"),
        ("\u{feff} \n", "w (object | array) w"),
        ("```json\n", "w (object | array) w"),
        ("Here it is:\n\n``", "\"`\\n\" w (object | array) w"),
        ("```json", "\"\\n\" w (object | array) w"),
        ("Here it is:\n\n```json\n[", "items w"),
    ] {
        let mut document = Document::new(16);
        document.push(text).unwrap();
        match carve(&document, None) {
            Ok(carved) => assert_eq!(start_of(&carved), expect, "{text}"),
            // A fence is certain with its third backtick.
            Err(error) => assert_eq!((error, text.ends_with("\n``")), (CarveError::NoRoot, true)),
        }
    }
}

#[test]
fn a_text_without_json_and_a_deep_document_have_no_grammar() {
    let mut prose = Document::new(16);
    prose.push("Once upon a time").unwrap();
    let error = carve(&prose, None).unwrap_err();
    assert_eq!(error, CarveError::NoRoot);
    assert_eq!(error.to_string(), "No JSON root has begun in the text");

    let deepest = carved(&"[".repeat(MAX_DEPTH));
    assert!(deepest.print(Syntax::Gbnf).len() <= 1024);
    let error = carve(&document(&"[".repeat(MAX_DEPTH + 1)), None).unwrap_err();
    assert_eq!(error, CarveError::TooDeep(225));
    assert_eq!(
        error.to_string(),
        "225 containers are open; a grammar of the rest covers at most 224"
    );
}

#[test]
fn both_syntaxes_print_the_same_rules() {
    let carved = carved("[{\"tab\":\t\"\\\\漢字\u{7f}\", \"x\": \"y");
    assert_eq!(carved.head, "\t\"\\\\漢字\u{7f}\", \"x\": \"y");
    assert_eq!(
        carved.print(Syntax::Gbnf),
        r#"root ::= "\t\"\\\\漢字\u007f\", \"x\": \"y" rest o a w
rest ::= c* "\""
v ::= object | array | s | n | "true" | "false" | "null"
object ::= "{" fields
fields ::= w ("}" | m o)
o ::= w ("," w m w)* "}"
m ::= s pair
pair ::= w ":" w v
array ::= "[" items
items ::= w ("]" | v a)
a ::= w ("," w v w)* "]"
w ::= space?
space ::= [ \t\n\r]+
s ::= "\"" c* "\""
c ::= [^"\\\x00-\x1f] | "\\" esc
esc ::= ["\\/bfnrt] | "u" h h h h
h ::= [0-9a-fA-F]
n ::= "-"? int frac? exp?
int ::= "0" | [1-9] [0-9]*
frac ::= "." d
exp ::= [eE] [-+]? d
d ::= [0-9]+
"#
    );
    assert_eq!(
        carved.print(Syntax::Lark),
        r#"start: "\t\"\\\\漢字\u007f\", \"x\": \"y" REST o a w
REST: C* "\""
v: object | array | S | N | "true" | "false" | "null"
object: "{" fields
fields: w ("}" | m o)
o: w ("," w m w)* "}"
m: S pair
pair: w ":" w v
array: "[" items
items: w ("]" | v a)
a: w ("," w v w)* "]"
w: SPACE?
SPACE: /[ \t\n\r]/+
S: "\"" C* "\""
C: /[^"\\\x00-\x1f]/ | "\\" ESC
ESC: /["\\\/bfnrt]/ | "u" H H H H
H: /[0-9a-fA-F]/
N: "-"? INT FRAC? EXP?
INT: "0" | /[1-9]/ /[0-9]/*
FRAC: "." D
EXP: /[eE]/ /[-+]/? D
D: /[0-9]/+
"#
    );
}

#[test]
fn a_grammar_of_a_corpus_cut_has_at_most_a_kibibyte() {
    let mut cuts = 0;
    for (name, text) in corpus_documents("docs") {
        for cut in (0..text.len()).step_by((text.len() / 50).max(1)) {
            let Some(delivered) = text.get(..cut) else {
                continue;
            };
            let carved = carved(delivered);
            for syntax in [Syntax::Gbnf, Syntax::Lark] {
                let length = carved.print(syntax).len();
                assert!(length <= 1024, "{name} at {cut}: {length}");
            }
            assert!(delivered.ends_with(&carved.head));
            assert!(carved.head.chars().count() <= 40);
            cuts += 1;
        }
    }
    assert!(cuts >= at_least(1000, 3000), "{cuts}");
}
