package pagetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus/bustest"
	"braid/engine"
	"braid/gateway"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/toolrunner"
	"braid/trace"
)

const testToken = "a-token-for-tests"

// testHost is a name of the gateway that no browser takes for this machine.
const testHost = "gateway.test"

// world is everything that serves the page.
type world struct {
	t       *testing.T
	broker  *bustest.Broker
	scripts map[string]*scripted.Script
	// work feeds the tool "work", piece by piece; closing it ends the call.
	work chan string
	url  string
	// token is the gateway's.
	token string

	stopGateway func()
}

// newWorld starts it, with models of the given scripts.
func newWorld(t *testing.T, scripts map[string]string) *world {
	t.Helper()
	findBrowser(t) // before everything is started for nothing
	return newWorldOn(t, bustest.Single(t), scripts)
}

func newWorldOn(t *testing.T, broker *bustest.Broker, scripts map[string]string) *world {
	t.Helper()
	w := &world{t: t, broker: broker, scripts: map[string]*scripted.Script{}, work: make(chan string), token: testToken}
	for name, script := range scripts {
		parsed, err := scripted.Parse([]byte(script))
		if err != nil {
			t.Fatal(err)
		}
		w.scripts[name] = parsed
	}
	w.startToolrunner()
	w.startEngine()
	w.startGateway(fmt.Sprintf("127.0.0.1:%d", bustest.FreePort(t)))
	t.Cleanup(func() { w.stopGateway() })
	return w
}

func (w *world) startEngine() {
	w.t.Helper()
	store, err := trace.Open(w.t.TempDir(), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = store.Close() })
	models, err := llm.NewCatalog(scripted.New(w.scripts))
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := engine.Start(w.t.Context(), engine.Options{Conn: w.broker.Conn(w.t), Trace: store, Models: models, Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			w.t.Error(err)
		}
	})
}

// startToolrunner serves one tool, which says what the test makes it say.
func (w *world) startToolrunner() {
	w.t.Helper()
	conn := w.broker.Conn(w.t)
	tool := toolrunner.Tool{
		Definition: schemas.ToolDefinition{Name: "work", Description: "works", Permission: schemas.PermissionReadWrite},
		Run: func(ctx context.Context, _ toolrunner.Call, out *toolrunner.Output) toolrunner.Result {
			for {
				select {
				case piece, ok := <-w.work:
					if !ok {
						return toolrunner.Result{}
					}
					_, _ = out.WriteString(piece)
				case <-ctx.Done():
					return toolrunner.Result{}
				}
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { // ends with the test, which waits for it
		done <- toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{Tools: []toolrunner.Tool{tool}, Ready: func() { close(ready) }, Log: zerolog.Nop()})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	<-ready
}

// startGateway serves the page under an address, until stopGateway.
func (w *world) startGateway(address string) {
	w.t.Helper()
	conn := w.broker.Conn(w.t)
	g, err := gateway.New(gateway.Options{
		Conn: conn, Token: w.token, Hosts: []string{testHost}, Log: zerolog.Nop(),
		CommandWait: time.Minute, QueryWait: time.Minute, // a loaded machine is slow, and what can't be answered a page reports
	})
	if err != nil {
		w.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, listener) }() // ends with stopGateway, which waits for it
	w.stopGateway = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

// goneAway is in what pages report when the gateway is gone.
const goneAway = "ERR_"

// address is where the gateway listens.
func (w *world) address() string { return strings.TrimPrefix(w.url, "http://") }

// print has the tool "work" say something, once it runs.
func (w *world) print(text string) {
	w.t.Helper()
	select {
	case w.work <- text:
	case <-time.After(patience * time.Millisecond):
		w.t.Fatal("the tool does not run")
	}
}

// release lets a model go on that waits at a gate.
func (w *world) release(model, gate string) {
	w.t.Helper()
	if err := w.scripts[model].Release(gate); err != nil {
		w.t.Fatal(err)
	}
}

// reached waits until a model waits at a gate.
func (w *world) reached(model, gate string) {
	w.t.Helper()
	if err := w.scripts[model].Reached(w.t.Context(), gate); err != nil {
		w.t.Fatal(err)
	}
}

// enter opens the page with its token.
func (w *world) enter(p *tab) {
	w.t.Helper()
	p.open(w.url + "/?token=" + testToken)
	p.until("the token is out of the address", `location.protocol === "http:" && location.search === "" && document.readyState === "complete"`)
}

// begin makes a session on a scripted model, as a person does, and gives it a prompt.
func (w *world) begin(p *tab, model, prompt string) {
	w.t.Helper()
	p.click("#new", "New session")
	p.until("the form is there", `document.activeElement?.id === "prompt"`)
	p.write(prompt)
	p.choose("#runner", "model:scripted/"+model)
	p.click("form button", "Start")
	p.until("the session is there", `location.hash.startsWith("#/session/")`)
}

// ask sends a request to the gateway, as somebody else than the page, and returns the status.
func (w *world) ask(method, path, body string) int {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode
}

// must is ask for what has to be accepted.
func (w *world) must(method, path, body string) {
	w.t.Helper()
	if status := w.ask(method, path, body); status >= 300 {
		w.t.Fatalf("%s %s is answered %d", method, path, status)
	}
}

// elsewhere makes a session and gives it a prompt, without any page.
func (w *world) elsewhere(id, model, prompt string) {
	w.t.Helper()
	w.must("POST", "/v1/sessions", `{"id":"`+id+`","model":"scripted/`+model+`"}`)
	w.must("POST", "/v1/sessions/"+id+"/tasks", `{"prompt":"`+prompt+`"}`)
}

// awaitDeletion waits until a session that is deleted is gone: that is decided first, and said to whoever watches.
func (w *world) awaitDeletion(id string) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for w.ask("GET", "/v1/sessions/"+id, "") != http.StatusNotFound {
		<-ticker.C
	}
}
