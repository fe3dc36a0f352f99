package pagetest

import (
	"slices"
	"strings"
	"testing"
)

// The token is in no address once the page is there, not even in the history.
func TestTheTokenStaysInTheTab(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	var history struct {
		Entries []struct {
			URL string `json:"url"`
		} `json:"entries"`
	}
	p.do("Page.getNavigationHistory", nil, &history)
	for _, e := range history.Entries {
		if strings.Contains(e.URL, testToken) {
			t.Errorf("the history has %s", e.URL)
		}
	}
	p.reload()
	p.see("#sessions-note", "No sessions yet.")
	other := b.tab()
	other.open(w.url)
	other.see("h2", "Token")
	other.state("14-token")
	other.until("the focus is in the field", `document.activeElement.id === "token"`)
	other.write("wrong")
	other.press("Enter")
	other.see("form", "The gateway refused this token.")
	other.write(testToken)
	other.press("Enter")
	other.see("#sessions-note", "No sessions yet.")
	b.noProblems("status of 401")
}

// A refusal that is late, of a token that is not used any more, asks for no other.
func TestALateRefusalOfAnOldToken(t *testing.T) {
	w := newWorld(t, nil)
	b := startBrowser(t)
	p := b.tab()
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `{
		window.held = window.refused = 0;
		const gate = new Promise((go) => { window.letGo = go; });
		const real = window.fetch;
		window.fetch = async (path, more) => {
			const answer = await real(path, more);
			if (answer.status !== 401 || !/^\/v1\/(agents|models)$/.test(path)) return answer;
			window.held++;
			await gate;
			const json = async () => { setTimeout(() => window.refused++); return {}; };
			return {ok: false, status: 401, json};
		};
	}`}, nil)
	p.open(w.url + "/?token=wrong#/new")
	p.see("form", "The gateway refused this token.")
	p.until("two refusals are on their way", `window.held === 2`)
	p.write(testToken)
	p.press("Enter")
	p.see("h2", "New session")
	p.eval(`letGo()`, nil)
	p.until("they are there", `window.refused === 2`)
	p.see("h2", "New session")
	b.noProblems("status of 401")
}

// A session can be run by keys alone: the order of the focus is that of the page.
func TestKeysAreEnough(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p := b.tab()
	for _, gate := range []string{"thought", "said", "wrote", "answered"} {
		w.release("tour", gate)
	}
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	tabTo(p, "New session")
	p.press("Enter")
	p.until("the form is there", `document.activeElement?.id === "prompt"`)
	p.write("What time is it?")
	p.until("there is a model to run on", `document.getElementById("runner").value === "model:scripted/tour"`)
	tabTo(p, "Start")
	p.press("Enter")
	p.see(".question", "May it run work?")
	tabTo(p, "Allow")
	p.press(" ")
	close(w.work)
	p.see(".task .ending", "Completed")
	p.until("the end is read out", `document.getElementById("status").textContent === "Task completed"`)
	p.eval(`document.getElementById("main").focus()`, nil)
	tabTo(p, "Timeline")
	p.press("Enter")
	p.see("dialog", "Task 1")
	p.press("Escape")
	p.until("the focus is where it was", `document.activeElement.innerText === "Timeline"`)
	b.noProblems()
}

// Tab reaches whatever can be used, in the order of the page, and shows where it is.
func TestTabReachesEverything(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p := b.tab()
	for _, gate := range []string{"thought", "said", "wrote"} {
		w.release("tour", gate)
	}
	w.enter(p)
	w.begin(p, "tour", "What time is it?")
	p.see(".question", "May it run work?")
	p.see(".request .meta", "tokens")
	p.see(`#sessions [data-state="waiting"]`, "What time is it?") // nothing comes or goes any more
	p.eval(`
		document.activeElement.blur();
		window.wanted = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((n) => n.checkVisibility());
		window.reached = [];`, nil)
	p.do("Page.bringToFront", nil, nil)
	for range 60 {
		p.press("Tab")
		p.eval(`reached.push(document.activeElement)`, nil)
	}
	var faults []string
	p.eval(`(() => {
		const name = (n) => n.localName + "." + n.className + " " + n.textContent.slice(0, 20);
		const faults = wanted.filter((n) => !reached.includes(n)).map((n) => name(n) + " is not reached");
		const first = reached.slice(reached.indexOf(wanted[0]));
		const round = first.slice(0, first.lastIndexOf(wanted[0]) > 0 ? first.indexOf(wanted[0], 1) : first.length).filter((n) => wanted.includes(n));
		if (round.some((n, i) => i > 0 && wanted.indexOf(n) < wanted.indexOf(round[i - 1]))) faults.push("the order is " + round.map(name));
		for (const n of wanted) {
			n.focus({focusVisible: true});
			const ring = getComputedStyle(n).outlineStyle !== "none" || n.id === "say";
			if (!ring) faults.push(name(n) + " does not show the focus");
		}
		return faults;
	})()`, &faults)
	for _, fault := range faults {
		t.Error(fault)
	}
	b.noProblems()
}

