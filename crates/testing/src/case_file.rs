//! Test cases as Markdown files: a name, a reason, a list of facts, and fenced blocks of exact
//! text.
//!
//! `tests/cases/README.md` defines the format. This module reads files, and does not interpret a
//! case.

use std::fs;

use serde::de::DeserializeOwned;

/// A test case as its file has it.
#[derive(Debug, Default, PartialEq)]
pub struct CaseFile {
    /// The heading, which is the file's name, too.
    pub name: String,
    /// The items of the list: `- name: value`.
    facts: Vec<(String, String)>,
    /// The fenced blocks: the word after the fence, and the text.
    blocks: Vec<(String, String)>,
}

impl CaseFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong, with the number of its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let mut case = Self::default();
        let mut has_reason = false;
        match lines.next() {
            Some((_, line)) if line.starts_with("# ") => case.name = line[2..].to_owned(),
            _ => return Err("line 1: a case begins with `# name`".into()),
        }
        while let Some((at, line)) = lines.next() {
            let fence = &line[..line.len() - line.trim_start_matches('`').len()];
            if fence.len() >= 3 {
                let name = line[fence.len()..].to_owned();
                if name.is_empty() {
                    return Err(format!("line {at}: a fence without a name"));
                }
                let inner: Vec<&str> = lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| *line != fence)
                    .collect();
                if at + inner.len() >= text.lines().count() {
                    return Err(format!("line {at}: the fence is not closed"));
                }
                let block = read_block(&inner).map_err(|error| format!("line {at}: {error}"))?;
                case.blocks.push((name, block));
            } else if let Some(fact) = line.strip_prefix("- ") {
                let Some((name, value)) = fact.split_once(": ") else {
                    return Err(format!("line {at}: an item is `- name: value`"));
                };
                case.facts.push((name.to_owned(), value.to_owned()));
            } else if !line.is_empty() {
                if !case.facts.is_empty() || !case.blocks.is_empty() {
                    return Err(format!("line {at}: prose after the list"));
                }
                has_reason = true;
            }
        }
        if has_reason {
            Ok(case)
        } else {
            Err("the reason is missing".into())
        }
    }

    /// Returns the value of a fact.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts(name).next()
    }

    /// Returns the values of all facts of this name.
    pub fn facts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.facts
            .iter()
            .filter(move |(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the text of a block.
    pub fn block(&self, name: &str) -> Option<&str> {
        self.blocks(name).next()
    }

    /// Returns the texts of all blocks of this name.
    pub fn blocks(&self, name: &str) -> impl Iterator<Item = &str> {
        self.blocks
            .iter()
            .filter(move |(own, _)| own == name)
            .map(|(_, text)| text.as_str())
    }

    /// Returns a fact or a block that is in neither list, so no test would read it.
    fn unknown(&self, facts: &[&str], blocks: &[&str]) -> Option<&str> {
        let unknown =
            |(name, _): &&(String, String), known: &[&str]| !known.contains(&name.as_str());
        let fact = self.facts.iter().find(|fact| unknown(fact, facts));
        let block = || self.blocks.iter().find(|block| unknown(block, blocks));
        fact.or_else(block).map(|(name, _)| name.as_str())
    }
}

/// Reads the cases of a folder of `tests/cases`, sorted by file. No other facts and blocks than the
/// named ones may occur.
pub fn read_folder(folder: &str, facts: &[&str], blocks: &[&str]) -> Vec<CaseFile> {
    read_files(&format!("tests/cases/{folder}"), facts, blocks)
}

/// Reads the cases of a folder, like [`read_folder`]. The folder's `README.md` is not a case.
pub fn read_files(folder: &str, facts: &[&str], blocks: &[&str]) -> Vec<CaseFile> {
    let mut files: Vec<_> = fs::read_dir(crate::root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("README.md"))
        .collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let case = CaseFile::parse(&fs::read_to_string(file).unwrap())
            .unwrap_or_else(|e| panic!("{file:?}: {e}"));
        assert_eq!(
            file.file_name().unwrap().to_str().unwrap(),
            format!("{}.md", case.name)
        );
        assert_eq!(case.unknown(facts, blocks), None, "{file:?}");
        case
    };
    files.iter().map(read).collect()
}

