// The tree of a project. Directories are read when they are opened; only the rows in sight are in the page.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState } from "../../lib/ui.js";
import { bytes, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go } from "../../lib/router.js";
import { Icon } from "../../parts/icons.js";
import { draftKey, drafts, joined, listDirectory, parentOf, placeHref } from "./places.js";

const ROW = 26; // px, as in the style sheet
const AROUND = 15; // rows above and below those in sight

/** Listings of a project's directories: `{listings, open, ensure, toggle, reload, error}`. */
export function useTree(id) {
  const [listings, setListings] = useState(new Map());
  const [open, setOpen] = useState(new Set([""]));
  const [error, setError] = useState(null);
  const asked = useRef(new Map());
  const ensure = (directory) => {
    if (!asked.current.has(directory)) {
      const reading = listDirectory(id, directory).then(
        (found) => {
          setListings((old) => new Map(old).set(directory, found));
          setError(null);
          return found;
        },
        (failed) => {
          asked.current.delete(directory);
          throw failed;
        },
      );
      asked.current.set(directory, reading);
    }
    return asked.current.get(directory);
  };
  const setIsOpen = (directory, isOpen) => {
    if (isOpen) ensure(directory).catch(setError);
    setOpen((old) => {
      const next = new Set(old);
      if (isOpen) next.add(directory);
      else next.delete(directory);
      return next;
    });
  };
  /** Reads one directory anew, or all that are known. */
  const reload = async (directory) => {
    const known = directory === undefined ? [...asked.current.keys()] : [directory];
    for (const each of known) asked.current.delete(each);
    try {
      await Promise.all(known.map((each) => ensure(each).catch((failed) => each === "" && Promise.reject(failed))));
    } catch (failed) {
      setError(failed);
    }
  };
  return { listings, open, error, ensure, setIsOpen, reload, setError };
}

/** Rows of the open directories in order: `{path, name, level, isDirectory, …}`. */
function rowsOf(listings, open) {
  const rows = [];
  const add = (directory, level) => {
    const found = listings.get(directory);
    if (!found) return;
    const count = found.directories.length + found.files.length;
    found.directories.forEach(({ name }, at) => {
      const path = joined(directory, name);
      const isOpen = open.has(path);
      rows.push({ path, name, level, isDirectory: true, isOpen, at, count });
      if (isOpen) add(path, level + 1);
    });
    found.files.forEach(({ name, size }, at) => {
      const position = found.directories.length + at;
      rows.push({ path: joined(directory, name), name, level, isDirectory: false, size, at: position, count });
    });
  };
  add("", 1);
  return rows;
}

/** What a key does in the tree: the index of the next active row, or nothing. */
function keyTarget(key, rows, at) {
  const row = rows[at];
  if (key === "ArrowDown") return Math.min(at + 1, rows.length - 1);
  if (key === "ArrowUp") return Math.max(at - 1, 0);
  if (key === "Home") return 0;
  if (key === "End") return rows.length - 1;
  if (key === "PageDown") return Math.min(at + 15, rows.length - 1);
  if (key === "PageUp") return Math.max(at - 15, 0);
  if (key === "ArrowRight" && row?.isOpen) return Math.min(at + 1, rows.length - 1);
  if (key === "ArrowLeft" && row && !row.isOpen) return rows.findIndex(({ path }) => path === parentOf(row.path));
  if (key.length === 1 && /\S/.test(key)) {
    const starts = ({ name }) => name.toLowerCase().startsWith(key.toLowerCase());
    const after = rows.findIndex((each, place) => place > at && starts(each));
    return after >= 0 ? after : rows.findIndex(starts);
  }
  return -1;
}

/** The part of the list that is in sight. */
function useWindow(element, count) {
  const [range, setRange] = useState([0, 60]);
  const measure = () => {
    if (!element.current) return; // an observer can be late
    const { scrollTop, clientHeight } = element.current;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - AROUND);
    setRange([first, Math.ceil((scrollTop + clientHeight) / ROW) + AROUND]);
  };
  useLayoutEffect(measure, [count]);
  useEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return [range, measure];
}

function TreeRow({ row, at, isActive, isCurrent, isDraft, id, onPress }) {
  return html`<a
    role="treeitem"
    id=${`files-row-${at}`}
    tabindex="-1"
    class="files-tree-row ${isActive ? "is-active" : ""}"
    href=${placeHref(id, row.path)}
    aria-level=${row.level}
    aria-setsize=${row.count}
    aria-posinset=${row.at + 1}
    aria-expanded=${row.isDirectory ? row.isOpen : undefined}
    aria-selected=${isCurrent}
    style=${{ top: `${at * ROW}px`, paddingLeft: `${8 + (row.level - 1) * 14}px` }}
    onClick=${onPress}
  >
    <span class="files-fold">${row.isDirectory && html`<${Icon} name="chevron" />`}</span>
    <${Icon} name=${row.isDirectory ? "folder" : "file"} />
    <span class="ellipsis" dir="auto">${short(row.name, 120)}</span>
    ${isDraft && html`<span class="files-draft" title=${t("not saved")}><span class="visually-hidden">${t("not saved")}</span></span>`}
    ${!row.isDirectory && html`<small class="faint">${bytes(row.size)}</small>`}
  </a>`;
}

/** The tree as one stop of the Tab key; arrow keys move in it. */
export function Tree({ id, tree, path }) {
  const root = useRef(null);
  const unsaved = useSignal(drafts);
  const rows = useMemo(() => rowsOf(tree.listings, tree.open), [tree.listings, tree.open]);
  const [active, setActive] = useState("");
  const [[first, last], measure] = useWindow(root, rows.length);
  const found = rows.findIndex((row) => row.path === active);
  const at = found >= 0 ? found : 0;
  const show = (index) => {
    const box = root.current;
    const top = index * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
    measure();
  };
  useEffect(() => setActive(path), [path]);
  const isKnown = rows.some((row) => row.path === path);
  useEffect(() => {
    if (isKnown) show(rows.findIndex((row) => row.path === path));
  }, [path, isKnown]);
  const press = (row) => (event) => {
    setActive(row.path);
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (row.isDirectory) tree.setIsOpen(row.path, !row.isOpen);
  };
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || rows.length === 0) return;
    const row = rows[at];
    if (event.key === "Enter") {
      event.preventDefault();
      go(placeHref(id, row.path));
    } else if (row.isDirectory && ((event.key === "ArrowRight" && !row.isOpen) || (event.key === "ArrowLeft" && row.isOpen))) {
      event.preventDefault();
      tree.setIsOpen(row.path, !row.isOpen);
    } else {
      const target = keyTarget(event.key, rows, at);
      if (target < 0) return;
      event.preventDefault();
      setActive(rows[target].path);
      show(target);
    }
  };
  return html`<div
    ref=${root}
    class="files-tree"
    role="tree"
    tabindex="0"
    aria-label=${t("Files of the project")}
    aria-activedescendant=${rows.length > 0 ? `files-row-${at}` : undefined}
    onKeyDown=${onKey}
    onScroll=${measure}
  >
    <div class="files-tree-rows" role="presentation" style=${{ height: `${rows.length * ROW}px` }}>
      ${rows.slice(first, last).map(
        (row, place) => html`<${TreeRow}
          key=${row.path}
          id=${id}
          row=${row}
          at=${first + place}
          isActive=${first + place === at}
          isCurrent=${row.path === path}
          isDraft=${unsaved.has(draftKey(id, row.path))}
          onPress=${press(row)}
        />`,
      )}
    </div>
  </div>`;
}
