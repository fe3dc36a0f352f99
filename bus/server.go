package bus

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// ServerOptions describes an embedded broker. The zero value of every field but StoreDir is
// usable.
type ServerOptions struct {
	// StoreDir is where streams are kept. One process at a time; it is created if missing.
	StoreDir string
	// SyncAlways makes every acknowledged write survive a power loss, at the cost of an fsync
	// each (grouped when several are in flight). Off, writes are flushed every SyncInterval.
	SyncAlways bool
	// SyncInterval is the time between fsyncs when SyncAlways is off; default 2 s. At a power
	// loss acknowledged writes of that stretch are gone.
	SyncInterval time.Duration
	// Host and Port open a listener. Port 0 opens none: only this process can connect. Port -1
	// takes a free one. Host defaults to 127.0.0.1.
	Host string
	Port int
	// Token is what clients must send; those of this process have it. Empty asks for none.
	Token string
	// MaxStore bounds what streams may take on disk, in bytes; past it appends fail with a clear
	// error while reads go on. 0 means what the store holds already plus 90 % of the space that
	// is free at start, so that a restart on a fuller disk still has room for what it has.
	MaxStore int64

	// Name is the server's name, needed in a cluster and unique there.
	Name string
	// Cluster makes the server one of several.
	Cluster *ClusterOptions

	// Log gets the server's own log lines at warn and above; the zero Logger discards.
	Log zerolog.Logger
}

// ClusterOptions makes an embedded server part of a cluster.
type ClusterOptions struct {
	Name   string
	Host   string
	Port   int
	Routes []string
}

// Server is a running embedded broker.
type Server struct {
	ns    *natsserver.Server
	lock  *os.File
	token string
}

// ErrStoreInUse says that another process has the store directory open.
var ErrStoreInUse = errors.New("the broker's store directory is in use by another process")

// maxPayload is the largest message that an embedded broker takes, in bytes.
const maxPayload = 1 << 20

// startTimeout bounds how long a server may take to become ready, recovery of its streams
// included.
const startTimeout = 60 * time.Second

// StartEmbedded runs a broker in this process until Shutdown. The server owns its goroutines.
func StartEmbedded(o ServerOptions) (*Server, error) {
	lock, err := lockStore(o.StoreDir)
	if err != nil {
		return nil, err
	}
	so, err := o.serverOptions()
	if err != nil {
		lock.Close()
		return nil, err
	}
	ns, err := natsserver.NewServer(so)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("start broker: %w", err)
	}
	log := &serverLog{log: o.Log}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if err := awaitReady(ns, log); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		lock.Close()
		return nil, fmt.Errorf("start broker: %w", err)
	}
	return &Server{ns: ns, lock: lock, token: o.Token}, nil
}

// awaitReady waits until the server takes connections, or has said why it can't.
func awaitReady(ns *natsserver.Server, log *serverLog) error {
	for begun := time.Now(); !ns.ReadyForConnections(100 * time.Millisecond); {
		if failure := log.failure.Load(); failure != nil {
			return *failure
		}
		if time.Since(begun) > startTimeout {
			return fmt.Errorf("not ready after %s", startTimeout)
		}
	}
	return nil
}

// Shutdown stops the server and waits until it has. Clients of a listener are told first.
func (s *Server) Shutdown() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	s.lock.Close()
}

// URL is where clients of the listener connect; empty without one.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// inProcess are the options that connect a client of this process without a socket.
func (s *Server) inProcess() []nats.Option {
	options := []nats.Option{nats.InProcessServer(s.ns)}
	if s.token != "" {
		options = append(options, nats.Token(s.token))
	}
	return options
}

// serverOptions are the options of nats-server that o amounts to.
func (o ServerOptions) serverOptions() (*natsserver.Options, error) {
	so := &natsserver.Options{
		ServerName:             o.Name,
		JetStream:              true,
		StoreDir:               o.StoreDir,
		SyncAlways:             o.SyncAlways,
		SyncInterval:           o.SyncInterval,
		JetStreamMaxStore:      o.MaxStore,
		MaxPayload:             maxPayload,
		Host:                   o.Host,
		Port:                   o.Port,
		DontListen:             o.Port == 0,
		Authorization:          o.Token,
		NoSigs:                 true,
		NoSystemAccount:        o.Cluster == nil,
		DisableShortFirstPing:  true,
		DisableJetStreamBanner: true,
	}
	if so.SyncInterval <= 0 {
		so.SyncInterval = 2 * time.Second
	}
	if so.Host == "" {
		so.Host = "127.0.0.1"
	}
	if so.JetStreamMaxStore <= 0 {
		room, err := storeRoom(o.StoreDir)
		if err != nil {
			return nil, fmt.Errorf("start broker: %w", err)
		}
		so.JetStreamMaxStore = room
	}
	if c := o.Cluster; c != nil {
		so.Cluster = natsserver.ClusterOpts{Name: c.Name, Host: c.Host, Port: c.Port}
		for _, r := range c.Routes {
			u, err := url.Parse(r)
			if err != nil {
				return nil, fmt.Errorf("start broker: route %q: %w", r, err)
			}
			so.Routes = append(so.Routes, u)
		}
	}
	return so, nil
}

// lockStore makes the directory and takes a lock that the system drops when the process ends,
// however it ends; nothing is ever stolen or deleted.
func lockStore(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "braid.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	// A process that is being started by this one, or by the one that had the lock, holds a copy of
	// the descriptor for an instant, until it runs its program: a refusal has to stand to count.
	for try := 0; ; try++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if try == lockTries {
			f.Close()
			return nil, fmt.Errorf("start broker in %s: %w", dir, ErrStoreInUse)
		}
		<-time.After(lockPause) // short, and nothing else can be done meanwhile
	}
}

const (
	lockTries = 20
	lockPause = 25 * time.Millisecond
)

// storeRoom is what the store holds plus 90 % of what is free.
func storeRoom(dir string) (int64, error) {
	held, err := storeHolds(dir)
	if err != nil {
		return 0, err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return held + int64(fs.Bavail)*int64(fs.Bsize)/10*9, nil //nolint:unconvert // Bsize has other sizes elsewhere
}

// storeHolds is how many bytes the files of a store have.
func storeHolds(dir string) (held int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			held += info.Size()
		}
		return nil
	})
	return held, err
}

// serverLog hands the server's complaints to zerolog. Its notices and traces are dropped: they
// say nothing a user of Braid can act on.
type serverLog struct {
	log     zerolog.Logger
	failure atomic.Pointer[error] // why the server can't go on
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

// Warnf reports a warning. That what the server keeps beside a stream's messages is older than these, and
// is made anew, is none to people: it follows each kill of the process before.
func (l *serverLog) Warnf(format string, v ...any) {
	level := zerolog.WarnLevel
	if strings.Contains(format, " outdated") {
		level = zerolog.InfoLevel
	}
	l.log.WithLevel(level).Msgf("broker: "+format, v...)
}

func (l *serverLog) Errorf(format string, v ...any) { l.log.Error().Msgf("broker: "+format, v...) }

func (l *serverLog) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	l.failure.CompareAndSwap(nil, &err)
	l.log.Error().Err(err).Msg("broker: it can't go on")
}
