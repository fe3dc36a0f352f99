// Package pagetest tests the web page in a real browser, against a real broker, engine, toolrunner
// and gateway. It drives Chromium over a pair of pipes, so it needs Chromium and nothing else:
// without one nothing is tested here, which is said.
package pagetest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"braid/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// envBrowser names the browser's program, if it is not on the path.
	envBrowser = "BRAID_CHROMIUM"
	// envShots names a directory that gets pictures of the page in its states.
	envShots = "BRAID_SCREENSHOTS"
)

// findBrowser returns the browser's program, or skips the test.
func findBrowser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes too long for -short")
	}
	if path := os.Getenv(envBrowser); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("WARNING: THE PAGE IS NOT TESTED. There is no Chromium on the path, and " + envBrowser + " names none.")
	return ""
}

// browser is a running Chromium, spoken to in its DevTools protocol: JSON, each message ended by a
// zero byte.
type browser struct {
	t   *testing.T
	in  *os.File
	out *os.File

	mu struct {
		sync.Mutex
		last    int
		waiting map[int]chan reply
		// problems are what pages report: exceptions, refused loads, errors on the console.
		problems []string
	}
}

type reply struct {
	ID     int            `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser runs a browser until the test ends. On a busy machine one may die before it has said
// anything, which is no fault of the page: then another one is started.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := findBrowser(t)
	for try := 1; ; try++ {
		b, said, end := launch(t, program)
		_, err := b.call("", "Browser.getVersion", nil)
		if err == nil {
			t.Cleanup(func() {
				b.do("", "Browser.close", nil, nil)
				end()
			})
			return b
		}
		end()
		if try == 3 {
			t.Fatalf("the browser does not start: %v\n%s", err, said)
		}
		t.Logf("the browser died at its start, another one follows: %v\n%s", err, said)
	}
}

// launch starts a browser. end waits for it; what it has said on its standard error can be read then.
func launch(t *testing.T, program string) (b *browser, said *bytes.Buffer, end func()) {
	t.Helper()
	fromUs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox needs privileges that containers lack; all that is loaded is our own page.
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
		"--host-resolver-rules=MAP "+testHost+" 127.0.0.1", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // descriptors 3 and 4
	said = &bytes.Buffer{}
	cmd.Stderr = said
	cmd.WaitDelay = patience * time.Millisecond // its children have the descriptor too, and write to the directory until they end
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	toUs.Close()
	b = &browser{t: t, in: in, out: out}
	b.mu.waiting = map[int]chan reply{}
	var reading sync.WaitGroup
	reading.Go(b.read)
	return b, said, func() {
		in.Close()
		_ = cmd.Wait() // however it ends, it is gone
		reading.Wait()
		out.Close()
	}
}

// read takes what the browser says until it ends.
func (b *browser) read() {
	lines := bufio.NewReader(b.out)
	for {
		line, err := lines.ReadBytes(0)
		if err != nil {
			break
		}
		var r reply
		if err := schemas.DecodeJSON(bytes.TrimSuffix(line, []byte{0}), &r); err != nil {
			b.note("the browser says what can't be read: " + err.Error())
			continue
		}
		b.mu.Lock()
		waiting := b.mu.waiting[r.ID]
		delete(b.mu.waiting, r.ID)
		b.mu.Unlock()
		if r.ID != 0 && waiting != nil {
			waiting <- r
		} else if r.ID == 0 {
			b.event(r)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, waiting := range b.mu.waiting {
		close(waiting)
	}
	b.mu.waiting = nil
}

// event notes what no page should report.
func (b *browser) event(r reply) {
	switch r.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		b.note(string(r.Params))
	case "Runtime.consoleAPICalled":
		if bytes.Contains(r.Params, []byte(`"type":"error"`)) {
			b.note(string(r.Params))
		}
	}
}

func (b *browser) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.problems = append(b.mu.problems, problem)
}

// noProblems fails the test for everything a page reported that contains none of the words. That something can't
// be answered just now is no problem: the machine may be busy or the gateway stop, and the page asks again.
func (b *browser) noProblems(but ...string) {
	b.t.Helper()
	but = append(but, "status of 503")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.mu.problems {
		if !slices.ContainsFunc(but, func(word string) bool { return strings.Contains(p, word) }) {
			b.t.Errorf("the page reports %s", p)
		}
	}
	b.mu.problems = nil
}

var errClosed = errors.New("the browser is gone")

// call sends one command and waits for its answer.
func (b *browser) call(session, method string, params any) (jsontext.Value, error) {
	if params == nil {
		params = struct{}{}
	}
	answer := make(chan reply, 1)
	b.mu.Lock()
	if b.mu.waiting == nil {
		b.mu.Unlock()
		return nil, errClosed
	}
	b.mu.last++
	id := b.mu.last
	b.mu.waiting[id] = answer
	b.mu.Unlock()
	message, err := schemas.EncodeJSON(struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitzero"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{id, session, method, params})
	if err != nil {
		return nil, err
	}
	if _, err := b.in.Write(append(message, 0)); err != nil {
		return nil, err
	}
	var r reply
	var ok bool
	select {
	case r, ok = <-answer:
	case <-time.After(2 * patience * time.Millisecond):
		return nil, fmt.Errorf("%s: the browser does not answer", method)
	}
	switch {
	case !ok:
		return nil, errClosed
	case r.Error != nil:
		return nil, fmt.Errorf("%s: %s", method, r.Error.Message)
	}
	return r.Result, nil
}

// do is call for what has to work. result may be nil.
func (b *browser) do(session, method string, params, result any) {
	b.t.Helper()
	raw, err := b.call(session, method, params)
	if errors.Is(err, errClosed) && method == "Browser.close" {
		return
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if result != nil {
		if err := schemas.DecodeJSON(raw, result); err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
	}
}

// tab is one page. Each has a session storage of its own.
type tab struct {
	*browser
	session, target string
}

type object map[string]any

// tab opens one in a window of its own: it is seen, whatever other tabs there are.
func (b *browser) tab() *tab {
	b.t.Helper()
	return b.open(true)
}

// tabInFront opens one in front of the others of the last window, which are not seen any more.
func (b *browser) tabInFront() *tab {
	b.t.Helper()
	return b.open(false)
}

func (b *browser) open(window bool) *tab {
	b.t.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	b.do("", "Target.createTarget", object{"url": "about:blank", "newWindow": window}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.do("", "Target.attachToTarget", object{"targetId": target.ID, "flatten": true}, &attached)
	p := &tab{browser: b, session: attached.Session, target: target.ID}
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility"} {
		p.do(domain+".enable", nil, nil)
	}
	// What the page asks for, as it asks, and what of it begins to be answered.
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `
		window.asked = [];
		window.answered = [];
		const real = window.fetch;
		window.fetch = async (path, more) => {
			const what = (more?.method ?? "GET") + " " + path + (more?.headers?.["Last-Event-ID"] ? " again" : "");
			window.asked.push(what);
			const answer = await real(path, more);
			window.answered.push(what);
			return answer;
		};`}, nil)
	p.size(1280, 800)
	return p
}

func (p *tab) close() {
	p.t.Helper()
	p.browser.do("", "Target.closeTarget", object{"targetId": p.target}, nil)
}

// asked counts the requests that begin with a text, since the page was loaded.
func (p *tab) asked(prefix string) int {
	p.t.Helper()
	var n int
	p.eval(fmt.Sprintf(`window.asked.filter((what) => what.startsWith(%q)).length`, prefix), &n)
	return n
}

func (p *tab) do(method string, params, result any) {
	p.t.Helper()
	p.browser.do(p.session, method, params, result)
}

// size is the size of what is seen. Narrow ones are those of phones.
func (p *tab) size(width, height int) {
	p.do("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

func (p *tab) scheme(name string) {
	p.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": name}}}, nil)
}

func (p *tab) open(url string) {
	p.t.Helper()
	p.do("Page.navigate", object{"url": url}, nil)
}

func (p *tab) reload() {
	p.t.Helper()
	p.eval(`window.before = true`, nil)
	p.do("Page.reload", nil, nil)
	p.until("the page is another one", `!window.before && document.readyState === "complete"`)
}

// eval runs an expression in the page; a promise is awaited.
func (p *tab) eval(expression string, result any) {
	p.t.Helper()
	if err := p.tryEval(expression, result); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

func (p *tab) tryEval(expression string, result any) error {
	raw, err := p.call(p.session, "Runtime.evaluate", object{"expression": expression, "awaitPromise": true, "returnByValue": true})
	if err != nil {
		return err
	}
	var answer struct {
		Result struct {
			Value jsontext.Value `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text   string `json:"text"`
			Object struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := schemas.DecodeJSON(raw, &answer); err != nil {
		return err
	}
	if e := answer.Exception; e != nil {
		return fmt.Errorf("%s %s", e.Text, e.Object.Description)
	}
	if result == nil {
		return nil
	}
	return schemas.DecodeJSON(answer.Result.Value, result)
}