// Who asks for less motion gets none.
func TestReducedMotion(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.begin(p, "states", "please hang")
	p.see(".text.open", "This will take")
	p.until("something moves", `document.getAnimations().length > 0`)
	p.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	p.until("nothing moves", `document.getAnimations().length === 0`)
	b.noProblems()
}

// tabTo presses Tab until an element with the text has the focus.
func tabTo(p *tab, text string) {
	p.t.Helper()
	var passed []string
	for range 40 {
		p.press("Tab")
		var at string
		p.eval(`document.activeElement.innerText ?? ""`, &at)
		if at == text {
			return
		}
		passed = append(passed, at)
	}
	p.t.Fatalf("Tab does not lead to %q, but to %q", text, passed)
}

// Whatever can be used has a name, for those who hear the page.
func TestControlsHaveNames(t *testing.T) {
	w := newWorld(t, map[string]string{"tour": tour})
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	w.release("tour", "thought")
	w.release("tour", "said")
	w.release("tour", "wrote")
	w.begin(p, "tour", "What time is it?")
	p.see(".question", "May it run work?")
	named(p, "Allow", "Deny", "Stop", "Send", "Prompt", "Tool calls", "A decision is needed", "Sessions")
	p.click(".foot button", "Timeline")
	p.see("dialog tbody", "Waiting for a decision")
	named(p, "Close", "Timeline")
	p.press("Escape")
	p.click("#new", "New session")
	p.see("form", "scripted/tour")
	named(p, "Prompt", "Agent or model", "Tool calls", "Start")
	p.state("15-new")
}

// named checks that all controls have names, and that some are there.
func named(p *tab, want ...string) {
	p.t.Helper()
	type value struct {
		Value string `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	p.do("Accessibility.getFullAXTree", nil, &tree)
	var names []string
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		names = append(names, n.Name.Value)
		control := slices.Contains([]string{"button", "link", "textbox", "combobox", "region", "dialog", "navigation"}, n.Role.Value)
		if control && strings.TrimSpace(n.Name.Value) == "" {
			p.t.Errorf("a %s has no name", n.Role.Value)
		}
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			p.t.Errorf("nothing is named %q among %q", name, names)
		}
	}
}

// Browsers open six connections to one origin over HTTP/1.1, for all tabs together. Pages that are not
// seen let go of theirs, so a seventh tab works as well, and each goes on when it is seen again.
func TestCase_C12_MoreTabsThanConnections(t *testing.T) {
	w := newWorld(t, map[string]string{"states": states + "repeat: true\n"})
	t.Run("tabs that share a stream", func(t *testing.T) { moreTabsThanConnections(t, w) })
	w.url = strings.Replace(w.url, "127.0.0.1", testHost, 1)
	t.Run("plain HTTP to another host, where they can't", func(t *testing.T) {
		moreTabsThanConnections(t, w)
	})
}

func moreTabsThanConnections(t *testing.T, w *world) {
	b := startBrowser(t)
	first := b.tab()
	w.enter(first)
	var shares bool
	first.eval(`"locks" in navigator && isSecureContext`, &shares)
	if shares == strings.Contains(w.url, testHost) {
		t.Errorf("under %s tabs share: %v", w.url, shares)
	}
	w.begin(first, "states", "hello")
	first.see(".task .ending", "Completed")
	for range 6 {
		p := b.tabInFront()
		w.enter(p)
		p.click("#sessions a", "hello")
		p.see(".task .ending", "Completed")
	}
	last := b.tabInFront()
	w.enter(last)
	last.click("#sessions a", "hello")
	say(last, "one more")
	last.see(".task:last-of-type .prompt", "one more")
	last.see(".task:last-of-type .ending", "Completed")
	first.do("Page.bringToFront", nil, nil)
	first.see(".task:last-of-type .prompt", "one more")
	b.noProblems("Cross-Origin-Opener-Policy header has been ignored")
}
