// Ways to bring files in: pickers, a place to drop them, and how far the upload is.

import { html, useRef, useSignal, useState } from "../../lib/ui.js";
import { bytes, number } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button } from "../../parts/basics.js";
import { droppedFiles, pickedFiles, upload } from "./upload.js";

/** A button that opens the browser's picker of files or of a folder. */
export function Picker({ label, isFolder = false, kind, onFiles }) {
  const input = useRef(null);
  const take = (event) => {
    const files = pickedFiles(event.currentTarget.files);
    event.currentTarget.value = ""; // the same folder can be taken again
    onFiles(files);
  };
  return html`
    <${Button} label=${label} icon=${isFolder ? "folder" : "attach"} kind=${kind} onClick=${() => input.current.click()} />
    <input ref=${input} type="file" multiple hidden webkitdirectory=${isFolder} aria-label=${label} onChange=${take} />
  `;
}

/** A part of the page that takes dropped files and folders. */
export function DropPlace({ class: names = "", onFiles, children }) {
  const [isOver, setOver] = useState(false);
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const over = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setOver(true);
  };
  const leave = (event) => event.currentTarget.contains(event.relatedTarget) || setOver(false);
  const drop = async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setOver(false);
    onFiles(await droppedFiles(event.dataTransfer));
  };
  return html`<div class="${names} ${isOver ? "files-is-over" : ""}" onDragOver=${over} onDragLeave=${leave} onDrop=${drop}>
    ${children}
  </div>`;
}

/** How far the running upload is. */
export function UploadProgress() {
  const now = useSignal(upload);
  if (!now) return null;
  const text = t("{done} of {total} files, {size} of {whole}", {
    done: number(now.done),
    total: number(now.total),
    size: bytes(now.doneBytes),
    whole: bytes(now.totalBytes),
  });
  const share = now.totalBytes > 0 ? now.doneBytes / now.totalBytes : now.done / now.total;
  return html`<div class="files-progress" role="status">
    <progress aria-label=${t("Upload")} max="1" value=${share}></progress>
    <span class="dim">${text}</span>
    <${Button} label=${t("Stop")} icon="stop" kind="small" onClick=${now.stop} />
  </div>`;
}
