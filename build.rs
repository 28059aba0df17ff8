//! Packs the console's files (`src/console/`) into the binary: compressed, and under an address that holds a
//! hash of them all, so that browsers keep them for good and never mix two versions.
//!
//! Our modules are joined to few files, one for each part that is loaded on its own, without comments and
//! indentation: fewer requests, and far fewer bytes. The folder itself also works as it is, without this step.
//! The `OpenAPI` document is compressed, too.

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "build/modules.rs"]
mod modules;

const FOLDER: &str = "src/console";
const PAGE: &str = "index.html";
const OPENAPI: &str = "src/http/openapi/openapi.json";
/// Files for people who read the folder; browsers need none of them.
const UNSERVED: [&str; 2] = ["vendor/manifest.json", "vendor/LICENCES.txt"];
/// The address of the files in the page, before the hash is known.
const PAGE_PREFIX: &str = "\"console/";
/// The view that most visits begin with, and the module that the page starts.
const FIRST_MODULES: [&str; 2] = ["views/chat.js", MAIN];
const MAIN: &str = "main.js";
/// The link of the page behind which those of the other first files stand.
const FIRST_LINK: &str = "<link rel=\"modulepreload\" href=\"console/main.js\" />";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed={FOLDER}");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed={OPENAPI}");
    fs::write(out_dir()?.join("openapi.json.gz"), pack(&fs::read(OPENAPI)?)?)?;
    let mut paths = Vec::new();
    list(Path::new(FOLDER), &mut paths)?;
    paths.sort();
    let mut files = Vec::new();
    let mut sources = Vec::new();
    for file in paths {
        let path = file.strip_prefix(FOLDER).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        if UNSERVED.contains(&path.as_str()) {
            continue;
        }
        let content = fs::read(&file)?;
        let is_own = !path.starts_with("vendor/");
        match path.rsplit_once('.').map(|(_, extension)| extension) {
            Some("js") if is_own => sources.push((path, text(content)?)),
            Some("css") if is_own => files.push((path, modules::slim(&text(content)?).into_bytes())),
            _ => files.push((path, content)),
        }
    }
    let joined = modules::join(&sources, &FIRST_MODULES).map_err(io::Error::other)?;
    let mut first = Vec::new();
    joined.needed_files(MAIN, &mut first);
    files.extend(joined.files.into_iter().map(|(path, script)| (path, script.into_bytes())));
    files.sort();
    write(files, &first)
}

/// Writes the packed files and a table of them for `src/http/console.rs`.
fn write(files: Vec<(String, Vec<u8>)>, first: &[String]) -> io::Result<()> {
    let mut hash = Sha256::new();
    for (path, content) in &files {
        hash.update(path.as_bytes());
        hash.update(content);
    }
    let mut version = String::new();
    for byte in hash.finalize().iter().take(8) {
        write!(version, "{byte:02x}").map_err(io::Error::other)?;
    }
    let out = out_dir()?;
    let mut table = format!("const VERSION: &str = \"{version}\";\n");
    table.push_str("static FILES: &[PackedFile] = &[\n");
    for (number, (path, mut content)) in files.into_iter().enumerate() {
        if path == PAGE {
            let page = with_first_files(&text(content)?, first);
            content = page.replace(PAGE_PREFIX, &format!("\"console/{version}/")).into_bytes();
        }
        let packed = out.join(format!("console-{number}.gz"));
        fs::write(&packed, pack(&content)?)?;
        let packed = packed.display().to_string();
        writeln!(table, "    PackedFile {{ path: {path:?}, gzip: include_bytes!({packed:?}) }},")
            .map_err(io::Error::other)?;
    }
    table.push_str("];\n");
    fs::write(out.join("console_files.rs"), table)
}

fn out_dir() -> io::Result<PathBuf> {
    Ok(PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?))
}

/// The page with links to all files that the first view needs: a browser asks for them at once, instead of
/// for each when it has read the one before.
fn with_first_files(page: &str, first: &[String]) -> String {
    let link = |path: &String| FIRST_LINK.replace(MAIN, path);
    page.replace(FIRST_LINK, &first.iter().map(link).collect::<Vec<_>>().join("\n    "))
}

fn text(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(io::Error::other)
}

/// All files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// Without a time, so that the same source gives the same binary.
fn pack(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}
