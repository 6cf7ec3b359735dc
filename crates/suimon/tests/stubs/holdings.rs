//! What a running process of a test holds.

use std::fs;

/// How many descriptors the process has, and how much memory of its own is resident, in KiB.
///
/// # Panics
///
/// If there is no such process.
pub fn of(id: u32) -> (usize, u64) {
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).expect("its descriptors");
    let maps = fs::read_to_string(format!("/proc/{id}/smaps")).expect("its memory");
    (descriptors.count(), own_memory(&maps))
}

/// What the descriptors of the process are, in the order of their numbers.
///
/// # Panics
///
/// If there is no such process.
pub fn descriptors(id: u32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{id}/fd")).expect("its descriptors");
    let what = |path: std::path::PathBuf| {
        let number = path.file_name().unwrap_or_default().display().to_string();
        let is = fs::read_link(&path).unwrap_or_default();
        format!("{number} {}", is.display())
    };
    all.flatten().map(|entry| what(entry.path())).collect()
}

/// What is resident, in KiB, of memory that no file has, but for the memory for frames: that has a
/// fixed size, and is touched as it is needed.
fn own_memory(maps: &str) -> u64 {
    const FRAMES: u64 = 12 << 10;
    let (mut all, mut is_own, mut size) = (0, false, 0);
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = || words.get(1).and_then(|word| word.parse::<u64>().ok());
        match words[..] {
            ["Size:", ..] => size = number().unwrap_or(0),
            ["Rss:", ..] if is_own && size < FRAMES => all += number().unwrap_or(0),
            // The line that a mapping begins with: addresses, rights, and at last its name.
            [addresses, _, _, _, _, ref name @ ..] if addresses.contains('-') => {
                is_own = name.is_empty() || name[0].starts_with('[');
            }
            _ => {}
        }
    }
    all
}
