// A project: its tree on the left; a directory, a file or hits of a search on the right.

import { html, useData, useEffect, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Button, Empty, Failure } from "../../parts/basics.js";
import { Directory } from "./directory.js";
import { File } from "./file.js";
import { DropPlace, UploadProgress } from "./picker.js";
import { nameOf, parentOf, placeHref, projectPath } from "./places.js";
import { Hits } from "./search.js";
import { Tree, useTree } from "./tree.js";
import { uploadInto } from "./upload.js";

/** What stands at a path: `directory`, `file`, `none`, or null while it is looked up. Opens the way to it. */
function useKind(tree, path) {
  const [known, setKnown] = useState({ path: null, kind: null });
  const setKind = (kind) => setKnown({ path, kind });
  useEffect(() => {
    let isCurrent = true;
    const find = async () => {
      const parts = path.split("/").filter(Boolean);
      let [directory, listing] = ["", await tree.ensure("")];
      for (const [at, part] of parts.entries()) {
        const isLast = at === parts.length - 1;
        if (isLast && listing.files.some(({ name }) => name === part)) return "file";
        if (!listing.directories.some(({ name }) => name === part)) return "none";
        directory = directory ? `${directory}/${part}` : part;
        listing = await tree.ensure(directory);
        if (!isLast) tree.setIsOpen(directory, true);
      }
      return "directory";
    };
    find().then(
      (found) => isCurrent && setKind(found),
      (error) => isCurrent && tree.setError(error),
    );
    return () => (isCurrent = false);
  }, [path, tree.listings.get(parentOf(path))]);
  // While the same path is looked up again, an open editor stays.
  return known.path === path ? known.kind : null;
}

/** The way from the project to what is shown. */
function Crumbs({ id, name, path }) {
  const parts = path.split("/").filter(Boolean);
  const crumbs = parts.map((part, at) => [part, placeHref(id, parts.slice(0, at + 1).join("/"))]);
  return html`<nav class="files-crumbs" aria-label=${t("Path")}>
    <a href=${href("files")}>${t("Files")}</a>
    <span aria-hidden="true">/</span>
    <a href=${href("files", [id])} aria-current=${parts.length === 0 ? "page" : undefined} dir="auto">${short(name, 60)}</a>
    ${crumbs.map(
      ([part, address], at) => html`<span aria-hidden="true">/</span>
        <a href=${address} aria-current=${at === parts.length - 1 ? "page" : undefined} dir="auto">${short(part, 80)}</a>`,
    )}
  </nav>`;
}

function SearchBox({ id, path, words }) {
  const submit = (event) => {
    event.preventDefault();
    const search = new FormData(event.currentTarget).get("search");
    go(placeHref(id, path, { search }));
  };
  return html`<form class="files-search" role="search" onSubmit=${submit}>
    <input key=${words} type="search" name="search" defaultValue=${words} placeholder=${t("Search in the files")} aria-label=${t("Search in the files")} maxlength="1000" />
  </form>`;
}

export function Project({ id, path, query }) {
  const project = useData((abort) => api.data(api.get(projectPath(id), abort)), [id]);
  const tree = useTree(id);
  const kind = useKind(tree, path);
  useEffect(() => {
    // Tools write files while the user is elsewhere.
    const refresh = () => document.visibilityState === "visible" && tree.reload();
    document.addEventListener("visibilitychange", refresh);
    return () => document.removeEventListener("visibilitychange", refresh);
  }, []);
  const words = query.get("search") ?? "";
  const directory = kind === "file" ? parentOf(path) : path;
  const take = async (files) => {
    await uploadInto(id, kind === "none" ? "" : directory, files);
    await tree.reload();
    project.reload();
  };
  const changed = async (target) => {
    // What was deleted is left before the tree knows it.
    const isLeft = target !== undefined && path.startsWith(target);
    if (isLeft) go(placeHref(id, target));
    await tree.reload();
    project.reload();
    if (target !== undefined && !isLeft) go(placeHref(id, target));
  };
  if (project.error?.status === 404) {
    return html`<div class="page"><${Empty} title=${t("There is no such project")}><a href=${href("files")}>${t("All projects")}</a><//></div>`;
  }
  const failure = tree.error ?? project.error;
  const pane = () => {
    if (words) return html`<${Hits} key=${words} id=${id} words=${words} path=${directory} isCase=${query.get("case") === "1"} />`;
    if (kind === null) return !failure && html`<p class="loading" role="status">${t("Loading …")}</p>`;
    if (kind === "none") {
      return html`<h1 class="visually-hidden">${short(nameOf(path), 80)}</h1>
        <${Empty} title=${t("There is no such file")}>
        <p>${t("{name} was moved or deleted.", { name: short(nameOf(path), 80) })}</p>
        <p><a href=${href("files", [id])}>${t("Go to the project")}</a></p>
      <//>`;
    }
    if (kind === "file") {
      const entry = tree.listings.get(parentOf(path))?.files.find(({ name }) => name === nameOf(path));
      return html`<${File} key=${path} id=${id} path=${path} size=${entry?.size} line=${Number(query.get("line")) || 0} onSaved=${() => tree.reload(parentOf(path))} onChanged=${changed} />`;
    }
    return html`<${Directory} id=${id} path=${path} listing=${tree.listings.get(path)} project=${project.data} onFiles=${take} onChanged=${changed} />`;
  };
  return html`<${DropPlace} class="files" onFiles=${take}>
    <section class="files-side" aria-label=${t("Files")}>
      <${SearchBox} id=${id} path=${directory} words=${words} />
      <${Tree} id=${id} tree=${tree} path=${path} />
      <div class="files-side-foot">
        <${Button} kind="quiet small" icon="retry" label=${t("Read again")} onClick=${() => tree.reload()} />
      </div>
    </section>
    <section class="files-pane" aria-label=${t("Content")}>
      <${Crumbs} id=${id} name=${project.data?.name ?? "…"} path=${path} />
      <div class="files-narrow"><${SearchBox} id=${id} path=${directory} words=${words} /></div>
      <${UploadProgress} />
      ${failure && html`<${Failure} error=${failure} onRetry=${() => tree.reload().then(project.reload)} />`}
      ${pane()}
    </section>
  <//>`;
}
