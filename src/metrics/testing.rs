//! A strict reader of the text format 0.0.4, for tests: every scraper reads what it accepts.

use std::collections::{BTreeMap, BTreeSet};

/// Name and labels of a sample.
pub(crate) type Series = (String, BTreeMap<String, String>);

/// All samples, or the line that is not valid and why.
pub(crate) fn read(text: &str) -> Result<BTreeMap<Series, f64>, String> {
    let mut reader = TextReader::default();
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        reader.line(line).map_err(|reason| format!("line {}: {reason}: {line}", number + 1))?;
    }
    reader.end_family()?;
    Ok(reader.samples)
}

#[derive(Default)]
struct TextReader {
    samples: BTreeMap<Series, f64>,
    seen: BTreeSet<String>,
    /// The family of the last HELP, and its TYPE once it was read.
    family: String,
    kind: Option<String>,
    /// The samples of the family, in their order.
    current: Vec<(Series, f64)>,
}

impl TextReader {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("no help")?;
            self.end_family().map_err(|_| "the family before it is not whole")?;
            is_name(name).then_some(()).ok_or("a bad name")?;
            (!help.is_empty()).then_some(()).ok_or("an empty help")?;
            self.seen.insert(name.to_owned()).then_some(()).ok_or("a second HELP")?;
            (self.family, self.kind) = (name.to_owned(), None);
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("no type")?;
            (name == self.family && self.kind.is_none()).then_some(()).ok_or("a TYPE of nothing")?;
            ["counter", "gauge", "histogram"].contains(&kind).then_some(()).ok_or("a bad type")?;
            (kind == "counter")
                .eq(&name.ends_with("_total"))
                .then_some(())
                .ok_or("_total is for counters")?;
            self.kind = Some(kind.to_owned());
            return Ok(());
        }
        self.sample(line)
    }

    fn sample(&mut self, line: &str) -> Result<(), &'static str> {
        let kind = self.kind.as_deref().ok_or("a sample before its TYPE")?;
        let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
        let value: f64 = value.parse().map_err(|_| "a bad value")?;
        let (name, labels) = match series.split_once('{') {
            None => (series, BTreeMap::new()),
            Some((name, rest)) => (name, labels(rest.strip_suffix('}').ok_or("no end of labels")?)?),
        };
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        let is_own = suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(&self.family));
        is_own.then_some(()).ok_or("a sample of another family")?;
        (kind == "gauge" || value >= 0.0).then_some(()).ok_or("a count below nothing")?;
        let series = (name.to_owned(), labels);
        self.current.push((series.clone(), value));
        self.samples.insert(series, value).is_none().then_some(()).ok_or("a series twice")
    }

    /// Checks a histogram: bounds rise, counts do not fall, the last bucket is `+Inf` and equals `_count`.
    fn end_family(&mut self) -> Result<(), String> {
        let samples = std::mem::take(&mut self.current);
        let fault = |why: &str| Err(format!("{}: {why}", self.family));
        if !self.family.is_empty() && samples.is_empty() {
            return fault("no sample");
        }
        if self.kind.as_deref() != Some("histogram") {
            return Ok(());
        }
        let (mut bound, mut count) = (f64::NEG_INFINITY, 0.0);
        for ((name, labels), value) in samples {
            let suffix = name.strip_prefix(&self.family).unwrap_or_default();
            match suffix {
                "_bucket" => {
                    let Some(le) = labels.get("le").and_then(|le| le.parse::<f64>().ok()) else {
                        return fault("a bucket without a bound");
                    };
                    if bound == f64::INFINITY {
                        (bound, count) = (f64::NEG_INFINITY, 0.0);
                    }
                    if le <= bound || value < count {
                        return fault("buckets that fall");
                    }
                    (bound, count) = (le, value);
                }
                "_sum" if bound == f64::INFINITY => {}
                "_count" if bound == f64::INFINITY && (value - count).abs() < 0.5 => {}
                _ => return fault("not closed by +Inf, _sum and _count"),
            }
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    starts_well && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, &'static str> {
    let mut parsed = BTreeMap::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        is_name(name).then_some(()).ok_or("a bad label")?;
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().ok_or("a value without an end")? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().ok_or("a lone backslash")?.1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    _ => return Err("a bad escape"),
                }),
                (_, literal) => value.push(literal),
            }
        };
        parsed.insert(name.to_owned(), value).is_none().then_some(()).ok_or("a label twice")?;
        rest = after.get(end + 1..).ok_or("a cut value")?;
        match rest.strip_prefix(',') {
            Some(tail) => rest = tail,
            None if rest.is_empty() => return Ok(parsed),
            None => return Err("something behind a value"),
        }
    }
}
