//! A saved document: resumed anywhere it is the one that went on, and what does not fit its text is refused by name.

use restitch::AllowedRoots;
use restitch::{Document, ResumeError, Saved, Trailing};
use serde_json::{Value, json};

use crate::document::{all_documents, cuts};
use crate::fuzz::snapshot::{check as fuzz_body, resumed, survives_tampering};
use crate::fuzz::splits::push_from;
use crate::json::INLINE;
use crate::reference::Log;
use crate::support::{Rng, view};

/// Saves and resumes `text` at each of `cuts`, and compares the rest with the document that was never interrupted.
fn check(fresh: &Document, text: &str, cuts: &[usize]) {
    for &cut in cuts {
        let mut plain = fresh.clone();
        let pushed = plain.push(&text[..cut]);
        let mut other = resumed(&plain);
        if pushed.is_err() {
            continue;
        }
        let (mut log, mut other_log) = (Log::default(), Log::default());
        let end = push_from(&mut plain, text, cut, &[], &mut log);
        let other_end = push_from(&mut other, text, cut, halves(text, cut).as_slice(), &mut other_log);
        assert_eq!((other_end, &other_log), (end, &log), "resumed at byte {cut} of {text}");
        assert_eq!(view(&other), view(&plain), "resumed at byte {cut} of {text}");
        assert_eq!(other.finish_with(&mut other_log), plain.finish_with(&mut log), "{text}");
        assert_eq!(other_log, log, "resumed at byte {cut} of {text}");
    }
}

/// A cut in the middle of what follows.
fn halves(text: &str, from: usize) -> Option<usize> {
    Some(from.midpoint(text.len())).filter(|&cut| text.is_char_boundary(cut))
}

fn check_every_byte(fresh: &Document, text: &str) {
    let cuts: Vec<usize> = (0..=text.len()).filter(|&cut| text.is_char_boundary(cut)).collect();
    check(fresh, text, &cuts);
}

#[test]
fn at_every_byte_of_hand_written_documents() {
    let others = [
        r#"{"": {"": ""}, "\ud83d\ude00": "\ud83d\ude00", "\ud83d": ["\ud83d", "\ud83d\u0041"], "é": "é\\\"漢😀"}"#,
        "[ [ ] , { } , [\r\n] , {\t}, [{}], {\"a\" : [ ] , \"b\"\n:\n{ \"c\" : -0.5e+1 } } ]",
    ];
    for text in INLINE.into_iter().chain(others) {
        check_every_byte(&Document::new(64), text);
        check_every_byte(&Document::with_options(64, AllowedRoots::Any, Trailing::Next), text);
    }
}

#[test]
fn at_every_byte_of_what_stands_around_roots() {
    let texts = [
        "",
        "abc",
        "\u{feff} {\"a\": [1]} and more",
        "Sure, [1] is here:\n\n```json\n{\"a\": [1, \"x\"]}\n```\nDone.",
        "```\n[1, 2\n]\n```\n```",
        "```JSON {\"a\": 1}\n```",
        "```python\n[1]\n```\n\n```json\n[2, {\"b\": null}]",
        "``not a fence\n`````\n{}",
        "{\"n\": 1}\n{\"n\": 2}\r\n\n[3]{\"n\": [\"\"]}  \n",
        "1 2\n-3.5e1\ttrue null\"a\"\"\"[]false 0 0",
        "12",
        "\"a root \\u00e9\" ",
        "tru",
        "-",
        " 7 x",
    ];
    for text in texts {
        for roots in [AllowedRoots::Containers, AllowedRoots::Any] {
            for trailing in [Trailing::Stop, Trailing::Error, Trailing::Next] {
                check_every_byte(&Document::with_options(8, roots, trailing), text);
            }
        }
    }
}

#[test]
fn at_every_byte_of_recorded_documents() {
    let (documents, recorded) = all_documents(2 << 10);
    let mut total = 0;
    for (name, text) in documents {
        println!("{name}");
        let cuts = cuts(&text, 512, 60);
        check(&Document::new(1024), &text, &cuts);
        total += cuts.len();
    }
    println!("covered: {total} places in documents, {recorded} of them recorded");
}

