package pagetest

import (
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// tour is a session in which everything happens that a page shows.
const tour = `
turns:
  - steps:
      - thinking: ["I had better look ", {wait: thought}, "before I answer."]
      - text: ["Let me **look** ", {wait: said}, "at the clock first."]
      - tool_call: {name: work, arguments: ["{\"command\":", {wait: wrote}, " \"date -u; ls\"}"]}
      - usage: {output: 42, total: 1260}
  - steps:
      - text: ["## It is late\n\nHere is what I found:\n\n- one ` + "`thing`" + `\n- another **thing**\n\n", {wait: answered}, "` + "```sh\\ndate -u\\n```" + `\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"]
      - usage: {output: 80, total: 2048}
`

func TestASessionFromItsPromptToItsEnd(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	p := startBrowser(t).tab()
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	p.state("1-empty")
	w.begin(p, "tour", "What time is it?")
	p.see(".prompt", "What time is it?")
	p.see(".thinking summary", "Thinking")
	p.see(".pill", "Running")
	p.click(".thinking summary", "Thinking")
	p.see(".thinking .words", "I had better look")
	p.state("2-thinking")
	p.click(".thinking summary", "Thinking")
	w.release("tour", "thought")
	p.see(".text.open", "Let me look")
	p.state("2-running")
	w.release("tour", "said")
	w.reached("tour", "wrote")
	p.see(".call .state", "Writing")
	w.release("tour", "wrote")

	p.see(".question", "May it run work?")
	p.see(".question .given", "date -u; ls")
	p.see(".pill", "Waiting for you")
	p.state("3-approval")
	p.click(".question button", "Allow")
	p.see(".call .state", "Running")
	w.print("Mon Nov 30\n")
	p.see(".call .output", "Mon Nov 30")
	w.print("a.txt b.txt\n")
	p.see(".call .output", "a.txt b.txt")
	p.state("4-tool")
	close(w.work)

	p.see(".text.open", "It is late")
	w.release("tour", "answered")
	p.see(".task .ending", "Completed")
	p.see(".used", "tokens")
	p.see("#sessions .title", "What time is it?")
	p.state("5-completed")
	p.click(".foot button", "Timeline")
	p.see("dialog tbody", "Waiting for a decision")
	p.see("dialog tbody", "work date -u; ls")
	p.state("6-timeline")
	p.press("Escape")
	p.until("the dialog is closed", `!document.querySelector("dialog[open]")`)
	p.noProblems()
}

// transcriptOf is what a page shows of a session, without what runs by the clock.
const transcriptOf = `document.querySelector(".transcript").innerText.replace(/\d+(\.\d+)? (ms|s|min)/g, "…")`

func shown(p *tab) string {
	p.t.Helper()
	var text string
	p.eval(transcriptOf, &text)
	return text
}

// Wherever a page is reloaded, it shows what it showed before, and goes on like one that stayed.
func TestAReloadInMidStreamLosesAndRepeatsNothing(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p, stays := b.tab(), b.tab()
	w.enter(p)
	w.begin(p, "tour", "What time is it?")
	var hash string
	p.eval(`location.hash`, &hash)
	w.enter(stays)
	stays.eval(`location.hash = "`+hash+`"`, nil)

	reload := func(what, expression string) {
		t.Helper()
		p.until(what, expression)
		stays.until(what+", in the other tab", expression)
		before := shown(p)
		p.reload()
		p.until(what+", after the reload", expression)
		if after := shown(p); after != before {
			t.Errorf("%s: a reload changed\n%s\nto\n%s", what, before, after)
		}
		if other := shown(stays); other != before {
			t.Errorf("%s: the tab that stays shows\n%s\nnot\n%s", what, other, before)
		}
	}
	has := func(selector, text string) string {
		return `document.querySelector("` + selector + `")?.textContent.includes("` + text + `")`
	}
	w.reached("tour", "thought")
	reload("in a thought", has(".thinking.open .words", "I had better look "))
	w.release("tour", "thought")
	reload("in a text", has(".text.open", "Let me look"))
	p.state("7-reloaded")
	w.release("tour", "said")
	reload("in the arguments of a call", has(".call .given", `{\"command\":`))
	w.release("tour", "wrote")
	reload("while a decision is needed", has(".question .given", "date -u; ls")+` && `+has(".call .state", "Waiting for you")+
		` && `+has(".request .meta", "tokens")) // a call may be asked about before the request has ended
	p.click(".question button", "Allow")
	w.print("one\n")
	reload("in the output of a tool", has(".call .output", "one")+` && `+has(".call .state", "Running"))
	close(w.work)
	reload("in the answer", has(".text.open", "another thing"))
	w.release("tour", "answered")
	reload("after the end", has(".task .ending", "Completed"))
	b.noProblems()
}

// A page whose gateway goes away, also in the middle of a word, goes on where it was.
func TestAnotherGatewayGoesOn(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "tour", "What time is it?")
	w.release("tour", "thought")
	p.see(".text.open", "Let me")
	w.stopGateway()
	p.see(".banner", "Connection lost")
	p.state("8-connection")
	w.release("tour", "said")
	w.reached("tour", "wrote")
	w.startGateway(w.address())
	p.see(".call", "work")
	p.until("the banner is gone", `document.querySelector(".banner").hidden`)
	w.release("tour", "wrote")
	p.click(".question button", "Deny")
	p.see(".call .state", "Denied")
	p.see(".call .output", "Tool call denied by user.")
	w.release("tour", "answered")
	p.see(".task .ending", "Completed")
	live := shown(p)
	p.reload()
	p.see(".task .ending", "Completed")
	if again := shown(p); again != live {
		t.Errorf("it was shown as\n%s\nand is\n%s", live, again)
	}
	b.noProblems(goneAway)
}

