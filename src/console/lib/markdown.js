// Markdown of models as DOM nodes. What a model wrote is hostile: HTML in it is shown as text, DOMPurify
// lets only a short list of elements through, and nothing is loaded from another host.

import { marked } from "../vendor/marked.js";
import purify from "../vendor/purify.js";
import { t } from "./i18n.js";
import { plain } from "./format.js";

const TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "input", "li",
  "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "span",
];
const ATTRIBUTES = ["href", "title", "alt", "src", "align", "start", "class", "type", "checked", "disabled"];
const SAFE_LINK = /^(?:https?:|mailto:)/i;
const SAFE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,/i;
/** Longer code is shown without colours. */
const HIGHLIGHT_CHARS = 200_000;

const escapeHtml = (text) =>
  text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);

marked.use({
  gfm: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    // A picture of another host would tell that host who reads: it is a link.
    image: ({ href, text }) =>
      SAFE_IMAGE.test(href)
        ? `<img src="${escapeHtml(href)}" alt="${escapeHtml(text)}">`
        : `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`,
  },
});

function clean(markup) {
  const fragment = purify.sanitize(markup, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const link of fragment.querySelectorAll("a")) {
    if (SAFE_LINK.test(link.getAttribute("href") ?? "")) {
      link.target = "_blank";
      link.rel = "noopener noreferrer nofollow";
    } else link.replaceWith(...link.childNodes);
  }
  for (const image of fragment.querySelectorAll("img")) {
    if (!SAFE_IMAGE.test(image.getAttribute("src") ?? "")) image.remove();
  }
  for (const input of fragment.querySelectorAll("input")) {
    if (input.type !== "checkbox") input.remove();
    else input.disabled = true;
  }
  const texts = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const shown = plain(texts.currentNode.data);
    if (shown !== texts.currentNode.data) texts.currentNode.data = shown;
  }
  for (const element of fragment.querySelectorAll("[class]")) {
    if (!/^(?:language-[\w+#.-]+|hljs[\w -]*)$/.test(element.className)) element.removeAttribute("class");
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "table-frame";
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
  return fragment;
}

/** The highlighter, loaded when the first code is finished. */
let highlighter = null;
const loadHighlighter = () => (highlighter ??= import("../vendor/highlight.js").then((found) => found.default));

/** Colours a finished code element. */
export async function highlight(code, language) {
  if (!language || code.textContent.length > HIGHLIGHT_CHARS) return;
  const hljs = await loadHighlighter();
  if (!hljs.getLanguage(language)) return;
  const { value } = hljs.highlight(code.textContent, { language, ignoreIllegals: true });
  const fragment = purify.sanitize(value, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    RETURN_DOM_FRAGMENT: true,
  });
  code.replaceChildren(fragment);
  code.classList.add("hljs");
}

/** A button that copies what `read()` returns. */
export function copyButton(read) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy quiet small";
  button.textContent = t("Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(read());
    button.textContent = t("Copied");
    setTimeout(() => (button.textContent = t("Copy")), 1500);
  });
  return button;
}

/** Puts a head with language and copy button above each code block. */
function decorate(block, isFinished) {
  for (const code of block.querySelectorAll("pre > code")) {
    const language = [...code.classList].find((name) => name.startsWith("language-"))?.slice(9) ?? "";
    const figure = document.createElement("div");
    figure.className = "code";
    const head = document.createElement("div");
    head.className = "code-head";
    const name = document.createElement("span");
    name.textContent = plain(language) || t("text");
    head.append(name, copyButton(() => code.textContent));
    const pre = code.parentElement;
    pre.tabIndex = 0;
    pre.replaceWith(figure);
    figure.append(head, pre);
    if (isFinished) highlight(code, language);
  }
}

/** Markdown that grows: finished blocks are drawn once, only the last one again with each piece. */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.text = "";
    this.frozenChars = 0; // of `text`, drawn for good
    this.openNodes = [];
  }

  update(text, isFinished) {
    if (text === this.text && !(isFinished && this.openNodes.length > 0)) return;
    if (!text.startsWith(this.text)) this.reset();
    this.text = text;
    for (const node of this.openNodes) node.remove();
    this.openNodes = [];
    const tokens = marked.lexer(text.slice(this.frozenChars));
    // A later piece can still change the last block (a list that goes on), so that stays open.
    const frozen = isFinished ? tokens.length : tokens.findLastIndex((token) => token.type !== "space");
    tokens.forEach((token, at) => {
      const isFrozen = at < frozen;
      if (isFrozen) this.frozenChars += token.raw.length;
      if (token.type === "space") return;
      const block = this.draw(token, isFrozen);
      if (!isFrozen) this.openNodes.push(block);
    });
  }

  draw(token, isFinished) {
    const block = document.createElement("div");
    block.className = "block";
    block.dir = "auto";
    block.append(clean(marked.parser([token])));
    decorate(block, isFinished);
    this.root.append(block);
    return block;
  }

  reset() {
    this.root.replaceChildren();
    [this.text, this.frozenChars, this.openNodes] = ["", 0, []];
  }
}
