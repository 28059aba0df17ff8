// The editor of a text file. What is not saved is kept while the page lives, also when another file is opened.

import { html, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, Dialog, confirm, notify, useAction } from "../../parts/basics.js";
import { draftKey, drafts, expecting, nameOf, readText, setDraft, writeText } from "./places.js";

/** A text area knows one end of a line only; files of Windows get theirs back. */
const isWindows = (text) => text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
const forArea = (text) => text.replace(/\r\n?/g, "\n");
const forFile = (text, base) => (isWindows(base) ? text.replace(/\n/g, "\r\n") : text);

/** Longer texts are shown in part: enough to see what is new. */
const SHOWN_CHARS = 20_000;

/** The file is another one than the one that was edited: what now? */
function Conflict({ name, text, onOverwrite, onTheirs, onClose }) {
  return html`<${Dialog} title=${t("The file has changed meanwhile")} onClose=${onClose}>
    <p>${t("Somebody or a tool has written {name} since you began. Your text is not saved yet.", { name })}</p>
    <details><summary>${t("See the new text")}</summary><pre class="files-theirs" tabindex="0">${plain(text.slice(0, SHOWN_CHARS))}</pre></details>
    <div class="actions end">
      <${Button} label=${t("Go on editing")} onClick=${onClose} />
      <${Button} label=${t("Take the new text")} onClick=${onTheirs} />
      <${Button} label=${t("Overwrite it")} kind="danger" onClick=${onOverwrite} />
    </div>
  <//>`;
}

/** Numbers beside the area, moved as it scrolls. */
function Numbers({ count, strip }) {
  const text = useMemo(() => Array.from({ length: count }, (_, at) => at + 1).join("\n"), [count]);
  return html`<div class="files-edit-numbers" aria-hidden="true"><pre ref=${strip} class="files-numbers">${text}</pre></div>`;
}

/** The file as it is now; a deleted one is empty. */
async function newest(id, path) {
  try {
    return await readText(id, path);
  } catch (error) {
    if (error.status !== 404) throw error;
    return { text: "", tag: null };
  }
}

/** The text that is edited, kept as a draft; and the ways to save it. `file` and `base`: `{text, tag}`. */
function useText({ id, path, file, onSaved }) {
  const key = draftKey(id, path);
  const kept = drafts.peek().get(key);
  const base = useRef(kept?.base ?? file);
  const [value, setValue] = useState(kept?.text ?? forArea(file.text));
  const [theirs, setTheirs] = useState(null);
  const name = short(nameOf(path), 80);
  useEffect(() => {
    if (kept) notify(t("Your unsaved changes of {name} are here again.", { name }));
    return () => {
      if (drafts.peek().has(key)) notify(t("The changes of {name} are not saved. They stay until you close this page.", { name }));
    };
  }, []);
  const change = (next) => {
    setValue(next);
    setDraft(key, next === forArea(base.current.text) ? null : { base: base.current, text: next });
  };
  const write = async (expected) => {
    const text = forFile(value, base.current.text);
    base.current = { text, tag: await writeText(id, path, text, expected) };
    setDraft(key, null);
    setTheirs(null);
    notify(t("Saved."));
    onSaved();
  };
  const [save, isSaving] = useAction(async () => {
    try {
      await write(expecting(base.current.tag));
    } catch (error) {
      if (error.status !== 412) throw error;
      setTheirs(await newest(id, path));
    }
  });
  const [overwrite, isWriting] = useAction(() => write({}));
  const takeTheirs = () => {
    base.current = theirs;
    setTheirs(null);
    change(forArea(theirs.text));
  };
  const isChanged = value !== forArea(base.current.text);
  const forget = () => setDraft(key, null);
  return { value, change, isChanged, isBusy: isWriting || isSaving, save, overwrite, theirs, takeTheirs, goOn: () => setTheirs(null), forget };
}

export function Editor({ id, path, file, onSaved, onClose }) {
  const edited = useText({ id, path, file, onSaved });
  const [area, strip] = [useRef(null), useRef(null)];
  const name = short(nameOf(path), 80);
  useEffect(() => area.current.focus(), []);
  const close = async () => {
    if (edited.isChanged && !(await confirm(t("Your changes of {name} will be lost.", { name }), t("Discard changes")))) return;
    edited.forget();
    onClose();
  };
  const onKey = (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "s") return;
    event.preventDefault();
    if (edited.isChanged && !edited.isBusy) edited.save();
  };
  return html`<div class="files-editor">
    <div class="files-edit-bar row">
      <${Button} label=${t("Save")} icon="check" kind="small primary" isBusy=${edited.isBusy} disabled=${!edited.isChanged} onClick=${edited.save} />
      <${Button} label=${edited.isChanged ? t("Discard changes") : t("Close the editor")} kind="small" onClick=${close} />
      <span class="faint" role="status">${edited.isChanged ? t("Not saved. Ctrl+S saves.") : t("No changes.")}</span>
    </div>
    <div class="files-edit-frame">
      <${Numbers} count=${edited.value.split("\n").length} strip=${strip} />
      <textarea
        ref=${area}
        class="files-area"
        aria-label=${t("Text of {name}", { name })}
        wrap="off"
        spellcheck=${false}
        autocapitalize="none"
        autocomplete="off"
        value=${edited.value}
        onInput=${(event) => edited.change(event.currentTarget.value)}
        onScroll=${(event) => (strip.current.style.transform = `translateY(${-event.currentTarget.scrollTop}px)`)}
        onKeyDown=${onKey}
      ></textarea>
    </div>
    ${edited.theirs !== null &&
    html`<${Conflict} name=${name} text=${edited.theirs.text} onClose=${edited.goOn} onOverwrite=${edited.overwrite} onTheirs=${edited.takeTheirs} />`}
  </div>`;
}