/// A document that lives no longer than a character.
#[test]
fn resumed_again_and_again() {
    for text in
        INLINE.into_iter().chain(["Here:\n```json\n{\"a\": [\"\\ud83d\\ude00\", 1.5]}\n```", "1 [2]\n{\"é\": 3}"])
    {
        let fresh = Document::with_options(64, AllowedRoots::Any, Trailing::Next);
        let (mut whole, mut log) = (fresh.clone(), Log::default());
        let end = whole.push_with(text, &mut log);
        let (mut document, mut again) = (fresh, Log::default());
        let mut buffer = [0; 4];
        let stepwise = text.chars().try_for_each(|c| {
            document = resumed(&document);
            document.push_with(c.encode_utf8(&mut buffer), &mut again)
        });
        assert_eq!((stepwise, again), (end, log), "{text}");
        assert_eq!(view(&document), view(&whole));
    }
}

/// After a refusal the document ends before the byte that was refused; after `finish` a number has ended.
#[test]
fn after_errors_and_ends() {
    for (text, refused, rest) in [
        ("[\"a\\", "x", "n\"]"),
        ("[1", "x", "2]"),
        ("[1.", "]", "5]"),
        ("[1, ", "]", "2]"),
        ("[tr", "x", "ue]"),
        ("{\"a\"", "}", ":[]}"),
        ("[[", "}", "]]"),
        ("{}", "x", "[1]"),
    ] {
        let mut document = Document::with_options(64, AllowedRoots::Containers, Trailing::Next);
        document.push(text).unwrap();
        document.push(refused).unwrap_err();
        let mut other = resumed(&document);
        assert_eq!(other.text(), text);
        other.push(rest).unwrap();
        document.push(rest).unwrap();
        assert_eq!(view(&other), view(&document));
        assert!(other.is_complete());
    }
    let mut document = Document::with_options(64, AllowedRoots::Any, Trailing::Next);
    for number in ["1", "2", "3"] {
        document.push(number).unwrap();
        document.finish().unwrap();
        document = resumed(&document);
    }
    assert_eq!((document.text(), document.roots(), document.root()), ("123", 3, Some("3")));
    // At no depth at all a root is refused with its first byte.
    let mut document = Document::new(0);
    document.push("```json\n[").unwrap_err();
    assert_eq!(resumed(&document).text(), "```json\n");
}

/// The form that is written is read by every later version: these two are never edited.
#[test]
fn the_written_form() {
    // Digests as xxhsum -H3 prints them.
    let saved = serde_json::to_value(Document::new(1024).save()).unwrap();
    assert_eq!(saved["digest"], "2d06800538d394c2");
    let mut document = Document::new(16);
    document.push("abc").unwrap();
    let saved = serde_json::to_string(&document.save()).unwrap();
    let expect = r#"{"version":1,"depth":16,"roots":"containers","trailing":"stop","length":3,"#.to_owned()
        + r#""digest":"78af5f94892f3950","root":null,"frames":[]}"#;
    assert_eq!(saved, expect);

    let mut document = Document::with_options(16, AllowedRoots::Any, Trailing::Next);
    document.push("[]\n{\"a\": [1, \"tw").unwrap();
    let mut saved = serde_json::to_value(document.save()).unwrap();
    assert_eq!(saved["digest"].as_str().map(str::len), Some(16));
    saved["digest"] = json!(null);
    let expect = json!({
        "version": 1, "depth": 16, "roots": "any", "trailing": "next", "length": 16, "digest": null,
        "root": { "start": 3, "end": null, "before": 1 },
        "frames": [
            { "kind": "object", "start": 3, "key": [5, 6], "count": 0, "end": 4 },
            { "kind": "array", "start": 9, "key": null, "count": 1, "end": 11 },
        ],
    });
    assert_eq!(saved, expect);
}

