// Small parts that every view uses: buttons, empty states, errors, status, tabs, dialogs, notes.

import { html, signal, useEffect, useRef, useSignal, useState } from "../lib/ui.js";
import { ago, dateTime, plain, statusWord } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icons.js";

/** A button. `label` is its name for everybody; `icon` alone needs it most. */
export function Button({ label, icon, kind = "", isIconOnly = false, isBusy = false, ...rest }) {
  return html`<button
    type="button"
    class="button ${kind} ${isIconOnly ? "icon-only" : ""}"
    aria-label=${isIconOnly ? label : undefined}
    title=${isIconOnly ? label : undefined}
    ...${rest}
    aria-busy=${isBusy || undefined}
    disabled=${isBusy || rest.disabled}
  >
    ${icon && html`<${Icon} name=${icon} />`}${!isIconOnly && html`<span>${label}</span>`}
  </button>`;
}

/** A status as a word with a coloured dot: colour is never the only sign. */
export function Status({ status }) {
  return html`<span class="status ${status}"><span class="dot" aria-hidden="true"></span>${statusWord(status)}</span>`;
}

/** A moment: how long ago, with the exact time as its title. */
export function Moment({ at }) {
  if (at === null || at === undefined) return html`<span class="faint">–</span>`;
  return html`<time title=${dateTime(at)}>${ago(at)}</time>`;
}

/** What stands where there is nothing: why, and what to do next. */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;
}

/** A failed act with the server's own words and a way out. */
export function Failure({ error, onRetry }) {
  const isAway = error.status === 0;
  const message = isAway ? t("The server cannot be reached. It is asked again.") : plain(error.message);
  return html`<div class="failure" role="alert">
    <${Icon} name="warning" />
    <p>${message}</p>
    ${onRetry && html`<${Button} label=${t("Try again")} kind="small" onClick=${onRetry} />`}
  </div>`;
}

/** The data of `useData`, or what stands there until it is here. */
export function Loaded({ of, children }) {
  if (of.data !== undefined) {
    const failure = of.error && html`<${Failure} error=${of.error} onRetry=${of.reload} />`;
    return html`${failure}${children(of.data)}`;
  }
  if (of.error) return html`<${Failure} error=${of.error} onRetry=${of.reload} />`;
  return html`<p class="loading" role="status">${t("Loading …")}</p>`;
}

/** The head of a view. */
export function PageHead({ title, children }) {
  return html`<header class="page-head"><h1>${title}</h1><div class="actions">${children}</div></header>`;
}

/** A field with its label, a hint, and the server's complaint. */
export function Field({ label, hint, error, children }) {
  return html`<label class="field">
    <span class="label">${label}</span>
    ${children}
    ${hint && html`<span class="hint">${hint}</span>`}
    ${error && html`<span class="problem" role="alert">${plain(error)}</span>`}
  </label>`;
}

/** A dialog that takes the focus and gives it back. */
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => before?.focus?.();
  }, []);
  const onPress = (event) => event.target === element.current && onClose();
  return html`<dialog ref=${element} class="dialog" aria-label=${title} onClose=${onClose} onClick=${onPress}>
    <div class="dialog-body">
      <header><h2>${title}</h2><${Button} label=${t("Close")} icon="close" kind="quiet" isIconOnly onClick=${onClose} /></header>
      ${children}
    </div>
  </dialog>`;
}

const question = signal(null);

/** Asks before something is lost. Resolves to whether the user agreed. */
export function confirm(text, action) {
  return new Promise((resolve) => {
    question.value = { text, action, resolve };
  });
}

const notes = signal([]);
let noteNumber = 0;

/** Says in the corner what happened; an error stays until it is closed. */
export function notify(text, kind = "info") {
  noteNumber += 1;
  const note = { id: noteNumber, text: plain(text), kind };
  notes.value = [...notes.peek(), note].slice(-4);
  if (kind === "info") setTimeout(() => dismiss(note.id), 5000);
}

export const notifyError = (error) =>
  notify(error.status === 0 ? t("The server cannot be reached. Try again.") : error.message, "error");

function dismiss(id) {
  notes.value = notes.peek().filter((note) => note.id !== id);
}

/** Notes and the open question. Stands once, in the shell. */
export function Overlays() {
  const [asked, shown] = [useSignal(question), useSignal(notes)];
  const answer = (isAgreed) => {
    question.value = null;
    asked.resolve(isAgreed);
  };
  return html`
    <div class="notes" role="status" aria-live="polite">
      ${shown.map(
        (note) => html`<div key=${note.id} class="note ${note.kind}">
          <span>${note.text}</span>
          <${Button} label=${t("Close")} icon="close" kind="quiet small" isIconOnly onClick=${() => dismiss(note.id)} />
        </div>`,
      )}
    </div>
    ${asked &&
    html`<${Dialog} title=${asked.action} onClose=${() => answer(false)}>
      <p>${asked.text}</p>
      <div class="actions end">
        <${Button} label=${t("Keep")} onClick=${() => answer(false)} />
        <${Button} label=${asked.action} kind="danger" onClick=${() => answer(true)} />
      </div>
    <//>`}
  `;
}

/** Runs an act of a button: busy meanwhile, its error as a note. Returns `[run, isBusy]`. */
export function useAction(act) {
  const [isBusy, setBusy] = useState(false);
  const run = async (...values) => {
    setBusy(true);
    try {
      return await act(...values);
    } catch (error) {
      if (error.name !== "AbortError") notifyError(error);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return [run, isBusy];
}

/** Tabs over parts of a page. `tabs`: `[key, label]`. */
export function Tabs({ tabs, current, onChange, label }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([key]) => key === current);
    const [next] = tabs[(at + step + tabs.length) % tabs.length];
    onChange(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(
      ([key, text]) => html`<button
        type="button"
        role="tab"
        data-tab=${key}
        aria-selected=${key === current}
        tabindex=${key === current ? 0 : -1}
        onClick=${() => onChange(key)}
      >
        ${text}
      </button>`,
    )}
  </div>`;
}
