// The token comes in the address once. It is taken out before anything else runs, so that it stays
// in no history, bookmark or screenshot, and is kept as long as the tab.

const key = "braid.token";

const here = new URL(location.href);
if (here.searchParams.has("token")) {
  const given = here.searchParams.get("token");
  if (given) sessionStorage.setItem(key, given);
  here.searchParams.delete("token");
  history.replaceState(history.state, "", here.pathname + here.search + here.hash);
}

/** The token, empty if there is none. */
export function token() {
  return sessionStorage.getItem(key) ?? "";
}

export function keepToken(value) {
  sessionStorage.setItem(key, value);
}
