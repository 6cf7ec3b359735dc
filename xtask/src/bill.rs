//! `cargo xtask sbom`: the parts of the binary as a CycloneDX document, in `target/sbom.json`.
//!
//! Follows CycloneDX 1.5: name, version, licence, source and checksum of every crate that
//! `suimon` is linked from on this kind of machine, and what depends on what. Taken from
//! `cargo metadata` and `Cargo.lock`, so it needs neither a network nor another tool; without a
//! serial number and a time, so that the same tree gives the same document.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Where it is written.
pub const PLACE: &str = "target/sbom.json";
const PRODUCT: &str = "suimon";
/// The list of licences.
const POLICY: &str = "deny.toml";

/// Writes it.
///
/// # Errors
/// What `cargo metadata` does not tell, or a file that cannot be read or written.
pub fn write(root: &Path) -> Result<(), String> {
    let metadata = metadata(root)?;
    let lock =
        std::fs::read_to_string(root.join("Cargo.lock")).map_err(|why| format!("Cargo.lock: {why}"))?;
    let policy = std::fs::read_to_string(root.join(POLICY)).map_err(|why| format!("{POLICY}: {why}"))?;
    let bill = bill(&metadata, &checksums(&lock)).ok_or("cargo metadata has another form than it had")?;
    let refused = refused(&bill, &policy);
    if !refused.is_empty() {
        return Err(format!(
            "licences that {POLICY} does not allow: {}",
            refused.join("; ")
        ));
    }
    let count = bill["components"].as_array().map_or(0, Vec::len);
    let text = serde_json::to_string_pretty(&bill).map_err(|why| why.to_string())?;
    std::fs::write(root.join(PLACE), text + "\n").map_err(|why| format!("{PLACE}: {why}"))?;
    println!("{PLACE}: {count} components");
    Ok(())
}

fn metadata(root: &Path) -> Result<Value, String> {
    let target = host(root)?;
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &target,
        ])
        .current_dir(root)
        .output()
        .map_err(|why| format!("cargo could not be started: {why}"))?;
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|why| format!("cargo metadata: {why}")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The triple of this machine, as the compiler names it.
fn host(root: &Path) -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").current_dir(root).output();
    let output = output.map_err(|why| format!("rustc could not be started: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned)
        .ok_or_else(|| "rustc does not name its host".into())
}

/// The checksum of each package of the lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let entry = |block: &str| {
        let value = |key: &str| {
            let line = block
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

/// What is linked into the product: its dependencies and theirs, but for those of builds and tests.
fn linked<'a>(
    nodes: &BTreeMap<&'a str, &'a Value>,
    product: &'a str,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut open = vec![product];
    while let Some(id) = open.pop() {
        if found.contains_key(id) {
            continue;
        }
        let dependencies = nodes
            .get(id)
            .and_then(|node| node["deps"].as_array())
            .into_iter()
            .flatten();
        let is_linked = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let ids: BTreeSet<&str> = dependencies
            .filter(is_linked)
            .filter_map(|one| one["pkg"].as_str())
            .collect();
        open.extend(ids.iter().copied());
        found.insert(id, ids);
    }
    found
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let by_id: BTreeMap<&str, &Value> = packages
        .iter()
        .filter_map(|one| Some((one["id"].as_str()?, one)))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let nodes: BTreeMap<&str, &Value> = nodes
        .iter()
        .filter_map(|one| Some((one["id"].as_str()?, one)))
        .collect();
    let product = by_id.iter().find(|(_, package)| package["name"] == PRODUCT)?;
    let linked = linked(&nodes, product.0);
    let reference = |id: &str| {
        let package = by_id.get(id)?;
        Some(format!(
            "pkg:cargo/{}@{}",
            package["name"].as_str()?,
            package["version"].as_str()?
        ))
    };
    let component = |id: &&str| {
        let package = by_id.get(*id)?;
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(id)?,
            "name": name,
            "version": version,
            "purl": reference(id)?,
        });
        if let Some(licence) = package["license"].as_str() {
            // Before SPDX, a slash stood for OR.
            component["licenses"] =
                json!([{ "expression": licence.replace('/', " OR ").replace("  ", " ") }]);
        }
        if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        Some(component)
    };
    let others = linked.keys().filter(|id| *id != product.0);
    let components: Vec<Value> = others.map(component).collect::<Option<_>>()?;
    let depends = |(id, on): (&&str, &BTreeSet<&str>)| {
        let on: Vec<String> = on.iter().filter_map(|id| reference(id)).collect();
        Some(json!({ "ref": reference(id)?, "dependsOn": on }))
    };
    let dependencies: Vec<Value> = linked.iter().map(depends).collect::<Option<_>>()?;
    let mut main = component(product.0)?;
    main["type"] = json!("application");
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": main },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The components whose licence the list does not allow.
fn refused(bill: &Value, policy: &str) -> Vec<String> {
    let list = policy
        .split("allow = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let allowed: BTreeSet<&str> = list
        .into_iter()
        .flat_map(|list| list.split('"').skip(1).step_by(2))
        .collect();
    // Of alternatives one is enough; of those that hold together, all.
    let may = |expression: &str| {
        let plain = expression.replace(['(', ')'], "");
        plain
            .split(" OR ")
            .any(|one| one.split(" AND ").all(|part| allowed.contains(part.trim())))
    };
    let components = bill["components"].as_array().into_iter().flatten();
    let licence = |one: &Value| {
        one["licenses"][0]["expression"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    components
        .filter(|one| !may(&licence(one)))
        .map(|one| format!("{} has {}", one["purl"].as_str().unwrap_or("one"), licence(one)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_there_once_and_what_tests_need_is_not() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let packages = ["suimon", "a", "b", "proptest", "cc"].map(package);
        let needs = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "suimon", "deps": [needs("a", Value::Null), needs("proptest", json!("dev"))] },
                { "id": "a", "deps": [needs("b", Value::Null), needs("cc", json!("build"))] },
                { "id": "b", "deps": [needs("a", Value::Null)] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = bill(&metadata, &checksums(lock)).expect("a bill");
        let names: Vec<&str> = bill["components"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "abc");
        assert_eq!(
            bill["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(bill["metadata"]["component"]["name"], "suimon");
        assert!(refused(&bill, "allow = [\n    \"MIT\",\n]").is_empty());
        assert_eq!(refused(&bill, "allow = [\n    \"ISC\",\n]").len(), 2);
    }
}
