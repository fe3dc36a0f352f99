package pagetest

import (
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// entry is a message as a page gets it.
type entry struct {
	ID       string          `json:"id"`
	Recorded bool            `json:"recorded"`
	Message  schemas.Message `json:"message"`
}

// visible is what a page gets of a session: what watchers see, and prompts.
func visible(stream []schemas.Entry) []entry {
	var out []entry
	for _, e := range stream {
		m := e.Message
		if m.Visible() || m.Prompt() || m.Given() {
			out = append(out, entry{schemas.Cursor{Epoch: "x", Position: e.Position}.String(), m.Recorded(), m})
		}
	}
	return out
}

// Any session, reloaded anywhere: the page's fold makes the same of history, partials and the rest as
// of the stream.
func TestAnySessionCanBeReloadedAnywhere(t *testing.T) {
	w := newWorld(t, nil)
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	compare, err := os.ReadFile("testdata/reload.js")
	if err != nil {
		t.Fatal(err)
	}
	p.eval("window.compare = "+string(compare), nil)
	rapid.Check(t, func(rt *rapid.T) {
		entries := visible(schematest.LegalStream().Draw(rt, "stream"))
		cut := rapid.IntRange(0, len(entries)).Draw(rt, "reload after")
		raw, err := schemas.EncodeJSON(entries)
		if err != nil {
			rt.Fatal(err)
		}
		var difference string
		if err := p.tryEval(fmt.Sprintf("compare(%s, %d)", raw, cut), &difference); err != nil {
			rt.Fatal(err)
		}
		if difference != "" {
			rt.Fatal(difference)
		}
	})
	b.noProblems()
}
