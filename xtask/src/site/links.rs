//! The links of the site as it was written: what a browser would look for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Every link and picture of a page that is not there, and every part of a page.
pub(super) fn broken(folder: &Path) -> Result<Vec<String>, String> {
    let mut files = BTreeMap::new();
    read(folder, "", &mut files)?;
    let names = |page: &str| -> BTreeSet<String> { attributes(page, "id").collect() };
    let parts: BTreeMap<&String, BTreeSet<String>> =
        files.iter().map(|(path, text)| (path, names(text))).collect();
    let mut broken = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".html")) {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if ["https:", "http:", "mailto:"]
                .iter()
                .any(|begin| link.starts_with(begin))
            {
                continue;
            }
            let (to, part) = link.split_once('#').unwrap_or((&link, ""));
            let to = if to.is_empty() {
                path.clone()
            } else {
                joined(path, to)
            };
            let is_there = parts
                .get(&to)
                .is_some_and(|ids| part.is_empty() || ids.contains(part));
            if !is_there {
                broken.push(format!("{path}: {link}"));
            }
        }
    }
    Ok(broken)
}

/// The files below a folder; of those that are no text, their names alone.
fn read(folder: &Path, below: &str, files: &mut BTreeMap<String, String>) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    for entry in fs::read_dir(folder.join(below)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        if entry.path().is_dir() {
            read(folder, &path, files)?;
        } else {
            let text = fs::read(entry.path()).map_err(failed)?;
            files.insert(path, String::from_utf8(text).unwrap_or_default());
        }
    }
    Ok(())
}

/// The values of an attribute of tags.
fn attributes<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let begin = format!(" {name}=\"");
    let tags = page.split('<').skip(1);
    tags.filter_map(move |tag| {
        let (tag, _) = tag.split_once('>')?;
        let (_, value) = tag.split_once(&begin)?;
        let (value, _) = value.split_once('"')?;
        Some(value.replace("&amp;", "&"))
    })
}

/// Where a link of a page leads.
fn joined(page: &str, link: &str) -> String {
    let mut steps: Vec<&str> = page.split('/').collect();
    steps.pop();
    for step in link.split('/') {
        match step {
            "" | "." => {}
            // Above the site is nothing.
            ".." => match steps.pop() {
                Some(_) => {}
                None => return format!("above the site: {link}"),
            },
            step => steps.push(step),
        }
    }
    steps.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::relative;

    #[test]
    fn a_link_is_where_a_browser_looks_for_it() {
        for (page, to) in [
            ("docs/a/b.html", "docs/c.html"),
            ("index.html", "docs/c.html"),
            ("docs/c.html", "site.css"),
        ] {
            assert_eq!(joined(page, &relative(page, to)), to);
        }
        assert!(joined("index.html", "../x").starts_with("above the site"));
    }

    #[test]
    fn attributes_are_found_in_tags_and_not_in_words() {
        let page = "<a href=\"one#two\" id=\"x\">as in href=\"no\"</a><img src=\"three&amp;four\">";
        let of = |name| attributes(page, name).collect::<Vec<_>>();
        assert_eq!(
            (of("href"), of("src"), of("id")),
            (
                vec!["one#two".into()],
                vec!["three&four".into()],
                vec!["x".into()]
            )
        );
    }
}
