package bustest

import (
	"net"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A port is found by one test at a time, whether it listens or not.
func TestPortsAreFoundOnce(t *testing.T) {
	port := FreePort(t)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("it is not free: %v", err)
	}
	l.Close()
	if mark, err := net.ListenPacket("udp", address); err == nil {
		mark.Close()
		t.Error("nothing keeps others from finding it")
	}
}
