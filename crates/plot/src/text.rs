//! Text layout: branches of a class tree, and aligned columns.

use std::io::{self, Write};

/// The branches before each name of a depth-first list, given the depths, such as `├─ `, `│  └─ `.
pub fn branches(depths: &[usize]) -> impl Iterator<Item = String> {
    let last = |index: usize, level: usize| {
        let after = depths[index + 1..].iter().find(|depth| **depth <= level);
        after.is_none_or(|depth| *depth < level)
    };
    // For each level above: whether its branch continues below.
    let mut open: Vec<bool> = Vec::new();
    depths.iter().enumerate().map(move |(index, &depth)| {
        open.truncate(depth);
        let is_last = last(index, depth);
        let above = open.iter().map(|open| if *open { "│  " } else { "   " });
        let own = if is_last { "└─ " } else { "├─ " };
        let branch = above.chain([own]).collect();
        open.push(!is_last);
        branch
    })
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
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        lay_out(&mut line, row.iter().map(String::as_str), align, &widths);
        line
    };
    rows.iter().map(line).collect()
}

/// Appends a line of cells in columns of these widths; one of no width is left out.
fn lay_out<'a>(line: &mut String, cells: impl Iterator<Item = &'a str>, align: &[Align], widths: &[usize]) {
    for ((cell, align), &width) in cells.zip(align).zip(widths).filter(|(_, width)| **width > 0) {
        let blanks = |line: &mut String| {
            let missing = width - columns(cell);
            line.extend(std::iter::repeat_n(' ', missing));
        };
        match align {
            Align::Left => {
                line.push_str(cell);
                blanks(line);
            }
            Align::Right => {
                blanks(line);
                line.push_str(cell);
            }
        }
        line.push_str("  ");
    }
    line.truncate(line.trim_end().len());
}

/// A table with titles and very many rows: all cells are in one text. Columns whose cells are all
/// empty are left out, with their titles.
#[derive(Debug)]
pub struct LongTable<const COLUMNS: usize> {
    titles: [(&'static str, Align); COLUMNS],
    text: String,
    /// Where each cell ends in the text.
    ends: Vec<usize>,
}

impl<const COLUMNS: usize> LongTable<COLUMNS> {
    /// Without rows, with room for so many.
    pub fn new(titles: [(&'static str, Align); COLUMNS], rows: usize) -> Self {
        Self {
            titles,
            text: String::new(),
            ends: Vec::with_capacity(rows * COLUMNS),
        }
    }

    /// The next cell of the row, or the first of the next row, is what this appends.
    pub fn cell(&mut self, append: impl FnOnce(&mut String)) {
        append(&mut self.text);
        self.ends.push(self.text.len());
    }

    /// Writes the titles and the rows, a line each.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut widths = [0; COLUMNS];
        for row in self.rows() {
            for (cell, width) in row.zip(&mut widths) {
                *width = (*width).max(columns(cell));
            }
        }
        for (width, (title, _)) in widths
            .iter_mut()
            .zip(self.titles)
            .filter(|(width, _)| **width > 0)
        {
            *width = (*width).max(columns(title));
        }
        let align = self.titles.map(|(_, align)| align);
        let mut line = String::new();
        lay_out(
            &mut line,
            self.titles.iter().map(|(title, _)| *title),
            &align,
            &widths,
        );
        writeln!(out, "{line}")?;
        for row in self.rows() {
            line.clear();
            lay_out(&mut line, row, &align, &widths);
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// The cells of each row.
    fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        self.ends.chunks(COLUMNS).enumerate().map(move |(row, ends)| {
            let mut begin = match row {
                0 => 0,
                _ => self.ends[row * COLUMNS - 1],
            };
            ends.iter().map(move |&end| {
                let cell = &self.text[begin..end];
                begin = end;
                cell
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_end_where_their_last_child_is() {
        let shown: Vec<String> = branches(&[0, 1, 2, 1, 0, 1]).collect();
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

    #[test]
    fn a_table_of_many_rows_has_the_lines_of_a_small_one_without_titles_of_empty_columns() {
        let titles = [
            ("name", Align::Left),
            ("none", Align::Right),
            ("rate", Align::Right),
        ];
        let mut many = LongTable::new(titles, 3);
        let rows = [["a", "", "10 Mbit/s"], ["µµµµµ", "", ""], ["", "", "1 bit/s"]];
        for cell in rows.iter().flatten() {
            many.cell(|text| text.push_str(cell));
        }
        let mut out = Vec::new();
        many.write(&mut out).expect("memory");
        let small = [&[["name", "", "rate"]], rows.as_slice()].concat();
        let small: Vec<Vec<String>> = small.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let lines = table(&small, &titles.map(|(_, align)| align));
        assert_eq!(String::from_utf8(out).expect("text"), lines.join("\n") + "\n");
    }
}
