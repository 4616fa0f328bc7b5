//! Markdown tables.

/// Prints a heading and a table. The first row is the head.
pub fn print(title: &str, rows: &[Vec<String>]) {
    println!("### {title}\n");
    for (n, row) in rows.iter().enumerate() {
        println!("| {} |", row.join(" | "));
        if n == 0 {
            println!("|{}", "---|".repeat(row.len()));
        }
    }
    println!();
}

/// Prints a row.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Formats a number with about three digits.
pub fn short(number: f64) -> String {
    match number {
        n if n.is_nan() => "–".to_owned(),
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}
