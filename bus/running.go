package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"braid/schemas"
)

// RunningKey says that a session is in motion at an instance.
type RunningKey struct {
	Instance string
	Session  schemas.SessionRef
	// Revision is what a delete of the key names, so that it never removes a newer one.
	Revision uint64
}

// runningKey names the key that says a session is in motion at an instance.
func runningKey(instance string, ref schemas.SessionRef) (string, error) {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return "", err
	}
	if err := ref.Validate(); err != nil {
		return "", err
	}
	return instance + "." + ref.Project + "." + ref.ID, nil
}

// MarkRunning stores the key that says a session is in motion here, and returns its revision.
func (c *Conn) MarkRunning(ctx context.Context, instance string, ref schemas.SessionRef) (uint64, error) {
	key, err := runningKey(instance, ref)
	if err != nil {
		return 0, err
	}
	return c.kvPut(ctx, bucketRunning, key, nil, 0)
}

// ClearRunning deletes a key at the revision that was read. A key that is gone is a success; one
// that was put again is left, and reported as a *[RevisionConflict].
func (c *Conn) ClearRunning(ctx context.Context, instance string, ref schemas.SessionRef, revision uint64) error {
	key, err := runningKey(instance, ref)
	if err != nil {
		return err
	}
	if revision == 0 {
		return fmt.Errorf("delete %s in %s: no revision was given", key, bucketRunning)
	}
	return c.kvPurge(ctx, bucketRunning, key, revision)
}

// RunningOf lists the sessions in motion at an instance. A replica may answer that lags: a key
// that is missing proves nothing.
func (c *Conn) RunningOf(ctx context.Context, instance string) ([]RunningKey, error) {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return nil, err
	}
	return c.listRunning(ctx, instance+".*.*")
}

// RunningAll lists the sessions in motion anywhere, like [Conn.RunningOf].
func (c *Conn) RunningAll(ctx context.Context) ([]RunningKey, error) {
	return c.listRunning(ctx, "*.*.*")
}

// listRunning lists the keys that match a filter.
func (c *Conn) listRunning(ctx context.Context, filter string) ([]RunningKey, error) {
	entries, err := c.kvList(ctx, bucketRunning, filter)
	if err != nil {
		return nil, err
	}
	return runningKeys(entries), nil
}

// runningKeys reads keys as they are stored; what others put into the bucket is left out.
func runningKeys(entries []kvEntry) []RunningKey {
	out := make([]RunningKey, 0, len(entries))
	for _, e := range entries {
		t := strings.Split(e.Key, ".")
		if len(t) != 3 {
			continue
		}
		out = append(out, RunningKey{Instance: t[0], Session: schemas.SessionRef{Project: t[1], ID: t[2]}, Revision: e.Revision})
	}
	return out
}

// ClearOthers deletes the keys that other instances left for a session. Only the engine that has claimed
// the session may call it, after [Conn.MarkRunning], whose revision it takes: it reads from a replica
// that has that key, so that it sees every key stored before. A key that was put later is left: it may be
// that of the next owner, and all by which the session can be found.
func (c *Conn) ClearOthers(ctx context.Context, ref schemas.SessionRef, self string, revision uint64) error {
	own, err := runningKey(self, ref)
	if err != nil {
		return err
	}
	entries, err := c.kvReadSince(ctx, bucketRunning, own, revision, "*."+ref.Project+"."+ref.ID)
	if err != nil {
		return err
	}
	var failed []error
	for _, key := range runningKeys(entries) {
		if key.Instance == self || key.Revision > revision {
			continue
		}
		err := c.ClearRunning(ctx, key.Instance, key.Session, key.Revision)
		var newer *RevisionConflict
		if err != nil && !errors.As(err, &newer) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
