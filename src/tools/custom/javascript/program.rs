//! Makes two programs of a tool file: one describes the tool, one runs its handler. `export default`
//! becomes a global, because the sandbox has no modules; line numbers stay the same.

use super::error::ToolFileError;

/// Reports the description of the tool.
const DESCRIBE: &str = r"
;(() => {
  const tool = globalThis.__tool;
  if (typeof tool !== 'object' || tool === null) throw new TypeError('`export default` has to be an object');
  if (typeof tool.handler !== 'function') throw new TypeError('it has no handler: handler(args, host) { … }');
  const { name, description, parameters, permissions, timeout_s, idempotent, cacheable } = tool;
  __host('describe', JSON.stringify({ name, description, parameters, permissions, timeout_s, idempotent, cacheable }));
})()
";

/// Calls the handler. The result is sent in pieces, because the length of a host call is limited.
const CALL: &str = r"
;(async () => {
  const call = (name, request) => JSON.parse(__host(name, JSON.stringify(request)));
  const host = Object.freeze({
    fetch: (url, options) => call('fetch', { ...options, url: String(url) }),
    readFile: (path) => call('readFile', { path: String(path) }),
    writeFile: (path, text) => call('writeFile', { path: String(path), text: String(text) }),
    listFiles: (path) => call('listFiles', { path: path === undefined ? '.' : String(path) }),
  });
  const value = await globalThis.__tool.handler(JSON.parse(__host('arguments', '')), host);
  // A lone surrogate is not valid UTF-8.
  const wellFormed = (key, item) => (typeof item === 'string' ? item.toWellFormed() : item);
  const text = JSON.stringify(value, wellFormed) ?? 'null';
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + 60000, text.length);
    const last = text.charCodeAt(end - 1);
    if (last >= 0xd800 && last < 0xdc00 && end < text.length) end++;
    __host('result', text.slice(at, end));
    at = end;
  }
})()
";

/// A file's text with its export made a global.
#[derive(Debug, Clone)]
pub(super) struct ToolScript(String);

/// Turns the export into a global.
pub(super) fn parse_export(source: &str) -> Result<ToolScript, ToolFileError> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut exports = 0_usize;
    let line = |line: &str| match rest_of_export(line) {
        Some(rest) => {
            exports = exports.saturating_add(1);
            format!("globalThis.__tool = {rest}")
        }
        None => line.to_owned(),
    };
    let text = source.split('\n').map(line).collect::<Vec<_>>().join("\n");
    if exports == 1 {
        return Ok(ToolScript(text));
    }
    let found = if exports == 0 { "it has none".to_owned() } else { format!("it has {exports}") };
    Err(ToolFileError::Invalid(format!("needs one line that begins with `export default {{`; {found}")))
}

/// The rest of a line that begins with `export default`.
fn rest_of_export(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("export")?.strip_prefix([' ', '\t'])?.trim_start();
    let rest = rest.strip_prefix("default")?;
    rest.starts_with([' ', '\t', '{', '\r']).then_some(rest).or(rest.is_empty().then_some(rest))
}

impl ToolScript {
    /// The program that reports the description.
    pub(super) fn describe_program(&self) -> String {
        format!("{}{DESCRIBE}", self.0)
    }

    /// The program that runs its handler.
    pub(super) fn call_program(&self) -> String {
        format!("{}{CALL}", self.0)
    }
}
