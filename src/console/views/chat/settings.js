// Settings that a conversation keeps: model, instructions, project, thinking, temperature.

import { html, useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Field, useAction } from "../../parts/basics.js";

export function Settings({ conversation, onChange, onDone }) {
  const models = useData((abort) => api.data(api.get("/api/models", abort)), []);
  const projects = useData(async (abort) => (await api.data(api.get("/api/projects?limit=100", abort))).items, []);
  const [save, isBusy] = useAction(async (form) => {
    const values = new FormData(form);
    await onChange({
      title: values.get("title"),
      model: values.get("model"),
      system_prompt: values.get("system_prompt"),
      thinking_enabled: values.get("thinking") === "on",
      project_id: values.get("project") || null,
    });
    onDone();
  });
  const submit = (event) => {
    event.preventDefault();
    save(event.currentTarget);
  };
  const chosen = (value, current) => ({ value, selected: value === (current ?? "") });
  return html`<form class="form" onSubmit=${submit}>
    <${Field} label=${t("Title")}><input name="title" value=${conversation.title} maxlength="200" /><//>
    <div class="pair">
      <${Field} label=${t("Model")}>
        <select name="model">
          <option ...${chosen("", conversation.model)}>${t("the server's default")}</option>
          ${(models.data ?? []).map((each) => html`<option ...${chosen(each.id, conversation.model)}>${plain(each.name)}</option>`)}
        </select>
      <//>
      <${Field} label=${t("Project")} hint=${t("Its files are there for the tools.")}>
        <select name="project">
          <option ...${chosen("", conversation.project_id)}>${t("none")}</option>
          ${(projects.data ?? []).map((each) => html`<option ...${chosen(each.id, conversation.project_id)}>${plain(each.name)}</option>`)}
        </select>
      <//>
    </div>
    <${Field} label=${t("Instructions")} hint=${t("The model reads them before every question.")}>
      <textarea name="system_prompt" rows="5">${conversation.system_prompt}</textarea>
    <//>
    <label class="choice"><input type="checkbox" name="thinking" checked=${conversation.thinking_enabled} />${t("Let the model think before it answers")}</label>
    <div class="actions end"><button class="button primary" disabled=${isBusy}>${t("Save")}</button></div>
  </form>`;
}
