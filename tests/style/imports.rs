//! Forbids import cycles between the files of a module. A name that a `mod.rs` re-exports counts as an
//! import of the file that defines it.

use super::source::{Source, regex, sources};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// The segments of an import path.
type Segments = Vec<String>;

/// A file in the import graph.
struct Module {
    path: String,
    /// Its module path in the crate.
    segments: Segments,
    /// Its top-level items.
    items: BTreeSet<String>,
    /// Its re-exports, by name.
    exports: BTreeMap<String, Segments>,
    /// The modules that it re-exports with a glob.
    globs: Vec<Segments>,
    /// The paths that it imports or uses.
    imports: Vec<Segments>,
}

fn segments(path: &str) -> Segments {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// `foo/mod.rs` and `foo.rs` are the module `foo`.
fn module_path(folder: &str, path: &str) -> Segments {
    let inside = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/').trim_end_matches(".rs");
    let mut module_path: Segments = inside.split('/').map(str::to_owned).collect();
    if module_path.last().is_some_and(|last| last == "mod") || module_path == ["lib"] {
        module_path.pop();
    }
    module_path
}

/// The parts of a list in braces, without splitting inner lists.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_i64, 0, Vec::new());
    for (at, byte) in list.bytes().enumerate() {
        depth += i64::from(byte == b'{') - i64::from(byte == b'}');
        if byte == b',' && depth == 0 {
            found.push(&list[start..at]);
            start = at + 1;
        }
    }
    found.push(&list[start..]);
    found
}

/// All paths of a `use` tree, each with the imported name.
fn flatten(tree: &str) -> Vec<(Segments, String)> {
    let tree = tree.trim();
    if let Some((head, list)) = tree.split_once('{') {
        let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
        let inner = parts(list).into_iter().filter(|part| !part.trim().is_empty()).flat_map(flatten);
        let joined = |(path, name): (Segments, String)| {
            let path = [segments(head), path].concat();
            // `self` imports the module before the braces.
            let name = if name.is_empty() { path.last().cloned().unwrap_or_default() } else { name };
            (path, name)
        };
        return inner.map(joined).collect();
    }
    let (path, alias) = tree.rsplit_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = segments(path);
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = alias.map(|alias| alias.trim().to_owned()).or_else(|| path.last().cloned());
    vec![(path, name.unwrap_or_default())]
}

fn top_level_items(text: &str) -> BTreeSet<String> {
    let token = regex(
        r"[{}]|\b(?:struct|enum|trait|type|union|fn|const|static|mod|macro_rules!)\s+(?:mut\s+)?([A-Za-z_]\w*)",
    );
    let (mut depth, mut items) = (0_u32, BTreeSet::new());
    for capture in token.captures_iter(text) {
        match (&capture[0], capture.get(1)) {
            ("{", _) => depth += 1,
            ("}", _) => depth = depth.saturating_sub(1),
            (_, Some(name)) if depth == 0 => drop(items.insert(name.as_str().to_owned())),
            _ => {}
        }
    }
    items
}

/// The matches that start a path and do not continue one.
fn paths(pattern: &Regex, text: &str) -> Vec<Segments> {
    let begins = |at: usize| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        !(before.is_alphanumeric() || ['_', ':', '$'].contains(&before))
    };
    pattern
        .find_iter(text)
        .filter(|found| begins(found.start()))
        .map(|found| segments(found.as_str()))
        .collect()
}

fn module(folder: &str, source: &Source, module_paths: &BTreeSet<Segments>) -> Module {
    let import = regex(r"(?m)^([ \t]*)(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);");
    let module_path = module_path(folder, &source.path);
    let (mut exports, mut globs, mut imports) = (BTreeMap::new(), Vec::new(), Vec::new());
    for capture in import.captures_iter(&source.text) {
        let is_export = capture[1].is_empty() && capture.get(2).is_some();
        for (mut path, name) in flatten(&capture[3]) {
            if !is_export {
                imports.push(path);
            } else if name == "*" {
                path.pop();
                globs.push(path);
            } else {
                exports.insert(name, path);
            }
        }
    }
    let body = import.replace_all(&source.text, " ");
    imports.extend(paths(&regex(r"(?:crate|super|self)(?:\s*::\s*\w+)+"), &body));
    for mut path in paths(&regex(r"[a-z_]\w*(?:\s*::\s*\w+)+"), &body) {
        if module_paths.contains(&[module_path.clone(), vec![path[0].clone()]].concat()) {
            path.insert(0, "self".to_owned());
            imports.push(path);
        }
    }
    Module {
        path: source.path.clone(),
        segments: module_path,
        items: top_level_items(&source.text),
        exports,
        globs,
        imports,
    }
}