// What a page missed may have expired before it comes back: it is told, and reads everything again.
func TestAPageThatWasAwayForTooLongReadsAgain(t *testing.T) {
	w := newWorldOn(t, bustest.Custom(t, bus.ServerOptions{}, bus.Topology{LiveTTL: 2 * time.Second}), map[string]string{"tour": tour})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.must("POST", "/v1/sessions", `{"id":"s","model":"scripted/tour"}`)
	p.eval(`location.hash = "#/session/s"`, nil)
	p.until("it is followed before anything can expire", `window.answered.some((what) => what.startsWith("GET /v1/sessions/s/stream"))`)
	w.must("POST", "/v1/sessions/s/tasks", `{"prompt":"What time is it?"}`)
	p.see(".thinking.open summary", "Thinking")
	w.stopGateway()
	p.see(".banner", "Connection lost")
	w.release("tour", "thought")
	w.release("tour", "said")
	w.reached("tour", "wrote")
	w.awaitExpiry("s")
	p.eval(`window.same = true`, nil)
	w.startGateway(w.address())
	p.see(".text", "Let me look at the clock first.")
	w.release("tour", "wrote")
	p.click(".question button", "Deny")
	w.release("tour", "answered")
	p.see(".task .ending", "Completed")
	p.until("the page is the same", `window.same && document.querySelector(".banner").hidden`)
	live := shown(p)
	p.reload()
	p.see(".task .ending", "Completed")
	if again := shown(p); again != live {
		t.Errorf("it was shown as\n%s\nand is\n%s", live, again)
	}
	b.noProblems(goneAway)
}

// awaitExpiry waits until all live frames of a session before its last recorded one are gone.
func (w *world) awaitExpiry(id string) {
	w.t.Helper()
	conn, ref := w.broker.Conn(w.t), schemas.SessionRef{Project: "default", ID: id}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		ends, err := conn.SessionEnds(w.t.Context(), ref)
		if err != nil {
			w.t.Fatal(err)
		}
		live := 0
		for f, err := range conn.ReadFrames(w.t.Context(), ref, 0, ends.Log, bus.LogAndLive) {
			if err != nil {
				w.t.Fatal(err)
			}
			if !f.Header.Recorded {
				live++
			}
		}
		if live == 0 {
			return
		}
		<-ticker.C
	}
}
