package toolrunner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/schemas"
)

// ServeOptions say what [Serve] offers to whom.
type ServeOptions struct {
	// Instance names this toolrunner; a random name. A name of one's own must be new with each
	// start: engines tell by it that a toolrunner was lost, with the calls it had started.
	Instance string
	// Projects are whose calls it runs; "default".
	Projects []string
	// Pool is where a tool is whose definition names none; "default". All toolrunners of a pool
	// must offer the same tools in it. Each also serves a pool of its own, [PrivatePool], with
	// all its tools.
	Pool string
	// Volume names a shared volume: all toolrunners of that name have the same files in the same
	// places. A session whose files are there is served by any of them, also by one that was started
	// later. Without one a session's files are on this toolrunner alone, for as long as it lives.
	Volume string
	// Tools are what it offers.
	Tools []Tool
	// Slots is how many calls run at once, of all projects and pools together; 4.
	Slots int
	// Limits hold for every call. A request's own timeout and output cap replace theirs.
	Limits Limits
	// Drain is how long calls may go on after the context has ended. Then they are aborted.
	Drain time.Duration
	// Ready, if set, is called once: when engines can find the tools.
	Ready func()
	// Events are told what it does.
	Events Events
	// Log gets what the people who run it should know.
	Log zerolog.Logger

	// ackWait is how long the broker waits for a call to be acknowledged; see bus.
	ackWait time.Duration
	// closeBound is how long each step of the end may take while the broker is away; 3 s.
	closeBound time.Duration
}

const (
	// openBound is how long the broker may take to let a toolrunner begin.
	openBound = 30 * time.Second
	// defaultCloseBound is how long each step of its end may take.
	defaultCloseBound = 3 * time.Second
	// healthPause is the time between two looks at a proof of life that has failed.
	healthPause = 100 * time.Millisecond
)

// PrivatePool is the pool that addresses one toolrunner: calls queued there run on it alone.
func PrivatePool(instance string) string { return schemas.PrivatePool(instance) }

func (o ServeOptions) withDefaults() (ServeOptions, error) {
	if o.Instance == "" {
		o.Instance = strings.ToLower(rand.Text())
	}
	if len(o.Projects) == 0 {
		o.Projects = []string{"default"}
	}
	if o.Pool == "" {
		o.Pool = schemas.DefaultPool
	}
	if o.Slots <= 0 {
		o.Slots = defaultSlots
	}
	if o.closeBound <= 0 {
		o.closeBound = defaultCloseBound
	}
	names := map[string][]string{
		"instance": {PrivatePool(o.Instance)}, "project": o.Projects, "pool": {o.Pool},
	}
	if o.Volume != "" {
		names["volume"] = []string{schemas.VolumePool(o.Volume)}
	}
	for field, values := range names {
		for _, value := range values {
			if err := schemas.ValidateName(field, value); err != nil {
				return o, err
			}
		}
	}
	if len(o.Tools) == 0 {
		return o, errors.New("there are none")
	}
	o.Tools = slices.Clone(o.Tools)
	for i := range o.Tools {
		if o.Tools[i].Definition.Pool == "" {
			o.Tools[i].Definition.Pool = o.Pool
		}
		o.Tools[i].Definition = o.Tools[i].Definition.WithDefaults()
	}
	return o, nil
}

