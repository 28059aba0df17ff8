// One conversation: its messages, the answer that is being written, and the composer below.

import { html, useData, useEffect, useLayoutEffect, useRef, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { isOver } from "../../lib/steps.js";
import { Button, Dialog, Failure, notifyError } from "../../parts/basics.js";
import { Composer } from "./composer.js";
import { Answer, Question } from "./messages.js";
import { Settings } from "./settings.js";

/** Pixels above the end within which the page follows a growing answer. */
const NEAR_PX = 120;

/** What a new conversation begins with. */
const draft = () => ({ id: null, title: "", model: "", system_prompt: "", thinking_enabled: false, project_id: null });

/** All messages, oldest first. */
const loadMessages = async (id, abort) =>
  (await api.pages(`/api/conversations/${id}/messages`, { limit: 100 }, Infinity, abort)).items;

/** Keeps the end in view while an answer grows, until the reader scrolls up. */
function useFollow() {
  const frame = useRef(null);
  const list = useRef(null);
  const isFollowing = useRef(true);
  const [isAway, setAway] = useState(false);
  const toEnd = () => {
    isFollowing.current = true;
    frame.current.scrollTop = frame.current.scrollHeight;
  };
  useLayoutEffect(() => {
    if (!list.current) return undefined;
    const observer = new ResizeObserver(() => isFollowing.current && toEnd());
    observer.observe(list.current);
    return () => observer.disconnect();
  });
  const onScroll = () => {
    const { scrollTop, clientHeight, scrollHeight } = frame.current;
    isFollowing.current = scrollTop + clientHeight > scrollHeight - NEAR_PX;
    setAway(!isFollowing.current);
  };
  return { frame, list, onScroll, toEnd, isAway };
}

function Head({ conversation, onShowList, onSettings }) {
  return html`<header>
    <span class="only-narrow"><${Button} icon="menu" kind="quiet" isIconOnly label=${t("Conversations")} onClick=${onShowList} /></span>
    <h1 class="ellipsis" dir="auto">${short(conversation.title || t("New conversation"), 120)}</h1>
    <${Button} icon="settings" kind="quiet" isIconOnly label=${t("Settings of the conversation")} onClick=${onSettings} />
  </header>`;
}

function Welcome() {
  return html`<div class="empty">
    <h2>${t("What shall be done?")}</h2>
    <p>${t("The answer is written by the model with the tools of this server. It goes on when you close the page, and nothing of it is lost when the server stops.")}</p>
  </div>`;
}

/** Everything of the view that changes: the conversation, its messages and the acts on them. */
function useConversation(id, onMade, onChanged) {
  const [changes, setChanges] = useState({});
  const found = useData(
    (abort) => (id ? api.data(api.get(`/api/conversations/${id}`, abort)) : Promise.resolve(draft())),
    [id],
  );
  const messages = useData((abort) => (id ? loadMessages(id, abort) : Promise.resolve([])), [id]);
  const conversation = { ...draft(), ...found.data, ...(id ? {} : changes) };
  const [unsent, setUnsent] = useState(null);
  useEffect(() => setUnsent(null), [messages.data]);

  const change = async (values) => {
    if (!id) return setChanges((old) => ({ ...old, ...values }));
    await api.patch(`/api/conversations/${id}`, values);
    found.reload();
    return onChanged();
  };

  const ask = async (question) => {
    setUnsent({ ...question, isWaiting: false });
    let target = id;
    if (!target) {
      const { id: _, ...wishes } = conversation;
      const wanted = Object.entries(wishes).filter(([, value]) => value !== "" && value !== null);
      target = (await api.data(api.post("/api/conversations", Object.fromEntries(wanted)))).id;
    }
    const body = {
      conversation_id: target,
      input: [{ role: "user", content: question.text, ...(question.files.length > 0 && { attachments: question.files }) }],
      ...(conversation.model && { model: conversation.model }),
      ...(conversation.system_prompt && { system_prompt: conversation.system_prompt }),
      ...(conversation.project_id && { project_id: conversation.project_id }),
      thinking: conversation.thinking_enabled,
      ...question.options,
    };
    await api.postOnce("/v1/jobs", body, () => setUnsent({ ...question, isWaiting: true }));
    if (!id) onMade(target);
    else {
      messages.reload();
      onChanged();
    }
  };

  /** Asks the question of this answer anew, with another text if there is one. */
  const askAgain = async (answerId, text) => {
    const body = text === undefined ? {} : { text };
    const response = await api.send("POST", `/api/conversations/${id}/regenerate/${answerId}`, { body });
    // The answer is followed as any other run.
    await response.body?.cancel();
    messages.reload();
  };

  const removeMessage = async (messageId) => {
    await api.remove(`/api/conversations/${id}/messages/${messageId}`);
    messages.reload();
  };

  const ended = () => {
    messages.reload();
    found.reload();
    onChanged();
  };
  return { found, messages, conversation, unsent, setUnsent, change, ask, askAgain, removeMessage, ended };
}

export function Conversation({ id, onMade, onChanged, onShowList }) {
  const [isSetting, setSetting] = useState(false);
  const all = useConversation(id, onMade, onChanged);
  const { found, messages, conversation, unsent } = all;
  const { frame, list, onScroll, toEnd, isAway } = useFollow();
  const items = messages.data ?? [];
  const running = items.findLast((message) => message.role === "assistant" && !isOver(message.status));
  const ask = async (question) => {
    toEnd();
    try {
      await all.ask(question);
      return true;
    } catch (error) {
      all.setUnsent(null);
      notifyError(error);
      return false;
    }
  };
  const stop = () => api.post(`/v1/jobs/${running.job_id}/cancel`).catch(notifyError);
  if (found.error && !found.data) {
    return html`<div class="conversation"><div class="page"><${Failure} error=${found.error} onRetry=${found.reload} /></div></div>`;
  }
  return html`<section class="conversation" aria-label=${t("Conversation")}>
    <${Head} conversation=${conversation} onShowList=${onShowList} onSettings=${() => setSetting(true)} />
    <div class="messages" ref=${frame} onScroll=${onScroll} tabindex="0" role="region" aria-label=${t("Messages")}>
      ${items.length === 0 && !unsent && !messages.isLoading && html`<${Welcome} />`}
      <ol ref=${list}>
        ${items.map((message, at) =>
          message.role === "user"
            ? html`<${Question}
                key=${message.id}
                message=${message}
                answer=${items[at + 1]}
                onEdit=${(text) => all.askAgain(items[at + 1].id, text)}
                onRemove=${() => all.removeMessage(message.id)}
              />`
            : html`<${Answer} key=${message.id} message=${message} onAgain=${() => all.askAgain(message.id)} onEnd=${all.ended} />`,
        )}
        ${unsent && html`<${Question} key="unsent" message=${{ text: unsent.text, attachments: unsent.files }} isWaiting=${unsent.isWaiting} />`}
      </ol>
      ${isAway && html`<div class="jump"><${Button} kind="small" label=${t("To the end")} onClick=${toEnd} /></div>`}
    </div>
    <${Composer} conversation=${conversation} isRunning=${Boolean(running)} onAsk=${ask} onStop=${stop} onChange=${all.change} />
    ${isSetting &&
    html`<${Dialog} title=${t("Settings of the conversation")} onClose=${() => setSetting(false)}>
      <${Settings} conversation=${conversation} onChange=${all.change} onDone=${() => setSetting(false)} />
    <//>`}
  </section>`;
}
