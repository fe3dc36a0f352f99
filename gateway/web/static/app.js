// What is shown: the part of the address behind "#" decides.
//
//	#/                the list
//	#/new             a new session
//	#/session/<id>    one session

import { access } from "./api.js";
import { el, entitle } from "./dom.js";
import { Session } from "./session.js";
import { Sessions } from "./sessions.js";
import { newSession } from "./start.js";
import { keepToken, token } from "./token.js";

const main = document.getElementById("main");
let shown; // the session that is open
const sessions = new Sessions((session) => shown?.told(session));

function leave() {
  shown?.close();
  shown = undefined;
}

function place(view, node) {
  document.body.dataset.view = view;
  main.replaceChildren(node);
}

function route() {
  leave();
  if (!token()) return askToken();
  sessions.start();
  const [, view, id] = location.hash.split("/").map(decoded);
  entitle({ subject: "" });
  if (view === "new") {
    place("new", newSession((to) => { location.hash = to; }));
    document.getElementById("prompt").focus();
  } else if (view === "session" && id) {
    shown = new Session(id);
    place("session", shown.node);
    main.focus();
    shown.open();
  } else place("list", welcome());
  sessions.select(view === "session" ? id : "");
}

// An address that somebody typed may be none.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function welcome() {
  return el("div", { class: "blank" },
    el("p", { class: "choose" }, "Choose a session, or start a new one."),
    el("div", { class: "welcome" },
      el("h2", {}, "Start a session"),
      el("p", {}, "A session is a conversation with a model that may use tools. It keeps its history, continues when this page is closed, and asks you before it changes anything."),
      el("a", { class: "button primary", href: "#/new" }, "New session")));
}

/** Asks for the token, when there is none or it is refused. */
function askToken() {
  leave();
  sessions.stop();
  const input = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    route();
  };
  place("token", el("form", { class: "sheet", onsubmit: submit },
    el("h2", {}, "Token"),
    el("p", {}, token() ? "The gateway refused this token." : "Enter the gateway's token. If you run braid dev, it is part of the URL that was printed."),
    el("div", { class: "field" }, el("label", { for: "token" }, "Token"), input),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, "Continue"))));
  input.focus();
}

addEventListener("hashchange", route);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says what is shown, not where on the page
  main.focus();
});
access.addEventListener("unauthorized", () => document.body.dataset.view !== "token" && askToken());
route();
