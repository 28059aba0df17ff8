//! Packs the console's files (`src/console/`) into the binary: compressed, and under an address that holds a
//! hash of them all, so that browsers keep them for good and never mix two versions.

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

const FOLDER: &str = "src/console";
/// Files for people who read the folder; browsers need none of them.
const UNSERVED: [&str; 2] = ["vendor/manifest.json", "vendor/LICENCES.txt"];
/// The address of the files in the page, before the hash is known.
const PAGE_PREFIX: &str = "\"console/";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed={FOLDER}");
    let mut files = Vec::new();
    list(Path::new(FOLDER), &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        hash.update(file.to_string_lossy().as_bytes());
        hash.update(fs::read(file)?);
    }
    let mut version = String::new();
    for byte in hash.finalize().iter().take(8) {
        write!(version, "{byte:02x}").map_err(io::Error::other)?;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut table = format!("const VERSION: &str = \"{version}\";\n");
    table.push_str("static FILES: &[PackedFile] = &[\n");
    for (number, file) in files.iter().enumerate() {
        let path = file.strip_prefix(FOLDER).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        if UNSERVED.contains(&path.as_str()) {
            continue;
        }
        let mut content = fs::read(file)?;
        if path == "index.html" {
            let page = String::from_utf8_lossy(&content);
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
