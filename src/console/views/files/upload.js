// Uploads of files and whole folders: collected from a drop or a picker, sent in batches that the server takes.

import { signal } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { bytes, number, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { confirm, notify, notifyError } from "../../parts/basics.js";
import { joined, listDirectory, nameOf, parentOf, filePath, projectPath } from "./places.js";

/** One request: far below the limits of the server (10,000 files, 200 MiB), so that progress is seen. */
const BATCH_FILES = 200;
const BATCH_BYTES = 16 * 1024 * 1024;
/** More files than this are rarely meant: a folder of dependencies, for example. */
const MANY_FILES = 2_000;

/** The upload that runs: `{done, total, doneBytes, totalBytes, stop}`, or null. */
export const upload = signal(null);

/** Files of a picker; those of a folder begin with its name. */
export const pickedFiles = (list) =>
  [...list].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

/** All entries of a dropped folder; a browser hands them out a hundred at a time. */
async function entriesOf(directory) {
  const reader = directory.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** Files of a drop, with what is in dropped folders. Must be called within the event. */
export async function droppedFiles(transfer) {
  const roots = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  const waiting = roots;
  while (waiting.length > 0) {
    const entry = waiting.pop();
    if (entry.isDirectory) waiting.push(...(await entriesOf(entry)));
    else {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push({ file, path: entry.fullPath.replace(/^\/+/, "") });
    }
  }
  return found;
}

function batchesOf(files) {
  const batches = [];
  let [current, size] = [[], 0];
  for (const each of files) {
    const isFull = current.length >= BATCH_FILES || (current.length > 0 && size + each.file.size > BATCH_BYTES);
    if (isFull) {
      batches.push(current);
      [current, size] = [[], 0];
    }
    current.push(each);
    size += each.file.size;
  }
  if (current.length > 0) batches.push(current);
  return batches;
}

/** Paths of `files` that exist in the project. Only directories that are there are asked for. */
async function existing(id, files) {
  const listings = new Map();
  const list = async (directory) => {
    if (!listings.has(directory)) {
      const isThere = directory === "" || (await list(parentOf(directory)))?.directories.has(nameOf(directory));
      const found = isThere ? await listDirectory(id, directory) : null;
      const names = (entries) => new Set(entries.map((entry) => entry.name));
      listings.set(directory, found && { files: names(found.files), directories: names(found.directories) });
    }
    return listings.get(directory);
  };
  const clashes = [];
  for (const each of files) {
    if ((await list(parentOf(each.path)))?.files.has(nameOf(each.path))) clashes.push(each);
  }
  return clashes;
}

/** A form of one batch. The server takes the first folder of a name away, so one is put before it. */
function formOf(batch, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  for (const { file, path } of batch) form.append("files", file, `upload/${path}`);
  return form;
}

/** Sends all files; `first` sends the first batch and returns the id of the project. */
async function sendAll(files, first) {
  const control = new AbortController();
  const total = files.length;
  const totalBytes = files.reduce((sum, { file }) => sum + file.size, 0);
  const state = { done: 0, total, doneBytes: 0, totalBytes, stop: () => control.abort() };
  upload.value = state;
  let id = null;
  try {
    for (const batch of batchesOf(files)) {
      if (id === null) id = await first(batch, control.signal);
      else await api.post(projectPath(id, "upload"), formOf(batch), { signal: control.signal });
      state.done += batch.length;
      state.doneBytes += batch.reduce((sum, { file }) => sum + file.size, 0);
      upload.value = { ...state };
    }
    notify(t("Files uploaded: {n}.", { n: number(total) }));
  } catch (error) {
    if (error.name === "AbortError") notify(t("Upload stopped: {n} of {total} files are there.", { n: number(state.done), total: number(total) }));
    else notifyError(error);
  } finally {
    upload.value = null;
  }
  return id;
}

async function isMeant(files) {
  if (files.length <= MANY_FILES) return true;
  const size = bytes(files.reduce((sum, { file }) => sum + file.size, 0));
  return confirm(t("These are {n} files, {size} together.", { n: number(files.length), size }), t("Upload all"));
}

/** Uploads into a directory of a project. Files that are there are replaced only if the user wants it. */
export async function uploadInto(id, directory, picked) {
  if (upload.peek()) return notify(t("Another upload is still running."), "error");
  let files = picked.map(({ file, path }) => ({ file, path: joined(directory, path) }));
  if (files.length === 0 || !(await isMeant(files))) return undefined;
  try {
    const clashes = await existing(id, files);
    if (clashes.length > 0) {
      const text = t("{n} of the files are in the project already ({name}). Those can be replaced; otherwise only the others are uploaded.", {
        n: number(clashes.length),
        name: plain(clashes[0].path) + (clashes.length > 1 ? " …" : ""),
      });
      if (await confirm(text, t("Replace"))) {
        for (const { path } of clashes) await api.remove(filePath(id, path));
      } else files = files.filter((each) => !clashes.includes(each));
    }
  } catch (error) {
    return notifyError(error);
  }
  if (files.length === 0) return undefined;
  return sendAll(files, async (batch, signal) => {
    await api.post(projectPath(id, "upload"), formOf(batch), { signal });
    return id;
  });
}

/** A new project with the files of a folder; its name is the folder's. Returns the id. */
export async function uploadProject(picked) {
  if (upload.peek()) return notify(t("Another upload is still running."), "error");
  if (picked.length === 0 || !(await isMeant(picked))) return undefined;
  const tops = new Set(picked.map(({ path }) => (path.includes("/") ? path.split("/")[0] : "")));
  const top = tops.size === 1 ? [...tops][0] : "";
  const name = (top || t("Upload")).replace(/^[\s.]+/, "").slice(0, 100) || t("Upload");
  const files = top ? picked.map(({ file, path }) => ({ file, path: path.slice(top.length + 1) })) : picked;
  return sendAll(files, async (batch, signal) => {
    const made = await api.data(api.post("/api/projects/upload", formOf(batch, { name }), { signal }));
    return made.id;
  });
}
