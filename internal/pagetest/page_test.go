package pagetest

import "testing"

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
	p.shots("1-empty")
	w.begin(p, "tour", "What time is it?")
	p.see(".prompt", "What time is it?")
	p.see(".thinking summary", "Thinking")
	p.see(".pill", "Running")
	w.release("tour", "thought")
	p.see(".text.open", "Let me look")
	p.shots("2-running")
	w.release("tour", "said")
	w.reached("tour", "wrote")
	p.see(".call .state", "Being written")
	w.release("tour", "wrote")

	p.see(".question", "May it run work?")
	p.see(".question .given", "date -u; ls")
	p.see(".pill", "Waits for you")
	p.shots("3-approval")
	p.click(".question button", "Allow")
	p.see(".call .state", "Running")
	w.work <- "Mon Nov 30\n"
	p.see(".call .output", "Mon Nov 30")
	w.work <- "a.txt b.txt\n"
	p.see(".call .output", "a.txt b.txt")
	p.shots("4-tool")
	close(w.work)

	p.see(".text.open", "It is late")
	w.release("tour", "answered")
	p.see(".task .ending", "Completed")
	p.see(".used", "tokens")
	p.see("#sessions .title", "What time is it?")
	p.shots("5-completed")
	p.click(".foot button", "Timeline")
	p.see("dialog tbody", "Wait for a decision")
	p.see("dialog tbody", "work date -u; ls")
	p.shots("6-timeline")
	p.press("Escape")
	p.until("the dialog is closed", `!document.querySelector("dialog").open`)
	p.noProblems()
}
