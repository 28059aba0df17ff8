//! Joins the console's modules: each becomes a function inside a larger file, in the order of its imports.
//! The console writes imports and exports in few forms, one on a line; any other form fails the build.

use std::collections::{BTreeMap, BTreeSet};

/// The files that browsers get, by path.
pub(crate) struct Joined {
    pub(crate) files: BTreeMap<String, String>,
    /// The file that each module stands in.
    homes: BTreeMap<String, String>,
    /// The files that each file imports.
    needs: BTreeMap<String, BTreeSet<String>>,
}

/// `import {names} from "target";`
struct Import {
    names: String,
    target: String,
}

struct Module {
    number: usize,
    imports: Vec<Import>,
    /// Modules that are loaded later, with `import("…")`.
    lazy: Vec<String>,
    body: String,
    exports: Vec<String>,
}

/// How the load of a part begins.
const LAZY: &str = "import(\"";

type Modules = BTreeMap<String, Module>;

/// Joins `sources` (path and text). The modules `first` and all that they import stand in one file, that of the
/// last of them.
pub(crate) fn join(sources: &[(String, String)], first: &[&str]) -> Result<Joined, String> {
    let mut modules = Modules::new();
    for (number, (path, source)) in sources.iter().enumerate() {
        modules.insert(path.clone(), parse(number, path, source)?);
    }
    let homes = homes(&modules, first)?;
    let mut joined = Joined { files: BTreeMap::new(), homes, needs: BTreeMap::new() };
    let groups: BTreeSet<String> = joined.homes.values().cloned().collect();
    for file in groups {
        let script = write_file(&file, &modules, &mut joined)?;
        joined.files.insert(file, script);
    }
    Ok(joined)
}

impl Joined {
    /// Adds the file of a module and all that it imports.
    pub(crate) fn needed_files(&self, module: &str, found: &mut Vec<String>) {
        let file = self.homes.get(module).map_or(module, String::as_str);
        if found.iter().any(|known| known == file) {
            return;
        }
        found.push(file.to_owned());
        for need in self.needs.get(file).into_iter().flatten() {
            self.needed_files(need, found);
        }
    }
}

/// Text without indentation, empty lines and lines that are comments.
pub(crate) fn slim(source: &str) -> String {
    let mut slim = String::new();
    let mut is_comment = false;
    for line in source.lines().map(str::trim) {
        let is_start = line.starts_with("/*");
        if is_comment || is_start {
            is_comment = !line.ends_with("*/");
        } else if !line.is_empty() && !line.starts_with("//") {
            slim.push_str(line);
            slim.push('\n');
        }
    }
    slim
}

fn parse(number: usize, path: &str, source: &str) -> Result<Module, String> {
    let mut module = Module { number, imports: vec![], lazy: vec![], body: String::new(), exports: vec![] };
    for line in slim(source).lines() {
        let unknown = || format!("src/console/{path}: the build cannot read: {line}");
        if let Some(import) = line.strip_prefix("import ") {
            let (names, target) = import.split_once(" from \"").ok_or_else(unknown)?;
            let target = resolve(path, target.strip_suffix("\";").ok_or_else(unknown)?);
            module.imports.push(Import { names: names.to_owned(), target });
        } else if let Some(exported) = line.strip_prefix("export ") {
            module.export(exported).ok_or_else(unknown)?;
        } else {
            module.body.push_str(line);
            module.body.push('\n');
        }
        if line.contains("import.meta") {
            return Err(unknown());
        }
    }
    module.resolve_lazy_imports(path);
    Ok(module)
}

impl Module {
    /// Reads what stands behind `export`. `None`: an unknown form.
    fn export(&mut self, exported: &str) -> Option<()> {
        if let Some(names) = exported.strip_prefix("{ ") {
            let names = names.strip_suffix(" };")?;
            self.exports.extend(names.split(", ").map(str::to_owned));
            return Some(());
        }
        if let Some(value) = exported.strip_prefix("default ") {
            self.exports.push("default: whole".to_owned());
            self.body.push_str("const whole = ");
            self.body.push_str(value);
        } else {
            let kinds = ["async function ", "function ", "class ", "const "];
            let named = kinds.iter().find_map(|kind| exported.strip_prefix(kind))?;
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let name: String = named.chars().take_while(|c| is_name(*c)).collect();
            self.exports.push(Some(name).filter(|name| !name.is_empty())?);
            self.body.push_str(exported);
        }
        self.body.push('\n');
        Some(())
    }

    /// The body inside a file: what is loaded later has its place there or in another file.
    fn body_in(&self, file: &str, modules: &Modules, joined: &Joined) -> String {
        let mut body = self.body.clone();
        for target in &self.lazy {
            let home = joined.homes.get(target).unwrap_or(target);
            let later = match modules.get(target) {
                Some(module) if home == file => format!("Promise.resolve(m{})", module.number),
                _ => format!("{LAZY}{}\")", relative(file, home)),
            };
            body = body.replace(&format!("{LAZY}{target}\")"), &later);
        }
        body
    }

    /// Finds `import("…")` and writes its target as a path below the folder.
    fn resolve_lazy_imports(&mut self, path: &str) {
        let mut parts = self.body.split(LAZY);
        let mut body = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (target, rest) = part.split_once('"').unwrap_or((part, ""));
            let target = resolve(path, target);
            for piece in [LAZY, &target, "\"", rest] {
                body.push_str(piece);
            }
            self.lazy.push(target);
        }
        self.body = body;
    }
}

/// The path that `target` means in a module, without `.` and `..`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// How a file names another one in an import.
fn relative(from: &str, target: &str) -> String {
    let up = "../".repeat(from.matches('/').count());
    if up.is_empty() { format!("./{target}") } else { format!("{up}{target}") }
}

