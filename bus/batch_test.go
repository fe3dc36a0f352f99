package bus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"braid/schemas"
)

var batchNow = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func fragment(text string) schemas.Message {
	return schemas.New(batchNow, schemas.TextFragment(schemas.PhaseDelta, text))
}

func outputFragment(id string, attempt int, offset int64, text string) schemas.Message {
	p := schemas.ToolCallOutputFragment(schemas.PhaseDelta, id, text)
	p.Attempt, p.Offset = attempt, offset
	return schemas.New(batchNow, p)
}

// brief renders a message in a few letters.
func brief(m schemas.Message) string {
	origin := strings.Join(append(slices.Clone(m.Origin), ""), "/")
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		return fmt.Sprintf("%s%s(%s)", origin, p.EventType, p.Text)
	case *schemas.PartialThinking:
		return fmt.Sprintf("%sthink %s(%s)", origin, p.EventType, p.Thinking)
	case *schemas.PartialToolCall:
		return fmt.Sprintf("%scall %s %s(%s)", origin, p.ToolCallID, p.EventType, p.Arguments)
	case *schemas.PartialToolCallOutput:
		return fmt.Sprintf("%sout %s/%d@%d %s(%s)", origin, p.ToolCallID, p.Attempt, p.Offset, p.EventType, p.Output)
	case *schemas.Text:
		return fmt.Sprintf("%stext(%s)", origin, p.Text)
	}
	return origin + string(m.Kind())
}

func briefs(messages []schemas.Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, brief(m))
	}
	return strings.Join(out, " ")
}

func TestBatchCoalesces(t *testing.T) {
	text := func(phase schemas.Phase, s string) schemas.Message {
		return schemas.New(batchNow, schemas.TextFragment(phase, s))
	}
	complete := schemas.New(batchNow, schemas.AssistantText("ab"))
	thought := schemas.New(batchNow, schemas.ThinkingFragment(schemas.PhaseDelta, "t"))
	call := func(id, arguments string) schemas.Message {
		return schemas.New(batchNow, schemas.ToolCallFragment(schemas.PhaseDelta, id, "", arguments))
	}
	stopped := fragment("c")
	stopped.Payload.(*schemas.PartialText).StopReason = schemas.StopAborted
	unknown := fragment("c")
	unknown.Extra = []byte(`{"x":1}`)
	pictured := outputFragment("1", 1, 2, "b")
	pictured.Payload.(*schemas.PartialToolCallOutput).Images = []string{"data:,"}
	for _, row := range []struct {
		name string
		in   []schemas.Message
		want string
	}{
		{"deltas of one text", []schemas.Message{fragment("a"), fragment("b"), fragment("c")}, "delta(abc)"},
		{"never across a stop and a start", []schemas.Message{fragment("a"), text(schemas.PhaseStop, ""), complete, text(schemas.PhaseStart, ""), fragment("b")}, "delta(a) stop() text(ab) start() delta(b)"},
		{"never across another message", []schemas.Message{fragment("a"), complete, fragment("b")}, "delta(a) text(ab) delta(b)"},
		{"thinking is another segment", []schemas.Message{fragment("a"), thought, thought, fragment("b")}, "delta(a) think delta(tt) delta(b)"},
		{"arguments of one call", []schemas.Message{call("1", "{"), call("1", "}"), call("2", "{}")}, "call 1 delta({}) call 2 delta({})"},
		{"the last offset wins", []schemas.Message{outputFragment("1", 1, 1, "a"), outputFragment("1", 1, 2, "b")}, "out 1/1@2 delta(ab)"},
		{"another attempt starts anew", []schemas.Message{outputFragment("1", 1, 1, "a"), outputFragment("1", 2, 1, "b")}, "out 1/1@1 delta(a) out 1/2@1 delta(b)"},
		{"interleaved tools keep their order", []schemas.Message{outputFragment("1", 1, 1, "a"), outputFragment("2", 1, 1, "b"), outputFragment("1", 1, 2, "c")}, "out 1/1@1 delta(a) out 2/1@1 delta(b) out 1/1@2 delta(c)"},
		{"another origin", []schemas.Message{fragment("a"), fragment("b").WithOrigin("x"), fragment("c").WithOrigin("x")}, "delta(a) x/delta(bc)"},
		{"a stop reason is kept", []schemas.Message{fragment("a"), fragment("b"), stopped}, "delta(ab) delta(c)"},
		{"unknown members are kept", []schemas.Message{fragment("a"), unknown, fragment("b")}, "delta(a) delta(c) delta(b)"},
		{"images come whole", []schemas.Message{outputFragment("1", 1, 1, "a"), pictured}, "out 1/1@1 delta(a) out 1/1@2 delta(b)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b Batch
			var last Mark
			for _, m := range row.in {
				mark, err := b.Add(m)
				if err != nil {
					t.Fatal(err)
				}
				last = mark
			}
			got, mark := b.Take(1 << 20)
			if briefs(got) != row.want {
				t.Errorf("got  %s\nwant %s", briefs(got), row.want)
			}
			if mark != last || !b.Empty() || b.Size() != 0 {
				t.Errorf("mark %d, want %d; %d bytes are left", mark, last, b.Size())
			}
		})
	}
}

