//! The files and words of `nine`: rules that choose processes, and what its processes tell each
//! other.

use super::FuzzTarget;
use crate::mutate::InputShape;
use host::rules;

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "rules",
    about: "rules of nine: refused by line, or each is read alike again",
    shape: InputShape::Text(3_000),
    tree: &[],
    make: || {
        Box::new(|input| {
            if let Ok(text) = std::str::from_utf8(input) {
                judge(text);
            }
        })
    },
};

fn judge(text: &str) {
    let lines = text.lines().count().max(1);
    match rules::parse(text) {
        Ok(read) => {
            assert!(!read.is_empty() && read.len() <= lines);
            for (number, rule) in read.iter().enumerate() {
                assert_eq!(rule.filter.except.len(), number, "not those of earlier rules");
                let again = rules::parse(&rule.text);
                let again = again.unwrap_or_else(|why| panic!("`{}` is refused alone: {why:?}", rule.text));
                assert_eq!(
                    (again[0].weight, again[0].cap, again[0].floor),
                    (rule.weight, rule.cap, rule.floor)
                );
                assert_eq!(again[0].filter.programs, rule.filter.programs);
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            assert!(mistakes.iter().all(|mistake| (1..=lines).contains(&mistake.line)));
        }
    }
}
