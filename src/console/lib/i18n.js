// English texts are the keys; `locales/zh.js` has the Chinese ones.

import { signal } from "./ui.js";

const STORED = "nanoclaw.language";
export const LANGUAGES = [
  ["en", "English"],
  ["zh-CN", "简体中文"],
];

function preferred() {
  const wishes = [localStorage.getItem(STORED), ...(navigator.languages ?? [])].filter(Boolean);
  for (const wish of wishes) {
    if (wish.startsWith("zh")) return "zh-CN";
    if (wish.startsWith("en")) return "en";
  }
  return "en";
}

export const language = signal(preferred());
let texts = {};

/** Loads the texts of the language; call it before the first drawing. */
export async function loadLanguage() {
  texts = language.value === "zh-CN" ? (await import("../locales/zh.js")).default : {};
  document.documentElement.lang = language.value;
}

export async function setLanguage(next) {
  localStorage.setItem(STORED, next);
  const before = language.peek();
  if (next === before) return;
  texts = next === "zh-CN" ? (await import("../locales/zh.js")).default : {};
  document.documentElement.lang = next;
  language.value = next;
}

/** The text in the viewer's language; `{name}` is replaced. */
export function t(text, values = {}) {
  const found = texts[text] ?? text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
