//! `cargo xtask site`: the documentation as a static site, in target/site.
//!
//! The pages are those of the repository, as they are read there: README, and all of docs/. What
//! they link to is on the site too: a file of text as a page, a picture or a schema as it is, a
//! folder as a list. The site has the repository's layout, so that a page finds another where it
//! finds it in the repository; it needs no server, loads nothing from elsewhere, and has a search
//! by headings.
//!
//! A link that leads nowhere, or to a heading that is not there, is an error: [`links`] looks for
//! them in what was written, as a browser would.

mod links;
mod navigation;
mod page;
mod simulator;

use page::Page;
use simulator::SimulatorPage;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const TEMPLATE: &str = include_str!("template.html");
const STYLE: &str = include_str!("site.css");
const SCRIPT: &str = include_str!("site.js");
const ICON: &str = include_str!("../../../crates/web/page/favicon.svg");

/// Files that a browser shows as they are; others are text.
const AS_THEY_ARE: [&str; 5] = ["svg", "png", "json", "yml", "csv"];

/// Where it is, in the workspace.
pub(crate) const FOLDER: &str = "target/site";

/// Writes the site, with the page of the simulator if its module can be made here.
pub fn write(root: &Path) -> Result<(), String> {
    let folder = root.join(FOLDER);
    let simulator = crate::browser::module(root)?.map(|module| SimulatorPage::of(root, module));
    let pages = build(root, &folder, simulator.transpose()?)?;
    println!("{pages} pages: {}", folder.join("index.html").display());
    Ok(())
}

/// Writes it into this folder, and looks at every link of it. How many pages there are.
fn build(root: &Path, folder: &Path, simulator: Option<SimulatorPage>) -> Result<usize, String> {
    let failed = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|why| failed(folder, why))?;
    }
    let site = Site::of(root, simulator)?;
    for (path, content) in site.files()? {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|why| failed(parent, why))?;
        fs::write(&path, content).map_err(|why| failed(&path, why))?;
    }
    let broken = links::broken(folder)?;
    match broken.is_empty() {
        true => Ok(site.pages.len()),
        false => Err(format!("site: links that lead nowhere:\n{}", broken.join("\n"))),
    }
}

/// What is on the site, by paths in the repository.
struct Site {
    root: PathBuf,
    simulator: Option<SimulatorPage>,
    pages: BTreeMap<String, Page>,
    as_they_are: BTreeSet<String>,
}

impl Site {
    /// README, all of docs/, and what they link to.
    fn of(root: &Path, simulator: Option<SimulatorPage>) -> Result<Self, String> {
        let mut site = Self {
            root: root.to_path_buf(),
            simulator,
            pages: BTreeMap::new(),
            as_they_are: BTreeSet::new(),
        };
        let mut wanted = vec!["README.md".to_owned()];
        markdown_below(root, "docs", &mut wanted)?;
        while let Some(path) = wanted.pop() {
            if site.pages.contains_key(&path) || site.as_they_are.contains(&path) {
                continue;
            }
            if is_as_it_is(&path) {
                site.as_they_are.insert(path);
                continue;
            }
            let page = Page::read(root, &path, site.simulator.as_ref())?;
            wanted.extend(page.links.iter().cloned());
            site.pages.insert(path, page);
        }
        if let Some(simulator) = &site.simulator {
            site.pages
                .insert(simulator::PLACE.to_owned(), simulator.page(root)?);
        }
        Ok(site)
    }

    /// Every file of the site, by its path there.
    fn files(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut files: Vec<(String, Vec<u8>)> = [
            ("site.css", STYLE.to_owned()),
            ("site.js", SCRIPT.to_owned()),
            ("favicon.svg", ICON.to_owned()),
            ("headings.js", self.headings()),
        ]
        .map(|(path, text)| (path.to_owned(), text.into_bytes()))
        .into();
        if let Some(simulator) = &self.simulator {
            files.extend(simulator.files(&self.root)?);
        }
        for (path, page) in &self.pages {
            let html = page.html(path, &navigation::of(path, &self.pages));
            files.push((place(path), html.into_bytes()));
        }
        for path in &self.as_they_are {
            let content = fs::read(self.root.join(path)).map_err(|why| format!("{path}: {why}"))?;
            files.push((path.clone(), content));
        }
        Ok(files)
    }

    /// What the search looks through: each heading, its page, and where it is. A script, since a
    /// page that is opened as a file may not load anything else.
    fn headings(&self) -> String {
        let of = |(path, page): (&String, &Page)| -> Vec<[String; 3]> {
            let (title, place) = (page.title.clone(), place(path));
            let sections = page.headings.iter().skip(1);
            let sections = sections.map(|(id, text)| [text.clone(), title.clone(), format!("{place}#{id}")]);
            std::iter::once([title.clone(), page.description.clone(), place.clone()])
                .chain(sections)
                .collect()
        };
        let documents = self.pages.iter().filter(|(path, _)| is_markdown(path));
        let all: Vec<[String; 3]> = documents.flat_map(of).collect();
        format!("const HEADINGS = {};\n", serde_json::json!(all))
    }
}

fn is_markdown(path: &str) -> bool {
    path.ends_with(".md")
}

fn is_as_it_is(path: &str) -> bool {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| AS_THEY_ARE.contains(&ending))
}

