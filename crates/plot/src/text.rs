//! Text layout: branches of a class tree, and aligned columns.

/// The branches before each name of a depth-first list, given the depths, such as `├─ `, `│  └─ `.
pub fn branches(depths: &[usize]) -> Vec<String> {
    let last = |index: usize, level: usize| {
        let after = depths[index + 1..].iter().find(|depth| **depth <= level);
        after.is_none_or(|depth| *depth < level)
    };
    let mut out: Vec<String> = Vec::with_capacity(depths.len());
    // For each level above: whether its branch continues below.
    let mut open: Vec<bool> = Vec::new();
    for (index, &depth) in depths.iter().enumerate() {
        open.truncate(depth);
        let is_last = last(index, depth);
        let above = open.iter().map(|open| if *open { "│  " } else { "   " });
        let own = if is_last { "└─ " } else { "├─ " };
        out.push(above.chain([own]).collect());
        open.push(!is_last);
    }
    out
}

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// The width of a text on the terminal.
fn columns(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.chars().count(),
    }
}

/// Lays out rows in aligned columns, two blanks apart. Empty columns are left out.
pub fn table(rows: &[Vec<String>], align: &[Align]) -> Vec<String> {
    let mut widths = vec![0; align.len()];
    for row in rows {
        for (cell, width) in row.iter().zip(&mut widths) {
            *width = (*width).max(columns(cell));
        }
    }
    let length: usize = widths.iter().map(|width| width + 2).sum();
    let blanks = " ".repeat(length);
    let line = |row: &Vec<String>| {
        let mut line = String::with_capacity(length);
        for ((cell, align), width) in row
            .iter()
            .zip(align)
            .zip(&widths)
            .filter(|(_, width)| **width > 0)
        {
            let blanks = &blanks[..width - columns(cell)];
            let parts = match align {
                Align::Left => [cell, blanks],
                Align::Right => [blanks, cell],
            };
            parts.iter().for_each(|part| line.push_str(part));
            line.push_str("  ");
        }
        line.truncate(line.trim_end().len());
        line
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_end_where_their_last_child_is() {
        let shown = branches(&[0, 1, 2, 1, 0, 1]);
        let expected = ["├─ ", "│  ├─ ", "│  │  └─ ", "│  └─ ", "└─ ", "   └─ "];
        assert_eq!(shown, expected);
    }

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "", "10 Mbit/s"]), row(["µµµ", "", "1 bit/s"])];
        let shown = table(&rows, &[Align::Left, Align::Left, Align::Right]);
        assert_eq!(shown, ["a    10 Mbit/s", "µµµ    1 bit/s"]);
    }
}