// patience is how long a page may take to show something, in milliseconds: a loaded machine is slow.
const patience = 90_000

// until waits for an expression to be true in the page.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	wait := fmt.Sprintf(`new Promise((good, bad) => {
		const look = () => { let is = false; try { is = %s } catch {} is ? good(true) : setTimeout(look, 20) };
		setTimeout(() => bad(new Error("never")), %d);
		look();
	})`, expression, patience)
	err := p.tryEval(wait, nil)
	for goneOn(err) {
		err = p.tryEval(wait, nil)
	}
	if err != nil {
		var shown string
		_ = p.tryEval(`document.body.innerText`, &shown)
		p.shot("failed")
		p.noProblems()
		p.t.Fatalf("%s: %v; the page shows:\n%s", what, err, shown)
	}
}

// goneOn reports that an expression has no answer because the page went on to another one: the browser says it
// in several ways.
func goneOn(err error) bool {
	return errors.Is(err, io.EOF) || err != nil && slices.ContainsFunc([]string{
		"context was destroyed", "navigated or closed", "Promise was collected", "Cannot find context", "Cannot find default execution context",
	}, func(said string) bool { return strings.Contains(err.Error(), said) })
}

// see waits for a text among what is shown under a selector.
func (p *tab) see(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("see %q in %s", text, selector),
		fmt.Sprintf(`[...document.querySelectorAll(%q)].some((n) => n.checkVisibility() && n.innerText.includes(%q))`, selector, text))
}

// click presses the mouse in the middle of an element that has the text, once it can be used and stands still.
// If it has moved away nevertheless, the mouse follows it.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	p.see(selector, text)
	for range 20 {
		var at struct{ X, Y float64 }
		p.eval(fmt.Sprintf(`(async () => {
			const find = () => [...document.querySelectorAll(%q)].find((n) => n.checkVisibility() && !n.disabled && n.innerText.includes(%q));
			for (const begun = Date.now(); Date.now() - begun < %d;) {
				const node = find();
				node?.scrollIntoView({block: "nearest"});
				const before = node?.getBoundingClientRect();
				await new Promise((done) => setTimeout(done, 30));
				const r = node?.getBoundingClientRect();
				if (!node || node !== find() || r.x !== before.x || r.y !== before.y) continue;
				window.clicked = false;
				node.addEventListener("click", () => { window.clicked = true; }, {capture: true, once: true});
				return {X: r.x + r.width / 2, Y: r.y + r.height / 2};
			}
			throw new Error("it never stands still");
		})()`, selector, text, patience), &at)
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			p.do("Input.dispatchMouseEvent", object{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
		}
		var clicked bool
		if p.eval("window.clicked === true", &clicked); clicked {
			return
		}
	}
	p.t.Fatalf("%s with %q gets no click", selector, text)
}

// choose picks one of the options of a select, by its value.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.until("there is the choice "+value, fmt.Sprintf(`[...document.querySelector(%q).options].some((o) => o.value === %q)`, selector, value))
	p.eval(fmt.Sprintf(`(() => {
		const node = document.querySelector(%q);
		node.value = %q;
		node.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, selector, value), nil)
}

// write types a text where the focus is.
func (p *tab) write(text string) {
	p.t.Helper()
	p.do("Input.insertText", object{"text": text}, nil)
}

// press presses a key, such as Tab or Enter.
func (p *tab) press(key string) {
	p.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}[key]
	text := map[string]string{"Enter": "\r", " ": " "}[key]
	p.do("Input.dispatchKeyEvent", object{"type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text}, nil)
	p.do("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}, nil)
}

// shot takes pictures, for people to look at, if anybody wants them.
func (p *tab) shot(name string) {
	p.t.Helper()
	dir := os.Getenv(envShots)
	if dir == "" {
		return
	}
	var picture struct {
		Data string `json:"data"`
	}
	p.do("Page.captureScreenshot", object{"format": "png"}, &picture)
	raw, err := base64.StdEncoding.DecodeString(picture.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