// pools are the pools of the tools and of the volume, without the private one.
func (o ServeOptions) pools() []string {
	var pools []string
	if o.Volume != "" {
		pools = append(pools, schemas.VolumePool(o.Volume))
	}
	for _, tool := range o.Tools {
		pools = append(pools, tool.Definition.Pool)
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}

// Serve offers tools over the broker and runs their calls until ctx ends. Then it takes no more
// calls, lets those that run go on for [ServeOptions.Drain], aborts the rest, and withdraws what
// it had announced. It returns nil if all calls have ended by then, with their results stored.
//
// Each call is started at most once, by whichever toolrunner stores its started record first.
// Serve proves through the broker that this toolrunner lives. While that fails it starts no
// calls, for their owners may think them lost; those that run go on. A result that comes too late
// is dropped, with a word in the log.
//
// It owns all goroutines it starts and waits for them, except those of tools that do not stop.
// conn is the caller's, to be closed afterwards.
func Serve(ctx context.Context, conn *bus.Conn, o ServeOptions) error {
	o, err := o.withDefaults()
	if err != nil {
		return fmt.Errorf("serve tools: %w", err)
	}
	s, err := newServer(conn, o)
	if err != nil {
		return fmt.Errorf("serve tools: %w", err)
	}
	queues, err := s.open(ctx)
	if err != nil {
		closed := s.close(ctx)
		if ctx.Err() != nil { // asked to end before it had begun
			return closed
		}
		return errors.Join(fmt.Errorf("serve tools: %w", err), closed)
	}
	o.Log.Info().Str("toolrunner", o.Instance).Strs("projects", o.Projects).Strs("pools", o.pools()).
		Int("tools", len(o.Tools)).Int("slots", o.Slots).Msg("serving tools")
	if o.Events.Serving != nil {
		o.Events.Serving(s.serving())
	}
	if o.Ready != nil {
		o.Ready()
	}
	s.work(ctx, queues)
	o.Log.Info().Str("toolrunner", o.Instance).Dur("drain", o.Drain).Msg("no longer serving tools")
	return s.close(ctx)
}

// server is a toolrunner at work.
type server struct {
	conn    *bus.Conn
	options ServeOptions
	log     zerolog.Logger
	runner  *Runner
	resends *resends

	beat        *bus.Beat
	stopControl func()
	// limit ends when the server gives up on what it still wants the broker to do.
	limit  context.Context //nolint:containedctx // it is the server's own life, not a caller's
	giveUp context.CancelFunc
}

func newServer(conn *bus.Conn, o ServeOptions) (*server, error) {
	runner, err := NewRunner(RunnerOptions{Tools: o.Tools, Slots: o.Slots, Limits: o.Limits, Events: o.Events, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s := &server{
		conn: conn, options: o, log: o.Log, runner: runner,
		resends: newResends(conn, runner.Slots(), o.Log),
	}
	s.limit, s.giveUp = context.WithCancel(context.Background())
	return s, nil
}

// open makes the toolrunner known: first that it lives, last what it offers.
func (s *server) open(ctx context.Context) (queues []Queue, err error) {
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	if s.beat, err = s.conn.StartBeat(ctx, bus.KindToolrunner, s.options.Instance, nil); err != nil {
		return nil, err
	}
	if s.stopControl, err = s.conn.ServeControl(s.options.Instance, s.control); err != nil {
		return nil, err
	}
	for _, project := range s.options.Projects {
		for _, pool := range s.options.pools() {
			q, err := s.conn.ToolQueue(ctx, project, pool, bus.ToolQueueOptions{AckWait: s.options.ackWait})
			if err != nil {
				return nil, err
			}
			queues = append(queues, &queue{s: s, calls: q, pool: pool})
		}
		q, err := s.conn.ToolQueue(ctx, project, PrivatePool(s.options.Instance), bus.ToolQueueOptions{AckWait: s.options.ackWait, Private: true})
		if err != nil {
			return nil, err
		}
		queues = append(queues, &queue{s: s, calls: q})
	}
	return queues, s.announce(ctx)
}

// announce tells engines what there is.
func (s *server) announce(ctx context.Context) error {
	serving := s.serving()
	a := bus.Announcement{Instance: serving.Instance, Slots: serving.Slots, Pools: serving.Pools}
	for _, tool := range s.options.Tools {
		a.Tools = append(a.Tools, tool.Definition)
	}
	for _, project := range s.options.Projects {
		a.Project = project
		if err := s.conn.Announce(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// serving is what the toolrunner offers to whom.
func (s *server) serving() Serving {
	o := s.options
	return Serving{
		Instance: o.Instance, Projects: o.Projects, Slots: o.Slots, Pools: append(o.pools(), PrivatePool(o.Instance)),
	}
}

// work takes calls until ctx ends.
func (s *server) work(ctx context.Context, queues []Queue) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, q := range queues {
		wg.Go(func() { s.runner.Run(ctx, q) })
	}
	again := time.NewTicker(bus.AnnounceEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := s.announce(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn().Err(err).Msg("the tools could not be announced again")
			}
		case <-ctx.Done():
			return
		}
	}
}

// close ends everything, in the order in which others must learn of it: nothing new is sent
// here, the calls end, and only then does the toolrunner count as gone.
func (s *server) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var withdrawn sync.WaitGroup
	for _, project := range s.options.Projects {
		withdrawn.Go(func() {
			s.bounded(ctx, "withdraw the announcement", func(ctx context.Context) error {
				return s.conn.Unannounce(ctx, project, s.options.Instance)
			})
		})
	}
	err := s.stopCalls(ctx)
	withdrawn.Wait()
	if s.stopControl != nil {
		s.stopControl()
	}
	s.resends.stop()
	if s.beat != nil {
		s.bounded(ctx, "end the proof of life", s.beat.Stop)
	}
	return err
}

// stopCalls drains the slots, then aborts what is left, then gives up on the broker.
func (s *server) stopCalls(ctx context.Context) error {
	slots := s.runner.Slots()
	defer s.giveUp()
	drain, cancel := context.WithTimeout(ctx, s.options.Drain)
	defer cancel()
	if slots.Drain(drain) == nil {
		return nil
	}
	abort, cancel := context.WithTimeout(ctx, s.options.Limits.withDefaults().Grace+s.options.closeBound)
	defer cancel()
	err := slots.Stop(abort)
	s.giveUp()
	if err != nil { // calls whose results could not be stored end now
		last, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if stuck := slots.Stop(last); stuck != nil {
			err = stuck
		}
	}
	return err
}

// bounded does something that is nice to have done.
func (s *server) bounded(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.closeBound)
	defer cancel()
	if err := do(ctx); err != nil {
		s.log.Warn().Err(err).Msg(what)
	}
}
