package schematest

import (
	"fmt"

	"pgregory.net/rapid"

	"braid/schemas"
)

// Input generates valid inputs of a task: turns of user and assistant, calls with outputs in any
// order, pictures, and a prompt at the end.
func Input() *rapid.Generator[[]schemas.InputTurn] {
	return rapid.Custom(func(t *rapid.T) []schemas.InputTurn {
		g := &inputGenerator{T: t}
		n := 2*rapid.IntRange(0, 3).Draw(t, "earlier turns") + 1
		turns := make([]schemas.InputTurn, n)
		for i := range turns {
			if i%2 == 1 {
				turns[i] = schemas.InputTurn{Role: schemas.RoleAssistant, Content: g.assistant()}
			} else {
				turns[i] = schemas.InputTurn{Role: schemas.RoleUser, Content: g.user(i == n-1)}
			}
		}
		return turns
	})
}

type inputGenerator struct {
	*rapid.T
	calls int
	open  []string // calls of the turn before
}

func (g *inputGenerator) assistant() []schemas.InputPart {
	var parts []schemas.InputPart
	for range rapid.IntRange(1, 4).Draw(g.T, "parts") {
		if rapid.Bool().Draw(g.T, "words") {
			parts = append(parts, g.words())
			continue
		}
		g.calls++
		id := fmt.Sprintf("theirs/%d", g.calls)
		g.open = append(g.open, id)
		parts = append(parts, schemas.InputPart{
			Type: schemas.KindToolCall, ToolCallID: id, Name: "look",
			Arguments: rapid.SampledFrom([]string{"", "{}", `{"a":[1]}`}).Draw(g.T, "arguments"),
		})
	}
	return parts
}

// user answers all calls, then says something, which only a prompt must.
func (g *inputGenerator) user(prompt bool) []schemas.InputPart {
	var parts []schemas.InputPart
	for _, id := range rapid.Permutation(g.open).Draw(g.T, "order") {
		p := schemas.InputPart{
			Type: schemas.KindToolCallOutput, ToolCallID: id,
			Output:     rapid.SampledFrom([]string{"", "found\n"}).Draw(g.T, "output"),
			StopReason: rapid.SampledFrom([]schemas.StopReason{"", schemas.StopFailed}).Draw(g.T, "stop reason"),
		}
		if rapid.Bool().Draw(g.T, "with image") {
			p.Images = []string{Image("image/gif", 8)}
		}
		parts = append(parts, p)
	}
	least := 0
	if prompt || len(parts) == 0 {
		least = 1
	}
	g.open = nil
	for range rapid.IntRange(least, 3).Draw(g.T, "parts") {
		if rapid.Bool().Draw(g.T, "words") {
			parts = append(parts, g.words())
			continue
		}
		url := rapid.SampledFrom([]string{Image("image/png", 30), Image("image/jpeg", 31), "https://example.com/a.png"}).Draw(g.T, "image")
		parts = append(parts, schemas.InputPart{Type: schemas.KindImageURL, ImageURL: url})
	}
	return parts
}

func (g *inputGenerator) words() schemas.InputPart {
	return schemas.InputPart{Type: schemas.KindText, Text: rapid.SampledFrom([]string{"hi", "<ä>\n\t&", "\uFFFD"}).Draw(g.T, "text")}
}