/// The file of each module: `first` with all that they import are one, each part that is loaded later is one,
/// and modules that the same parts share are one.
fn homes(modules: &Modules, first: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let main = first.last().copied().unwrap_or_default();
    let mut with_main = Vec::new();
    for path in first {
        in_order(path, modules, &mut with_main, &mut Vec::new())?;
    }
    let lazy: BTreeSet<&String> = modules.values().flat_map(|module| &module.lazy).collect();
    let mut users: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for part in lazy.into_iter().filter(|part| modules.contains_key(*part)) {
        let mut reached = Vec::new();
        in_order(part, modules, &mut reached, &mut Vec::new())?;
        for path in reached.into_iter().filter(|path| !with_main.contains(path)) {
            users.entry(path).or_default().insert(part);
        }
    }
    let mut homes = BTreeMap::new();
    let mut shared: BTreeMap<BTreeSet<&String>, String> = BTreeMap::new();
    for (path, parts) in users {
        let home = match parts.first() {
            Some(part) if parts.len() == 1 => (*part).clone(),
            _ => shared.entry(parts).or_insert_with(|| path.clone()).clone(),
        };
        homes.insert(path, home);
    }
    homes.extend(with_main.into_iter().map(|path| (path, main.to_owned())));
    match modules.keys().find(|path| !homes.contains_key(*path)) {
        Some(path) => Err(format!("nothing imports src/console/{path}")),
        None => Ok(homes),
    }
}

/// Our modules that `path` needs and itself, each behind those that it imports.
fn in_order(
    path: &str,
    modules: &Modules,
    found: &mut Vec<String>,
    open: &mut Vec<String>,
) -> Result<(), String> {
    if found.iter().any(|known| known == path) || path.starts_with("vendor/") {
        return Ok(());
    }
    if open.iter().any(|known| known == path) {
        return Err(format!("src/console/{path} imports itself through {}", open.join(", ")));
    }
    let module = modules.get(path).ok_or_else(|| format!("src/console/{path} is not there"))?;
    open.push(path.to_owned());
    for import in &module.imports {
        in_order(&import.target, modules, found, open)?;
    }
    open.pop();
    found.push(path.to_owned());
    Ok(())
}

/// One file: imports of other files, its modules as functions, and their exports.
fn write_file(file: &str, modules: &Modules, joined: &mut Joined) -> Result<String, String> {
    let mut order = Vec::new();
    // The file's own module comes last: it may start what needs the others.
    let members = joined.homes.iter().filter(|(path, home)| *home == file && *path != file);
    for path in members.map(|(path, _)| path.as_str()).chain([file]) {
        in_order(path, modules, &mut order, &mut Vec::new())?;
    }
    order.retain(|path| joined.homes.get(path).is_some_and(|home| home == file));
    let mut outer: BTreeMap<String, String> = BTreeMap::new();
    let mut parts = Vec::new();
    let mut names = Vec::new();
    for path in &order {
        let Some(module) = modules.get(path) else { continue };
        let mut imports = Vec::new();
        for import in &module.imports {
            let source = name_of(&import.target, modules, joined, &mut outer);
            imports.push(bind(&import.names, &source));
        }
        let name = format!("m{}", module.number);
        let (imports, body) = (imports.concat(), module.body_in(file, modules, joined));
        let exports = module.exports.join(", ");
        parts.push(format!("const {name} = (() => {{\n{imports}{body}return {{ {exports} }};\n}})();\n"));
        names.push(name);
    }
    parts.push(format!("export {{ {} }};\n", names.join(", ")));
    if let Some(module) = modules.get(file) {
        parts.push(own_exports(module));
    }
    outer.retain(|_, home| home != file);
    joined.needs.insert(file.to_owned(), outer.values().cloned().collect());
    let heads: Vec<String> =
        outer.iter().map(|(name, home)| import_line(name, &relative(file, home))).collect();
    Ok(heads.concat() + &parts.concat())
}

/// The import of another file: all of a library, or one of our modules.
fn import_line(name: &str, path: &str) -> String {
    if name.starts_with("vendor") {
        return format!("import * as {name} from \"{path}\";\n");
    }
    format!("import {{ {name} }} from \"{path}\";\n")
}

/// The name of a module inside a file; `outer` keeps where the name comes from.
fn name_of(target: &str, modules: &Modules, joined: &Joined, outer: &mut BTreeMap<String, String>) -> String {
    let (name, home) = match (modules.get(target), joined.homes.get(target)) {
        (Some(module), Some(home)) => (format!("m{}", module.number), home.clone()),
        _ => (target.replace(|c: char| !c.is_alphanumeric(), "_"), target.to_owned()),
    };
    outer.insert(name.clone(), home);
    name
}

/// The names of an import as a line of constants.
fn bind(names: &str, source: &str) -> String {
    if let Some(all) = names.strip_prefix("* as ") {
        return format!("const {all} = {source};\n");
    }
    if names.starts_with('{') {
        return format!("const {} = {source};\n", names.replace(" as ", ": "));
    }
    format!("const {{ default: {names} }} = {source};\n")
}

/// What a part that is loaded on its own gives to who loads it.
fn own_exports(module: &Module) -> String {
    let number = module.number;
    let lines: Vec<String> = module
        .exports
        .iter()
        .map(|name| match name.strip_prefix("default: ") {
            Some(_) => format!("export default m{number}.default;\n"),
            None => format!("export const {{ {name} }} = m{number};\n"),
        })
        .collect();
    lines.concat()
}
