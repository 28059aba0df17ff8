// Who uses the console: the mode of the server, the account, and what an account may see.

import { computed, signal } from "./lib/ui.js";
import * as api from "./lib/api.js";

/** `null` until it is known; then `{mode, account}`. `account` is null while nobody is logged in. */
export const session = signal(null);

/** Whether the server has accounts. */
export const hasAccounts = computed(() => session.value !== null && session.value.mode !== "single");
export const isAdmin = computed(() => session.value?.mode === "single" || session.value?.account?.role === "admin");

/** Asks the server who we are. */
export async function loadSession() {
  const nobody = (error) => {
    if (error.status !== 401) throw error;
    return null;
  };
  const asked = [api.data(api.get("/api/auth/mode")), api.data(api.get("/api/auth/profile")).catch(nobody)];
  const [{ mode }, account] = await Promise.all(asked);
  session.value = { mode, account };
}

export async function login(username, password) {
  await api.post("/api/auth/login", { username, password }, { isLogin: true });
  await loadSession();
}

export async function logout() {
  await api.post("/api/auth/logout");
  session.value = { ...session.peek(), account: null };
}
