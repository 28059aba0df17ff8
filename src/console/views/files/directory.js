// A directory: what lies in it, and what can be done with it.

import { html, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { bytes, number, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, Empty, confirm, notify, useAction } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";
import { NameDialog, ProjectDialog } from "./dialogs.js";
import { MemoryButton } from "./memory.js";
import { Picker } from "./picker.js";
import { draftKey, expecting, filePath, joined, nameOf, parentOf, placeHref, projectPath, setDraft, writeText } from "./places.js";

const PAGE = 200;

/** Moves a file or directory: a dialog with its whole path. */
export function MoveDialog({ id, path, onChanged, onClose }) {
  return html`<${NameDialog}
    title=${t("Rename or move")}
    label=${t("Path in the project")}
    hint=${t("Another directory before the name moves it there.")}
    value=${path}
    action=${t("Move")}
    onSave=${(target) => api.data(api.patch(filePath(id, path), { new_path: target }))}
    onDone=${(moved) => {
      onClose();
      onChanged(moved.path);
    }}
    onClose=${onClose}
  />`;
}

/** Deletes a file or directory after a question. */
export function useRemoval(id, path, isDirectory, onChanged) {
  return useAction(async () => {
    const name = short(path, 120);
    const text = isDirectory
      ? t("{name} and all that is in it will be deleted for good.", { name })
      : t("{name} will be deleted for good.", { name });
    if (!(await confirm(text, t("Delete")))) return;
    await api.remove(filePath(id, path));
    setDraft(draftKey(id, path), null);
    notify(t("{name} is deleted.", { name }));
    onChanged(parentOf(path));
  });
}

async function makeFile(id, path) {
  try {
    await writeText(id, path, "", expecting(null));
  } catch (error) {
    throw error.status === 412 ? { message: t("A file of this name is there already.") } : error;
  }
  return path;
}

function Acts({ id, path, project, onFiles, onChanged }) {
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const [remove, isBusy] = useRemoval(id, path, true, onChanged);
  const done = (target) => {
    close();
    onChanged(target);
  };
  const dialogs = {
    file: () => html`<${NameDialog} title=${t("New file")} label=${t("Name")} action=${t("Make the file")}
      onSave=${(name) => makeFile(id, joined(path, name))} onDone=${done} onClose=${close} />`,
    directory: () => html`<${NameDialog} title=${t("New directory")} label=${t("Name")} action=${t("Make the directory")}
      onSave=${async (name) => (await api.data(api.post(projectPath(id, "directories"), { path: joined(path, name) }))).path}
      onDone=${done} onClose=${close} />`,
    move: () => html`<${MoveDialog} id=${id} path=${path} onChanged=${onChanged} onClose=${close} />`,
    project: () => html`<${ProjectDialog} title=${t("Edit project")} action=${t("Save")} project=${project}
      onSave=${(values) => api.patch(projectPath(id), values)} onDone=${() => done(undefined)} onClose=${close} />`,
  };
  return html`<div class="actions">
    <${Button} label=${t("New file")} icon="plus" kind="small" onClick=${() => setDialog("file")} />
    <${Button} label=${t("New directory")} icon="folder" kind="small" onClick=${() => setDialog("directory")} />
    <${Picker} label=${t("Upload files")} kind="small" onFiles=${onFiles} />
    <${Picker} label=${t("Upload a folder")} kind="small" isFolder onFiles=${onFiles} />
    ${path
      ? html`<${Button} label=${t("Rename or move")} icon="edit" kind="small" onClick=${() => setDialog("move")} />
          <${Button} label=${t("Delete")} icon="trash" kind="small danger" isBusy=${isBusy} onClick=${remove} />`
      : project &&
        html`<${Button} label=${t("Edit project")} icon="edit" kind="small" onClick=${() => setDialog("project")} />
          <${MemoryButton} project=${id} kind="small" />`}
    ${dialog && dialogs[dialog]()}
  </div>`;
}

function Entries({ id, path, listing }) {
  const [shown, setShown] = useState(PAGE);
  const entries = [
    ...listing.directories.map(({ name }) => ({ name, isDirectory: true })),
    ...listing.files.map(({ name, size }) => ({ name, size })),
  ];
  return html`
    <div class="table-frame">
      <table>
        <thead><tr><th scope="col">${t("Name")}</th><th scope="col" class="number">${t("Size")}</th></tr></thead>
        <tbody>
          ${entries.slice(0, shown).map(
            (entry) => html`<tr class="link" key=${entry.name}>
              <td>
                <a class="files-entry" href=${placeHref(id, joined(path, entry.name))} dir="auto">
                  <${Icon} name=${entry.isDirectory ? "folder" : "file"} />${plain(entry.name)}
                </a>
              </td>
              <td class="number dim">${entry.isDirectory ? "" : bytes(entry.size)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${entries.length > shown && html`<p class="row files-more"><${Button} label=${t("Show more")} onClick=${() => setShown(shown + PAGE)} /></p>`}
    ${listing.is_cut && html`<p class="notice">${t("The directory has more entries than the server lists.")}</p>`}
  `;
}

export function Directory({ id, path, listing, project, onFiles, onChanged }) {
  const isEmpty = listing && listing.files.length + listing.directories.length === 0;
  const stats = !path && project?.stats;
  return html`<div class="files-directory">
    <div class="files-head">
      <h1 dir="auto">${path ? short(nameOf(path), 80) : short(project?.name ?? "", 80)}</h1>
      ${stats &&
      html`<span class="dim">
        ${t("Files: {files}, directories: {directories}, {size}", {
          files: number(stats.files),
          directories: number(stats.directories),
          size: bytes(stats.total_size ?? stats.size),
        })}
      </span>`}
    </div>
    ${!path && project?.description && html`<p class="dim files-description" dir="auto">${plain(project.description)}</p>`}
    <${Acts} id=${id} path=${path} project=${project} onFiles=${onFiles} onChanged=${onChanged} />
    ${isEmpty && html`<${Empty} title=${t("Nothing in here yet")}>${t("Drop files or folders here, or make a file.")}<//>`}
    ${listing && !isEmpty && html`<${Entries} key=${path} id=${id} path=${path} listing=${listing} />`}
  </div>`;
}
