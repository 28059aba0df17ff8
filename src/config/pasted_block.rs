//! A JSON object with outer braces that is pasted between the keys of a YAML file, as the manuals of MCP
//! servers print it. YAML does not allow that, so the object is cut out and its keys join those of the file.

use figment::value::{Dict, Value};

/// The keys of the file with those of the pasted object; `None` if there is no such object.
pub(super) fn parse(text: &str, yaml: impl Fn(&str) -> Result<Dict, String>) -> Option<Result<Dict, String>> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let object = |start: usize| {
        let block = text.get(start..)?;
        let first = block.starts_with('{').then_some(block)?;
        let mut stream = serde_json::Deserializer::from_str(first).into_iter::<Value>();
        let Value::Dict(_, pasted) = stream.next()?.ok()? else { return None };
        let end = start + stream.byte_offset();
        // The lines stay, so that the errors of the rest name the right ones.
        let lines = text.get(start..end)?.matches('\n').map(|_| "\n");
        let rest = [text.get(..start)?, &lines.collect::<String>(), text.get(end..)?].concat();
        Some((pasted, rest))
    };
    let (pasted, rest) = starts.into_iter().find_map(object)?;
    Some(yaml(&rest).and_then(|mut keys| {
        for (key, value) in pasted {
            if keys.insert(key.clone(), value).is_some() {
                return Err(format!("the key '{key}' is in the file and in the pasted block, too"));
            }
        }
        Ok(keys)
    }))
}
