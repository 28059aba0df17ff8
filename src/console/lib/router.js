// Addresses of the console stand behind '#', so that the server needs one page only.

import { signal } from "./ui.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const segments = path.split("/").filter(Boolean).map(decode);
  return { view: segments[0] ?? "chat", segments: segments.slice(1), query: new URLSearchParams(query) };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Where the user is: `{view, segments, query}`. */
export const route = signal(read());

addEventListener("hashchange", () => {
  route.value = read();
});

/** `#/runs/id?status=failed`. */
export function href(view, segments = [], query = {}) {
  const path = [view, ...segments].map(encodeURIComponent).join("/");
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const written = new URLSearchParams(pairs).toString();
  return `#/${path}${written ? `?${written}` : ""}`;
}

/** Opens a page of the console; with `isReplacement` the back button skips the present one. */
export function go(address, isReplacement = false) {
  if (isReplacement) {
    history.replaceState(null, "", address);
    route.value = read();
  } else location.hash = address;
}
