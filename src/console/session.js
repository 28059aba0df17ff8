// Who uses the console: the mode of the server, the account, and what an account may see.

import { computed, signal } from "./lib/ui.js";
import * as api from "./lib/api.js";

/**
 * `null` until it is known; then `{mode, isSetUp, account}`. `isSetUp`: somebody has an account. `account` is null
 * while nobody is logged in.
 */
export const session = signal(null);

/** Whether the server has accounts. */
export const hasAccounts = computed(() => session.value !== null && session.value.mode !== "single");
export const isAdmin = computed(() => session.value?.mode === "single" || session.value?.account?.role === "admin");

/** Asks the server who we are. */
export async function loadSession() {
  const { mode, authenticated, has_accounts: isSetUp } = await api.data(api.get("/api/auth/mode"));
  const account = authenticated ? await api.data(api.get("/api/auth/profile")) : null;
  session.value = { mode, isSetUp, account };
}

export async function login(username, password) {
  await api.post("/api/auth/login", { username, password }, { isLogin: true });
  await loadSession();
}

/** Ends the session of this browser, or all sessions of the account. */
export async function logout(everywhere) {
  await api.post("/api/auth/logout", { everywhere });
  session.value = { ...session.peek(), account: null };
}