/// Where a file of the repository is on the site. The first page of a folder is its README.
fn place(path: &str) -> String {
    match path {
        _ if is_as_it_is(path) => path.to_owned(),
        "README.md" => "index.html".to_owned(),
        _ if path.ends_with('/') => format!("{path}index.html"),
        _ => match (path.strip_suffix("/README.md"), path.strip_suffix(".md")) {
            (Some(folder), _) => format!("{folder}/index.html"),
            (None, Some(name)) => format!("{name}.html"),
            (None, None) => format!("{path}.html"),
        },
    }
}

/// The way from one file of the site to another.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let shared = from
        .iter()
        .zip(&to)
        .take(from.len().min(to.len()) - 1)
        .take_while(|(a, b)| a == b)
        .count();
    let up = "../".repeat(from.len() - 1 - shared);
    up + &to[shared..].join("/")
}

/// The pages below a folder, in order.
fn markdown_below(root: &Path, folder: &str, found: &mut Vec<String>) -> Result<(), String> {
    for path in entries(root, folder)? {
        match path.strip_suffix('/') {
            Some(below) => markdown_below(root, below, found)?,
            None if is_markdown(&path) => found.push(path),
            None => {}
        }
    }
    Ok(())
}

/// What is in a folder, in order, by paths in the repository; folders end with a slash.
fn entries(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let folder = folder.trim_end_matches('/');
    let failed = |why: std::io::Error| format!("{folder}: {why}");
    let mut all = Vec::new();
    for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let slash = if entry.path().is_dir() { "/" } else { "" };
        all.push(format!("{folder}/{name}{slash}"));
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        crate::workspace()
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("suimon-site-{name}-{}", std::process::id()))
    }

    /// Every link and picture of the site that these sources make is there, and all of docs/ is.
    #[test]
    fn the_site_is_whole() {
        let at = folder("whole");
        // A browser would refuse this module; the pages and their links are the same.
        let simulator = SimulatorPage::of(&root(), b"a module".to_vec()).expect("scenarios");
        let pages = build(&root(), &at, Some(simulator)).unwrap_or_else(|why| panic!("{why}"));
        let mut documents = Vec::new();
        markdown_below(&root(), "docs", &mut documents).expect("docs");
        assert!(
            documents.len() > 80 && pages > documents.len(),
            "{pages} of {}",
            documents.len()
        );
        let first = fs::read_to_string(at.join("index.html")).expect("a first page");
        for path in &documents {
            let text = fs::read_to_string(at.join(place(path))).expect("a page");
            assert!(text.contains("<title>") && text.contains("<h1"), "{path}");
            assert!(text.contains("name=\"description\" content=\""), "{path}");
        }
        // The tasks come first, in this order, then the reference.
        let tasks = [
            "docs/home",
            "docs/isp",
            "docs/bad-links",
            "docs/classroom",
            "docs/coming-from/index",
            "docs/policy",
        ];
        let links = tasks.map(|page| first.find(&format!("href=\"{page}.html\"")));
        assert!(links.is_sorted() && links[0].is_some(), "{links:?}");
        // Each discipline's page has its scenario to be run.
        for kind in engine::tree::Registry::builtin().kinds() {
            let page = fs::read_to_string(at.join(format!("docs/disciplines/{}.html", kind.name)));
            let link = format!("../../simulator.html#scenarios/disciplines/{}.toml", kind.name);
            assert!(page.is_ok_and(|page| page.contains(&link)), "{}", kind.name);
        }
        fs::remove_dir_all(at).expect("removed");
    }

    /// What is broken in a source is an error, and not a page with a link that leads nowhere.
    #[test]
    fn a_link_to_what_is_not_there_is_an_error() {
        let (from, at) = (folder("source"), folder("broken"));
        fs::create_dir_all(from.join("docs")).expect("a folder");
        for (text, why) in [
            ("[a page](docs/nothing.md)", Some("docs/nothing.md")),
            ("![a picture](nothing.svg)", Some("nothing.svg")),
            ("[a part](docs/there.md#nothing)", Some("#nothing")),
            ("[own part](#nothing)", Some("#nothing")),
            ("[outside](../../../etc/passwd)", Some("outside")),
            (
                "[a page](docs/there.md) [a part](docs/there.md#the-part-1) [elsewhere](https://example.org/x)",
                None,
            ),
        ] {
            fs::write(from.join("README.md"), format!("# First\n\n{text}\n")).expect("written");
            fs::write(
                from.join("docs/there.md"),
                "# There\n\n## The `part`\n\n## The part!\n",
            )
            .expect("written");
            let built = build(&from, &at, None);
            match why {
                None => assert_eq!(built, Ok(2)),
                Some(why) => assert!(
                    built.as_ref().is_err_and(|said| said.contains(why)),
                    "{text}: {built:?}"
                ),
            }
        }
        for folder in [from, at] {
            fs::remove_dir_all(folder).expect("removed");
        }
    }

    #[test]
    fn a_page_finds_another_by_the_way_between_them() {
        for (from, to, way) in [
            ("index.html", "docs/home.html", "docs/home.html"),
            ("docs/home.html", "index.html", "../index.html"),
            ("docs/home.html", "docs/isp.html", "isp.html"),
            ("docs/a/b.html", "docs/c/d.html", "../c/d.html"),
            ("docs/a/b.html", "docs/a/index.html", "index.html"),
        ] {
            assert_eq!(relative(from, to), way, "{from} {to}");
        }
        for (path, expected) in [
            ("docs/coming-from/README.md", "docs/coming-from/index.html"),
            ("docs/measurements/", "docs/measurements/index.html"),
            ("examples/cake.toml", "examples/cake.toml.html"),
            ("docs/demo.svg", "docs/demo.svg"),
        ] {
            assert_eq!(place(path), expected);
        }
    }
}
