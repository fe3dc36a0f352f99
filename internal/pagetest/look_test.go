package pagetest

import (
	"strings"
	"testing"
)

// rich is an answer in which everything is long, wide or deep.
const rich = `
turns:
  - steps:
      - thinking: "First I think about it.\n\nThen I think about it again, at more length than anybody would care to read on a small screen."
      - text: "# A heading\n\nSome *emphasis*, some **weight**, some ` + "`code`" + ` and https://example.com/a/very/long/address/that/goes/on/and/on/and/on/without/a/single/blank/to/break/it.\n\n1. first\n   - nested\n     - deeper\n2. second\n\n> a quote\n> over two lines\n\n| a column | another column | a third column | a fourth column | a fifth one |\n|---|---|---|---|---|\n| some text | more text | 12345678901234567890 | text | text |\n\n` + "```go\\nfunc main() { fmt.Println(\\\"a line of code that is longer than any phone is wide, and longer than many a desk\\\", 1, 2, 3, 4, 5, 6) }\\n```" + `\n\n---\n\nThe end."
      - tool_call: {name: work, arguments: ["{\"command\":\"set -e\\nfor i in 1 2 3; do\\n  echo a command over several lines, one of which is long enough to be broken on every screen $i\\ndone\"}"]}
      - tool_call: {name: work, arguments: ["{\"path\":\"/tmp/x\",\"content\":\"hello\"}"]}
      - usage: {output: 42, total: 1260}
  - steps: [{text: "Well then."}]
`

// Nothing that is long or wide makes the page wide, whoever said it.
func TestWhatIsWideOrLong(t *testing.T) {
	w := newWorld(t, map[string]string{"rich": rich})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "rich", "something wide: "+strings.Repeat("unbreakable", 20))
	p.see(".question .given", "a command over several lines")
	atEnd := `(() => { const t = document.querySelector(".transcript"); return t.scrollHeight - t.scrollTop - t.clientHeight < 2; })()`
	p.until("the question leaves the end in sight", atEnd)
	p.state("41-long-approval")
	p.size(390, 500)
	p.until("so does a keyboard", atEnd+` && document.querySelector(".latest").hidden`)
	p.size(1280, 800)
	p.click(".question button", "Allow")
	w.print(strings.Repeat("a line of output that is long enough to be broken on a phone, and then some more of it\n", 40))
	p.see(".call .output", "a line of output")
	p.see(".question .given", "/tmp/x")
	p.click(".question button", "Deny")
	p.see(".call .state", "Denied")
	p.until("the output shows its end", `(() => { const o = document.querySelector(".output"); return o.scrollTop > 0 && o.scrollHeight - o.scrollTop - o.clientHeight < 2; })()`)
	p.state("42-long-output")
	close(w.work)
	p.see(".task .ending", "Completed")
	p.click(".thinking summary", "Thoughts")
	p.see(".thinking .words", "Then I think")
	p.eval(`document.querySelector(".transcript").scrollTop = 0`, nil)
	p.see(".latest", "Latest")
	p.state("43-long-top")
	p.click(".latest", "Latest")
	p.until("the end is seen", `document.querySelector(".latest").hidden`)
	b.noProblems()
}

// The wait for the next attempt counts down.
func TestTheWaitCountsDown(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "please fail twice")
	p.until("it is said how long", `/^ Next attempt in [12] min \d+ s\.$/.test(document.querySelector(".failure .next").textContent)`)
	p.eval(`window.first = document.querySelector(".failure .next").textContent`, nil)
	p.until("it is another second", `document.querySelector(".failure .next").textContent !== window.first`)
	p.click(".composer .stop", "Stop")
	p.see(".task .ending", "Aborted")
	p.until("nothing counts", `document.querySelector(".failure .next").textContent === ""`)
	b.noProblems()
}

// Who is asked may be changed in the middle of a task: what waits is decided by the new mode.
func TestChangingWhoIsAsked(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p, other := b.tab(), b.tab()
	for _, gate := range []string{"thought", "said", "wrote", "answered"} {
		w.release("tour", gate)
	}
	w.enter(p)
	w.begin(p, "tour", "What time is it?")
	p.see(".question", "May it run work?")
	w.enter(other)
	other.click("#sessions a", "What time is it?")
	other.see(".question", "May it run work?")
	p.choose(".bar select", "deny-all")
	p.see(".call .state", "Denied")
	other.see(".call .state", "Denied")
	other.see(".aside", "Approvals: Deny all")
	other.until("the mode is shown everywhere", `document.querySelector(".bar select").value === "deny-all"`)
	close(w.work)
	b.noProblems()
}

// A session runs on an agent or a model; an agent brings its own settings.
func TestStartingASession(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.must("PUT", "/v1/agents/careful", `{"model":"scripted/states","approval_mode":"always-ask"}`)
	w.enter(p)
	p.click("#new", "New session")
	p.until("the agent is offered first", `document.getElementById("runner").value === "agent:careful"`)
	p.see(".hint", "Uses scripted/states.")
	p.until("its mode is its own", `document.getElementById("mode").selectedOptions[0].textContent === "The agent's setting"`)
	p.state("44-agent")
	p.choose("#runner", "other")
	p.see("label", "Model name")
	p.until("the name is asked for", `document.activeElement.id === "model"`)
	p.write("nobody/nothing")
	p.eval(`document.getElementById("prompt").focus()`, nil)
	p.write("hello")
	p.click("form button", "Start")
	p.see(".toast", "There is no provider")
	p.state("45-refused-model")
	p.see("#sessions-note", "No sessions yet.")
	p.until("nothing is lost", `document.getElementById("prompt").value === "hello"`)
	p.click(".toast button", "Close")
	p.choose("#runner", "agent:careful")
	p.click("form button", "Start")
	p.see(".task .ending", "Completed")
	p.see("#sessions .model", "careful")
	p.until("the agent's mode holds", `document.querySelector(".bar select").value === "always-ask"`)
	p.click("#new", "New session")
	p.until("the last choice is kept", `document.getElementById("runner").value === "agent:careful"`)
	b.noProblems("status of 400")
}

// The link past the list leads to the session, and leaves it open.
func TestSkippingTheList(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.elsewhere("s", "states", "hello")
	p.click("#sessions a", "hello")
	p.see(".task .ending", "Completed")
	p.eval(`document.getElementById("skip").focus()`, nil)
	p.press("Enter")
	p.until("the focus is in the session", `document.activeElement.id === "main"`)
	p.see(".task .ending", "Completed")
	b.noProblems()
}
