// A transcript as elements. Each task and part has one element, which is made once and changed in
// place; changes are gathered and shown once a frame.

import { el, setText } from "./dom.js";
import { link, show } from "./markdown.js";
import { dollars, duration, headline, modes, readableArguments, revealed, tokens } from "./text.js";

export class View {
  #root;
  #on;
  #nodes = new Map(); // task or part → {node, update}
  #dirty = new Set();
  #frame = 0;
  #stays = true; // the end is seen, and is to stay so
  #height = 0; // of what was seen then

  /** on has what buttons do: waterfall(task), retryNow(). */
  constructor(root, on) {
    this.#root = root;
    this.#on = on;
    // Less room, or more, is nobody's scrolling.
    root.addEventListener("scroll", () => { if (root.clientHeight === this.#height) this.#stays = atEnd(root); }, { passive: true });
    new ResizeObserver(() => this.#stay()).observe(root);
  }

  /** Notes that a task or part is new or has changed. */
  touch = (thing) => {
    this.#dirty.add(thing);
    this.#frame ||= requestAnimationFrame(() => this.flush());
  };

  /** Shows what has changed. What can't be shown keeps nothing else from it. */
  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    for (const thing of dirty) {
      try {
        this.#place(thing).update(thing);
      } catch (error) {
        console.error("can't be shown:", thing.kind, error);
      }
    }
    this.#stay();
  }

  #stay() {
    this.#height = this.#root.clientHeight;
    if (this.#stays) toEnd(this.#root);
  }

  /** Forgets everything. */
  clear() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#dirty.clear();
    this.#nodes.clear();
    this.#stays = true;
    this.#root.replaceChildren();
  }

  #place(thing) {
    let made = this.#nodes.get(thing);
    if (made) return made;
    made = makers[thing.kind](thing, this.#on);
    this.#nodes.set(thing, made);
    const parent = thing.parent ? this.#place(thing.parent).body : this.#root;
    const next = thing.parent?.parts[thing.parent.parts.indexOf(thing) + 1];
    parent.insertBefore(made.node, this.#nodes.get(next)?.node ?? null);
    return made;
  }
}

const near = 64;

/** Whether what is scrolled shows its end. */
export function atEnd(node) {
  return node.scrollHeight - node.scrollTop - node.clientHeight < near;
}

export function toEnd(node) {
  node.scrollTop = node.scrollHeight;
}

const makers = { task, prompt, request, text, thinking, call, note };

const endings = {
  completed: "Completed", aborted: "Aborted", failed: "Failed", timeout: "Timed out", malformed: "Failed", auth: "The provider refused the key",
};
const causes = { max_turns: "Turn limit reached", loop: "Stopped: the model was repeating itself", budget: "Budget used up" };

function task(task, on) {
  const body = el("div", { class: "parts" });
  const label = el("span", { class: "ending" });
  const reason = el("p", { class: "reason", hidden: true });
  const timeline = el("button", { type: "button", class: "quiet", onclick: () => on.waterfall(task) }, "Timeline");
  const foot = el("footer", { class: "foot", hidden: true }, label, timeline);
  const node = el("section", { class: "task", "aria-label": task.aside ? "Between tasks" : `Task ${task.number}` }, body, reason, foot);
  return {
    node, body,
    update() {
      if (task.aside) return;
      foot.hidden = false;
      node.dataset.status = task.status || "running";
      const took = task.ended ? duration(task.ended - task.begun) : "";
      const said = task.status ? causes[task.cause] ?? endings[task.status] ?? task.status : "In progress";
      setText(label, took ? `${said} · ${took}` : said);
      // What the last attempt says need not be said twice.
      reason.hidden = !task.error || task.parts.some((part) => part.error?.includes(task.error) && !part.followed);
      setText(reason, task.error ?? "");
    },
  };
}

function pictures(node, urls) {
  while (node.children.length < urls.length) {
    const url = urls[node.children.length];
    node.append(url.startsWith("data:image/") ? el("img", { src: url, alt: "Picture", loading: "lazy" })
      : /^https?:/.test(url) ? el("p", {}, link(url, url)) : el("p", {}, "Attached data"));
  }
  node.hidden = urls.length === 0;
}

function prompt(part) {
  const words = el("div", { class: "words" });
  const images = el("div", { class: "pictures", hidden: true });
  const node = el("div", { class: "prompt" }, el("h3", { class: "unseen" }, part.steers ? "You added" : "You"), words, images);
  return { node, update() { setText(words, part.text); pictures(images, part.images); } };
}

/** A request shows what it said; one that failed is folded, since what follows says it again. */
function request(part, on) {
  const body = el("div", { class: "parts" });
  const meta = el("p", { class: "meta", hidden: true });
  const node = el("div", { class: "request" }, body, meta);
  const words = el("span", {});
  const next = el("span", { class: "next" });
  const retry = el("button", { type: "button", class: "quiet", onclick: (e) => on.retryNow(e.currentTarget) }, "Retry now");
  let fold;
  let ticking = 0;
  const count = () => {
    setText(next, node.isConnected && waits(part) ? until(part, Date.now()) : "");
    if (next.textContent === "") ticking = clearInterval(ticking);
  };
  return {
    node, body,
    update() {
      node.dataset.status = part.status || "running";
      const failed = part.status && part.status !== "completed" && part.status !== "aborted";
      if (failed && !fold) {
        const what = el("details", { class: "attempt", hidden: part.parts.length === 0 }, el("summary", {}, "Output of this attempt"), body);
        fold = el("div", { class: "failure" }, el("p", {}, words, next), retry, what);
        node.prepend(fold);
      }
      if (failed) setText(words, failure(part));
      fold?.classList.toggle("past", Boolean(part.followed));
      retry.hidden = !waits(part);
      if (waits(part)) ticking ||= setInterval(count, 1_000);
      if (ticking) count();
      meta.hidden = !part.usage || !part.ended;
      if (!meta.hidden) setText(meta, [part.model, tokens(part.usage.total), dollars(part.usage.cost_usd), duration(part.ended - part.begun)].filter(Boolean).join(" · "));
    },
  };
}

/** Whether the next attempt is still to come, and not at once. */
function waits(part) {
  return Boolean(part.retryAt) && part.retryIn > 1000 && !part.fallback;
}

/** How long it still is to the next attempt. The clocks here and there may differ. */
function until(part, now) {
  const left = Math.ceil(Math.max(0, Math.min(part.retryIn, part.retryAt - now)) / 1000);
  if (left === 0) return " Trying again…";
  return ` Next attempt in ${left < 60 ? `${left} s` : `${Math.floor(left / 60)} min ${left % 60} s`}.`;
}

function failure(part) {
  const next = part.fallback ? ` Continuing with ${part.fallback}.` : "";
  return `Attempt ${part.attempt} ${part.status === "timeout" ? "timed out" : "failed"}${part.error ? `: ${part.error.replace(/\.$/, "")}` : ""}.${next}`;
}

function text(part) {
  const node = el("div", { class: "text" });
  return {
    node,
    update() {
      try {
        show(node, part.text);
      } catch (error) {
        console.error("shown as plain text:", error);
        node.blocks = undefined;
        node.replaceChildren(el("p", {}, part.text));
      }
      node.classList.toggle("open", Boolean(part.open));
      node.classList.toggle("cut", Boolean(part.status && part.status !== "completed"));
    },
  };
}

function thinking(part) {
  const summary = el("summary", {});
  const words = el("div", { class: "words" });
  const node = el("details", { class: "thinking" }, summary, words);
  return {
    node,
    update() {
      node.hidden = !part.open && part.text === "";
      setText(summary, part.open ? "Thinking" : "Thoughts");
      node.classList.toggle("open", Boolean(part.open));
      setText(words, part.text);
    },
  };
}

function note(part) {
  const node = el("div", { class: `aside ${part.tone}` }, el("p", {}, part.text || (part.mode && `Approvals: ${modes[part.mode] ?? part.mode}`) || ""));
  const images = el("div", { class: "pictures", hidden: true });
  node.append(images);
  return { node, update() { pictures(images, part.images ?? []); } };
}

/** What a call is doing, as a word for its data-state and a text. */
export function callState(call) {
  if (call.status) {
    if (call.decision === "deny") return ["denied", "Denied"];
    if (call.decision === "forbidden") return ["denied", call.rule ? `Forbidden by ${call.rule}` : "Forbidden"];
    return { completed: ["done", "Done"], aborted: ["failed", "Aborted"], timeout: ["failed", "Timed out"] }[call.status] ?? ["failed", "Failed"];
  }
  if (call.open) return ["writing", "Writing"];
  if (call.decision) return ["running", "Running"];
  if (call.parent?.ended && call.parent.status !== "completed") return ["failed", "Not run"];
  return call.asked ? ["waiting", "Waiting for you"] : ["writing", ""];
}

function call(part) {
  const what = el("code", { class: "what" });
  const state = el("span", { class: "state" });
  const given = el("pre", { class: "given", tabindex: "0", "aria-label": "Arguments" });
  const output = el("pre", { class: "output", tabindex: "0", "aria-label": "Output", hidden: true });
  const images = el("div", { class: "pictures", hidden: true });
  const node = el("details", { class: "call", open: true },
    el("summary", {}, el("span", { class: "name" }, part.name), what, state), given, output, images);
  return {
    node,
    update() {
      const [name, words] = callState(part);
      const took = part.ended && part.decided ? duration(part.ended - part.decided) : "";
      const readable = readableArguments(part.arguments);
      node.dataset.state = name;
      setText(what, headline(readable.startsWith("{\n") ? revealed(part.arguments) : readable, 200));
      setText(state, took && name === "done" ? took : words);
      setText(given, readable);
      given.hidden = readable === "" || (!readable.includes("\n") && readable.length <= 80);
      const stay = atEnd(output);
      output.hidden = part.output === "";
      setText(output, part.output);
      if (stay) toEnd(output);
      pictures(images, part.images);
    },
  };
}
