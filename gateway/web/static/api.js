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

export function authorization() {
  return { Authorization: `Bearer ${token()}` };
}

async function answer(response) {
  const body = await response.json().catch(() => undefined);
  if (!response.ok) throw new Refused(response.status, body?.error);
  return body;
}

/** Asks a question. */
export async function ask(path, signal) {
  return answer(await fetch(path, { headers: authorization(), signal }));
}

const attempts = 4;

/**
 * Sends a command. It has a key, so it is safe to send it again when no answer comes, or the
 * gateway says that it can't answer now: it is applied once.
 */
export async function tell(method, path, body) {
  const headers = { ...authorization(), "Idempotency-Key": `page-${crypto.randomUUID()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const request = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
  for (let attempt = 1; ; attempt++) {
    try {
      return await answer(await fetch(path, request));
    } catch (error) {
      const passing = !(error instanceof Refused) || error.status === 503;
      if (!passing || attempt === attempts) throw error instanceof TypeError ? new Error("The gateway can't be reached.") : error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * attempt));
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
