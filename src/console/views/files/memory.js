// What runs keep for later ones: of the user, or of a project. A dialog that reads, edits and saves it.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { bytes } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, Dialog, Field, Loaded, notify, useAction } from "../../parts/basics.js";
import { tagOf } from "./places.js";

const memoryPath = (project) => api.withQuery("/v1/memory", { project_id: project });

async function readMemory(project, abort) {
  const response = await api.send("GET", memoryPath(project), { signal: abort });
  return { ...(await response.json()), tag: tagOf(response) };
}

function MemoryText({ project, memory, onClose }) {
  const [text, setText] = useState(memory.content);
  const size = new TextEncoder().encode(text).length;
  const [save, isBusy] = useAction(async () => {
    await api.put(memoryPath(project), { content: text }, { headers: { "If-Match": memory.tag } });
    notify(t("Saved."));
    onClose();
  });
  const isTooLarge = size > memory.max_bytes && size > memory.bytes;
  return html`
    <${Field}
      label=${project ? t("What runs of this project keep for later ones") : t("What runs keep for later ones")}
      hint=${t("{used} of {limit}", { used: bytes(size), limit: bytes(memory.max_bytes) })}
      error=${isTooLarge ? t("The text is too long.") : null}
    >
      <textarea rows="14" value=${text} onInput=${(event) => setText(event.currentTarget.value)} autofocus></textarea>
    <//>
    <div class="actions end">
      <${Button} label=${t("Cancel")} onClick=${onClose} />
      <${Button} label=${t("Save")} kind="primary" isBusy=${isBusy} disabled=${isTooLarge || text === memory.content} onClick=${save} />
    </div>
  `;
}

/** The button that opens the memory of a project, or without one of the user. */
export function MemoryButton({ project, kind = "" }) {
  const [isOpen, setOpen] = useState(false);
  return html`<${Button} label=${t("Memory of runs")} icon="think" kind=${kind} onClick=${() => setOpen(true)} />
    ${isOpen && html`<${MemoryDialog} project=${project} onClose=${() => setOpen(false)} />`}`;
}

function MemoryDialog({ project, onClose }) {
  const memory = useData((abort) => readMemory(project, abort), [project]);
  return html`<${Dialog} title=${t("Memory of runs")} onClose=${onClose}>
    <${Loaded} of=${memory}>
      ${(data) => html`<${MemoryText} key=${data.tag} project=${project} memory=${data} onClose=${onClose} />`}
    <//>
  <//>`;
}
