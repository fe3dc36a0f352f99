// A toolrunner in node, written from docs/protocol.md: an example for other languages, and the proof
// that the document suffices. It speaks plain NATS; JetStream is requests to `$JS.API`.
//
//   node toolrunner.mjs nats://user:password@host:4222
//
// It prints a line when its tools can be called, and ends in order on SIGTERM.
import { connect, createInbox, headers, nanos } from "@nats-io/transport-node";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";

const project = "default", pool = "node", slots = 4;
const instance = "node-" + randomUUID();

// The tools: a definition, and a function that may write output while it runs, throw, and has to mind
// its signal.
const number = { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"] };
const nothing = { type: "object", properties: {} };
const tools = [
  {
    name: "count", description: "Counts to n, aloud.", parameters: number, permission: "rw", pool,
    async run({ n }, { write, signal }) {
      if (!Number.isInteger(n) || n < 1) throw new Error("n must be a number from 1");
      for (let i = 1; i <= n; i++) {
        write(`${i} is the number ✓\n`);
        await pause(20, undefined, { signal });
      }
    },
  },
  {
    name: "fail", description: "Fails in the middle.", parameters: nothing, permission: "r", pool,
    async run(_, { write }) {
      write("so far, so good\n");
      throw new Error("there is no such thing");
    },
  },
  {
    name: "flood", description: "Says too much.", parameters: nothing, permission: "r", pool, output_cap: 1000,
    async run(_, { write }) {
      write("é".repeat(5000));
    },
  },
  {
    name: "hang", description: "Waits until it is told to stop.", parameters: nothing, permission: "r", pool,
    async run(_, { write, signal }) {
      write("waiting\n");
      await pause(3_600_000, undefined, { signal });
    },
  },
  {
    name: "again", description: "Hangs at its first attempt.", parameters: nothing, permission: "r", pool, retry: "safe",
    async run(_, { write, signal, attempt }) {
      write(`attempt ${attempt}\n`);
      if (attempt === 1) await pause(3_600_000, undefined, { signal });
    },
  },
  {
    name: "late", description: "Takes longer than it may.", parameters: nothing, permission: "r", pool, timeout_ms: 300,
    async run(_, { write, signal }) {
      write("in a moment\n");
      await pause(3_600_000, undefined, { signal });
    },
  },
];

const broker = new URL(process.argv[2]);
const nc = await connect({
  servers: broker.host, user: broker.username, pass: broker.password, name: instance,
  maxReconnectAttempts: -1, reconnectTimeWait: 250, // in 3 s without it others take it for gone
});

/** request sends a message and reads the answer, which is JSON. */
async function request(subject, body, head = {}, timeout = 2000) {
  const h = headers();
  for (const [name, value] of Object.entries(head)) h.set(name, String(value));
  const answer = await nc.request(subject, body === "" ? "" : JSON.stringify(body), { headers: h, timeout });
  return answer.json();
}

/** certain tries until the broker has said yes, or no for a reason that `final` accepts. */
async function certain(subject, body, head, final = () => false) {
  for (;;) {
    try {
      const answer = await request(subject, body, head);
      if (!answer.error || final(answer.error)) return answer;
      console.error(subject, answer.error);
    } catch (e) {
      if (nc.isClosed()) throw e;
      console.error(subject, e.message);
    }
    await pause(250);
  }
}

// --- Signs of life ---

const key = (bucket, name) => `$KV.${bucket}.${name}`;
const hour = { "Nats-TTL": "3600s" };
const removal = { "KV-Operation": "PURGE", "Nats-Rollup": "sub", "Nats-TTL": "60s" };
const ending = new AbortController(); // no more calls are started
const ended = new AbortController(); // and none runs any more
let proven = -Infinity; // when the last put that succeeded was sent

async function live() {
  while (!ended.signal.aborted) {
    const sent = performance.now();
    try {
      const answer = await request(key("INSTANCES", `toolrunner.${instance}`), "", hour, 1000);
      if (!answer.error) proven = sent;
    } catch (e) {
      console.error("proof of life:", e.message);
    }
    await pause(1000, undefined, { signal: ended.signal }).catch(() => {});
  }
}
const alive = () => performance.now() - proven < 3000;

const definition = ({ run, ...rest }) => rest;
const announce = () => certain(
  key("REGISTRY", `toolrunner.${project}.${instance}`),
  { instance, project, pools: [pool], tools: tools.map(definition), slots }, hour,
);

// --- Records: a chain, of which the broker stores one link at a time ---

const shards = Number((await request("$JS.API.STREAM.INFO.TOOLS", {})).config.metadata["braid.shards"]);

function shardOf(session) {
  let hash = 0x811c9dc5; // FNV-1a
  for (const byte of Buffer.from(session)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash % shards;
}

/** record stores what follows the record `after`, and returns its sequence; 0 if that can't be any more. */
async function record({ session, tool_call_id }, after, body) {
  const shard = shardOf(session.id);
  const subject = `braid.${session.project}.output.${shard}.${session.id}.${tool_call_id}`;
  const expected = { "Nats-Expected-Last-Subject-Sequence": after };
  for (const since = performance.now(); ; await pause(250)) {
    const answer = await certain(subject, body, expected, (e) => e.err_code === 10071);
    if (!answer.error) return answer.seq;
    const last = Number(/wrong last sequence: (\d+)/.exec(answer.error.description)[1]);
    if (last > after) break; // another record follows, or ours, whose acknowledgement was lost
    // A leader that is new, and has not caught up, refuses too, for a moment.
    if (last === 0 || performance.now() - since > 2000) return 0;
  }
  const { message } = await certain(`$JS.API.STREAM.MSG.GET.OUTPUTS-${shard}`, { seq: after + 1, next_by_subj: subject });
  return Buffer.from(message.data, "base64").toString() === JSON.stringify(body) ? message.seq : 0;
}

// --- Objects: what is too large for a message ---

async function object(name) {
  const get = async (what) => (await certain("$JS.API.STREAM.MSG.GET.OBJ_BLOBS", what)).message;
  const data = ({ data }) => Buffer.from(data, "base64");
  const key = Buffer.from(name).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
  const { nuid, chunks } = JSON.parse(data(await get({ last_by_subj: `$O.BLOBS.M.${key}` })));
  const pieces = [];
  for (let seq = 1; pieces.length < chunks; ) {
    const piece = await get({ seq, next_by_subj: `$O.BLOBS.C.${nuid}` });
    pieces.push(data(piece));
    seq = piece.seq + 1;
  }
  return Buffer.concat(pieces);
}

// --- Output ---

/** cut is the longest beginning of at most n bytes that ends between two characters. */
function cut(bytes, n) {
  if (bytes.length <= n) return bytes;
  while (n > 0 && (bytes[n] & 0xc0) === 0x80) n--;
  return bytes.subarray(0, n);
}

const clean = (text) => text.toWellFormed().replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|[\0-\x08\x0b-\x1f\x7f-\x9f]/g, "");

/** Output keeps all that a call has said, and publishes it as fragments. */
class Output {
  bytes = Buffer.alloc(0);
  total = 0;
  over = false;
  constructor(call) { this.call = call; }

  write(text) {
    if (this.over) return; // a tool that did not mind its signal
    const added = Buffer.from(clean(String(text)));
    this.total += added.length;
    this.append(cut(added, Math.max(0, this.call.output_cap - this.bytes.length)));
  }

  /** end adds a last line, which the cap does not count, and returns the whole text. */
  end(...notes) {
    if (this.total > this.bytes.length) notes.unshift(`[output truncated: kept the first ${this.bytes.length} of ${this.total} bytes]`);
    else if (this.total === 0) notes.unshift("[no output]");
    this.over = true;
    const onNewLine = this.bytes.length === 0 || this.bytes.at(-1) === 0x0a;
    if (notes.length > 0) this.append(Buffer.from((onNewLine ? "" : "\n") + notes.join("\n")));
    return this.bytes.toString();
  }

  append(bytes) {
    const from = this.bytes.length;
    this.bytes = Buffer.concat([this.bytes, bytes]);
    this.send(from);
  }

  /** send publishes the text from a byte on. */
  send(from) {
    while (from > 0 && (this.bytes[from] & 0xc0) === 0x80) from--;
    for (let piece; from < this.bytes.length; from += piece.length) {
      piece = cut(this.bytes.subarray(from), 64 << 10);
      nc.publish(`braid.${this.call.session.project}.fragment.${this.call.session.id}`, JSON.stringify({
        tool_call_id: this.call.tool_call_id, attempt: this.call.attempt, offset: from, text: piece.toString(),
      }));
    }
  }
}

// --- Calls ---

/** Those that run, and for a while those that have ended: their owner may ask for output again. */
const calls = new Map();
const nameOf = ({ session, tool_call_id }) => `${session.project}/${session.id}/${tool_call_id}`;

async function execute(call, { output, cancel }) {
  const timeout = AbortSignal.timeout(call.timeout_ms || 120_000);
  const signal = AbortSignal.any([cancel.signal, timeout]);
  try {
    signal.throwIfAborted();
    const tool = tools.find((t) => t.name === call.name);
    if (!tool) throw new Error(`there is no tool ${call.name}`);
    const args = JSON.parse(call.arguments.trim() || "{}");
    if (Object.prototype.toString.call(args) !== "[object Object]") throw new Error("the arguments must be one JSON object");
    const context = { write: (text) => output.write(text), signal, attempt: call.attempt };
    const stopped = new Promise((_, stop) => { signal.addEventListener("abort", () => stop(signal.reason), { once: true }); });
    await Promise.race([tool.run(args, context), stopped]);
    return { output: output.end(), stop_reason: "completed" };
  } catch (e) {
    if (cancel.signal.aborted) return { output: output.end("[aborted]"), stop_reason: "aborted" };
    if (timeout.aborted) return { output: output.end(`[timed out after ${call.timeout_ms} ms]`), stop_reason: "timeout" };
    return { output: output.end(`[failed: ${clean(e.message)}]`), stop_reason: "failed" };
  }
}

async function handle(message) {
  const large = message.headers?.get("Braid-Body");
  const call = JSON.parse(large ? await object(large) : message.string());
  const { attempt } = call;
  const running = { call, output: new Output(call), cancel: new AbortController(), ended: false };
  calls.set(nameOf(call), running); // its owner may cancel it as soon as the record is stored
  const forget = () => { if (calls.get(nameOf(call)) === running) calls.delete(nameOf(call)); };
  // Who starts a call is decided by the broker; only then it leaves the queue.
  const started = await record(call, call.queued, { state: "started", attempt, toolrunner: instance, nonce: randomUUID() });
  message.respond("+ACK");
  if (started === 0) return forget();
  const result = await execute(call, running);
  running.ended = true;
  await record(call, started, { state: "done", attempt, toolrunner: instance, result });
  setTimeout(forget, 60_000).unref();
}

/** serveControl cancels calls and sends output again. */
function serveControl() {
  nc.subscribe(`braid.toolrunner.${instance}.control`, {
    callback: (_, message) => {
      const { op, session, tool_call_id, attempt, from } = message.json();
      const running = calls.get(nameOf({ session, tool_call_id }));
      let known = false;
      if (op === "cancel" && running && !running.ended) {
        known = true;
        running.cancel.abort();
      } else if (op === "resend" && running?.call.attempt === attempt) {
        known = true;
        running.output.send(from);
      }
      const error = { code: "not_found", message: `call ${tool_call_id} does not run here` };
      message.respond(JSON.stringify(known ? {} : { error }));
    },
  });
}

// --- The queue ---

const consumer = `${project}=${pool}`, filter = `braid.${project}.tool.${pool}.*`;
const createConsumer = () => certain(`$JS.API.CONSUMER.CREATE.TOOLS.${consumer}.${filter}`, {
  stream_name: "TOOLS",
  config: {
    durable_name: consumer, filter_subject: filter, deliver_policy: "all", replay_policy: "instant",
    ack_policy: "explicit", ack_wait: nanos(3000), max_deliver: -1, max_ack_pending: -1,
  },
});

/** pull waits a second for a call. */
async function pull() {
  const inbox = nc.subscribe(createInbox(), { max: 1, timeout: 3000 });
  nc.publish(`$JS.API.CONSUMER.MSG.NEXT.TOOLS.${consumer}`, JSON.stringify({ batch: 1, expires: nanos(1000) }), { reply: inbox.getSubject() });
  for await (const message of inbox) {
    const status = message.headers?.code ?? 0;
    if (status === 0) return message;
    if (status === 503 || status === 409) await createConsumer(); // it is gone, or its leader is
  }
}

/** work does one call after the other. */
async function work() {
  while (!ending.signal.aborted) {
    try {
      if (!alive()) await pause(100);
      else {
        const message = await pull();
        if (message && alive()) await handle(message);
        else message?.respond("-NAK");
      }
    } catch (e) {
      if (nc.isClosed()) return;
      console.error("a call:", e.message); // if it was not started it is delivered again
    }
  }
}

const beating = live();
serveControl();
await createConsumer();
await announce();
const again = setInterval(announce, 5 * 60_000);
const working = Array.from({ length: slots }, work);
process.on("SIGTERM", () => ending.abort());
console.log(`${instance} serves its tools`);

await Promise.race([once(ending.signal, "abort"), nc.closed()]);
clearInterval(again);
await certain(key("REGISTRY", `toolrunner.${project}.${instance}`), "", removal);
await Promise.all(working);
ended.abort();
await beating;
await certain(key("INSTANCES", `toolrunner.${instance}`), "", removal);
await nc.drain();
