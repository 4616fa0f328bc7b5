//! The cost of contexts, counted: bytes examined, bytes allocated. Neither grows with the document.

use allocation_counter::measure;
use restitch::Document;
use restitch::internal::children::ChildIndex;
use restitch::internal::context::{
    Rendering, Sections, complete_part, cut_off_element, element_before_cutoff, hierarchy_context,
    hierarchy_context_for_prompt,
};

struct Read {
    document: Document,
    sections: Sections,
    index: ChildIndex,
}

impl Read {
    fn new(text: &str) -> Self {
        let mut read = Self {
            document: Document::new(1 << 20),
            sections: Sections::default(),
            index: ChildIndex::new(1 << 16),
        };
        read.push(text);
        read
    }

    fn push(&mut self, text: &str) {
        self.document
            .push_with(text, &mut (&mut self.sections, &mut self.index))
            .unwrap();
    }

    fn rendering(&self, budget: usize) -> [Rendering; 2] {
        [None, Some(&self.index)]
            .map(|index| hierarchy_context_for_prompt(&self.document, index, budget))
    }

    /// Returns the bytes that all contexts except the anchor allocate, and the bytes that the
    /// rendering examined.
    fn cost(&self) -> (u64, usize) {
        let mut bytes_examined = 0;
        let allocated = measure(|| {
            let part = complete_part(&self.document).unwrap();
            assert!(part.text.len() <= hierarchy_context(&self.document).len());
            assert!(cut_off_element(&self.document).is_some());
            assert!(element_before_cutoff(&self.document, Some(&self.index)).is_some());
            assert!(element_before_cutoff(&self.document, None).is_some());
            bytes_examined = self
                .rendering(500)
                .iter()
                .map(|rendering| rendering.bytes_examined)
                .max()
                .unwrap();
            assert!(!self.sections.summary(&self.document).is_empty());
        });
        (allocated.bytes_total, bytes_examined)
    }
}

/// Checks one form of document from `small` bytes to `large`: the rows, and the end of the text.
fn grows(small: usize, large: usize, row: &str, end: &str) {
    let mut read = Read::new("{\"title\": \"Report\", \"rows\": [");
    let block = row.repeat((1 << 20) / row.len());
    let mut costs = Vec::new();
    for size in [small, large] {
        while read.document.text().len() < size {
            let more = (size - read.document.text().len()).div_ceil(row.len());
            let text = &block[..block.len().min(more * row.len())];
            read.push(text);
        }
        let mut ended = Read {
            document: Document::new(16),
            ..read
        };
        std::mem::swap(&mut ended.document, &mut read.document);
        let kept = (
            ended.document.checkpoint(),
            ended.sections.clone(),
            ended.index.clone(),
        );
        ended.push(end);
        costs.push(ended.cost());
        println!(
            "{size} bytes: {:?} bytes allocated and examined",
            costs.last().unwrap()
        );
        assert!(ended.document.restore(&kept.0));
        read = Read {
            document: ended.document,
            sections: kept.1,
            index: kept.2,
        };
    }
    let ratio = |before: f64, after: f64| after / before;
    assert!(
        ratio(costs[0].0 as f64, costs[1].0 as f64) <= 1.2,
        "{costs:?}"
    );
    assert!(
        ratio(costs[0].1 as f64, costs[1].1 as f64) <= 1.2,
        "{costs:?}"
    );
}

#[test]
fn contexts_cost_the_same_at_any_size() {
    // No section by name: the members of the root count.
    grows(
        1 << 10,
        100 << 20,
        "\"abcdefghijklmnopqrstuvwxyz\", ",
        "\"cut",
    );
    // Rows that are sections, and more of them than are remembered.
    grows(
        8 << 10,
        16 << 20,
        "{\"id\": 1, \"items\": [1, 2], \"text\": \"abcdefghijkl\"}, ",
        "{\"id\": 1, \"te",
    );
}

