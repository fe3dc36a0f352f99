package client_test

import (
	"strings"
	"testing"

	"braid/client"
	"braid/schemas"
)

// A trace becomes a session that goes on like any other; one that is torn is refused, or goes without
// its last line.
func TestImport(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		if _, err := s.Run(ctx, client.Prompt("hello")); err != nil {
			t.Fatal(err)
		}
		var trace strings.Builder
		if err := s.Export(ctx, &trace); err != nil {
			t.Fatal(err)
		}
		torn := []byte(trace.String() + `{"timestamp":"2026`)
		if _, err := c.Import(ctx, torn, client.ImportOptions{}); !client.IsCode(err, schemas.CodeInvalid) {
			t.Errorf("a torn trace: %v", err)
		}
		for range 2 { // the same key makes one session
			again, err := c.Import(ctx, torn, client.ImportOptions{Lenient: true, ApprovalMode: schemas.ApproveNone}, client.Key("copy-of-"+s.ID()[:8]))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := again.Run(ctx, client.Prompt("go on"), client.Key("second")); err != nil {
				t.Error(err)
			}
			if info, err := again.Info(ctx); err != nil || info.Tasks != 2 || info.ApprovalMode != schemas.ApproveNone {
				t.Errorf("got %+v %v", info, err)
			}
		}
	})
	c := client.New(client.HTTP(w.url, token))
	defer c.Close()
	if err := c.Ping(testContext(t)); err != nil {
		t.Error(err)
	}
	nowhere := client.New(client.HTTP("http://127.0.0.1:1", token))
	if err := nowhere.Ping(testContext(t)); !client.IsCode(err, schemas.CodeUnavailable) {
		t.Errorf("nobody listens there: %v", err)
	}
}
