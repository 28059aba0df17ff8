// The fields of a job's request, for runs and for schedules.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Field } from "../../parts/basics.js";

const LEVELS = ["strict", "standard", "lenient"];

const toolsWord = (tools) => (tools === true ? "all" : tools === false ? "none" : Array.isArray(tools) ? "some" : "usual");

/** The text of an input; messages stay JSON. */
export function inputText(input) {
  if (typeof input === "string") return input;
  if (Array.isArray(input) && input.length === 1 && typeof input[0].content === "string" && !input[0].attachments) return input[0].content;
  return input ? JSON.stringify(input, null, 2) : "";
}

function ToolFields({ request }) {
  const [choice, setChoice] = useState(toolsWord(request.tools));
  const tools = useData(async (abort) => (await api.get("/v1/tools", abort)).data, []);
  const chosen = new Set(Array.isArray(request.tools) ? request.tools : []);
  const option = (value, text) => html`<option value=${value} selected=${value === choice}>${text}</option>`;
  return html`
    <${Field} label=${t("Tools")}>
      <select name="tools" onChange=${(event) => setChoice(event.currentTarget.value)}>
        ${option("usual", t("Usual tools"))}${option("all", t("All tools"))}${option("none", t("No tools"))}${option("some", t("Chosen tools"))}
      </select>
    <//>
    ${choice === "some" &&
    html`<fieldset class="runs-tools">
      <legend>${t("Chosen tools")}</legend>
      ${(tools.data ?? []).map(
        (tool) => html`<label class="choice" title=${short(tool.description, 300)}>
          <input type="checkbox" name="tool" value=${tool.name} defaultChecked=${chosen.has(tool.name)} disabled=${Boolean(tool.unavailable)} />
          <span class="mono ellipsis">${plain(tool.name)}</span>
        </label>`,
      )}
    </fieldset>`}
  `;
}

/** What most runs do not need. */
function MoreFields({ request, projects, hasTime }) {
  const chosen = (value, current) => ({ value, selected: value === (current ?? "") });
  const metadata = Object.entries(request.metadata ?? {}).map(([key, value]) => `${key}=${value}`).join("\n");
  return html`<details class="runs-more">
    <summary>${t("More settings")}</summary>
    <div class="form">
      <${Field} label=${t("Instructions")} hint=${t("The model reads them before the input.")}><textarea name="system_prompt" rows="3">${request.system_prompt ?? ""}</textarea><//>
      <div class="pair">
        <${Field} label=${t("Project")} hint=${t("Its files are there for the tools.")}>
          <select name="project_id">
            <option ...${chosen("", request.project_id)}>${t("none")}</option>
            ${projects.map((each) => html`<option ...${chosen(each.id, request.project_id)}>${plain(each.name)}</option>`)}
          </select>
        <//>
        <${Field} label=${t("Priority")} hint=${t("0 to 9; the lowest runs first.")}><input name="priority" type="number" min="0" max="9" value=${request.priority ?? ""} placeholder="5" /><//>
      </div>
      ${hasTime && html`<${Field} label=${t("Not before")} hint=${t("In your time zone. Empty: now.")}><input name="run_at" type="datetime-local" step="1" /><//>`}
      <div class="pair">
        <${Field} label=${t("Most steps")}><input name="max_steps" type="number" min="1" value=${request.max_steps ?? ""} /><//>
        <${Field} label=${t("Time limit in seconds")}><input name="timeout_s" type="number" min="1" value=${request.timeout_s ?? ""} /><//>
      </div>
      <${Field} label=${t("Metadata")} hint=${t("A line each: key=value. Runs can be found by it.")}><textarea name="metadata" rows="2" class="mono">${metadata}</textarea><//>
      <${Field} label=${t("Webhook")} hint=${t("The server posts the run to this address when it has ended.")}><input name="webhook_url" type="url" placeholder="https://" value=${request.webhook_url ?? ""} /><//>
      <label class="choice"><input type="checkbox" name="thinking" defaultChecked=${request.thinking === true} />${t("Let the model think before it answers")}</label>
    </div>
  </details>`;
}

export function JobFields({ request = {}, hasTime = false }) {
  const models = useData((abort) => api.data(api.get("/api/models", abort)), []);
  const projects = useData(async (abort) => (await api.data(api.get("/api/projects?limit=100", abort))).items, []);
  const chosen = (value, current) => ({ value, selected: value === (current ?? "") });
  return html`
    <${Field} label=${t("Input")} hint=${t("A question or a task for the model.")}>
      <textarea name="input" rows="5" required dir="auto" autofocus=${hasTime}>${inputText(request.input)}</textarea>
    <//>
    <div class="pair">
      <${Field} label=${t("Model")}>
        <select name="model">
          <option ...${chosen("", request.model)}>${t("the server's default")}</option>
          ${(models.data ?? []).map((each) => html`<option ...${chosen(each.id, request.model)}>${plain(each.name)}</option>`)}
        </select>
      <//>
      <${Field} label=${t("Sandbox level")}>
        <select name="strictness">
          <option ...${chosen("", request.strictness)}>${t("Usual sandbox")}</option>
          ${LEVELS.map((level) => html`<option ...${chosen(level, request.strictness)}>${level}</option>`)}
        </select>
      <//>
    </div>
    <${ToolFields} request=${request} />
    <${MoreFields} request=${request} projects=${projects.data ?? []} hasTime=${hasTime} />
  `;
}

/** `key=value` lines as an object. Throws where a line is none. */
function readMetadata(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(t("Metadata: “{line}” is not of the form key=value.", { line: short(line, 40) }));
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

/** The request that a form with `JobFields` describes; what is empty stays away. */
export function readJob(form) {
  const values = new FormData(form);
  const tools = { all: true, none: false, some: values.getAll("tool") }[values.get("tools")];
  const runAt = values.get("run_at");
  const metadata = readMetadata(values.get("metadata") ?? "");
  const job = { input: values.get("input") };
  for (const name of ["model", "strictness", "system_prompt", "project_id", "webhook_url"]) if (values.get(name)) job[name] = values.get(name);
  for (const name of ["priority", "max_steps", "timeout_s"]) if (values.get(name)) job[name] = Number(values.get(name));
  if (tools !== undefined) job.tools = tools;
  if (runAt) job.run_at = new Date(runAt).toISOString();
  if (values.get("thinking") === "on") job.thinking = true;
  if (Object.keys(metadata).length > 0) job.metadata = metadata;
  return job;
}
