package pagetest

import (
	_ "embed"
	"strings"
	"testing"
)

// audit is what holds of the page in every state: it returns what does not.
//
//go:embed testdata/audit.js
var audit string

// state checks what holds of every state of the page, at the widths of a desk and of a phone, in both
// colour schemes, and takes pictures.
func (p *tab) state(name string) {
	p.t.Helper()
	for _, look := range []struct {
		name          string
		width, height int
		scheme        string
	}{
		{"desk", 1280, 800, "light"}, {"phone", 390, 844, "light"}, {"phone-dark", 390, 844, "dark"}, {"desk-dark", 1280, 800, "dark"},
	} {
		p.size(look.width, look.height)
		p.scheme(look.scheme)
		var faults []string
		p.eval("("+audit+")()", &faults)
		for _, fault := range faults {
			p.t.Errorf("%s, %s: %s", name, look.name, fault)
		}
		p.shot(name + "-" + look.name)
	}
	p.scheme("light")
	p.size(1280, 800)
}

// The audit finds what it is for.
func TestTheAuditFindsFaults(t *testing.T) {
	w := newWorld(t, nil)
	p := startBrowser(t).tab()
	w.enter(p)
	p.see("#sessions-note", "No sessions yet.")
	for _, row := range []struct{ fault, make string }{
		{"has no name", `Object.assign(document.createElement("button"), {type: "button"})`},
		{"has no label", `Object.assign(document.createElement("input"), {placeholder: "not a name"})`},
		{"contrast", `Object.assign(document.createElement("p"), {textContent: "hard to read", className: "fault-pale"})`},
		{"wider than the page", `Object.assign(document.createElement("p"), {textContent: "x".repeat(5000)})`},
		{"can't be reached", `Object.assign(document.createElement("button"), {type: "button", textContent: "a", tabIndex: -1})`},
		{"twice", `Object.assign(document.createElement("p"), {id: "main"})`},
	} {
		var faults []string
		p.eval(`(() => {
			const sheet = new CSSStyleSheet();
			sheet.replaceSync(".fault-pale { color: #aaa; }");
			document.adoptedStyleSheets = [sheet];
			const node = `+row.make+`;
			document.getElementById("main").append(node);
			const faults = (`+audit+`)();
			node.remove();
			return faults;
		})()`, &faults)
		if len(faults) == 0 || !strings.Contains(strings.Join(faults, "\n"), row.fault) {
			t.Errorf("want one that %q, got %q", row.fault, faults)
		}
	}
}
