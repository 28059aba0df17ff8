// Where a message is written: text, files, tools, and how strictly programs are locked in.

import { html, useData, useEffect, useRef, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { bytes, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, notify, notifyError } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";

const IMAGES = /^image\/(?:png|jpeg|gif|webp)$/;
/** A larger text file belongs into a project. */
const LARGEST_FILE = 5_000_000;
const OPTIONS = "nanoclaw.composer";

function storedOptions() {
  try {
    return JSON.parse(localStorage.getItem(OPTIONS)) ?? {};
  } catch {
    return {};
  }
}

const asDataUrl = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

/** A dropped file as an attachment: images as data URLs, everything else as text. */
async function asAttachment(file) {
  if (file.size > LARGEST_FILE) {
    throw new Error(t("{name} has {size}; put it into a project instead.", { name: file.name, size: bytes(file.size) }));
  }
  const extension = file.name.includes(".") ? file.name.split(".").pop().toLowerCase() : "";
  const content = IMAGES.test(file.type) ? await asDataUrl(file) : await file.text();
  if (content.includes("\u0000")) throw new Error(t("{name} is not a text file; put it into a project instead.", { name: file.name }));
  return { name: file.name, extension, content };
}

async function upload(projectId, files) {
  const form = new FormData();
  for (const file of files) form.append("files", file, file.name);
  await api.send("POST", `/api/projects/${projectId}/upload`, { body: form });
  notify(t("{n} files are in the project.", { n: files.length }));
}

export function Composer({ conversation, isRunning, onAsk, onStop, onChange }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState([]);
  const [options, setOptions] = useState(storedOptions);
  const [isDropping, setDropping] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const area = useRef(null);
  const picker = useRef(null);
  const models = useData((abort) => api.data(api.get("/api/models", abort)), []);
  useEffect(() => localStorage.setItem(OPTIONS, JSON.stringify(options)), [options]);
  useEffect(() => {
    const element = area.current;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [text]);

  const add = async (list) => {
    try {
      if (conversation.project_id) await upload(conversation.project_id, [...list]);
      else {
        const added = await Promise.all([...list].map(asAttachment));
        setFiles((old) => [...old, ...added]);
      }
    } catch (error) {
      notifyError(error);
    }
  };
  const send = async (event) => {
    event?.preventDefault();
    if (isBusy || (text.trim() === "" && files.length === 0)) return;
    const question = { text, files, options: asked(options) };
    setBusy(true);
    setText("");
    setFiles([]);
    const isSent = await onAsk(question);
    setBusy(false);
    if (!isSent) {
      setText(question.text);
      setFiles(question.files);
    }
    area.current?.focus();
  };
  const press = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  };
  const paste = (event) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    add(event.clipboardData.files);
  };
  const drop = (event) => {
    event.preventDefault();
    setDropping(false);
    add(event.dataTransfer.files);
  };
  const over = (event) => {
    event.preventDefault();
    setDropping(true);
  };
  const pick = (name) => (event) => setOptions((old) => ({ ...old, [name]: event.currentTarget.value }));

  return html`<div class="composer ${isDropping ? "is-dropping" : ""}" onDrop=${drop} onDragOver=${over} onDragLeave=${() => setDropping(false)}>
    <form onSubmit=${send}>
      ${files.length > 0 &&
      html`<ul class="attachments" aria-label=${t("Attached files")}>
        ${files.map(
          (file, at) => html`<li class="attachment">
            <${Icon} name="file" />${plain(file.name)}
            <${Button} kind="quiet small" icon="close" isIconOnly label=${t("Remove {name}", { name: file.name })} onClick=${() => setFiles(files.filter((_, other) => other !== at))} />
          </li>`,
        )}
      </ul>`}
      <textarea
        ref=${area}
        rows="1"
        dir="auto"
        aria-label=${t("Message")}
        placeholder=${t("Ask, or give a task. Shift+Enter begins a new line.")}
        value=${text}
        onInput=${(event) => setText(event.currentTarget.value)}
        onKeyDown=${press}
        onPaste=${paste}
      ></textarea>
      <div class="bar">
        <input ref=${picker} type="file" multiple hidden onChange=${(event) => {
          add(event.currentTarget.files);
          event.currentTarget.value = "";
        }} />
        <${Button} icon="attach" kind="quiet" isIconOnly label=${conversation.project_id ? t("Put files into the project") : t("Attach files")} onClick=${() => picker.current.click()} />
        <select aria-label=${t("Model")} value=${conversation.model} onChange=${(event) => onChange({ model: event.currentTarget.value })?.catch?.(notifyError)}>
          ${!conversation.model && html`<option value="" selected>${t("Default model")}</option>`}
          ${(models.data ?? []).map((each) => html`<option value=${each.id} selected=${each.id === conversation.model}>${plain(each.name)}</option>`)}
        </select>
        <select aria-label=${t("Tools")} value=${options.tools ?? "default"} onChange=${pick("tools")}>
          <option value="default">${t("Usual tools")}</option>
          <option value="all">${t("All tools")}</option>
          <option value="none">${t("No tools")}</option>
        </select>
        <select aria-label=${t("Sandbox level")} value=${options.strictness ?? ""} onChange=${pick("strictness")}>
          <option value="">${t("Usual sandbox")}</option>
          <option value="strict">strict</option>
          <option value="standard">standard</option>
          <option value="lenient">lenient</option>
        </select>
        <label class="choice"><input type="checkbox" checked=${conversation.thinking_enabled} onChange=${(event) => onChange({ thinking_enabled: event.currentTarget.checked })?.catch?.(notifyError)} />${t("Think")}</label>
        <span class="fill"></span>
        ${isRunning && html`<${Button} icon="stop" isIconOnly label=${t("Stop")} onClick=${onStop} />`}
        <button class="button primary icon-only" aria-label=${t("Send")} title=${t("Send")} disabled=${isBusy || (text.trim() === "" && files.length === 0)}>
          <${Icon} name="send" />
        </button>
      </div>
    </form>
  </div>`;
}

/** The options in the words of POST /v1/jobs. */
function asked({ tools, strictness }) {
  return {
    ...(tools === "all" && { tools: true }),
    ...(tools === "none" && { tools: false }),
    ...(strictness && { strictness }),
  };
}
