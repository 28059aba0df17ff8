// Addresses and reads of a project's files, and the drafts that are not saved yet.

import * as api from "../../lib/api.js";
import { signal } from "../../lib/ui.js";
import { href } from "../../lib/router.js";

/** The route of a project, or of something in it. */
export const projectPath = (id, ...rest) => ["/api/projects", encodeURIComponent(id), ...rest].join("/");

/** The route of a file or directory: each part is escaped, the slashes stay. */
export const filePath = (id, path) => projectPath(id, "files", ...path.split("/").map(encodeURIComponent));

/** The page of a file or directory. */
export const placeHref = (id, path, query = {}) => href("files", [id, ...path.split("/").filter(Boolean)], query);

export const parentOf = (path) => path.split("/").slice(0, -1).join("/");
export const nameOf = (path) => path.split("/").at(-1);
export const joined = (directory, name) => (directory ? `${directory}/${name}` : name);

export const listDirectory = (id, path, abort) =>
  api.data(api.get(api.withQuery(projectPath(id, "files"), { path }), abort));

/** The bytes of a file, for a link that stores them. */
export const rawPath = (id, path) => `${filePath(id, path)}?raw=true`;

/** The version of a file; a proxy that compresses answers marks it as weak. */
export const tagOf = (response) => response.headers.get("etag")?.replace(/^W\//, "");

/** `{text, tag}` of a file. */
export async function readText(id, path, abort) {
  const response = await api.send("GET", filePath(id, path), { signal: abort });
  return { text: (await response.json()).data.content, tag: tagOf(response) };
}

/** What a write expects: the file of this version, or none. */
export const expecting = (tag) => (tag ? { "If-Match": tag } : { "If-None-Match": "*" });

/** Writes a text and returns its version. Fails with 412 where the file is not as `headers` expect it. */
export const writeText = async (id, path, content, headers) =>
  tagOf(await api.send("PUT", filePath(id, path), { body: { content }, headers }));

/** Whether a text is none: programs and pictures have zero bytes. */
export const isBinary = (text) => text.slice(0, 8000).includes("\0");

/** Texts that were changed and not saved, by project and path: `{base, text}`. They live as long as the page. */
export const drafts = signal(new Map());
export const draftKey = (id, path) => `${id}/${path}`;

export function setDraft(key, draft) {
  const next = new Map(drafts.peek());
  if (draft) next.set(key, draft);
  else next.delete(key);
  drafts.value = next;
}

// A closed page would lose them.
addEventListener("beforeunload", (event) => {
  if (drafts.peek().size > 0) event.preventDefault();
});
