package pagetest

import "testing"

const states = `
turns:
  - when: {input: [{role: user, kind: text, contains: "please hang"}]}
    steps: [{text: ["This will take ", {wait: never}, "for ever."]}]
  - when: {attempt: 1, input: [{role: user, kind: text, contains: "please fail twice"}]}
    steps: [{text: ["The first words ", {fail: {message: the model is overloaded, status_code: 529, retry_after: 120s}}]}]
  - when: {input: [{role: user, kind: text, contains: "please fail twice"}]}
    steps: [{text: "At last."}]
  - when: {input: [{role: user, kind: text, contains: "bad key"}]}
    steps: [{fail: {message: the key is not valid, status: auth}}]
  - when: {input: [{role: user, kind: text, contains: "markup"}]}
    steps:
      - thinking: "<script>window.hacked = 1</script>"
      - text: "<img src=x onerror='window.hacked = 1'> <b>bold</b> [click](javascript:window.hacked=1) [ok](https://example.com/?a=1&b=\"2) ![x](https://example.com/x.png)\n\n` + "```html\\n<script>window.hacked = 1</script>\\n```" + `"
  - steps: [{text: "Fine."}]
`

// say gives the open session a prompt, as a person does.
func say(p *tab, prompt string) {
	p.t.Helper()
	p.until("the composer is ready", `document.getElementById("say").checkVisibility() && !document.querySelector(".composer [type=submit]").disabled`)
	p.eval(`document.getElementById("say").focus()`, nil)
	p.write(prompt)
	p.press("Enter")
}

// Stopping ends the task, whoever began it and wherever: here in another tab, after a reload.
func TestCase_C10_StopAfterAReload(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "please hang")
	p.see(".text.open", "This will take")
	stays := b.tab()
	w.enter(stays)
	stays.click("#sessions a", "please hang")
	stays.see(".text.open", "This will take")
	p.reload()
	p.click(".composer .stop", "Stop")
	p.see(".task .ending", "Aborted")
	stays.see(".task .ending", "Aborted")
	p.see(".text.cut", "This will take")
	p.until("there is nothing to stop", `document.querySelector(".stop").hidden`)
	p.state("9-aborted")
	say(p, "and now?")
	p.see(".task:last-of-type .ending", "Completed")
	b.noProblems()
}

// What a failed attempt had said is folded: nobody reads the same words twice.
func TestFailuresAndTheNextAttempt(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "please fail twice")
	p.see(".failure", "the model is overloaded")
	p.until("the words are folded", `!document.querySelector(".failure .text").checkVisibility()`)
	p.state("10-retry")
	p.click(".failure button", "Retry now")
	p.see(".text", "At last.")
	p.see(".task .ending", "Completed")
	p.until("there is nothing to hurry", `!document.querySelector(".failure button").checkVisibility()`)
	say(p, "bad key")
	p.see(".failure:not(.past)", "the key is not valid")
	p.see(".task .ending", "refused the key")
	p.state("11-failed")
	live := shown(p)
	p.reload()
	p.see(".task .ending", "refused the key")
	if again := shown(p); again != live {
		t.Errorf("it was shown as\n%s\nand is\n%s", live, again)
	}
	b.noProblems()
}

func TestPromptsWhileATaskRuns(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "please hang")
	p.see(".text.open", "This will take")
	say(p, "this joins")
	p.see(".queue li", "this joins")
	p.eval(`document.querySelector(".composer select").value = "queue"`, nil)
	say(p, "this waits")
	p.see(".queue li", "this waits")
	p.see(".queue .state", "Will be added")
	p.state("12-queue")
	p.click(".queue li:last-child button", "Remove")
	p.until("one waits", `document.querySelectorAll(".queue li").length === 1`)
	p.click(".composer .stop", "Stop")
	p.see(".task:last-of-type .prompt", "this joins")
	p.see(".task:last-of-type .ending", "Completed")
	p.until("nothing waits", `document.querySelector(".queue").hidden`)
	b.noProblems()
}

// What waits is shown wherever the session is, whoever gave it or took it back.
func TestAQueueThatOthersFill(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p, other := b.tab(), b.tab()
	w.enter(p)
	w.elsewhere("s", "states", "please hang")
	p.click("#sessions a", "please hang")
	p.see(".text.open", "This will take")
	w.enter(other)
	other.click("#sessions a", "please hang")
	w.must("POST", "/v1/sessions/s/tasks", `{"prompt":"from elsewhere","when_busy":"queue"}`)
	p.see(".queue li", "from elsewhere")
	other.click(".queue button", "Remove")
	p.until("nothing waits", `document.querySelector(".queue").hidden`)
	b.noProblems()
}

// A summary that is older than the news of a session does not undo them, and news that come while the
// history is read are not lost.
func TestNewsWhileASessionIsRead(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		window.held = 0;
		const gate = new Promise((go) => { window.letGo = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			if (!/^\/v1\/sessions\/s(\/messages.*)?$/.test(path)) return real(path, more);
			const answer = await real(path, more);
			const body = await answer.text();
			window.held++;
			await gate;
			return new Response(body, {status: answer.status});
		};
	}`}, nil)
	w.enter(p)
	w.elsewhere("s", "states", "please hang")
	p.click("#sessions a", "please hang")
	p.until("history and summary are read, and held back", `window.held >= 2`)
	w.must("POST", "/v1/sessions/s/tasks", `{"prompt":"from elsewhere","when_busy":"queue"}`)
	w.must("POST", "/v1/sessions", `{"id":"later","model":"scripted/states"}`)
	p.until("news of what came after is there", `document.querySelectorAll("#sessions li").length === 2`)
	p.eval(`letGo()`, nil)
	p.see(".text.open", "This will take")
	p.see(".queue li", "from elsewhere")
	b.noProblems()
}

// Words are words, whoever says them.
func TestNothingSaidBecomesMarkup(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", `markup <img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>`)
	p.see(".task .ending", "Completed")
	p.see(".text", `<img src=x onerror='window.hacked = 1'> <b>bold</b>`)
	p.see(".text pre", "<script>")
	var found struct {
		Hacked bool
		Bad    int
		Links  []string
	}
	p.eval(`({
		Hacked: "hacked" in window,
		Bad: document.querySelectorAll(".transcript img, .transcript script, .transcript b, .sidebar img").length,
		Links: [...document.querySelectorAll(".transcript a")].map((a) => a.href + " " + a.rel),
	})`, &found)
	if found.Hacked || found.Bad > 0 {
		t.Errorf("%+v", found)
	}
	for _, link := range found.Links {
		if link != "https://example.com/?a=1&b=%222 noopener noreferrer" && link != "https://example.com/x.png noopener noreferrer" {
			t.Errorf("there is a link to %s", link)
		}
	}
	p.state("13-markup")
	b.noProblems()
}

func TestADeletedSessionSaysSo(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "hello")
	p.see(".task .ending", "Completed")
	var id string
	p.eval(`location.hash.split("/")[2]`, &id)
	w.must("DELETE", "/v1/sessions/"+id, "")
	p.see(".banner", "This session was deleted.")
	p.see("#sessions-note", "No sessions yet.")
	p.until("there is no timeline to ask for", `!document.querySelector(".task .foot button").checkVisibility()`)
	w.awaitDeletion(id)
	p.reload()
	p.see(".banner", "There is no session")
	b.noProblems("status of 404")
}
