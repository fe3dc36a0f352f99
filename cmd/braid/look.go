package main

import (
	"cmp"
	"context"
	"errors"

	"braid/client"
	"braid/engine"
)

// startLooking starts what shows what is recorded, as it stands: a broker, and a reader of the trace. No
// session goes on meanwhile.
func startLooking(ctx context.Context, o stackOptions) (_ *stack, err error) {
	dir, err := o.DataDir()
	if err != nil {
		return nil, err
	}
	s := &stack{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
		}
	}()
	server, err := s.startBroker(o, dir)
	if err != nil {
		return nil, err
	}
	store, err := s.openTrace(o, dir)
	if err != nil {
		return nil, err
	}
	conn, err := s.connect(ctx, o, server, "braid-look")
	if err != nil {
		return nil, err
	}
	reader, err := engine.StartReader(ctx, engine.ReaderOptions{Conn: conn, Trace: store, Log: o.log})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func(context.Context) error { reader.Stop(); return nil })
	s.reached = client.NATS(conn, cmp.Or(o.project, "default"))
	return s, nil
}