/// The modules of one crate.
struct Crate(BTreeMap<Segments, Module>);

impl Crate {
    fn read(folder: &str) -> Self {
        let all = sources(folder);
        let module_paths: BTreeSet<Segments> =
            all.iter().map(|source| module_path(folder, &source.path)).collect();
        Self(
            all.iter()
                .map(|source| module(folder, source, &module_paths))
                .map(|m| (m.segments.clone(), m))
                .collect(),
        )
    }

    /// The file that defines the target of a path as seen from a module; `None` for items of other crates.
    fn defining(&self, from: &[String], path: &[String], depth: u32) -> Option<&Module> {
        if depth > 12 {
            return None;
        }
        let (mut here, mut path) = (from.to_vec(), path);
        match path.first().map(String::as_str)? {
            "crate" => (here, path) = (Vec::new(), &path[1..]),
            "self" | "super" => {
                while let Some(step @ ("self" | "super")) = path.first().map(String::as_str) {
                    if step == "super" {
                        here.pop();
                    }
                    path = &path[1..];
                }
            }
            first => {
                let is_child = self.0.contains_key(&[here.clone(), vec![first.to_owned()]].concat());
                let is_exported =
                    depth > 0 && self.0.get(&here).is_some_and(|m| m.exports.contains_key(first));
                if !is_child && !is_exported {
                    return None;
                }
            }
        }
        while let Some(next) = path.first() {
            let inner = [here.clone(), vec![next.clone()]].concat();
            if !self.0.contains_key(&inner) {
                break;
            }
            (here, path) = (inner, &path[1..]);
        }
        let module = self.0.get(&here)?;
        let Some(name) = path.first().filter(|name| *name != "*" && !module.items.contains(*name)) else {
            return Some(module);
        };
        if let Some(exported) = module.exports.get(name) {
            let joined = [exported.clone(), path[1..].to_vec()].concat();
            return self.defining(&here, &joined, depth + 1).or(Some(module));
        }
        let mut all = module.globs.iter().filter_map(|glob| self.defining(&here, glob, depth + 1));
        let exporter = all.find(|m| m.items.contains(name) || m.exports.contains_key(name));
        let resolve = |m: &Module| self.defining(&m.segments, &["self".to_owned(), name.clone()], depth + 1);
        exporter.and_then(resolve).or(Some(module))
    }

    /// For each file the files of its top-level module that it imports from, with the imported names.
    fn graph(&self, is_one_module: bool) -> BTreeMap<&str, BTreeMap<&str, BTreeSet<String>>> {
        let mut graph: BTreeMap<&str, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
        for module in self.0.values() {
            for import in &module.imports {
                let Some(other) = self.defining(&module.segments, import, 0) else { continue };
                let is_inside = is_one_module || module.segments.first() == other.segments.first();
                if is_inside && other.path != module.path {
                    let names = graph.entry(&module.path).or_default().entry(&other.path).or_default();
                    names.insert(import.join("::"));
                }
            }
        }
        graph
    }
}

/// All files that can be reached from a file.
fn reachable<'a, T>(graph: &BTreeMap<&'a str, BTreeMap<&'a str, T>>, from: &str) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<&str> = graph.get(from).into_iter().flat_map(BTreeMap::keys).copied().collect();
    while let Some(file) = next.pop() {
        if found.insert(file) {
            next.extend(graph.get(file).into_iter().flat_map(BTreeMap::keys).copied());
        }
    }
    found
}

#[test]
fn files_import_each_other_in_one_direction() {
    let mut circles = Vec::new();
    for folder in ["src", "sandbox/src"] {
        let all = Crate::read(folder);
        let graph = all.graph(folder != "src");
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            graph.keys().map(|f| (*f, reachable(&graph, f))).collect();
        for (file, imports) in &graph {
            let is_cyclic = |to: &&str| reach.get(*to).is_some_and(|reach| reach.contains(*file));
            for (to, names) in imports.iter().filter(|(to, _)| is_cyclic(to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                circles.push(format!("{file} -> {to}   ({})", names.join(", ")));
            }
        }
    }
    assert!(circles.is_empty(), "{} imports are part of a cycle:\n{}", circles.len(), circles.join("\n"));
}

#[test]
fn use_trees_are_flattened_to_paths() {
    let found = flatten("crate::a::{self, b::{C, d as e}, F}");
    let found: Vec<String> =
        found.iter().map(|(path, name)| format!("{} as {name}", path.join("::"))).collect();
    assert_eq!(found, ["crate::a as a", "crate::a::b::C as C", "crate::a::b::d as e", "crate::a::F as F"]);
}
