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
	w, _ := newWorld(t, map[string]string{"other": "repeat: true\nturns:\n  - steps:\n      - fail: {status: auth}\n"})
	w.each(t, func(t *testing.T, c *client.Client) {
		before := time.Now()
		one, other := create(t, c, "shell/demo", schemas.ApproveAll), create(t, c, "scripted/other", schemas.ApproveAll)
		if r, err := other.Run(testContext(t), client.Prompt("x")); err != nil || r.Success {
			t.Fatalf("got %+v %v", r, err)
		}
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
			{"a task failed in one of these ways", client.SessionsOptions{TaskStatus: []schemas.StopReason{schemas.StopFailed, schemas.StopAuth}}, []string{other.ID()}},
			{"no task ended well", client.SessionsOptions{TaskStatus: []schemas.StopReason{schemas.StopCompleted}}, nil},
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
		for why, o := range map[string]client.SessionsOptions{
			"an unknown state":        {State: "asleep"},
			"an unknown end":          {TaskStatus: []schemas.StopReason{schemas.StopFailed, "fialed"}},
			"an end without a name":   {TaskStatus: []schemas.StopReason{schemas.StopFailed, ""}},
			"nothing but such an end": {TaskStatus: []schemas.StopReason{""}},
		} {
			for _, err := range c.Sessions(testContext(t), o) {
				if !client.IsCode(err, schemas.CodeInvalid) {
					t.Errorf("%s: %v", why, err)
				}
			}
		}
		for why, test := range map[string]struct {
			o    client.FailuresOptions
			want []string
		}{
			"the task and its request": {client.FailuresOptions{Since: before.Add(-time.Minute)}, []string{"request auth", "task auth"}},
			"the task alone":           {client.FailuresOptions{Kinds: []bus.FailureKind{bus.FailedTask, bus.FailedTool}}, []string{"task auth"}},
			"nothing failed since":     {client.FailuresOptions{Since: before.Add(time.Hour)}, nil},
		} {
			var got []string
			for f, err := range c.Failures(testContext(t), test.o) {
				if err != nil {
					t.Fatalf("%s: %v", why, err)
				}
				if f.Session == other.ID() {
					got = append(got, string(f.Kind)+" "+string(f.Status))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("%s: got %v, want %v", why, got, test.want)
			}
		}
		for _, kinds := range [][]bus.FailureKind{{"turn"}, {bus.FailedTask, ""}} {
			for f, err := range c.Failures(testContext(t), client.FailuresOptions{Kinds: kinds}) {
				if !client.IsCode(err, schemas.CodeInvalid) {
					t.Errorf("failures of %q: %+v, %v", kinds, f, err)
				}
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
