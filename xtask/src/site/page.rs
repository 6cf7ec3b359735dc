//! A page of the site: of markdown, of another file of text, or of a folder.

use super::simulator::{self, SimulatorPage};
use super::{TEMPLATE, entries, is_markdown, navigation, place, relative};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A description of this length is shown whole by those who search.
const DESCRIPTION: usize = 160;

/// A page.
pub(super) struct Page {
    /// Its first heading.
    pub(super) title: String,
    /// What it is about.
    pub(super) description: String,
    /// Its headings, with their identifiers.
    pub(super) headings: Vec<(String, String)>,
    /// What it links to, by paths in the repository.
    pub(super) links: Vec<String>,
    content: String,
}

impl Page {
    /// Reads the file, or the folder, at this path of the repository. What the simulator's page has
    /// can be run there.
    pub(super) fn read(root: &Path, path: &str, simulator: Option<&SimulatorPage>) -> Result<Self, String> {
        if path.ends_with('/') {
            return Self::of_folder(root, path);
        }
        let text = fs::read_to_string(root.join(path)).map_err(|why| format!("{path}: {why}"))?;
        match is_markdown(path) {
            true => Self::of_markdown(root, path, &text, simulator),
            false => Ok(Self {
                title: path.to_owned(),
                description: format!("{path}, a file of Suimon"),
                headings: Vec::new(),
                links: Vec::new(),
                content: format!(
                    "<h1>{}</h1>\n<p>{}</p>\n<pre><code>{}</code></pre>\n",
                    escaped(path),
                    run_it(path, path, simulator).unwrap_or_default(),
                    escaped(&text)
                ),
            }),
        }
    }

    fn of_folder(root: &Path, path: &str) -> Result<Self, String> {
        let links = entries(root, path)?;
        let item = |link: &String| {
            let name = link.strip_prefix(path).unwrap_or(link);
            let to = relative(&place(path), &place(link));
            format!("<li><a href=\"{}\">{}</a></li>\n", escaped(&to), escaped(name))
        };
        let items: String = links.iter().map(item).collect();
        Ok(Self {
            title: path.to_owned(),
            description: format!("{path}, a folder of Suimon"),
            headings: Vec::new(),
            content: format!("<h1>{}</h1>\n<ul>\n{items}</ul>\n", escaped(path)),
            links,
        })
    }

    /// A page whose content is HTML.
    pub(super) fn of_html(title: &str, description: &str, content: String) -> Self {
        Self {
            title: title.to_owned(),
            description: description.to_owned(),
            headings: vec![(String::new(), title.to_owned())],
            links: Vec::new(),
            content,
        }
    }

    fn of_markdown(
        root: &Path,
        path: &str,
        text: &str,
        simulator: Option<&SimulatorPage>,
    ) -> Result<Self, String> {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
        let headings = name_headings(&mut events);
        let mut links = Vec::new();
        let mut beside: Vec<Option<String>> = Vec::new();
        for event in &mut events {
            if let Event::Start(Tag::Link { dest_url, .. }) = event {
                let to = within(root, path, dest_url)?;
                beside.push(to.and_then(|(to, _)| run_it(path, &to, simulator)));
            }
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
                && let Some((to, rest)) = within(root, path, dest_url)?
            {
                *dest_url = CowStr::from(relative(&place(path), &place(&to)) + rest);
                links.push(to);
            }
        }
        let (title, described) = (first_heading(&headings, path), first_paragraph(&events));
        let mut content = String::new();
        let mut beside = beside.into_iter();
        let with_beside = events.into_iter().flat_map(|event| {
            let after = match event {
                Event::End(TagEnd::Link) => beside.next().flatten(),
                _ => None,
            };
            let after = after.map(|html| Event::InlineHtml(format!(" {html}").into()));
            std::iter::once(event).chain(after)
        });
        html::push_html(&mut content, with_beside.flat_map(in_boxes));
        Ok(Self {
            description: navigation::description(path).map_or_else(|| shortened(&described), str::to_owned),
            title,
            headings,
            links,
            content,
        })
    }

    /// The whole page, at this path of the repository.
    pub(super) fn html(&self, path: &str, navigation: &str) -> String {
        let own = place(path);
        let top = relative(&own, "index.html");
        let top = top.strip_suffix("index.html").unwrap_or_default();
        let title = match path {
            "README.md" => "Suimon: traffic shaping, SQM and QoS against bufferbloat".to_owned(),
            _ => format!("{} · Suimon, traffic shaping and QoS", self.title),
        };
        TEMPLATE
            .replace("{title}", &escaped(&title))
            .replace("{description}", &escaped(&self.description))
            .replace("{top}", top)
            .replace("{navigation}", navigation)
            .replace("{content}", &self.content)
    }
}

