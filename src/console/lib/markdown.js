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
const HIGHLIGHT_CHARS = 30_000;
/** What is read at once. A longer block is drawn in parts, so that no piece of a growing answer costs much. */
const WINDOW_CHARS = 8_000;
/** Time and characters for one frame: the browser then needs about as long again to lay them out. */
const [SLICE_MS, SLICE_CHARS] = [8, 24_000];

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

const idle = () => new Promise((resolve) => (globalThis.requestIdleCallback ?? setTimeout)(resolve));
let turn = Promise.resolve();

/** Colours a finished code element, one after the other while nothing else is to do. */
export function highlight(code, language) {
  if (language && code.textContent.length <= HIGHLIGHT_CHARS) turn = turn.then(idle).then(() => colour(code, language)).catch(() => {});
}

async function colour(code, language) {
  const hljs = await loadHighlighter();
  if (!code.isConnected || !hljs.getLanguage(language)) return;
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
function copyButton(read) {
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

/** The place behind the last whole line or word of a text that is cut. */
function cutPlace(text) {
  const at = text.lastIndexOf("\n") + 1 || text.lastIndexOf(" ") + 1 || text.length;
  return /[\ud800-\udbff]/.test(text[at - 1]) ? at - 1 : at;
}

/** Where a block that is too long is cut, and what has to stand before its rest. */
function cutOf(token, text) {
  const lines = text.split("\n", 2);
  if (token.type === "code" && /^ {0,3}(?:```|~~~)/.test(text)) return { at: cutPlace(text), before: `${lines[0]}\n` };
  if (token.type === "table") return { at: cutPlace(text), before: `${lines.join("\n")}\n` };
  const whole = token.type === "list" ? token.raw.length - token.items.at(-1).raw.length : 0;
  return { at: whole || cutPlace(text), before: "" };
}

/**
 * Markdown that grows: finished blocks are drawn once, only the last one again with each piece. What takes
 * longer than a part of a frame goes on in the next one; `aria-busy` says so.
 */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.reset();
  }

  update(text, isFinished) {
    const next = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (next === this.text && isFinished === this.isFinished) return;
    if (!next.startsWith(this.text)) this.reset();
    [this.text, this.isFinished] = [next, isFinished];
    if (!this.timer) this.work();
  }

  /** Draws until the time is over. */
  work() {
    const [endMs, endChars] = [performance.now() + SLICE_MS, this.drawnChars + SLICE_CHARS];
    let hasMore = true;
    while (hasMore && this.drawnChars < endChars && performance.now() < endMs) hasMore = this.step();
    this.root.ariaBusy = String(hasMore);
    // A hidden page has no frames.
    const later = document.visibilityState === "visible" ? requestAnimationFrame : setTimeout;
    this.timer = hasMore ? later(() => this.work()) : 0;
  }

  /** Draws what the next characters give. Returns whether there are more. */
  step() {
    const part = this.text.slice(this.drawnChars, this.drawnChars + WINDOW_CHARS);
    const hasMore = this.drawnChars + part.length < this.text.length;
    this.openNodes.forEach((node) => node.remove());
    this.openNodes = [];
    const tokens = marked.lexer(this.before + part);
    // A later piece can still change the last block (a list that goes on), so that stays open.
    const last = tokens.findLastIndex((token) => token.type !== "space");
    const frozen = this.isFinished && !hasMore ? tokens.length : last;
    if (frozen <= 0 && hasMore) {
      this.cut(tokens[0], part);
      return true;
    }
    tokens.forEach((token, at) => {
      const isFrozen = at < frozen;
      if (isFrozen) {
        this.drawnChars += token.raw.length - this.before.length;
        this.before = "";
      } else if (hasMore) return;
      if (token.type === "space") return;
      const block = this.draw(token, isFrozen);
      if (isFrozen && this.code) highlight(this.code, token.lang);
      if (isFrozen) this.code = null;
      else this.openNodes.push(block);
    });
    return hasMore;
  }

  /** Draws the first part of a block that is longer than the window. */
  cut(token, part) {
    const text = this.before + part;
    const { at, before } = cutOf(token, text);
    const end = Math.max(at, this.before.length + 1);
    for (const each of marked.lexer(text.slice(0, end))) {
      if (each.type !== "space") this.draw(each, false);
    }
    this.code = token.type === "code" ? (this.code ?? this.root.lastChild.querySelector("code")) : null;
    this.drawnChars += end - this.before.length;
    this.before = before;
  }

  draw(token, isFinished) {
    if (this.code && token.type === "code") return this.drawMoreCode(token);
    const block = document.createElement("div");
    block.className = "block";
    block.dir = "auto";
    block.append(clean(marked.parser([token])));
    decorate(block, isFinished);
    this.root.append(block);
    return block;
  }

  /** Code behind that of an element that has its window full. */
  drawMoreCode(token) {
    const more = document.createElement("span");
    more.className = "more";
    more.textContent = token.text && `${plain(token.text).replace(/\n$/, "")}\n`;
    this.code.append(more);
    return more;
  }

  reset() {
    this.stop();
    this.root.replaceChildren();
    Object.assign(this, { text: "", isFinished: false, drawnChars: 0, openNodes: [] });
    // Of a block that was cut: what stands before its rest when that is read, and its code element.
    Object.assign(this, { before: "", code: null });
  }

  stop() {
    cancelAnimationFrame(this.timer);
    clearTimeout(this.timer);
    this.timer = 0;
  }
}
