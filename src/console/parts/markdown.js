// Markdown as a component.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/ui.js";
import { plain } from "../lib/format.js";

/** The renderer is large: it comes while the page is drawn without it. */
let renderer = null;
let loading = null;
const load = () => (loading ??= import("../lib/markdown.js").then((found) => (renderer = found.MarkdownView)));
load().catch(() => (loading = null));

/** Shows `text`; while `isFinished` is false the text grows. */
export function Markdown({ text, isFinished = true }) {
  const root = useRef(null);
  const view = useRef(null);
  const [View, setView] = useState(() => renderer);
  const [isPlain, setPlain] = useState(false);
  useEffect(() => {
    if (!View) load().then((found) => setView(() => found), () => setPlain(true));
    return () => view.current?.stop();
  }, []);
  useLayoutEffect(() => {
    if (!View) return;
    view.current ??= new View(root.current);
    view.current.update(text, isFinished);
  }, [text, isFinished, View]);
  if (isPlain) return html`<div class="said">${plain(text)}</div>`;
  return html`<div class="markdown" ref=${root} aria-busy="true"></div>`;
}
