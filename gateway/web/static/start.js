// The form that makes a session and gives it its first task.

import { ask, sessionPath, tell } from "./api.js";
import { keepDraft } from "./composer.js";
import { act, complain, el } from "./dom.js";
import { back } from "./sessions.js";
import { dollars, modes } from "./text.js";

const remembered = { choice: "", mode: "read-only" }; // of the last session that was made here

const other = "other";

/** go is called with the address of the new session, unless the form is left before there is one. */
export function newSession(go) {
  const runner = el("select", { id: "runner", required: true });
  const model = el("input", { id: "model", autocomplete: "off", autocapitalize: "none", spellcheck: "false", placeholder: "provider/model" });
  const mode = el("select", { id: "mode" });
  const prompt = el("textarea", { id: "prompt", rows: "6", required: true });
  const start = el("button", { type: "submit", class: "primary" }, "Start");
  const hint = el("p", { class: "hint", id: "runner-hint" });
  const named = field("Model name", model);
  runner.setAttribute("aria-describedby", hint.id);
  const agents = new Map();

  const choose = () => {
    const agent = agents.get(runner.value);
    named.hidden = runner.value !== other;
    model.required = !named.hidden;
    hint.textContent = agent ? `Uses ${agent.model}.` : runner.value === "model:shell/demo" ? "Runs each line that begins with a dollar sign as a command." : "";
    hint.hidden = hint.textContent === "";
    const kept = mode.value || remembered.mode;
    mode.replaceChildren(...[agent && ["", "The agent's setting"], ...Object.entries(modes)].filter(Boolean).map(([value, text]) => el("option", { value }, text)));
    mode.value = agent ? "" : kept;
  };
  runner.addEventListener("change", () => { choose(); if (!named.hidden) model.focus(); });

  const submit = (event) => {
    event.preventDefault();
    act(start, async () => {
      const agent = agents.get(runner.value);
      const on = agent ? { agent: agent.name } : { model: runner.value === other ? model.value.trim() : runner.value.slice("model:".length) };
      const { session } = await tell("POST", "/v1/sessions", { ...on, ...(mode.value && { approval_mode: mode.value }) });
      Object.assign(remembered, { choice: runner.value, mode: mode.value });
      try {
        await tell("POST", sessionPath(session.id, "/tasks"), { prompt: prompt.value });
      } catch (error) {
        keepDraft(session.id, prompt.value); // the session is there, so that is where it goes on
        complain(error);
      }
      if (form.isConnected) go(`#/session/${session.id}`);
    });
  };

  fill(runner, agents).then(choose, (error) => {
    runner.replaceChildren(el("option", { value: other }, "A model…"));
    choose();
    complain(error);
  });
  choose();
  const form = el("form", { class: "sheet", onsubmit: submit },
    back(), el("h2", {}, "New session"),
    field("Prompt", prompt),
    field("Agent or model", runner, hint), named,
    field("Tool calls", mode),
    el("div", { class: "row" }, start));
  return form;
}

function field(label, node, ...more) {
  return el("div", { class: "field" }, el("label", { for: node.id }, label), node, ...more);
}

/** Fills the choice of what sessions can run on. */
async function fill(runner, agents) {
  const [known, served] = await Promise.all([ask("/v1/agents"), ask("/v1/models")]);
  for (const agent of known.agents) agents.set(`agent:${agent.name}`, agent);
  const group = (label, options) => options.length > 0 && el("optgroup", { label }, ...options);
  runner.replaceChildren(...[
    group("Agents", known.agents.map(({ name }) => el("option", { value: `agent:${name}` }, name))),
    group("Models", served.models.map(({ name, price }) => el("option", { value: `model:${name}` }, price ? `${name} (${priced(price)})` : name))),
    el("option", { value: other }, "Another model…"),
  ].filter(Boolean));
  if ([...runner.options].some(({ value }) => value === remembered.choice)) runner.value = remembered.choice;
}

function priced({ input, output }) {
  return `${dollars(input)} in, ${dollars(output)} out per million tokens`;
}
