package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/gateway"
	"braid/schemas"
)

// BenchmarkFragmentToSSE measures the way of a piece of tool output from the tool, in another
// process, to the client of an event stream: one operation is one piece. Beside it stands the
// bare hop, from appending a frame to a watcher on the feed, measured in the same run.
func BenchmarkFragmentToSSE(b *testing.B) {
	for _, sync := range []string{"always", "lazy"} {
		b.Run("sync="+sync, func(b *testing.B) {
			script := fmt.Sprintf("count: prompt\nturns:\n  - steps:\n      - tool_call: {name: clock, arguments: {times: %d}}\n  - steps: [{text: done}]\n", b.N)
			s := start(b, sync == "always", script)
			url := serveGateway(b, s)
			ref := schemas.SessionRef{Project: "default", ID: "clock"}
			s.create(b, ref)
			hops := s.hops(b, min(max(b.N, 20), 2000))
			b.ResetTimer()
			delays := s.clockDelays(b, url, ref)
			b.StopTimer()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(quantile(delays, 0.50), "p50-µs")
			b.ReportMetric(quantile(delays, 0.99), "p99-µs")
			b.ReportMetric(quantile(hops, 0.50), "hop-p50-µs")
			b.ReportMetric(quantile(hops, 0.99), "hop-p99-µs")
		})
	}
}

func serveGateway(b *testing.B, s *stack) string {
	b.Helper()
	g, err := gateway.New(gateway.Options{Conn: connect(b, s.server), Token: "t", Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, listener) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// clockDelays runs a task whose tool says the time, and returns how late each piece arrived.
func (s *stack) clockDelays(b *testing.B, url string, ref schemas.SessionRef) []time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/sessions/"+ref.ID+"/stream", nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer t")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.Fatal(response.Status)
	}
	s.send(b, schemas.Command{ID: "t", Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "go"}})
	var delays []time.Duration
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		arrived := time.Now()
		m, err := schemas.Decode([]byte(strings.TrimSpace(data)))
		if err != nil {
			continue // control
		}
		switch p := m.Payload.(type) {
		case *schemas.PartialToolCallOutput:
			for line := range strings.Lines(p.Output) {
				if at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
					delays = append(delays, arrived.Sub(time.Unix(0, at)))
				}
			}
		case *schemas.TaskEnd:
			return delays
		}
	}
	b.Fatalf("the stream ended: %v", lines.Err())
	return nil
}

// hops measures bare appends as a watcher sees them.
func (s *stack) hops(b *testing.B, n int) []time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ref := schemas.SessionRef{Project: "default", ID: "hops"}
	owner, err := s.conn.Claim(ctx, ref, bus.ClaimRequest{Instance: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	f, err := connect(b, s.server).Follow(ctx, ref, bus.FollowOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	delays := make([]time.Duration, 0, n)
	for range n {
		at := time.Now()
		if _, err := owner.Append(ctx, fragment(at), 0); err != nil {
			b.Fatal(err)
		}
		for seen := false; !seen; {
			ev, err := f.Next(ctx)
			if err != nil {
				b.Fatal(err)
			}
			_, seen = ev.(bus.Frame)
		}
		delays = append(delays, time.Since(at))
	}
	return delays
}

// fragment is a whole streamed segment: a watcher who joined in its middle would not be shown it.
func fragment(at time.Time) []schemas.Message {
	return []schemas.Message{
		schemas.New(at, schemas.TextFragment(schemas.PhaseStart, "")),
		schemas.New(at, schemas.TextFragment(schemas.PhaseDelta, "x")),
		schemas.New(at, schemas.TextFragment(schemas.PhaseStop, "")),
	}
}

// quantile is in microseconds.
func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return float64(d[min(int(q*float64(len(d))), len(d)-1)].Nanoseconds()) / 1e3
}
