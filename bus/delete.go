package bus

import (
	"context"
	"errors"
	"fmt"

	"braid/schemas"
)

// DeleteSession removes a session for good: its frames, its blobs, what it was asked and the
// records of its calls, everything but a claim that says so. The claim comes first, so that whoever
// owns the session is fenced and nothing can be appended behind the purge. Deleting again finishes
// what was interrupted.
func (c *Conn) DeleteSession(ctx context.Context, ref schemas.SessionRef, instance string) error {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return err
	}
	if err := c.entombWithRoom(ctx, ref, instance); err != nil {
		return err
	}
	if err := c.purgeFrames(ctx, ref); err != nil {
		return err
	}
	blobs, err := c.listBlobs(ctx, sessionBlobs(ref))
	if err != nil {
		return fmt.Errorf("delete session %s: %w", ref, err)
	}
	for _, blob := range blobs {
		if err := c.deleteBlob(ctx, blob.Name); err != nil {
			return fmt.Errorf("delete session %s: %w", ref, err)
		}
	}
	if err := c.purgeWork(ctx, ref); err != nil {
		return fmt.Errorf("delete session %s: %w", ref, err)
	}
	return c.publishTail(ref, 0)
}

// purgeWork removes what there is of a session beside its log: records of its calls, commands and
// deadlines, and last the keys by which engines find it, so that whoever is lost on the way is found.
func (c *Conn) purgeWork(ctx context.Context, ref schemas.SessionRef) error {
	shard := c.shard(ref)
	for subject, stream := range map[string]string{
		outputSubject(ref, shard, "*"):   outputsStream(shard),
		commandSubject(ref, LaneRun):     streamCommands,
		commandSubject(ref, LaneControl): streamCommands,
		scheduleSubject(ref, "*"):        streamCommands,
	} {
		if err := retryRead(ctx, func(ctx context.Context) error { return c.purge(ctx, stream, subject) }); err != nil {
			return err
		}
	}
	keys, err := c.listRunning(ctx, "*."+ref.Project+"."+ref.ID)
	if err != nil {
		return err
	}
	for _, key := range keys {
		var newer *RevisionConflict
		err := c.ClearRunning(ctx, key.Instance, key.Session, key.Revision)
		if err != nil && !errors.As(err, &newer) {
			return err
		}
	}
	return nil
}

// purgeFrames removes all frames of a session.
func (c *Conn) purgeFrames(ctx context.Context, ref schemas.SessionRef) error {
	shard := c.shard(ref)
	for _, kind := range []string{kindLog, kindLive} {
		err := retryRead(ctx, func(ctx context.Context) error {
			return c.purge(ctx, sessionsStream(shard), frameSubject(ref, shard, kind))
		})
		if err != nil {
			return fmt.Errorf("delete session %s: %w", ref, err)
		}
	}
	return nil
}

// entombWithRoom is entomb, also in a store that is full: deleting makes room, but the claim needs
// some, so the purge goes first then. A try that ends with no word of that says nothing, so each
// is given longer than the one before, until ctx ends.
func (c *Conn) entombWithRoom(ctx context.Context, ref schemas.SessionRef, instance string) error {
	for wait := tryTimeout; ; wait *= 2 {
		attempt, cancel := context.WithTimeout(ctx, wait)
		err := c.entomb(attempt, ref, instance)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if errors.Is(err, ErrStorageFull) {
			if err := c.purgeFrames(ctx, ref); err != nil {
				return err
			}
		}
	}
}

// entomb replaces the session's claim by one that says it is deleted.
func (c *Conn) entomb(ctx context.Context, ref schemas.SessionRef, instance string) error {
	for {
		last, _, err := c.LastClaim(ctx, ref)
		if err != nil {
			return fmt.Errorf("delete session %s: %w", ref, err)
		}
		if last.State == ClaimDeleted {
			return nil
		}
		body := claimBody{Version: 1, Instance: instance, Nonce: newNonce(), State: ClaimDeleted}
		_, err = c.putClaim(ctx, ref, body, last.Sequence)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrClaimLost) {
			return fmt.Errorf("delete session %s: %w", ref, err)
		}
	}
}