/// Bounded by the budget and a constant, whatever is before the cut, also without an index.
#[test]
fn no_text_costs_more_than_the_budget() {
    let big = 1 << 20;
    let texts = [
        format!("[\"{}\", \"cut", "x".repeat(big)),
        format!("[\"{}\", \"cut", "\\\\".repeat(big)),
        format!("[\"{}\", \"cut", "\\\"".repeat(big)),
        format!("[1{}, \"cut", " ".repeat(big)),
        format!("[1,{}2, \"cut", "\n".repeat(big)),
        format!("[1, {}, \"cut", "1".repeat(big)),
        format!("{{\"a\": 1, \"{}\": \"cut", "é".repeat(big)),
        format!("{{\"a\": 1, \"b\": [{}\"cut", "\t".repeat(big)),
        format!("[{}\"cut", "\"\", ".repeat(big)),
        format!("[{}\"cut", "{}, ".repeat(big)),
        format!("[{}1{}, \"cut", "[".repeat(big / 2), "]".repeat(big / 2)),
        format!(
            "[{}{}, \"cut",
            "{\"a\":[".repeat(big / 8),
            "]}".repeat(big / 8)
        ),
        format!("{{\"{}\": 1, \"cut", "k".repeat(big)),
        format!("{{\"a\": {{\"{}\": 1}}, \"cut", "k".repeat(big)),
        format!("{{\"a\": {{\"b\": \"{}\"}}, \"c\": \"cut", "v".repeat(big)),
        format!(
            "{{\"a\": [{}], \"c\": \"cut",
            "{\"b\": \"vvvvvvvvvvvvvvvv\"},"
                .repeat(big / 16)
                .trim_end_matches(',')
        ),
        format!(
            "[{}\"cut",
            "\"a longer text than is left of the budget, again and again\", ".repeat(big / 32)
        ),
    ];
    for text in &texts {
        let read = Read::new(text);
        for budget in [0, 60, 500, 5000] {
            for rendering in read.rendering(budget) {
                let end: String = text.chars().skip(text.chars().count() - 10).collect();
                let bound = (80 << 10) + 20 * budget;
                assert!(
                    rendering.bytes_examined <= bound,
                    "{} bytes at {budget}: …{end}",
                    rendering.bytes_examined
                );
                assert!(
                    rendering.text.len() <= bound && rendering.spent <= budget,
                    "…{end}"
                );
                assert!(rendering.text.ends_with("cut") || budget == 0);
            }
        }
    }
}

/// Values out of reach are shown as such, together with near ones.
#[test]
fn values_out_of_reach() {
    let big = "v".repeat(1 << 20);
    let show = |text: &str| {
        Read::new(text)
            .rendering(100)
            .map(|rendering| rendering.text)
    };
    // A child index knows where a large value starts, but not where values in it do.
    let text = format!("{{\"first\": 1, \"a\": {{\"b\": [\"{big}\", 2]}}, \"c\": \"cut");
    let near = ", 2]}, \"c\": \"cut";
    assert_eq!(
        show(&text),
        [
            format!("{{… 1 members …, …: {{…[…{near}"),
            format!("{{\"first\": 1, \"a\": {{…[…{near}")
        ]
    );
    let text = format!("[7, \"{big}\", \"cut");
    assert_eq!(
        show(&text),
        [
            "[… 2 members …, \"cut".to_owned(),
            "[7, <str>, \"cut".to_owned()
        ]
    );
    let deep = big.len() / 2;
    let text = format!("[7, {}{}, \"cut", "[".repeat(deep), "]".repeat(deep));
    assert_eq!(
        show(&text),
        [
            "[… 2 members …, \"cut".to_owned(),
            "[7, <array>, \"cut".to_owned()
        ]
    );
    let text = format!("[{{\"{big}\": 7}}, \"cut");
    assert_eq!(show(&text), ["[{…}, \"cut"; 2]);
}

#[test]
fn a_deep_stack_costs_a_constant_for_each_container() {
    let costs = [1000, 100_000].map(|depth| {
        let read = Read::new(&format!("{}\"cut", "[1, ".repeat(depth)));
        let [without, with] = read.rendering(500);
        assert_eq!(without.text, with.text);
        assert!(
            read.rendering(usize::MAX)
                .iter()
                .all(|all| all.text == read.document.text())
        );
        assert!(cut_off_element(&read.document) == Some("\"cut"));
        assert_eq!(
            complete_part(&read.document).unwrap().suffix.len(),
            depth + 1
        );
        without.bytes_examined as f64 / depth as f64
    });
    assert!(costs[1] <= 1.2 * costs[0], "{costs:?}");
}

/// A key is not decoded again for each element or array after it, however it is written.
#[test]
fn long_keys_are_read_once() {
    let long = "\\u006b".repeat(1 << 13);
    let elements = format!("{{\"{long}\": [{}", "1, ".repeat(1 << 12));
    let keys: Vec<String> = (0..8).map(|n| format!("\"{n}{long}\": []")).collect();
    let arrays = format!(
        "{{\"sections\": [{{{}{}",
        keys.join(", "),
        ", \"x\": []".repeat(1 << 12)
    );
    for text in [elements, arrays] {
        let (mut document, mut sections) = (Document::new(16), Sections::default());
        let allocated = measure(|| document.push_with(&text, &mut sections).unwrap());
        // The text itself, and what is kept of it.
        assert!(
            allocated.bytes_total < 4 * text.len() as u64,
            "{allocated:?} for {} bytes",
            text.len()
        );
    }
}