#[test]
fn a_form_that_does_not_fit_is_refused_by_name() {
    use ResumeError as Error;
    //          0         1         2         3
    //          0123456789012345678901234567890123
    let text = r#"[7, {"a": ["1 2", {}], "b": {"c": "#;
    let mut document = Document::new(16);
    document.push(text).unwrap();
    let form = serde_json::to_value(document.save()).unwrap();
    let ends: Vec<_> = document.machine().frames().iter().map(|frame| (frame.start, frame.end)).collect();
    assert_eq!(ends, [(0, 2), (4, 21), (28, 29)]);
    let resume = |form: &Value, text: &str| {
        let saved: Saved = serde_json::from_value(form.clone()).unwrap();
        Document::resume(text, &saved).map(|_| ()).unwrap_err()
    };
    let cases: [(&str, Value, ResumeError); 33] = [
        ("/version", json!(0), Error::Version(0)),
        ("/version", json!(2), Error::Version(2)),
        ("/length", json!(33), Error::Length { saved: 33, given: 34 }),
        ("/length", json!(u64::MAX), Error::Length { saved: u64::MAX, given: 34 }),
        ("/digest", json!("0000000000000000"), Error::Digest),
        ("/digest", json!(""), Error::Digest),
        ("/depth", json!(2), Error::Frame(2)),
        ("/depth", json!(0), Error::Frame(0)),
        ("/root", json!(null), Error::Root),
        ("/root/start", json!(4), Error::Root),
        ("/root/start", json!(u64::MAX), Error::Root),
        ("/root/before", json!(1), Error::Root),
        ("/root/end", json!(22), Error::Root),
        ("/root/end", json!(u64::MAX), Error::Root),
        ("/frames", json!([]), Error::State),
        ("/frames/0/kind", json!("object"), Error::Frame(0)),
        ("/frames/0/start", json!(1), Error::Frame(0)),
        ("/frames/0/start", json!(u64::MAX), Error::Frame(0)),
        ("/frames/0/key", json!([5, 6]), Error::Frame(0)),
        ("/frames/0/count", json!(0), Error::Frame(0)),
        ("/frames/0/count", json!(2), Error::Frame(0)),
        ("/frames/0/count", json!(u64::MAX), Error::Frame(0)),
        ("/frames/0/end", json!(3), Error::Frame(0)),
        ("/frames/0/end", json!(21), Error::Frame(1)),
        ("/frames/1/start", json!(28), Error::Frame(1)),
        ("/frames/1/end", json!(1), Error::Frame(1)),
        ("/frames/1/end", json!(u64::MAX), Error::Frame(1)),
        // Inside a string, and after a value that stands deeper.
        ("/frames/1/end", json!(13), Error::Frame(2)),
        ("/frames/1/end", json!(20), Error::Frame(2)),
        ("/frames/1/key", json!([6, 7]), Error::Frame(1)),
        ("/frames/1/key", json!(null), Error::Frame(1)),
        ("/frames/2/key", json!([5, 6]), Error::Frame(2)),
        ("/frames/2/end", json!(30), Error::Frame(2)),
    ];
    for (at, value, expect) in cases {
        let mut form = form.clone();
        *form.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(resume(&form, text), expect, "{at}: {value}");
    }
    for part in ["depth", "roots", "trailing", "length", "digest", "frames"] {
        let mut form = form.clone();
        form.as_object_mut().unwrap().remove(part);
        let error = resume(&form, text);
        assert_eq!((&error, error.to_string()), (&Error::Missing(part), format!("the saved form has no `{part}`")));
    }
    assert_eq!(resume(&json!({ "version": 7, "something": "else" }), ""), Error::Version(7));
    assert_eq!(resume(&form, &text[1..]), Error::Length { saved: 34, given: 33 });
    assert_eq!(resume(&form, &text.replace('7', "8")), Error::Digest);
    // One container too few, and one too many.
    let mut fewer = form.clone();
    fewer["frames"].as_array_mut().unwrap().pop();
    assert_eq!(resume(&fewer, text), Error::State);
    let mut more = form.clone();
    more["frames"].as_array_mut().unwrap().push(form["frames"][2].clone());
    assert_eq!(resume(&more, text), Error::Frame(3));
    // Nothing of another kind is a saved form.
    for other in [json!({}), json!(null), json!([]), json!({ "version": "1" }), json!({ "version": 1, "frames": 3 })] {
        assert!(serde_json::from_value::<Saved>(other).is_err());
    }
}

