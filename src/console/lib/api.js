// Calls of the server's HTTP interface. Only the documented routes are used.

import { signal } from "./ui.js";

/** An answer that is not a success. `message` is the server's own text, which says what to do. */
export class ApiError extends Error {
  constructor(status, message, details = {}) {
    super(message);
    this.status = status;
    this.code = details.code;
    this.param = details.param;
    this.retryAfterS = details.retryAfterS;
  }
}

/** Rises when a call was answered with 401: the session is over. */
export const sessionLost = signal(0);

/** The error of an answer in the shape of /v1 (`error`) or of /api (`message`). */
export async function errorOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy answered; its status has to do.
  }
  const inner = typeof body.error === "object" && body.error ? body.error : {};
  const message = inner.message || body.message || `HTTP ${response.status}`;
  const retryAfterS = Number(response.headers.get("retry-after")) || undefined;
  return new ApiError(response.status, message, { ...inner, retryAfterS });
}

/** Sends a request and returns the Response. Throws `ApiError`; status 0 means that no answer came. */
export async function send(method, path, options = {}) {
  const { body, headers = {}, signal: abort, type } = options;
  const init = { method, headers: { Accept: "application/json", ...headers }, signal: abort };
  if (body !== undefined) {
    const isRaw = type !== undefined || body instanceof FormData;
    init.body = isRaw ? body : JSON.stringify(body);
    if (type) init.headers["Content-Type"] = type;
    else if (!isRaw) init.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "no connection");
  }
  if (response.ok) return response;
  if (response.status === 401 && !options.isLogin) sessionLost.value += 1;
  throw await errorOf(response);
}

async function json(method, path, options) {
  const response = await send(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, abort) => json("GET", path, { signal: abort });
export const post = (path, body = {}, options = {}) => json("POST", path, { body, ...options });
export const patch = (path, body) => json("PATCH", path, { body });
export const put = (path, body, options = {}) => json("PUT", path, { body, ...options });
export const remove = (path) => json("DELETE", path);

/** `/path?a=1`, without parameters that are empty. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") query.append(name, value);
  }
  const written = query.toString();
  return written ? `${path}?${written}` : path;
}

/** The `data` of an answer of /api. */
export const data = async (promise) => (await promise).data;

/** Items of a list of /api from its start, page by page, until there are `most` or the list ends. */
export async function pages(path, parameters, most, abort) {
  const items = [];
  let page = {};
  do {
    page = await data(get(withQuery(path, { ...parameters, cursor: page.next_cursor }), abort));
    items.push(...page.items);
  } while (page.next_cursor && items.length < most);
  return { items, total: page.total ?? items.length, hasMore: Boolean(page.next_cursor) };
}

/** A new key for a request that must not be carried out twice. */
export const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`;

/**
 * Sends a POST until an answer came. The key makes the repetition safe: the server carries it out once.
 * `onWait` hears of each pause.
 */
export async function postOnce(path, body, onWait = () => {}, abort = undefined) {
  const headers = { "Idempotency-Key": newKey() };
  for (let pauseMs = 500; ; pauseMs = Math.min(pauseMs * 2, 8000)) {
    try {
      return await post(path, body, { headers, signal: abort });
    } catch (error) {
      const canPass = error instanceof ApiError && (error.status === 0 || error.status === 503);
      if (!canPass) throw error;
      onWait(error);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
