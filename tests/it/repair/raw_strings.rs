//! Strings of writers that do not escape, with their intended values: regular expressions, paths,
//! formulas, and Markdown with raw formulas and escaped line ends.

use restitch_testing::Rng;

/// The text of a string between its quotes, and its intended value.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) written: String,
    pub(super) value: String,
}

impl Raw {
    /// A string without escapes.
    fn text(value: String) -> Self {
        Self {
            written: value.clone(),
            value,
        }
    }
}

const REGEX: [&str; 40] = [
    r"\d+",
    r"\d{2,4}",
    r"\w*",
    r"\w+",
    r"\s",
    r"\s*",
    r"\S+",
    r"\D",
    r"\W",
    r"\b",
    r"\B",
    r"\bnew\b",
    r"\bfor\b",
    r"\.",
    r"\-",
    r"\/",
    r"\(",
    r"\)",
    r"\[",
    r"\]",
    r"\$",
    r"\?",
    r"\+",
    r"\*",
    r"\^",
    r"\p{Lu}",
    r"\p{L}+",
    r"\1",
    r"\x41",
    r"[A-Z]{2}",
    r"[^\s,]+",
    r"[\w.]+@[\w.]+",
    r"(\d{4})-(\d{2})",
    r"(?:\bfalse\b|\btrue\b)",
    r"[a-z\u00C0-\u017F]",
    r"\f*",
    r"(?<year>\d+)",
    r"[\b\f]",
    r"\u{1F600}",
    r"\tab",
];

/// At least one segment for each letter, and several for letters that have an escape.
const SEGMENTS: [&str; 50] = [
    "apps",
    "bin",
    "backup",
    "build",
    "cache",
    "docs",
    "etc",
    "files",
    "fonts",
    "frontend",
    "git",
    "home",
    "images",
    "jobs",
    "keys",
    "lib",
    "main",
    "new",
    "notes",
    "nodes",
    "node_modules",
    "out",
    "public",
    "queue",
    "reports",
    "release",
    "resources",
    "src",
    "temp",
    "tests",
    "tools",
    "tables",
    "users",
    "utils",
    "uploads",
    "unit",
    "uface",
    "vendor",
    "web",
    "xml",
    "yaml",
    "zip",
    "Program Files",
    "Users",
    "2024",
    "_tmp",
    ".git",
    "$recycle",
    "my-app",
    "Ünit",
];

const FORMULA: [&str; 34] = [
    r"\frac{\nu}{\theta}",
    r"\frac{v}{f}",
    r"\lambda",
    r"\rho",
    r"\forall x",
    r"\bar{x}",
    r"\beta",
    r"a \times b",
    r"\text{if } x \neq 0",
    r"\tan\theta",
    r"\left( x \right)",
    r"\alpha",
    r"\sum_{i=1}^{n} x_i",
    r"\nabla f",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}",
    r"\begin{cases} \theta \\\nu \\ \end{cases}",
    r"\lVert x \rVert",
    r"\{x\}",
    r"\,",
    r"\boxed{42}",
    r"x \to 0",
    r"x \notin A",
    r"\not= y",
    r"\tau_1",
    r"\tfrac12",
    r"\textbf{so}",
    r"\triangle ABC",
    r"\rightarrow",
    r"\rangle",
    r"\binom{n}{k}",
    r"\underline{u}",
    r"\hat{\phi}",
    r"\unlhd",
    r"\tilde{t}",
];

/// Beginnings of Markdown lines.
const LINES: [&str; 20] = [
    "Step 1: the speed is ",
    "Let ",
    "- the first one: ",
    "* the next, ",
    "1. We have ",
    "# Result ",
    "> so it follows: ",
    "**Note** that ",
    "where ",
    "and so ",
    "then the ratio of ",
    "for all of them ",
    "  with ",
    "| row | ",
    "But ",
    "neither is ",
    "to be exact: ",
    "real numbers ",
    "它是 ",
    "e.g. ",
];

/// Returns a regular expression with at least one class.
pub(super) fn regex(rng: &mut Rng) -> Raw {
    let mut text = String::from(rng.pick(&["^", "", r"\b", "(?i)"]));
    let class = rng.below(5);
    for part in 0..5 {
        text.push_str(if part == class {
            rng.pick(&[r"\d+", r"\w", r"\s*", r"\S"])
        } else {
            rng.pick(&REGEX)
        });
    }
    text.push_str(rng.pick(&["$", "", r"\b", r"\z"]));
    Raw::text(text)
}

/// Returns a Windows path. The backslash before at least one segment is not an escape.
pub(super) fn path(rng: &mut Rng) -> Raw {
    let mut text = String::from(rng.pick(&["C:", "D:", "%HOME%", r"\\server", ".."]));
    let plain = rng.below(4);
    for part in 0..4 {
        text.push('\\');
        text.push_str(if part == plain {
            rng.pick(&["docs", "src", "Data", "apps"])
        } else {
            rng.pick(&SEGMENTS)
        });
    }
    text.push_str(rng.pick(&["", ".txt", r"\readme.md", r"\*.log"]));
    Raw::text(text)
}

/// Returns a formula. The backslash of at least one command is not an escape.
pub(super) fn formula(rng: &mut Rng) -> Raw {
    let (open, close) = [
        ("$", "$"),
        ("$$", "$$"),
        (r"\(", r"\)"),
        ("", ""),
        (r"\[", r"\]"),
    ][rng.below(5)];
    let plain = rng.below(4);
    let parts: Vec<_> = (0..4)
        .map(|part| {
            if part == plain {
                rng.pick(&[r"\lambda", r"\sum", r"\alpha"])
            } else {
                rng.pick(&FORMULA)
            }
        })
        .collect();
    Raw::text(format!(
        "{open}{}{close}",
        parts.join(rng.pick(&[" = ", " + ", " "]))
    ))
}

/// Returns Markdown with escaped line ends and raw formulas. At least one line begins like a line
/// of text.
pub(super) fn markdown(rng: &mut Rng) -> Raw {
    let (mut written, mut value) = (String::from("Solution"), String::from("Solution"));
    let begins = rng.below(4);
    for line in 0..4 {
        let (escaped, end) = [(r"\n", "\n"), (r"\n\n", "\n\n"), (r"\r\n", "\r\n")][rng.below(3)];
        let start = if line == begins {
            rng.pick(&["Step 2: ", "Let ", "- the rate ", "1. "])
        } else {
            rng.pick(&LINES)
        };
        let formula = formula(rng).value;
        for (text, end) in [(&mut written, escaped), (&mut value, end)] {
            text.push_str(end);
            text.push_str(start);
            text.push_str(&formula);
        }
        if rng.below(4) == 0 {
            written.push_str(r#" is \"small\"."#);
            value.push_str(r#" is "small"."#);
        }
    }
    Raw { written, value }
}
