package llm

import (
	"slices"
	"strings"

	"braid/schemas"
)

// Info says what a model can do.
type Info struct {
	// Vision: the model sees pictures. Without it, it gets a note in the place of each.
	Vision bool
	// Window is how many tokens the model takes, what it is asked and its answer together; MaxOutput
	// is how many of them an answer may have. 0: not known.
	Window, MaxOutput int64
}

// Refuse says that a model that can do so much can't take the prompt; nil if it can. Earlier turns are
// not the prompt: see [Request.For].
func (i Info) Refuse(b *schemas.TaskBody) *schemas.Error {
	field := b.PromptImage()
	if field == "" || i.Vision {
		return nil
	}
	return &schemas.Error{Code: schemas.CodeUnsupported, Field: field, Message: "the session's model does not see images"}
}

// For returns the request as a model that can do so much gets it. Pictures that the model can't
// see, or that nobody can, are replaced by a text that says so, in their place: nothing is left out
// in silence, and no picture makes a request fail. Every picture that stays is one that
// [schemas.ParseImage] reads. The receiver is unchanged.
func (r Request) For(i Info) Request {
	r.Input = shown(r.Input, i)
	return r
}

// shown replaces what can't be shown. The input is copied only if there is something.
func shown(input []schemas.Message, i Info) []schemas.Message {
	copied := false
	for at, m := range input {
		p := shownPayload(m.Payload, i)
		if p == m.Payload {
			continue
		}
		if !copied {
			input, copied = slices.Clone(input), true
		}
		input[at].Payload = p
	}
	return input
}

// shownPayload is the payload itself, or what stands for it.
func shownPayload(payload schemas.Payload, i Info) schemas.Payload {
	switch p := payload.(type) {
	case *schemas.ImageURL:
		if n := note(p.ImageURL, i); n != "" {
			return noteText(p.Role, n)
		}
	case *schemas.InlineData:
		if !i.Vision && strings.HasPrefix(p.MIMEType, "image/") {
			return noteText(p.Role, unseen(schemas.Image{MIMEType: p.MIMEType, Data: p.Data}))
		}
	case *schemas.ToolCallOutput:
		return shownOutput(p, i)
	}
	return payload
}

// shownOutput keeps the pictures that can be shown, and adds a line for each other to the text.
func shownOutput(p *schemas.ToolCallOutput, i Info) schemas.Payload {
	var kept, notes []string
	for _, url := range p.Images {
		if n := note(url, i); n != "" {
			notes = append(notes, n)
		} else {
			kept = append(kept, url)
		}
	}
	if len(notes) == 0 {
		return p
	}
	changed := *p
	changed.Images = kept
	changed.Output = strings.TrimSuffix(p.Output, "\n")
	if changed.Output != "" {
		changed.Output += "\n"
	}
	changed.Output += strings.Join(notes, "\n")
	return &changed
}

// noteText is a note as a message of its own.
func noteText(role schemas.Role, note string) *schemas.Text {
	if role == schemas.RoleAssistant {
		return schemas.AssistantText(note)
	}
	return schemas.HarnessText(note)
}

// note says why a picture can't be shown; empty if it can.
func note(url string, i Info) string {
	image, err := schemas.ParseImage(url)
	switch {
	case err != nil:
		return "[image left out: it can't be read]"
	case !i.Vision:
		return unseen(image)
	}
	return ""
}

func unseen(i schemas.Image) string {
	return "[image left out: " + i.String() + "; this model does not see images]"
}
