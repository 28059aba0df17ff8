// Conversations on the left, the open one on the right.

import { html, useData, useEffect, useRef, useState } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { shortTime, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { go, href } from "../lib/router.js";
import { Button, Empty, Loaded, confirm, useAction } from "../parts/basics.js";
import { Conversation } from "./chat/conversation.js";

const PAGE = 50;
const SEARCH_PAUSE_MS = 200;

/** The list grows page by page while the user scrolls. */
function useConversations() {
  const [search, setSearch] = useState("");
  const [count, setCount] = useState(PAGE);
  const load = (abort) => api.pages("/api/conversations", { limit: PAGE, search }, count, abort);
  const list = useData(load, [search, count], 15_000);
  return { list, search, setSearch, more: () => setCount((old) => old + PAGE) };
}

function Row({ conversation, isOpen, onChanged }) {
  const [isNaming, setNaming] = useState(false);
  const [rename] = useAction(async (title) => {
    await api.patch(`/api/conversations/${conversation.id}`, { title });
    onChanged();
  });
  const [remove] = useAction(async () => {
    if (!(await confirm(t("The conversation and its runs will be deleted for good."), t("Delete")))) return;
    await api.remove(`/api/conversations/${conversation.id}`);
    if (isOpen) go(href("chat"));
    onChanged();
  });
  const save = (event) => {
    event.preventDefault();
    setNaming(false);
    const title = new FormData(event.currentTarget.form ?? event.currentTarget).get("title").trim();
    if (title && title !== conversation.title) rename(title);
  };
  if (isNaming) {
    return html`<li>
      <form onSubmit=${save}>
        <input name="title" aria-label=${t("Title")} value=${conversation.title} maxlength="200" ref=${(input) => input?.focus()} onBlur=${save} />
      </form>
    </li>`;
  }
  return html`<li class="chat-row">
    <a href=${href("chat", [conversation.id])} aria-current=${isOpen ? "page" : undefined}>
      <span class="ellipsis" dir="auto">${short(conversation.title || t("New conversation"), 70)}</span>
      <small>${shortTime(conversation.updated_at)}${conversation.project_name ? ` · ${short(conversation.project_name, 30)}` : ""}</small>
    </a>
    <span class="chat-acts">
      <${Button} kind="quiet small" icon="edit" isIconOnly label=${t("Rename")} onClick=${() => setNaming(true)} />
      <${Button} kind="quiet small" icon="trash" isIconOnly label=${t("Delete")} onClick=${remove} />
    </span>
  </li>`;
}

function List({ openId, onNew, refresh }) {
  const { list, search, setSearch, more } = useConversations();
  const timer = useRef(0);
  useEffect(() => {
    if (refresh > 0) list.reload();
  }, [refresh]);
  const type = (event) => {
    const words = event.currentTarget.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSearch(words.trim()), SEARCH_PAUSE_MS);
  };
  const scroll = (event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
    if (list.data?.hasMore && scrollTop + clientHeight > scrollHeight - 200) more();
  };
  return html`<section class="chat-list" aria-label=${t("Conversations")}>
    <div class="head">
      <${Button} icon="plus" kind="primary" label=${t("New conversation")} onClick=${onNew} />
      <input type="search" placeholder=${t("Search")} aria-label=${t("Search conversations")} onInput=${type} />
    </div>
    <${Loaded} of=${list}>
      ${({ items }) =>
        items.length === 0
          ? html`<${Empty} title=${search ? t("Nothing found") : t("No conversations yet")}>
              ${search ? t("No title or message has these words.") : t("Write a message to begin the first one.")}
            <//>`
          : html`<ul onScroll=${scroll}>
              ${items.map(
                (each) => html`<${Row} key=${each.id} conversation=${each} isOpen=${each.id === openId} onChanged=${list.reload} />`,
              )}
            </ul>`}
    <//>
  </section>`;
}

export function View({ segments }) {
  const [openId] = segments;
  const [refresh, setRefresh] = useState(0);
  const [isListShown, showList] = useState(false);
  // A conversation that is made by its first message keeps its component, and with it the focus.
  const [draftKey, setDraftKey] = useState(0);
  const made = useRef(null);
  useEffect(() => showList(false), [openId]);
  const startNew = () => {
    made.current = null;
    setDraftKey((key) => key + 1);
    showList(false);
    go(href("chat"));
  };
  const key = openId && openId !== made.current ? openId : `new-${draftKey}`;
  return html`<div class="chat ${isListShown ? "shows-list" : ""}">
    <${List} openId=${openId} onNew=${startNew} refresh=${refresh} />
    <${Conversation}
      key=${key}
      id=${openId}
      onMade=${(id) => {
        made.current = id;
        go(href("chat", [id]), true);
        setRefresh((old) => old + 1);
      }}
      onChanged=${() => setRefresh((old) => old + 1)}
      onShowList=${() => showList(true)}
    />
  </div>`;
}
