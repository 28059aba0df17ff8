// Looks at a file of lines before it is sent: by the server, or here where the server cannot.

import { t } from "../../lib/i18n.js";

const MOST_FAULTS = 100;
const MOST_LINES = 50_000;
const MOST_BYTES = 200e6;
const KINDS = ["/v1/jobs", "/v1/chat/completions", "/v1/responses"];

/** The lines of a file, without holding the whole of it. */
async function* linesOf(file) {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield lines;
  }
  if (rest !== "") yield [rest];
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** What is wrong with a line; null if nothing that can be seen from here. */
function faultOf(text, ids) {
  let line;
  try {
    line = JSON.parse(text);
  } catch (error) {
    return { code: "invalid_json", message: t("This is not JSON: {reason}", { reason: error.message }), param: null };
  }
  if (!isObject(line)) return { code: "invalid_line", message: t("A line must be an object with custom_id and body."), param: null };
  const id = line.custom_id;
  if (typeof id !== "string" || id.length < 1 || id.length > 256) {
    return { code: "invalid_value", message: t("custom_id must be a text of 1 to 256 characters."), param: "custom_id" };
  }
  if (ids.has(id)) return { code: "duplicate_custom_id", message: t("The custom_id stands in an earlier line, too."), param: "custom_id" };
  ids.add(id);
  if (!isObject(line.body)) return { code: "invalid_value", message: t("body must be an object with the request."), param: "body" };
  if (line.url !== undefined && !KINDS.includes(line.url)) {
    return { code: "invalid_value", message: t("url must be one of {kinds}.", { kinds: KINDS.join(", ") }), param: "url" };
  }
  const isJob = line.url === undefined || line.url === KINDS[0];
  if (isJob && line.body.input === undefined) return { code: "missing", message: t("body must have an input."), param: "body.input" };
  return null;
}

/** The check of this page: form of the lines, not models and limits. */
export async function check(file, onProgress = () => {}) {
  const result = { lines: 0, valid: 0, faults: [], faults_cut: false, isLocal: true };
  const ids = new Set();
  let number = 0;
  for await (const lines of linesOf(file)) {
    for (const text of lines) {
      number += 1;
      if (text.trim() === "") continue;
      result.lines += 1;
      const fault = faultOf(text, ids);
      if (!fault) result.valid += 1;
      else if (result.faults.length < MOST_FAULTS) result.faults.push({ line: number, ...fault });
      else result.faults_cut = true;
    }
    onProgress(result.lines);
  }
  const whole = (message) => result.faults.unshift({ line: null, code: "file", message, param: null });
  if (result.lines === 0) whole(t("The file has no lines."));
  if (result.lines > MOST_LINES) whole(t("A batch has at most 50,000 lines. Split the file."));
  if (file.size > MOST_BYTES) whole(t("A batch has at most 200 MB. Split the file."));
  return result;
}
