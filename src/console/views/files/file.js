// A file: its text with numbers of lines, or why there is none; and the editor of it.

import { html, useData, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState } from "../../lib/ui.js";
import { bytes, number, plain, short } from "../../lib/format.js";
import { highlight } from "../../lib/markdown.js";
import { t } from "../../lib/i18n.js";
import { Button, Empty, Failure } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";
import { MoveDialog, useRemoval } from "./directory.js";
import { Editor } from "./editor.js";
import { draftKey, drafts, isBinary, nameOf, rawPath, readText } from "./places.js";

/** Longer texts are drawn in pieces without colours: the browser lays out only what is in sight. */
const HIGHLIGHT_CHARS = 200_000;
const PIECE_LINES = 400;
const LINE = 20; // px, as in the style sheet

/** Names of languages that are no extension. */
const LANGUAGES = { h: "c", hpp: "cpp", cc: "cpp", htm: "xml", html: "xml", svg: "xml", mjs: "javascript", cjs: "javascript", toml: "ini", conf: "ini", ps1: "powershell", jsonl: "json", pyi: "python" };

function languageOf(path) {
  const name = nameOf(path).toLowerCase();
  if (name === "dockerfile" || name === "makefile") return name;
  const extension = name.includes(".") ? name.split(".").at(-1) : "";
  return LANGUAGES[extension] ?? extension;
}

/** One piece of the text with its numbers. */
function Piece({ text, first, count, language }) {
  const code = useRef(null);
  useLayoutEffect(() => {
    code.current.textContent = text;
    if (language) highlight(code.current, language);
  }, [text, language]);
  const numbers = useMemo(() => Array.from({ length: count }, (_, at) => first + at).join("\n"), [first, count]);
  return html`<div class="files-piece" style=${{ containIntrinsicHeight: `auto ${count * LINE}px` }}>
    <pre class="files-numbers" aria-hidden="true">${numbers}</pre>
    <pre class="files-code"><code ref=${code} dir="ltr"></code></pre>
  </div>`;
}

function piecesOf(text) {
  if (text.length <= HIGHLIGHT_CHARS) return [{ text, first: 1, count: text.split("\n").length }];
  const lines = text.split("\n");
  const pieces = [];
  for (let at = 0; at < lines.length; at += PIECE_LINES) {
    const some = lines.slice(at, at + PIECE_LINES);
    pieces.push({ text: some.join("\n"), first: at + 1, count: some.length });
  }
  return pieces;
}

/** The text, with one line marked if the address names it. */
function Text({ path, text, line }) {
  const mark = useRef(null);
  const shown = useMemo(() => plain(text.endsWith("\n") ? text.slice(0, -1) : text), [text]);
  const pieces = useMemo(() => piecesOf(shown), [shown]);
  useEffect(() => mark.current?.scrollIntoView({ block: "center" }), [line, text]);
  const language = pieces.length === 1 ? languageOf(path) : "";
  return html`<div class="files-text" tabindex="0" role="region" aria-label=${t("Text of {name}", { name: short(nameOf(path), 80) })}>
    <div class="files-pieces">
      ${line > 0 && html`<div ref=${mark} class="files-mark" style=${{ top: `${8 + (line - 1) * LINE}px` }}></div>`}
      ${pieces.map((each) => html`<${Piece} key=${each.first} ...${each} language=${language} />`)}
    </div>
  </div>`;
}

/** Why no text is shown. A refused read (400) means: no UTF-8, or larger than the server reads in one piece. */
function NoText({ error, size }) {
  return html`<${Empty} title=${error ? t("The file cannot be shown") : t("A binary file")}>
    <p>${error ? plain(error.message) : t("It holds no text ({size}). The console shows text only.", { size: bytes(size) })}</p>
    <p>${t("It can be downloaded, renamed, moved and deleted here.")}</p>
  <//>`;
}

export function File({ id, path, size, line, onSaved, onChanged }) {
  const unsaved = useSignal(drafts);
  const draft = unsaved.get(draftKey(id, path));
  const [isEditing, setEditing] = useState(draft !== undefined);
  const [isMoving, setMoving] = useState(false);
  const file = useData((abort) => readText(id, path, abort), [id, path]);
  const [remove, isBusy] = useRemoval(id, path, false, onChanged);
  const text = file.data?.text;
  const isText = text !== undefined && !isBinary(text);
  const isRefused = file.error?.status === 400;
  const body = () => {
    if (text === undefined && isRefused) return html`<${NoText} error=${file.error} size=${size} />`;
    if (text === undefined) {
      return file.error
        ? html`<${Failure} error=${file.error} onRetry=${file.reload} />`
        : html`<p class="loading" role="status">${t("Loading …")}</p>`;
    }
    if (!isText) return html`<${NoText} size=${size ?? text.length} />`;
    if (isEditing) {
      return html`<${Editor} id=${id} path=${path} file=${file.data} onSaved=${() => {
        file.reload();
        onSaved();
      }} onClose=${() => {
        setEditing(false);
        file.reload();
      }} />`;
    }
    if (text === "") return html`<${Empty} title=${t("The file is empty")}>${t("Edit it to write something.")}<//>`;
    return html`<${Text} path=${path} text=${text} line=${line} />`;
  };
  const lines = isText && text !== "" ? (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n").length : 0;
  return html`<div class="files-file">
    <div class="files-head">
      <h1 class="ellipsis" dir="auto">${short(nameOf(path), 100)}</h1>
      <span class="dim">${size !== undefined && bytes(size)}${lines > 0 && ` · ${t("{n} lines", { n: number(lines) })}`}</span>
      <div class="actions">
        ${isText && !isEditing && html`<${Button} label=${t("Edit")} icon="edit" kind="small primary" onClick=${() => setEditing(true)} />`}
        <a class="button small" href=${rawPath(id, path)} download=${plain(nameOf(path))}><${Icon} name="download" /><span>${t("Download")}</span></a>
        ${isText && !isEditing && html`<${Button} label=${t("Copy")} icon="copy" kind="small" onClick=${() => navigator.clipboard.writeText(text)} />`}
        <${Button} label=${t("Rename or move")} icon="settings" kind="small" disabled=${draft !== undefined} onClick=${() => setMoving(true)} />
        <${Button} label=${t("Delete")} icon="trash" kind="small danger" isBusy=${isBusy} onClick=${remove} />
      </div>
    </div>
    ${isText && !isEditing && plain(text) !== text && html`<p class="notice">${t("The file has invisible characters. They are shown as marks.")}</p>`}
    ${body()}
    ${isMoving && html`<${MoveDialog} id=${id} path=${path} onChanged=${onChanged} onClose=${() => setMoving(false)} />`}
  </div>`;
}
