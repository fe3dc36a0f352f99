package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

func TestLists(t *testing.T) {
	w, _ := newWorld(t, map[string]string{"other": "turns:\n  - steps:\n      - {text: x}\n"})
	w.each(t, func(t *testing.T, c *client.Client) {
		before := time.Now()
		one, other := create(t, c, "shell/demo", schemas.ApproveAll), create(t, c, "scripted/other", schemas.ApproveAll)
		for _, s := range []*client.Session{one, other} { // who is described is in the trace that lists are made of
			if _, err := s.Info(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		for _, test := range []struct {
			why  string
			o    client.SessionsOptions
			want []string
		}{
			{"nothing narrows the list", client.SessionsOptions{}, []string{one.ID(), other.ID()}},
			{"a model alone", client.SessionsOptions{Model: "scripted/other"}, []string{other.ID()}},
			{"all rest", client.SessionsOptions{State: "idle"}, []string{one.ID(), other.ID()}},
			{"none runs", client.SessionsOptions{State: "running"}, nil},
			{"none has an agent", client.SessionsOptions{Agent: "nobody"}, nil},
			{"none is that young", client.SessionsOptions{CreatedSince: before.Add(time.Hour)}, nil},
			{"none is that old", client.SessionsOptions{CreatedUntil: before.Add(-time.Hour)}, nil},
			{"all are from between", client.SessionsOptions{CreatedSince: before.Add(-time.Minute), CreatedUntil: before.Add(time.Minute)}, []string{one.ID(), other.ID()}},
		} {
			var got []string
			for info, err := range c.Sessions(testContext(t), test.o) {
				if err != nil {
					t.Fatalf("%s: %v", test.why, err)
				}
				if info.ID == one.ID() || info.ID == other.ID() {
					got = append(got, info.ID)
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("%s: got %v, want %v", test.why, got, test.want)
			}
		}
		for _, err := range c.Sessions(testContext(t), client.SessionsOptions{State: "asleep"}) {
			if !client.IsCode(err, schemas.CodeInvalid) {
				t.Errorf("an unknown state: %v", err)
			}
		}
		models, err := c.Models(testContext(t))
		if err != nil || !slices.Contains(models.Providers, "scripted") ||
			!slices.ContainsFunc(models.Models, func(m bus.ModelInfo) bool { return m.Name == "shell/demo" }) {
			t.Errorf("got %+v %v", models, err)
		}
		tools, err := c.Tools(testContext(t))
		if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "exec_command" || len(tools.Conflicts) != 0 {
			t.Errorf("got %s %v", cmp.Diff(client.ToolList{}, tools), err)
		}
	})
}
