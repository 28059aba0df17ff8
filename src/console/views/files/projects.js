// The list of projects: make, describe, delete, and a folder that becomes one.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Button, Empty, Loaded, Moment, PageHead, confirm, useAction } from "../../parts/basics.js";
import { ProjectDialog } from "./dialogs.js";
import { MemoryButton } from "./memory.js";
import { DropPlace, Picker, UploadProgress } from "./picker.js";
import { projectPath } from "./places.js";
import { uploadProject } from "./upload.js";

const PAGE = 50;

function useProjects() {
  const [count, setCount] = useState(PAGE);
  const load = (abort) => api.pages("/api/projects", { limit: PAGE }, count, abort);
  return [useData(load, [count]), () => setCount((old) => old + PAGE)];
}

function Row({ project, onChanged }) {
  const [isEditing, setEditing] = useState(false);
  const [remove, isBusy] = useAction(async () => {
    const text = t("The project {name} will be deleted for good: its files and its {n} conversations.", {
      name: short(project.name, 60),
      n: number(project.conversation_count),
    });
    if (!(await confirm(text, t("Delete project")))) return;
    await api.remove(projectPath(project.id));
    onChanged();
  });
  return html`<tr class="link">
    <th scope="row">
      <a href=${href("files", [project.id])} dir="auto">${short(project.name, 100)}</a>
      ${project.description && html`<div class="faint files-description" dir="auto">${short(project.description, 160)}</div>`}
    </th>
    <td class="number">${number(project.conversation_count)}</td>
    <td class="dim"><${Moment} at=${project.updated_at} /></td>
    <td class="files-row-acts">
      <${Button} kind="quiet small" icon="edit" isIconOnly label=${t("Edit {name}", { name: short(project.name, 60) })} onClick=${() => setEditing(true)} />
      <${Button} kind="quiet small" icon="trash" isIconOnly isBusy=${isBusy} label=${t("Delete {name}", { name: short(project.name, 60) })} onClick=${remove} />
      ${isEditing &&
      html`<${ProjectDialog}
        title=${t("Edit project")}
        action=${t("Save")}
        project=${project}
        onSave=${(values) => api.patch(projectPath(project.id), values)}
        onDone=${() => {
          setEditing(false);
          onChanged();
        }}
        onClose=${() => setEditing(false)}
      />`}
    </td>
  </tr>`;
}

export function Projects() {
  const [list, more] = useProjects();
  const [isMaking, setMaking] = useState(false);
  const take = async (files) => {
    const id = await uploadProject(files);
    if (id) go(href("files", [id]));
  };
  const table = (data) => html`
    <div class="table-frame">
      <table>
        <thead>
          <tr>
            <th scope="col">${t("Project")}</th>
            <th scope="col" class="number">${t("Conversations")}</th>
            <th scope="col">${t("Changed")}</th>
            <th scope="col"><span class="visually-hidden">${t("Actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${data.items.map((each) => html`<${Row} key=${each.id} project=${each} onChanged=${list.reload} />`)}
        </tbody>
      </table>
    </div>
    ${data.hasMore && html`<p class="row files-more"><${Button} label=${t("Show more")} isBusy=${list.isLoading} onClick=${more} /></p>`}
  `;
  return html`<${DropPlace} class="page files-drop" onFiles=${take}>
    <${PageHead} title=${t("Files")}>
      <${MemoryButton} />
      <${Picker} label=${t("Upload a folder")} isFolder onFiles=${take} />
      <${Button} label=${t("New project")} icon="plus" kind="primary" onClick=${() => setMaking(true)} />
    <//>
    <${UploadProgress} />
    <${Loaded} of=${list}>
      ${(data) =>
        data.items.length === 0
          ? html`<${Empty} title=${t("No projects yet")}>
              ${t("A project holds files that the tools of a conversation can read and change. Make an empty one, or drop a folder here.")}
            <//>`
          : table(data)}
    <//>
    ${isMaking &&
    html`<${ProjectDialog}
      title=${t("New project")}
      action=${t("Make the project")}
      onSave=${(values) => api.data(api.post("/api/projects", values))}
      onDone=${(made) => go(href("files", [made.id]))}
      onClose=${() => setMaking(false)}
    />`}
  <//>`;
}
