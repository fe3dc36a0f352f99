package pagetest

import (
	"slices"
	"testing"
)

// A session that can't be read when it is opened is read when it can.
func TestTheFirstLookIsTriedAgain(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.elsewhere("s", "states", "hello")
	p.see(`#sessions [data-state="idle"]`, "hello")
	address := w.address()
	w.stopGateway()
	p.click("#sessions a", "hello")
	p.see(".banner", "The gateway can't be reached. Trying again…")
	p.state("31-unreachable")
	w.startGateway(address)
	p.see(".task .ending", "Completed")
	p.until("nothing is wrong", `document.querySelector(".banner").hidden`)
	b.noProblems(goneAway)
}

// A session that is gone when the gateway is back is not asked for again.
func TestASessionThatIsGoneIsNotAskedForAgain(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.elsewhere("s", "states", "hello")
	p.click("#sessions a", "hello")
	p.see(".task .ending", "Completed")
	address := w.address()
	w.stopGateway()
	p.see(".banner", "Connection lost")
	w.startGateway("127.0.0.1:0")
	w.must("DELETE", "/v1/sessions/s", "")
	w.awaitDeletion("s")
	w.stopGateway()
	w.startGateway(address)
	p.see(".banner", "session")
	p.until("there is nothing to do to it", `!document.querySelector(".composer").checkVisibility()`)
	before := p.asked("GET /v1/sessions/s/")
	w.elsewhere("other", "states", "something else")
	p.see(`#sessions [data-state="idle"]`, "something else")
	if after := p.asked("GET /v1/sessions/s/"); after != before {
		t.Errorf("it is asked for %d times, then %d", before, after)
	}
	p.state("32-gone")
	b.noProblems(goneAway, "status of 404")
}

// A token that is refused in the middle of a session is asked for, once, and then it goes on.
func TestATokenThatIsRefusedLater(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.elsewhere("s", "states", "hello")
	p.click("#sessions a", "hello")
	p.see(".task .ending", "Completed")
	address := w.address()
	w.stopGateway()
	w.token = "another-token-for-tests"
	w.startGateway(address)
	p.see("form", "The gateway refused this token.")
	p.state("33-refused")
	before := p.asked("GET")
	p.until("the focus is in the field", `document.activeElement.id === "token"`)
	if after := p.asked("GET"); after != before {
		t.Errorf("it asks on, with a token that is refused: %d requests, then %d", before, after)
	}
	p.write(w.token)
	p.press("Enter")
	p.see(".task .ending", "Completed")
	p.see("#sessions", "hello")
	b.noProblems(goneAway, "status of 401")
}

// A prompt is sent once, however often and long one presses Enter, and comes back if it is refused.
func TestAPromptIsSentOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states + "repeat: true\n"})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		window.sent = 0;
		window.refused = true;
		const gate = new Promise((go) => { window.letGo = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			if (more?.method !== "POST" || !path.endsWith("/tasks")) return real(path, more);
			window.sent++;
			if (window.refused) return new Response('{"error":{"code":"invalid","message":"not now"}}', {status: 400});
			const answer = await real(path, more);
			await gate;
			return answer;
		};
	}`}, nil)
	w.enter(p)
	w.must("POST", "/v1/sessions", `{"id":"s","model":"scripted/states"}`)
	p.eval(`location.hash = "#/session/s"`, nil)
	say(p, "hello")
	p.see(".toast", "Not now")
	p.until("it is back", `document.getElementById("say").value === "hello"`)
	p.eval(`window.refused = false`, nil)
	p.press("Enter")
	p.see(".prompt", "hello")
	p.until("it is sent", `document.getElementById("say").value === ""`)
	p.write("and more")
	p.press("Enter")
	p.until("what comes next waits for the answer", `document.getElementById("say").value === "and more" && window.sent === 2`)
	p.eval(`letGo()`, nil)
	p.until("there is an answer", `!document.querySelector(".composer [type=submit]").disabled`)
	p.press("Enter")
	p.see(".prompt", "and more")
	var prompts []string
	p.eval(`[...document.querySelectorAll(".prompt .words")].map((n) => n.innerText)`, &prompts)
	if !slices.Equal(prompts, []string{"hello", "and more"}) {
		t.Errorf("the prompts are %q", prompts)
	}
	b.noProblems()
}

// What nobody should have to type again.
func TestADraftOutlivesALookElsewhere(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.elsewhere("one", "states", "hello one")
	w.elsewhere("two", "states", "hello two")
	p.click("#sessions a", "hello one")
	p.see(".task .ending", "Completed")
	p.eval(`document.getElementById("say").focus()`, nil)
	p.write("half a thought")
	p.click("#sessions a", "hello two")
	p.see(".bar .title", "hello two")
	p.click("#sessions a", "hello one")
	p.until("the draft is there", `document.getElementById("say").value === "half a thought"`)
	say(p, " and the rest")
	p.see(".prompt", "half a thought and the rest")
	p.until("nothing is left of it", `document.getElementById("say").value === ""`)
	b.noProblems()
}

// A prompt that is refused comes back where its session is shown then, before what was written meanwhile.
func TestAPromptComesBackToASessionThatWasLeft(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		const gate = new Promise((go) => { window.letGo = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			if (more?.method !== "POST") return real(path, more);
			await gate;
			return new Response('{"error":{"code":"invalid","message":"not now"}}', {status: 400});
		};
	}`}, nil)
	w.enter(p)
	w.elsewhere("one", "states", "hello one")
	w.elsewhere("two", "states", "hello two")
	p.click("#sessions a", "hello one")
	say(p, "what is to be sent")
	p.until("it is on its way", `document.getElementById("say").value === ""`)
	p.click("#sessions a", "hello two")
	p.see(".bar .title", "hello two")
	p.click("#sessions a", "hello one")
	p.see(".bar .title", "hello one")
	p.eval(`document.getElementById("say").focus()`, nil)
	p.write("more")
	p.eval(`letGo()`, nil)
	p.see(".toast", "Not now")
	p.until("it is back", `document.getElementById("say").value === "what is to be sent\nmore"`)
	p.click("#sessions a", "hello two")
	p.see(".bar .title", "hello two")
	p.until("and nowhere else", `document.getElementById("say").value === ""`)
	b.noProblems()
}

// Who looks elsewhere while a session is made stays there.
func TestLeavingTheFormBeforeThereIsASession(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		window.told = 0;
		const gate = new Promise((go) => { window.letGo = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			if (more?.method !== "POST") return real(path, more);
			await gate;
			const answer = await real(path, more);
			if (!path.endsWith("/tasks")) return answer;
			const json = async () => { setTimeout(() => window.told++); return {}; };
			return {ok: true, status: answer.status, json};
		};
	}`}, nil)
	w.enter(p)
	w.elsewhere("s", "states", "hello")
	p.see("#sessions", "hello")
	p.click("#new", "New session")
	p.until("the form is there", `document.activeElement?.id === "prompt"`)
	p.write("hello again")
	p.choose("#runner", "model:scripted/states")
	p.click("form button", "Start")
	p.click("#sessions a", "hello")
	p.see(".bar .title", "hello")
	p.eval(`letGo()`, nil)
	p.until("the session is made, and the page has heard of it", `window.told === 1`)
	p.see("#sessions", "hello again")
	p.until("the page shows what it showed", `location.hash === "#/session/s"`)
	b.noProblems()
}
