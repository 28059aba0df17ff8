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

export const readText = async (id, path, abort) => (await api.data(api.get(filePath(id, path), abort))).content;

export const writeText = (id, path, content) => api.put(filePath(id, path), { content });

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
