package pagetest

import (
	"fmt"
	"testing"

	"braid/bus/bustest"
)

// The list of sessions goes by what the gateway tells, and asks for nothing twice.
func TestTheListFollowsAllSessions(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states, "tour": tour})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	p.see(".welcome", "Start a session")
	w.elsewhere("hangs", "states", "please hang")
	p.see(`#sessions [data-state="running"]`, "please hang")
	w.elsewhere("fails", "states", "bad key")
	p.see(`#sessions [data-state="failed"]`, "bad key")
	w.elsewhere("rests", "states", "hello")
	p.see(`#sessions [data-state="idle"]`, "hello")
	for _, gate := range []string{"thought", "said", "wrote", "answered"} {
		w.release("tour", gate)
	}
	w.elsewhere("waits", "tour", "What time is it?")
	p.see(`#sessions [data-state="waiting"] .state`, "Waiting for you")
	p.until("the tab says that one waits", `document.title === "(1) Braid"`)
	p.until("it is read out", `document.getElementById("status").textContent === "What time is it? is waiting for you"`)
	p.state("21-list")

	p.click(".chip", "Waiting")
	p.until("one is shown", `document.querySelectorAll("#sessions li").length === 1`)
	p.click(".chip", "Failed")
	p.see("#sessions", "bad key")
	p.state("22-filtered")
	w.must("DELETE", "/v1/sessions/fails", "")
	p.see("#sessions-note", "No matching sessions.")
	p.click(".chip", "All")
	p.until("three are left", `document.querySelectorAll("#sessions li").length === 3`)
	if n := p.asked("GET /v1/sessions?"); n > 2 {
		t.Errorf("the page asked for the list %d times", n)
	}

	// On a phone the way back says what waits elsewhere.
	p.size(390, 844)
	p.click("#sessions a", "hello")
	p.see(".back .badge", "1")
	p.state("23-badge")
	b.noProblems()
}

// What failed is asked for, however old it is, and stands among all sessions where its age puts it.
func TestTheListFindsWhatFailedLongAgo(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	for _, id := range []string{"old1", "old2", "old3"} {
		w.must("POST", "/v1/sessions", `{"id":"`+id+`","model":"scripted/states"}`)
		w.must("POST", "/v1/sessions/"+id+"/tasks?wait=60", `{"prompt":"bad key `+id+`"}`)
	}
	for _, id := range []string{"new1", "new2", "new3", "new4"} {
		w.must("POST", "/v1/sessions", `{"id":"`+id+`","model":"scripted/states"}`)
	}
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{ // pages of two
		const real = window.fetch;
		window.fetch = (path, more) => real(String(path).replace(/^(\/v1\/sessions\?limit)=100/, "$1=2"), more);
	}`}, nil)
	w.enter(p)
	p.until("two are listed", `document.querySelectorAll("#sessions li").length === 2`)
	p.until("two are known to have failed, and more", `document.querySelector('.chip[data-kind="failed"] .count').textContent === "2+"`)
	p.click(".chip", "Failed")
	p.until("the newest are shown", `[...document.querySelectorAll("#sessions .title")].map((e) => e.innerText).join() === "bad key old3,bad key old2"`)
	p.click("#older", "Show older sessions")
	p.see("#sessions", "bad key old1")
	p.until("that is all", `document.querySelector('.chip[data-kind="failed"] .count').textContent === "3" && document.getElementById("older").hidden`)
	p.click(".chip", "All")
	p.until("none is between those that are listed", `document.querySelectorAll("#sessions li").length === 2`)
	p.click("#older", "Show older sessions")
	p.until("two more are listed", `document.querySelectorAll("#sessions li").length === 4`)
	// As after a connection that was lost, the list is read anew, and somebody asks for more meanwhile.
	p.eval(`document.dispatchEvent(new Event("resume")); document.getElementById("older").click()`, nil)
	p.until("the next two have failed", `[...document.querySelectorAll("#sessions .title")].slice(4).map((e) => e.innerText).join() === "bad key old3,bad key old2"`)
	w.must("POST", "/v1/sessions/old1/tasks", `{"prompt":"hello"}`)
	p.until("what is set to work again is the first", `document.querySelector("#sessions li").innerText.startsWith("bad key old1")`)
	p.until("and failed no more", `document.querySelector('.chip[data-kind="failed"] .count').textContent === "2"`)
	b.noProblems()
}

// A session moves to the front when it is set to work, also if it is done before the page hears of it.
func TestWorkThatNobodySaw(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states + "repeat: true\n"})
	for _, id := range []string{"older", "newer"} {
		w.must("POST", "/v1/sessions", `{"id":"`+id+`","model":"scripted/states"}`)
		w.must("POST", "/v1/sessions/"+id+"/tasks?wait=60", `{"prompt":"hello `+id+`"}`)
	}
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{ // no news of sessions that run
		const real = window.fetch;
		window.fetch = async (path, more) => {
			const answer = await real(path, more);
			if (path !== "/v1/events") return answer;
			let rest = "";
			const quiet = new TransformStream({transform(text, to) {
				const events = (rest + text).split("\n\n");
				rest = events.pop();
				for (const event of events) if (!event.includes('"state":"running"')) to.enqueue(event + "\n\n");
			}});
			const body = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(quiet).pipeThrough(new TextEncoderStream());
			return new Response(body, {status: answer.status});
		};
	}`}, nil)
	order := func(names string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#sessions .title")].map((e) => e.innerText).join() === %q`, names)
	}
	w.enter(p)
	p.until("they are listed", order("hello newer,hello older"))
	p.until("news are told", `window.asked.filter((what) => what.startsWith("GET /v1/sessions?")).length >= 2`)
	w.must("POST", "/v1/sessions/older/tasks", `{"prompt":"hello again"}`)
	p.until("what has worked is the first", order("hello older,hello newer"))

	// Nor is the page told of it while it has no gateway.
	address := w.address()
	w.stopGateway()
	p.see("#sessions-note", "Connection lost")
	w.startGateway("127.0.0.1:0")
	w.must("POST", "/v1/sessions/newer/tasks?wait=60", `{"prompt":"hello again"}`)
	w.stopGateway()
	w.startGateway(address)
	p.until("it is the first again", order("hello newer,hello older"))
	b.noProblems(goneAway)
}

