// Small forms in dialogs: a name, a project.

import { html, useState } from "../../lib/ui.js";
import { t } from "../../lib/i18n.js";
import { Button, Dialog, Field } from "../../parts/basics.js";

/** Runs `save(values)`, and keeps its complaint: `[submit, error, isBusy]`. */
export function useForm(save, onDone) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    setBusy(true);
    setError(null);
    try {
      const result = await save(Object.fromEntries(new FormData(form)));
      onDone(result);
    } catch (failed) {
      setError(failed.status === 0 ? t("The server cannot be reached. Try again.") : failed.message);
      setBusy(false);
    }
  };
  return [submit, error, isBusy];
}

/** The buttons below a form. */
export function FormEnd({ action, isBusy, onClose }) {
  return html`<div class="actions end">
    <${Button} label=${t("Cancel")} onClick=${onClose} />
    <button class="button primary" disabled=${isBusy}>${action}</button>
  </div>`;
}

/** Asks for one name or path. */
export function NameDialog({ title, label, hint, value = "", action, onSave, onDone, onClose }) {
  const [submit, error, isBusy] = useForm(({ name }) => onSave(name.trim()), onDone);
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <${Field} label=${label} hint=${hint} error=${error}>
        <input name="name" required defaultValue=${value} autofocus autocomplete="off" autocapitalize="none" spellcheck=${false} />
      <//>
      <${FormEnd} action=${action} isBusy=${isBusy} onClose=${onClose} />
    </form>
  <//>`;
}

/** Name and description of a project. */
export function ProjectDialog({ title, action, project, onSave, onDone, onClose }) {
  const [submit, error, isBusy] = useForm(
    ({ name, description }) => onSave({ name: name.trim(), description: description.trim() }),
    onDone,
  );
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <${Field} label=${t("Name")} hint=${t("No slashes, and no dot at the beginning.")} error=${error}>
        <input name="name" required maxlength="100" defaultValue=${project?.name ?? ""} autofocus autocomplete="off" />
      <//>
      <${Field} label=${t("Description")}>
        <textarea name="description" rows="3" maxlength="4000">${project?.description ?? ""}</textarea>
      <//>
      <${FormEnd} action=${action} isBusy=${isBusy} onClose=${onClose} />
    </form>
  <//>`;
}
