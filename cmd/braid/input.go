package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"braid/internal/cli"
	"braid/schemas"
)

// inputFlags are what a prompt may have beside words.
type inputFlags struct {
	images  []string
	history string
}

func (f *inputFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.images, "image", nil, "add a picture to the prompt: a `FILE` or URL; can be repeated")
	flags.StringVar(&f.history, "history", "", "a JSON `FILE` with the turns of a conversation that precedes the prompt")
}

// task is what the prompt's task is given. What is wrong with it is the caller's mistake.
func (f *inputFlags) task(prompt string) (*schemas.TaskBody, error) {
	if len(f.images) == 0 && f.history == "" {
		return &schemas.TaskBody{Prompt: prompt}, nil
	}
	turns, err := f.earlier()
	if err != nil {
		return nil, err
	}
	var parts []schemas.InputPart
	if prompt != "" {
		parts = append(parts, schemas.InputPart{Type: schemas.KindText, Text: prompt})
	}
	for _, name := range f.images {
		url, err := imageURL(name)
		if err != nil {
			return nil, cli.Usage("--image: %v", err)
		}
		parts = append(parts, schemas.InputPart{Type: schemas.KindImageURL, ImageURL: url})
	}
	// Outputs that the conversation ends with are in the user's turn, and so is the prompt.
	if n := len(turns); n > 0 && turns[n-1].Role == schemas.RoleUser {
		turns[n-1].Content = append(turns[n-1].Content, parts...)
	} else {
		turns = append(turns, schemas.InputTurn{Role: schemas.RoleUser, Content: parts})
	}
	return &schemas.TaskBody{Input: turns}, nil
}

// earlier reads the turns of a file.
func (f *inputFlags) earlier() (turns []schemas.InputTurn, err error) {
	if f.history == "" {
		return nil, nil
	}
	data, err := os.ReadFile(f.history)
	if err != nil {
		return nil, cli.Usage("--history: %v", err)
	}
	if err := schemas.DecodeInput(data, &turns); err != nil {
		return nil, cli.Usage("--history: %s: %v", f.history, err)
	}
	return turns, nil
}

// imageURL is the URL of a picture: itself, or a data URL of what a file holds.
func imageURL(name string) (string, error) {
	if strings.Contains(name, "://") || strings.HasPrefix(name, "data:") {
		_, err := schemas.ParseImage(name)
		return name, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	mimeType := schemas.SniffImage(data)
	if mimeType == "" {
		return "", fmt.Errorf("%s is none of %s", name, strings.Join(schemas.ImageTypes(), ", "))
	}
	url := schemas.DataURL(mimeType, data)
	if _, err := schemas.ParseImage(url); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return url, nil
}

// atField names the member that an error is about, to go before its message; nothing if it is about
// none.
func atField(err error) string {
	if refused, ok := errors.AsType[*schemas.Error](err); ok && refused.Field != "" {
		return refused.Field + ": "
	}
	return ""
}

// images shows pictures in short.
func (r *renderer) images(urls []string) {
	for _, url := range urls {
		r.line(plain, "[image: %s]", schemas.DescribeImage(url))
	}
}