// Windows that are seen at the same time need one stream of all sessions together, and the one that is
// left goes on from where the other stopped.
func TestWindowsShareTheNews(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	first, second := b.tab(), b.tab()
	for _, p := range []*tab{first, second} {
		w.enter(p)
		p.see("#sessions-note", "No sessions yet.")
	}
	w.elsewhere("a", "states", "hello one")
	for _, p := range []*tab{first, second} {
		p.see("#sessions", "hello one")
	}
	if n, m := first.asked("GET /v1/events"), second.asked("GET /v1/events"); n+m != 1 {
		t.Errorf("they opened %d and %d streams", n, m)
	}
	reader, other := first, second
	if second.asked("GET /v1/events") > 0 {
		reader, other = second, first
	}
	reader.close()
	other.until("it reads itself", `window.asked.includes("GET /v1/events again")`)
	w.elsewhere("b", "states", "hello two")
	other.see("#sessions", "hello two")
	b.noProblems()
}

// A tab in the background still counts what waits: that is when somebody has to be told.
func TestATabInTheBackgroundCountsWhatWaits(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	b.tabInFront()
	p.until("it is hidden", `document.hidden`)
	p.eval(`new Promise((resolve) => setTimeout(resolve, 4000))`, nil) // longer than a page that is hidden keeps other streams
	for _, gate := range []string{"thought", "said", "wrote", "answered"} {
		w.release("tour", gate)
	}
	w.elsewhere("s", "tour", "What time is it?")
	p.until("the title counts it", `document.title === "(1) Braid"`)
	b.noProblems()
}

// A list that is older than the news of a session does not undo them.
func TestAListThatIsOlderThanTheNews(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		window.lists = window.held = 0;
		const gate = new Promise((go) => { window.letGo = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			if (!String(path).startsWith("/v1/sessions?")) return real(path, more);
			const number = ++window.lists;
			const answer = await real(path, more);
			const body = await answer.text();
			window.held = Math.max(window.held, number);
			await gate;
			return new Response(body, {status: answer.status});
		};
	}`}, nil)
	w.must("POST", "/v1/sessions", `{"id":"gone","model":"scripted/states"}`)
	w.must("POST", "/v1/sessions/gone/tasks?wait=60", `{"prompt":"to be deleted"}`)
	w.enter(p)
	p.until("the list after the stream's beginning is read, and held back", `window.held >= 2`)
	w.elsewhere("new", "states", "hello")
	p.see(`#sessions [data-state="idle"]`, "hello")
	w.must("DELETE", "/v1/sessions/gone", "")
	w.elsewhere("newer", "states", "after the deletion")
	p.see(`#sessions [data-state="idle"]`, "after the deletion")
	p.eval(`letGo()`, nil)
	p.until("the list is taken", `document.getElementById("sessions-note").hidden && document.querySelectorAll("#sessions li").length === 2`)
	p.see("#sessions", "hello")
	b.noProblems()
}

