//! The live adapters of readers.

use std::io::{self, Read};

use restitch::live::{AsyncReader, Reader};
use tokio::io::AsyncWriteExt;

// Without `StreamExt`: the adapters of a reader are iterators.
use super::{Event, LiveError, LiveExt, Report, Section, poll};

const TEXT: &str = r#"{"title": "ä", "sections": [{"title": "One"}, {"title": "Two"}]} and more"#;

/// A reader that returns at most `most` bytes for a read, and is interrupted before each read. Fails at the end if
/// it is to.
struct Slow<'a> {
    text: &'a [u8],
    most: usize,
    is_interrupted: bool,
    fails: bool,
}

impl<'a> Slow<'a> {
    fn new(text: &'a str, most: usize) -> Self {
        Self {
            text: text.as_bytes(),
            most,
            is_interrupted: false,
            fails: false,
        }
    }
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.text.is_empty() && self.fails {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let length = self.most.min(buffer.len());
        self.text.read(&mut buffer[..length])
    }
}

#[test]
fn a_reader_gives_the_same_values_whatever_its_reads_return() {
    for most in [1, 2, 7, 1 << 20] {
        let mut sections = Reader::new(Slow::new(TEXT, most)).completed::<Section>("/sections/*");
        let titles: Vec<_> = sections
            .by_ref()
            .map(|section| section.unwrap().title)
            .collect();
        assert_eq!(titles, ["One", "Two"], "{most}");
        assert_eq!(sections.outcome().unwrap().as_str(), "complete");
        let report: serde_json::Value = Reader::new(Slow::new(TEXT, most))
            .into_final()
            .wait()
            .unwrap();
        assert_eq!(report["sections"][1]["title"], "Two");
        let events = Reader::new(Slow::new(TEXT, most)).events();
        let is_title = |event: &restitch::live::LiveEvent| {
            matches!(event.event, Event::Fragment(_)) && &*event.path == "/title"
        };
        let title: String = events
            .map(Result::unwrap)
            .filter(is_title)
            .map(|event| event.text)
            .collect();
        assert_eq!(title, "ä", "{most}");
        let lists = Reader::new(Slow::new("[1, 2]", most)).snapshots::<Vec<u8>>();
        assert_eq!(lists.last().unwrap().unwrap(), [1, 2]);
    }
}

#[test]
fn a_reader_that_fails_or_ends_early_is_an_error_after_all_values() {
    let cut = &TEXT[..TEXT.len() - 11];
    for fails in [false, true] {
        let reader = || {
            Reader::new(Slow {
                fails,
                ..Slow::new(cut, 3)
            })
        };
        let mut sections = reader().completed::<Section>("/sections/*");
        let items: Vec<_> = sections.by_ref().collect();
        assert_eq!(items.len(), 3);
        assert!(items[..2].iter().all(Result::is_ok));
        match &items[2] {
            Err(LiveError::Stream(error)) => {
                assert!(fails && error.kind() == io::ErrorKind::ConnectionReset);
            }
            Err(LiveError::Truncated(at)) => assert!(!fails && at.path == "/sections"),
            other => panic!("{other:?}"),
        }
        assert_eq!(sections.outcome().unwrap().as_str(), "incomplete");
        let error = reader().into_final::<Report>().wait().unwrap_err();
        assert!(error.is_cut() && error.closed().unwrap().ends_with("{\"title\": \"Two\"}]}"));
    }
}

#[tokio::test]
async fn an_async_reader_gives_values_when_they_are_there() {
    let (mut writer, reader) = tokio::io::duplex(4);
    let mut sections = AsyncReader::new(reader).completed::<Section>("/sections/*");
    let (first, rest) = TEXT.split_at(TEXT.find(", {").unwrap());
    let write = tokio::spawn(async move {
        writer.write_all(first.as_bytes()).await.unwrap();
        writer
    });
    assert_eq!(
        tokio_stream::StreamExt::next(&mut sections)
            .await
            .unwrap()
            .unwrap()
            .title,
        "One"
    );
    let mut writer = write.await.unwrap();
    assert!(poll(&mut sections).is_pending());
    let write = tokio::spawn(async move { writer.write_all(rest.as_bytes()).await });
    assert_eq!(
        tokio_stream::StreamExt::next(&mut sections)
            .await
            .unwrap()
            .unwrap()
            .title,
        "Two"
    );
    assert!(tokio_stream::StreamExt::next(&mut sections).await.is_none());
    // The view ends with the root, so the rest of the text has no reader.
    drop(sections);
    write.await.unwrap().unwrap_err();

    let cut = AsyncReader::new(&b"[1, 2"[..])
        .into_final::<Vec<u8>>()
        .await;
    assert_eq!(cut.unwrap_err().closed(), Some("[1]"));
}