/// Reads the rows of a file of `tests/cases`: a JSON array a line. A line that begins with `#` is a
/// comment on the rows after it.
pub fn read_rows<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = crate::root().join("tests/cases").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// The text of a block. Line feeds join its lines; the line end before the closing fence does not
/// belong to the text.
fn read_block(lines: &[&str]) -> Result<String, String> {
    if lines == [""] {
        return Err("an empty text has no line".into());
    }
    if let Some(line) = lines.iter().find(|line| line.ends_with([' ', '\t'])) {
        return Err(format!(
            "white space at the end of {line:?} is written as a picture"
        ));
    }
    let plain = |c: char| match c {
        '\u{2400}'..='\u{241f}' => char::from_u32(u32::from(c) - 0x2400).unwrap(),
        '\u{2420}' => ' ',
        '\u{2421}' => '\u{7f}',
        '\u{237d}' => '\u{a0}',
        c => c,
    };
    Ok(lines.join("\n").chars().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_the_format_says() {
        let text = "# name\n\nA reason.\nMore of it.\n\n- expect: any\n- repair: a at 1\n- repair: b: c\n\n\
            ```first\n{\"a\": 1\n```\n\n````first\nx\n```\n\n````\n```empty\n```\n```pictures\n␀␉␍␡⍽ a␠\n\n```\n";
        let case = CaseFile::parse(text).unwrap();
        assert_eq!(
            (case.name.as_str(), case.fact("expect"), case.fact("other")),
            ("name", Some("any"), None)
        );
        assert_eq!(case.facts("repair").collect::<Vec<_>>(), ["a at 1", "b: c"]);
        assert_eq!(
            case.blocks("first").collect::<Vec<_>>(),
            ["{\"a\": 1", "x\n```\n"]
        );
        assert_eq!(
            (case.block("empty"), case.block("pictures")),
            (Some(""), Some("\0\t\r\u{7f}\u{a0} a \n"))
        );
        assert_eq!(
            case.unknown(&["expect", "repair"], &["first", "empty"]),
            Some("pictures")
        );
        assert_eq!(case.unknown(&["expect"], &[]), Some("repair"));
        assert_eq!(
            case.unknown(&["expect", "repair"], &["first", "empty", "pictures"]),
            None
        );
    }

    #[test]
    fn a_case_that_breaks_the_format_is_rejected() {
        for (text, error) in [
            ("", "line 1: a case begins with `# name`"),
            ("name\n", "line 1: a case begins with `# name`"),
            ("# a\n\n- b: c\n", "the reason is missing"),
            ("# a\n\nWhy.\n- b\n", "line 4: an item is `- name: value`"),
            (
                "# a\n\nWhy.\n```\nx\n```\n",
                "line 4: a fence without a name",
            ),
            ("# a\n\nWhy.\n```b\nx\n", "line 4: the fence is not closed"),
            ("# a\n\nWhy.\n```b\n", "line 4: the fence is not closed"),
            (
                "# a\n\nWhy.\n````b\nx\n```\n",
                "line 4: the fence is not closed",
            ),
            (
                "# a\n\nWhy.\n```b\n\n```\n",
                "line 4: an empty text has no line",
            ),
            (
                "# a\n\nWhy.\n```b\nx \n```\n",
                "line 4: white space at the end of \"x \" is written as a picture",
            ),
            (
                "# a\n\nWhy.\n\n- b: c\n\nWhy not.\n",
                "line 7: prose after the list",
            ),
        ] {
            assert_eq!(CaseFile::parse(text), Err(error.to_owned()), "{text:?}");
        }
    }
}
