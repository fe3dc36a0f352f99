// What is shown: the part of the address behind "#" decides.
//
//	#/                the list
//	#/new             a new session
//	#/session/<id>    one session

import { el } from "./dom.js";
import { Session } from "./session.js";
import { Sessions, newSession } from "./sessions.js";
import { keepToken, token } from "./token.js";

const main = document.getElementById("main");
const sessions = new Sessions(askToken);
let shown; // the session that is open

function leave() {
  shown?.close();
  shown = undefined;
}

function place(view, node) {
  document.body.dataset.view = view;
  main.replaceChildren(node);
}

async function route() {
  leave();
  if (!token()) return askToken();
  const [, view, id] = location.hash.split("/");
  document.title = "Braid";
  sessions.select(view === "session" ? id : "");
  if (view === "new") {
    place("new", newSession(sessions, (to) => { location.hash = to; }));
    document.getElementById("prompt").focus();
  } else if (view === "session" && id) {
    const session = new Session(decodeURIComponent(id), () => sessions.look());
    shown = session;
    place("session", session.node);
    main.focus();
    try {
      await session.open();
    } catch {
      askToken(); // the token is refused
    }
  } else {
    place("list", el("div", { class: "blank" }, el("p", {}, "Choose a session, or start a new one.")));
  }
}

/** Asks for the token, when there is none or it is refused. */
function askToken() {
  leave();
  const input = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    sessions.look();
    route();
  };
  place("token", el("form", { class: "sheet", onsubmit: submit },
    el("h2", {}, "Token"),
    el("p", {}, token() ? "The gateway refuses the token." : "The gateway was started with a token; braid dev prints it as part of the address."),
    el("div", { class: "field" }, el("label", { for: "token" }, "Token"), input),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, "Continue"))));
  input.focus();
}

addEventListener("hashchange", route);
route();
if (token()) sessions.look();
