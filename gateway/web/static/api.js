// Requests to the gateway this page came from.

import { token } from "./token.js";

/** A refusal: code and message are the gateway's. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the gateway answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
    this.field = error?.field ?? "";
  }
}

/** Tells "unauthorized" whenever the gateway refuses the token that is kept, whoever asked. */
export const access = new EventTarget();

/** Whether a question may find another answer later: the gateway can't be reached, or can't answer now. */
export function passing(error) {
  return !(error instanceof Refused) || error.status >= 500 || error.status === 429 || error.code === "conflict";
}

/** Sends a request with the token. A refusal, or no answer, is an error that can be shown. */
export async function request(path, { headers, ...more } = {}) {
  const used = token();
  let response;
  try {
    response = await fetch(path, { headers: { Authorization: `Bearer ${used}`, ...headers }, ...more });
  } catch (error) {
    throw error instanceof TypeError ? new Error("The gateway can't be reached.") : error;
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => undefined);
  if (response.status === 401 && used === token()) access.dispatchEvent(new Event("unauthorized"));
  throw new Refused(response.status, body?.error);
}

/** Asks a question. */
export async function ask(path, signal) {
  return (await request(path, { signal })).json();
}

const attempts = 4;

/**
 * Sends a command. It has a key, so it is safe to send it again when no answer comes, or the
 * gateway says that it can't answer now: it is applied once.
 */
export async function tell(method, path, body) {
  const headers = { "Idempotency-Key": newKey() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await request(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      return await response.json().catch(() => undefined); // a 204 says nothing
    } catch (error) {
      const again = !(error instanceof Refused) || error.status === 503;
      if (!again || attempt === attempts) throw error;
    }
    await pause(500 * attempt);
  }
}

// crypto.randomUUID is for secure contexts alone, and a gateway may be reached by plain HTTP.
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${[...bytes].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}

/** Waits some milliseconds, or until the signal aborts. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
  });
}

const longestPause = 10_000;

/** Pauses before the next attempt after so many failures in a row. */
export function backOff(failures, signal) {
  return pause(Math.min(longestPause, 250 * 2 ** failures), signal);
}

/**
 * Asks until there is an answer, unless it is a refusal that stays one. onTrouble hears what went wrong.
 */
export async function persist(question, { signal, onTrouble }) {
  for (let failures = 0; ; failures++) {
    try {
      return await question();
    } catch (error) {
      if (signal.aborted || !passing(error)) throw error;
      onTrouble(error);
    }
    await backOff(failures, signal);
    signal.throwIfAborted();
  }
}

export function sessionPath(id, rest = "") {
  return `/v1/sessions/${encodeURIComponent(id)}${rest}`;
}

/**
 * Reads a session's history to its end, page by page. Returns all messages, and what the last page
 * says: partials, cursor, state, pending.
 */
export async function history(id, signal) {
  const messages = [];
  for (let after = ""; ;) {
    const query = new URLSearchParams({ limit: "1000", ...(after && { after }) });
    const page = await ask(`${sessionPath(id, "/messages")}?${query}`, signal);
    messages.push(...page.messages);
    if (!page.more) return { ...page, messages };
    after = page.next;
  }
}