// A list that could not be followed is read again.
func TestTheListAfterAnotherGateway(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	address := w.address()
	w.stopGateway()
	p.see("#sessions-note", "Connection lost")
	w.startGateway("127.0.0.1:0")
	w.elsewhere("a", "states", "hello")
	w.stopGateway()
	w.startGateway(address)
	p.see("#sessions", "hello")
	p.until("nothing is wrong", `document.getElementById("sessions-note").hidden`)
	b.noProblems(goneAway)
}

// A lost connection is said as long as it is, whatever else can't be read meanwhile.
func TestTheListWhileTheConnectionIsLost(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		window.away = 0; // how often the stream was asked for in vain since it was lost
		window.held = [];
		const begun = new Promise((go) => { window.begin = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			if (path === "/v1/events") {
				await begun;
				return real(path, more).catch((error) => { window.away++; throw error; });
			}
			if (!String(path).startsWith("/v1/sessions?")) return real(path, more);
			// The second reading, when the stream has begun, is held back, and fails when the stream is lost.
			const number = window.held.push(undefined);
			if (number === 2) await new Promise((go) => { window.held[1] = go; });
			return real(path, more);
		};
	}`}, nil)
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	p.eval(`begin()`, nil)
	p.until("the list is asked for again", `window.held.length === 2`)
	address := w.address()
	w.stopGateway()
	p.see("#sessions-note", "Connection lost")
	p.eval(`{
		const note = document.getElementById("sessions-note");
		window.said = [];
		new MutationObserver(() => window.said.push(note.textContent)).observe(note, {childList: true, characterData: true, subtree: true});
		window.held[1]();
	}`, nil)
	p.until("both were tried again", `window.away >= 2 && window.held.length >= 4`)
	var said []string
	p.eval(`window.said`, &said)
	if len(said) > 0 {
		t.Errorf("it is also said %q", said)
	}
	w.startGateway(address)
	w.elsewhere("a", "states", "hello")
	p.see("#sessions", "hello")
	p.until("nothing is wrong", `document.getElementById("sessions-note").hidden`)
	b.noProblems(goneAway)
}

// So is one of which news may have been lost on the way to a gateway that goes on.
func TestTheListAfterALossOfNews(t *testing.T) {
	broker := bustest.Listening(t)
	w := newWorldOn(t, broker, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	lists := `window.asked.filter((what) => what.startsWith("GET /v1/sessions?")).length`
	p.until("the list is read when the page is opened, and when its stream begins", lists+` >= 2`)
	before := p.asked("GET /v1/sessions?")
	broker.Stop(0)
	broker.Start(t, 0)
	p.until("the list is read again", fmt.Sprintf("%s > %d", lists, before))
	w.elsewhere("a", "states", "hello")
	p.see("#sessions", "hello")
	b.noProblems()
}

func TestDeletingASession(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "please hang")
	p.see(".text.open", "This will take")
	p.click(".bar button", "Details")
	p.see(".details", "scripted/states")
	p.state("24-details")
	p.click(".details button", "Delete session")
	p.see(".sure", "The task that runs is stopped.")
	p.until("the focus is on the way out", `document.activeElement.innerText === "Cancel"`)
	p.state("25-sure")
	p.press("Enter")
	p.until("it is not asked any more", `!document.querySelector(".sure").checkVisibility()`)
	p.see(".text.open", "This will take")
	p.click(".details button", "Delete session")
	p.click(".sure button", "Delete")
	p.see(".banner", "This session was deleted.")
	p.see(".pill", "Deleted")
	p.see("#sessions-note", "No sessions yet.")
	p.until("there is nothing to do to it", `!document.querySelector(".composer").checkVisibility()`)
	p.state("26-deleted")
	b.noProblems()
}

// Whether a task would be stopped is said by what is seen of it, however late the news of its session are.
func TestDeletingAtWorkBeforeTheNewsOfIt(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{ // no news at all
		const real = window.fetch;
		window.fetch = (path, more) => path === "/v1/events" ? new Promise(() => {}) : real(path, more);
	}`}, nil)
	w.enter(p)
	w.must("POST", "/v1/sessions", `{"id":"s","model":"scripted/states"}`)
	p.eval(`location.hash = "#/session/s"`, nil)
	p.see(".pill", "Idle")
	w.must("POST", "/v1/sessions/s/tasks", `{"prompt":"please hang"}`)
	p.see(".text.open", "This will take")
	p.click(".bar button", "Details")
	p.click(".details button", "Delete session")
	p.see(".sure", "The task that runs is stopped.")
	p.click(".sure button", "Delete")
	p.see(".banner", "This session was deleted.")
	p.see(".pill", "Deleted")
	b.noProblems()
}
