package pagetest

import (
	"fmt"
	"os"
	"strings"
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

// Who decides on a call must see what it is.
func TestArgumentsAreShownAsTheyAre(t *testing.T) {
	w := newWorld(t, nil)
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	for _, c := range []struct{ why, given, want string }{
		{"a command is a command", `{"command":"ls -l\nrm x"}`, "ls -l\nrm x"},
		{"one text under another name keeps the name", `{"path":"x"}`, "{\n  \"path\": \"x\"\n}"},
		{"JSON gets line breaks", `{ "a": 1, "b":[true] }`, "{\n  \"a\": 1,\n  \"b\": [\n    true\n  ]\n}"},
		{"a member that comes twice is not hidden", `{"command":"rm -rf x","command":"ls"}`, `{"command":"rm -rf x","command":"ls"}`},
		{"a number keeps its digits", `{"n":12345678901234567890}`, `{"n":12345678901234567890}`},
		{"what is no JSON stays", `{"command":"ls`, `{"command":"ls`},
		{"the order of writing can't be turned", "{\"command\":\"ls \u202egpj.exe\"}", `ls \u202egpj.exe`},
		{"nothing is invisible", "{\"command\":\"l\u200bs\"}", `l\u200bs`},
		{"blanks in texts stay", `{"command":"a  b"}`, "a  b"},
	} {
		given, err := schemas.EncodeJSON(c.given)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		p.eval(fmt.Sprintf(`import("/static/text.js").then((m) => m.readableArguments(%s))`, given), &got)
		if got != c.want {
			t.Errorf("%s: %q is shown as %q, want %q", c.why, c.given, got, c.want)
		}
	}
}

// The model's Markdown, block by block.
func TestMarkdown(t *testing.T) {
	w := newWorld(t, nil)
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	for _, c := range []struct{ why, given, want string }{
		{"paragraphs", "one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"},
		{"a heading is below those of the page", "# One\ntext", "<h3>One</h3><p>text</p>"},
		{"lists", "- a\n- b\n\n1. c\n2. d", "<ul><li>a</li><li>b</li></ul><ol><li>c</li><li>d</li></ol>"},
		{"a list that goes on elsewhere", "3. c", `<ol start="3"><li>c</li></ol>`},
		{"lists in lists", "1. a\n   - b\n     - c\n   - d\n2. e", "<ol><li>a<ul><li>b<ul><li>c</li></ul></li><li>d</li></ul></li><li>e</li></ol>"},
		{"a list that begins further in", "  - a\n- b", "<ul><li>a</li><li>b</li></ul>"},
		{"an item over two lines", "- a\n  b", "<ul><li>a\nb</li></ul>"},
		{"code that is not closed yet", "```go\nx := 1", `<pre class="code" tabindex="0" aria-label="Code, go"><code>x := 1</code></pre>`},
		{"stars in code are stars", "`**a**` **b**", "<p><code>**a**</code> <strong>b</strong></p>"},
		{"a star alone is a star", "2 * 3 * 4", "<p>2 * 3 * 4</p>"},
		{"a quote", "> a\n> b", "<blockquote><p>a\nb</p></blockquote>"},
		{"a rule", "a\n\n---", "<p>a</p><hr>"},
		{"names keep their underscores", "snake_case_name", "<p>snake_case_name</p>"},
		{"an address ends before the full stop", "See https://example.com/a.", `<p>See <a href="https://example.com/a" target="_blank" rel="noopener noreferrer">https://example.com/a</a>.</p>`},
		{"quotes in quotes", "> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"},
		{"quotes end at a depth that nobody means", strings.Repeat(">", 10) + "a", strings.Repeat("<blockquote>", 8) + "<p>&gt;&gt;a</p>" + strings.Repeat("</blockquote>", 8)},
		{"brackets that are no link", "[[a](https://b.c)", `<p>[<a href="https://b.c" target="_blank" rel="noopener noreferrer">a</a></p>`},
		{"other schemes are text", "[a](javascript:alert)", "<p>[a](javascript:alert)</p>"},
	} {
		given, err := schemas.EncodeJSON(c.given)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		p.eval(fmt.Sprintf(`import("/static/markdown.js").then((m) => {
			const grown = document.createElement("div"), whole = document.createElement("div"), text = %s;
			for (let n = 0; n <= text.length; n++) m.show(grown, text.slice(0, n));
			m.show(whole, text);
			return grown.innerHTML === whole.innerHTML ? whole.innerHTML : "word by word it is " + grown.innerHTML;
		})`, given), &got)
		if got != c.want {
			t.Errorf("%s: %q is shown as %s, want %s", c.why, c.given, got, c.want)
		}
	}
}

// Whatever a model writes, the page stays usable: it is shown at once, and as far as it can't be read
// as Markdown, as it is.
func TestTextsThatNobodyWouldWrite(t *testing.T) {
	w := newWorld(t, nil)
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	for _, c := range []struct{ why, given string }{
		{"quotes deeper than any stack", strings.Repeat(">", 50_000)},
		{"quotes with blanks between", strings.Repeat("> ", 50_000)},
		{"brackets that never close", strings.Repeat("[", 300_000)},
		{"brackets over many lines", strings.Repeat(strings.Repeat("[", 9_000)+"\n", 100)},
		{"labels without an address's end", strings.Repeat("[a](https://b", 700)},
		{"nothing but stars", strings.Repeat("*", 300_000)},
		{"nothing but backticks", "x" + strings.Repeat("`", 9_000)},
	} {
		given, err := schemas.EncodeJSON(c.given)
		if err != nil {
			t.Fatal(err)
		}
		var kept bool
		p.eval(fmt.Sprintf(`import("/static/markdown.js").then((m) => {
			const root = document.createElement("div"), text = %s;
			m.show(root, text);
			return root.textContent.length > 0 || root.querySelector("blockquote, hr") !== null;
		})`, given), &kept)
		if !kept {
			t.Errorf("%s: nothing is shown", c.why)
		}
	}
	b.noProblems()
}

// One part that can't be shown keeps no other from being shown, now or later.
func TestAPartThatCanNotBeShown(t *testing.T) {
	w := newWorld(t, nil)
	b := startBrowser(t)
	p := b.tab()
	w.enter(p)
	var got string
	p.eval(`import("/static/view.js").then(({ View }) => {
		const root = document.createElement("div"), view = new View(root, {});
		const bad = { kind: "prompt", text: "", get images() { throw new Error("no pictures"); } };
		const odd = { kind: "text", text: { split() { throw new Error("no lines"); }, toString: () => "as it is" } };
		for (const part of [bad, odd, { kind: "text", text: "one" }]) view.touch(part);
		view.flush();
		view.touch({ kind: "text", text: "two" });
		view.flush();
		return [...root.querySelectorAll(".text")].map((node) => node.textContent).join();
	})`, &got)
	if want := "as it is,one,two"; got != want {
		t.Errorf("it shows %q, want %q", got, want)
	}
	b.noProblems("can't be shown", "shown as plain text")
}