#[test]
fn closed_and_missing_roots_are_looked_at_too() {
    use ResumeError as Error;
    let resume = |text: &str, trailing, at: &str, value: Value| {
        let mut document = Document::with_options(16, AllowedRoots::Any, trailing);
        document.push(text).unwrap();
        let mut form = serde_json::to_value(document.save()).unwrap();
        *form.pointer_mut(at).unwrap() = value;
        let saved: Saved = serde_json::from_value(form).unwrap();
        Document::resume(text, &saved).map(|_| ())
    };
    assert_eq!(resume("[1] ", Trailing::Stop, "/root/end", json!(4)), Err(Error::Root));
    assert_eq!(
        resume("[1]]", Trailing::Stop, "/root/end", json!(4)),
        Ok(()),
        "the inside of a whole value is believed"
    );
    assert_eq!(resume("[1] ", Trailing::Stop, "/root/end", json!(null)), Err(Error::State));
    assert_eq!(resume("\"ab\" \"", Trailing::Stop, "/root/end", json!(6)), Err(Error::Root));
    assert_eq!(resume("1.5 ", Trailing::Stop, "/root/end", json!(2)), Err(Error::Root));
    assert_eq!(resume("1.5", Trailing::Stop, "/root/end", json!(4)), Err(Error::Root));
    assert_eq!(resume("[[], []", Trailing::Stop, "/root/end", json!(7)), Err(Error::Root), "containers are open");
    assert_eq!(resume("[] []", Trailing::Stop, "/trailing", json!("error")), Err(Error::State));
    assert_eq!(resume("[] []", Trailing::Next, "/trailing", json!("stop")), Err(Error::Root));
    assert_eq!(resume("[] []", Trailing::Next, "/root/before", json!(4)), Err(Error::Root));
    assert_eq!(resume("[] []", Trailing::Next, "/root/before", json!(0)), Err(Error::Root));
    assert_eq!(resume("1", Trailing::Stop, "/roots", json!("containers")), Err(Error::Root));
    assert_eq!(resume("abc", Trailing::Stop, "/root", json!({ "start": 1, "before": 0 })), Err(Error::Root));
}

#[test]
fn tampering_never_panics() {
    let mut rng = Rng::new(5);
    let texts =
        ["1 [2]\n{\"é\": [{\"k\": [], \"l\": \"x", "```json\n[[1, {\"a\": {\"b\": [\"\\ud83d", "{}\n[]\n", "12"];
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut document = Document::with_options(64, AllowedRoots::Any, Trailing::Next);
        let text = rng.pick(&texts);
        let cut = cuts(text, usize::MAX, 0)[rng.below(text.chars().count() - 1)];
        document.push(&text[..cut]).unwrap();
        match survives_tampering(&document, &text[cut..], &mut rng) {
            true => taken += 1,
            false => refused += 1,
        }
    }
    println!("covered: {taken} forms that were taken, {refused} that were refused");
    assert!(refused > 3 * taken && taken > 0, "{taken} taken, {refused} refused");
}

#[test]
fn random_texts_and_options() {
    let mut rng = Rng::new(23);
    let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "d83d", "\\ude00", "0", "1", "-", ".5", "e", "t", "rue",
        "nul", "l", " ", "\n", "a", "\"a\":", "{\"b\": ", "[1, ", "é", "😀", "```", "`", "json\n", "\u{feff}",
        "Sure:\n", "]}",
    ];
    for _ in 0..4000 {
        let text: String = (0..rng.below(16)).map(|_| rng.pick::<str>(&pieces)).collect();
        fuzz_body(text.as_bytes());
        crate::fuzz::splits::check(text.as_bytes());
    }
}
