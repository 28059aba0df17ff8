// A run started by hand.

import { html } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Dialog, notify, useAction } from "../../parts/basics.js";
import { JobFields, readJob } from "./fields.js";

/** `request`: what the form begins with, such as the request of another run. */
export function StartRun({ onClose, request = {} }) {
  const [start, isBusy] = useAction(async (form) => {
    const waits = () => notify(t("The server cannot be reached. The run starts when it is back."));
    const job = await api.postOnce("/v1/jobs", readJob(form), waits);
    onClose();
    go(href("runs", [job.id]));
  });
  const submit = (event) => {
    event.preventDefault();
    start(event.currentTarget);
  };
  return html`<${Dialog} title=${t("Start a run")} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <${JobFields} request=${request} hasTime />
      <div class="actions end"><button class="button primary" disabled=${isBusy} aria-busy=${isBusy}>${t("Start")}</button></div>
    </form>
  <//>`;
}
