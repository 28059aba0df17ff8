// Markdown as a component.

import { html, useLayoutEffect, useRef } from "../lib/ui.js";
import { MarkdownView } from "../lib/markdown.js";

/** Shows `text`; while `isFinished` is false the text grows. */
export function Markdown({ text, isFinished = true }) {
  const root = useRef(null);
  const view = useRef(null);
  useLayoutEffect(() => {
    view.current ??= new MarkdownView(root.current);
    view.current.update(text, isFinished);
  }, [text, isFinished]);
  return html`<div class="markdown" ref=${root}></div>`;
}
