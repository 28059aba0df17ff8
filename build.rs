//! Packs the API's document for the binary: 219 kB of JSON that are read once a run, 14 kB packed. Owns nothing else; what
//! needs a compiler or a network has no place here.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

/// As a test draws it.
const DOCUMENT: &str = "src/http/openapi/openapi.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let out = std::env::var_os("OUT_DIR").ok_or("cargo names an OUT_DIR")?;
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&std::fs::read(DOCUMENT)?)?;
    std::fs::write(PathBuf::from(out).join("openapi.json.deflate"), packed.finish()?)?;
    Ok(())
}
