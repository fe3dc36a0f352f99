// Numbers, times and names as people read them.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1234 → "1.2K tokens". */
export function tokens(n) {
  return `${n < 1000 ? n : compact.format(n)} ${n === 1 ? "token" : "tokens"}`;
}

/** An amount of US dollars as the gateway tells it, to a tenth of a cent; empty if it is not known. */
export function dollars(amount) {
  if (amount === undefined || amount === "") return "";
  const n = Number(amount);
  return n > 0 && n < 0.001 ? "< $0.001" : `$${n.toFixed(n < 1 ? 3 : 2)}`;
}

/** Milliseconds → "820 ms", "3.4 s", "2 min 5 s", "1 h 2 min". */
export function duration(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** How long ago a timestamp was, in one word or two. */
export function ago(timestamp, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(timestamp)) / 1000);
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(timestamp).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/** The first line of a text, shortened. */
export function headline(text, most = 80) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

// What has no look of its own, or changes the order in which other characters are seen.
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Makes visible what could hide in a text that somebody decides on. */
export function revealed(text) {
  return text.replace(unseen, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const blanks = /("(?:[^"\\]|\\.)*")|\s+/gs;

/**
 * A tool call's arguments. A command alone is that command, other JSON gets line breaks; but what would
 * not read the same afterwards (members that come twice, odd numbers) stays what the model wrote.
 */
export function readableArguments(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return revealed(text);
  }
  if (JSON.stringify(value) !== text.replace(blanks, "$1")) return revealed(text);
  const members = value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  if (members.length === 1 && members[0][0] === "command" && typeof members[0][1] === "string") return revealed(members[0][1]);
  return revealed(JSON.stringify(value, null, 2));
}

/** The newer of two summaries of a session, the later one if they are equally new: answers and news come in any order. */
export function newest(before, later) {
  return (before?.last_sequence ?? 0) > (later.last_sequence ?? 0) ? before : later;
}

/** How a task may have ended that failed. */
export const failures = ["failed", "timeout", "malformed", "auth"];

/**
 * How a session stands, as one of a few kinds, in words, and whether it is at work. An idle session
 * says how its last task ended, if that was not well.
 */
export function standing({ state, task_status: status }) {
  if (state === "waiting") return { kind: "waiting", words: "Waiting for you", busy: true };
  if (state === "running") return { kind: "running", words: "Running", busy: true };
  if (state === "deleted") return { kind: "deleted", words: "Deleted", busy: false };
  if (failures.includes(status)) return { kind: "failed", words: "Failed", busy: false };
  return { kind: "idle", words: "Idle", busy: false };
}

export const modes = {
  "read-only": "Ask before changes",
  "always-ask": "Always ask",
  "allow-all": "Allow all",
  "deny-all": "Deny all",
};