/// Gives each heading the identifier by which links name it, as code hosts do: its text in small
/// letters, without punctuation, with hyphens for spaces; a number after one that was there before.
fn name_headings(events: &mut [Event<'_>]) -> Vec<(String, String)> {
    let mut headings: Vec<(String, String)> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut begun = None;
    let mut text = String::new();
    for index in 0..events.len() {
        match &events[index] {
            Event::Start(Tag::Heading { .. }) => (begun, text) = (Some(index), String::new()),
            Event::Text(part) | Event::Code(part) if begun.is_some() => text += part,
            Event::End(TagEnd::Heading(_)) => {
                let plain = identifier(&text);
                let times = seen.entry(plain.clone()).or_default();
                let own = if *times == 0 {
                    plain
                } else {
                    format!("{plain}-{times}")
                };
                *times += 1;
                if let Some(at) = begun.take()
                    && let Event::Start(Tag::Heading { id, .. }) = &mut events[at]
                {
                    *id = Some(CowStr::from(own.clone()));
                }
                headings.push((own, text.clone()));
            }
            _ => {}
        }
    }
    headings
}

fn identifier(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn first_heading(headings: &[(String, String)], path: &str) -> String {
    headings
        .first()
        .map_or_else(|| path.to_owned(), |(_, text)| text.clone())
}

fn first_paragraph(events: &[Event<'_>]) -> String {
    let begin = events
        .iter()
        .skip_while(|event| **event != Event::Start(Tag::Paragraph));
    let inside = begin.take_while(|event| **event != Event::End(TagEnd::Paragraph));
    inside.fold(String::new(), |text, event| match event {
        Event::Text(part) | Event::Code(part) => text + part,
        Event::SoftBreak | Event::HardBreak => text + " ",
        _ => text,
    })
}

/// Up to the last word that fits.
fn shortened(text: &str) -> String {
    if text.chars().count() <= DESCRIPTION {
        return text.to_owned();
    }
    let start: String = text.chars().take(DESCRIPTION - 2).collect();
    let whole = start.rsplit_once(' ').map_or(start.as_str(), |(whole, _)| whole);
    format!("{whole} …")
}

/// The path in the repository that a link of a page names, and its part of that page; nothing if it
/// leads elsewhere, or to a part of the same page.
fn within<'a>(root: &Path, page: &str, link: &'a str) -> Result<Option<(String, &'a str)>, String> {
    let leaves = ["https:", "http:", "mailto:", "#"];
    if link.is_empty() || leaves.iter().any(|begin| link.starts_with(begin)) {
        return Ok(None);
    }
    let (path, part) = link.split_at(link.find('#').unwrap_or(link.len()));
    let mut steps: Vec<&str> = page.split('/').collect();
    steps.pop();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(
                steps
                    .pop()
                    .ok_or_else(|| format!("{page}: {link} is outside of the repository"))?,
            ),
            step => steps.push(step),
        }
    }
    let found = steps.join("/");
    let there = root.join(&found);
    let readme = format!("{found}/README.md");
    match there.is_dir() {
        true if root.join(&readme).exists() => Ok(Some((readme, part))),
        true => Ok(Some((found + "/", part))),
        false if there.exists() => Ok(Some((found, part))),
        false => Err(format!("{page}: {link} is not there")),
    }
}

/// A link from a page to the simulator with this scenario, if it has that.
fn run_it(page: &str, scenario: &str, simulator: Option<&SimulatorPage>) -> Option<String> {
    simulator.filter(|simulator| simulator.has(scenario))?;
    let way = relative(&place(page), &place(simulator::PLACE));
    let (way, part) = (escaped(&way), escaped(scenario));
    Some(format!(
        "<a class=\"run\" href=\"{way}#{part}\">▸ run it here</a>"
    ))
}

/// What may be wider than the page scrolls in a box of its own.
fn in_boxes(event: Event<'_>) -> Vec<Event<'_>> {
    match event {
        Event::Start(Tag::Table(_)) => vec![Event::Html("<div class=\"wide\">".into()), event],
        Event::End(TagEnd::Table) => vec![event, Event::Html("</div>\n".into())],
        event => vec![event],
    }
}

/// As HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_names_by_which_code_hosts_link_them() {
        for (text, name) in [
            ("What a policy can say", "what-a-policy-can-say"),
            (
                "`[[interface.NAME.expect]]`: what it is to keep",
                "interfacenameexpect-what-it-is-to-keep",
            ),
            ("An app, on a bad link!", "an-app-on-a-bad-link"),
            ("CBQ's `top-level`", "cbqs-top-level"),
        ] {
            let mut events: Vec<Event<'_>> = Parser::new_ext(text, Options::empty()).collect();
            let _ = name_headings(&mut events);
            let heading = format!("# {text}\n\n# {text}\n");
            let mut events: Vec<Event<'_>> = Parser::new_ext(&heading, Options::empty()).collect();
            let names: Vec<String> = name_headings(&mut events).into_iter().map(|(id, _)| id).collect();
            assert_eq!(names, [name.to_owned(), format!("{name}-1")]);
        }
    }

    #[test]
    fn a_description_is_the_first_paragraph_as_far_as_it_fits() {
        let text = format!("# Title\n\nFirst `code`\nline.\n\nSecond {}", "word ".repeat(60));
        let events: Vec<Event<'_>> = Parser::new(&text).collect();
        assert_eq!(first_paragraph(&events), "First code line.");
        let long = shortened(&"word ".repeat(60));
        assert!(
            long.chars().count() <= DESCRIPTION && long.ends_with("word …"),
            "{long}"
        );
    }
}