// The two messages that end a request share a frame: a crash between them would pay for the
// turn twice.
func TestBatchKeepsGroupsTogether(t *testing.T) {
	var b Batch
	usage := schemas.New(batchNow, &schemas.TokenUsage{})
	end := schemas.New(batchNow, &schemas.RequestEnd{Status: schemas.StopCompleted})
	long, err := b.Add(schemas.New(batchNow, schemas.AssistantText(strings.Repeat("x", 300))))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := b.Add(usage, end)
	if err != nil {
		t.Fatal(err)
	}
	got, mark := b.Take(600)
	if len(got) != 1 || mark != long {
		t.Errorf("first frame: %s, mark %d", briefs(got), mark)
	}
	got, mark = b.Take(10) // too small for the pair: still one frame
	if briefs(got) != "token_usage request_end" || mark != pair {
		t.Errorf("second frame: %s, mark %d", briefs(got), mark)
	}
	if got, mark := b.Take(10); got != nil || mark != 0 {
		t.Errorf("an empty batch gave %s, mark %d", briefs(got), mark)
	}
}

func TestBatchRefusesWhatCannotBeEncoded(t *testing.T) {
	var b Batch
	if _, err := b.Add(fragment("a"), schemas.Message{Type: schemas.TypeEvent}); err == nil {
		t.Fatal("a message without a payload was added")
	}
	if !b.Empty() {
		t.Error("half of a group was added")
	}
}

func TestBatchSplitsADeltaBeforeItsStop(t *testing.T) {
	var b Batch
	text := strings.Repeat("å\"", 2000)
	start := schemas.New(batchNow, schemas.TextFragment(schemas.PhaseStart, ""))
	stop := schemas.New(batchNow, schemas.TextFragment(schemas.PhaseStop, ""))
	mark, err := b.Add(start, fragment(text), stop)
	if err != nil {
		t.Fatal(err)
	}
	var all []schemas.Message
	frames := 0
	for !b.Empty() {
		messages, m := b.Take(2048)
		if body, err := encodeFrame(messages, 2048, nil); err != nil || len(body.data) > 2048 {
			t.Fatalf("a frame of %d bytes, %v", len(body.data), err)
		}
		if m >= mark != b.Empty() {
			t.Errorf("frame %d reaches mark %d, more to come: %v", frames, m, !b.Empty())
		}
		all = append(all, messages...)
		frames++
	}
	if frames < 3 {
		t.Errorf("%d frames", frames)
	}
	joined := ""
	for _, m := range all {
		joined += m.Payload.(*schemas.PartialText).Text
	}
	if joined != text || brief(all[0]) != "start()" || brief(all[len(all)-1]) != "stop()" {
		t.Errorf("the pieces make %d bytes of %d", len(joined), len(text))
	}
}

func drawMessage(t *rapid.T) schemas.Message {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune{'a', '"', '\n', 0x01, 'é', '\u2028', '世', '😀'}), 0, 80, -1)
	id := rapid.SampledFrom([]string{"1", "2"})
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return schemas.New(batchNow, schemas.AssistantText(letters.Draw(t, "text")))
	case 1:
		return schemas.New(batchNow, schemas.TextFragment(rapid.SampledFrom([]schemas.Phase{schemas.PhaseStart, schemas.PhaseStop}).Draw(t, "phase"), ""))
	case 2:
		return schemas.New(batchNow, schemas.ThinkingFragment(schemas.PhaseDelta, letters.Draw(t, "text")))
	case 3:
		return schemas.New(batchNow, schemas.ToolCallFragment(schemas.PhaseDelta, id.Draw(t, "id"), "", letters.Draw(t, "text")))
	case 4:
		return outputFragment(id.Draw(t, "id"), 1, 0, letters.Draw(t, "text"))
	}
	return fragment(letters.Draw(t, "text"))
}

// flow is what messages say whatever way their deltas are cut: runs of one segment's text, and
// everything else as it is.
func flow(messages []schemas.Message) []string {
	var out []string
	var last schemas.Message
	open := false
	for _, m := range messages {
		text, delta := deltaText(m)
		switch {
		case !delta:
			out = append(out, brief(m))
		case open && sameSegment(last, m):
			out[len(out)-1] += text
		default:
			out = append(out, "delta "+string(m.Kind())+" "+text)
		}
		last, open = m, delta
	}
	return out
}

// Whatever is added, in whatever groups, comes out in order, whole, and in frames that fit.
func TestBatchLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Batch
		var in, out []schemas.Message
		stored := Mark(0)
		take := func() {
			limit := rapid.SampledFrom([]int{600, 1500, 1 << 20}).Draw(t, "limit")
			messages, mark := b.Take(limit)
			if len(messages) == 0 && !b.Empty() {
				t.Fatal("nothing was taken from what waits")
			}
			if mark < stored && mark != 0 {
				t.Fatalf("mark %d follows %d", mark, stored)
			}
			stored = max(stored, mark)
			for _, m := range messages {
				if text, ok := deltaText(m); ok && !utf8.ValidString(text) {
					t.Fatalf("cut inside a character: %q", text)
				}
			}
			out = append(out, messages...)
		}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "take") {
				take()
				continue
			}
			group := rapid.SliceOfN(rapid.Custom(drawMessage), 0, 4).Draw(t, "group")
			if _, err := b.Add(group...); err != nil {
				t.Fatal(err)
			}
			in = append(in, group...)
		}
		for !b.Empty() {
			before := len(b.groups)
			size := b.Size()
			take()
			if len(b.groups) == before && b.Size() == size {
				t.Fatal("no progress")
			}
		}
		if got, want := flow(out), flow(in); !slices.Equal(got, want) {
			t.Fatalf("came out as\n%q\nwent in as\n%q", got, want)
		}
		if b.Size() != 0 {
			t.Fatalf("an empty batch has %d bytes", b.Size())
		}
	})
}

func FuzzEscapedLen(f *testing.F) {
	f.Add("a\"\\\n\x01\u2028é😀\xff")
	f.Fuzz(func(t *testing.T, s string) {
		line, err := schemas.EncodeJSON(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := escapedLen(s) + 2; got < len(line) {
			t.Errorf("%q takes %d bytes, said at most %d", s, len(line), got)
		}
	})
}
