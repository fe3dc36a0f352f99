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
	if err := c.purgeFrames(ctx, ref, kindLog, kindLive); err != nil {
		return err
	}
	if err := c.purgeBeside(ctx, ref); err != nil {
		return err
	}
	if err := c.clearKeys(ctx, ref); err != nil {
		return fmt.Errorf("delete session %s: %w", ref, err)
	}
	return c.publishTail(ref, 0)
}

// purgeBeside removes what a session has beside its log: commands, deadlines, records of its calls, and
// blobs.
func (c *Conn) purgeBeside(ctx context.Context, ref schemas.SessionRef) error {
	err := c.purgeWork(ctx, ref)
	if err == nil {
		err = c.purgeBlobs(ctx, ref)
	}
	if err != nil {
		return fmt.Errorf("delete session %s: %w", ref, err)
	}
	return nil
}

// purgeBlobs removes the session's blobs. The pieces of each go before its description: if the deletion is
// interrupted, the description tells the next one what is left to remove.
func (c *Conn) purgeBlobs(ctx context.Context, ref schemas.SessionRef) error {
	names, err := c.listBlobs(ctx, sessionBlobs(ref))
	if err != nil {
		return err
	}
	for _, name := range names {
		blob, err := c.describeBlob(ctx, name)
		if errors.Is(err, errNotFound) {
			continue
		}
		if err == nil && blob.NUID != "" {
			err = c.purge(ctx, streamBlobs, objectChunks(blob.NUID))
		}
		if err == nil || errors.Is(err, errNoDescription) {
			err = c.removeBlob(ctx, blob)
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", name, err)
		}
	}
	return nil
}

// purgeWork removes commands, deadlines, and records of calls.
func (c *Conn) purgeWork(ctx context.Context, ref schemas.SessionRef) error {
	shard := c.Shard(ref)
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
	return nil
}

// clearKeys removes the keys by which engines find the session. They are the last to go, so that a deletion
// that is interrupted is found and completed.
func (c *Conn) clearKeys(ctx context.Context, ref schemas.SessionRef) error {
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

// purgeFrames removes the session's frames of some kinds.
func (c *Conn) purgeFrames(ctx context.Context, ref schemas.SessionRef, kinds ...string) error {
	shard := c.Shard(ref)
	for _, kind := range kinds {
		err := retryRead(ctx, func(ctx context.Context) error {
			return c.purge(ctx, sessionsStream(shard), frameSubject(ref, shard, kind))
		})
		if err != nil {
			return fmt.Errorf("delete session %s: %w", ref, err)
		}
	}
	return nil
}

// entombWithRoom is entomb, also in a store that is full: deleting makes room, but the claim that must come
// first needs some, so then a part of the purge goes before it. A try that timed out without the broker
// saying that it is full proves nothing, so each is given longer than the one before, until ctx ends.
func (c *Conn) entombWithRoom(ctx context.Context, ref schemas.SessionRef, instance string) error {
	tight := false
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
			if err := c.makeRoom(ctx, ref, tight); err != nil {
				return err
			}
			tight = true
		}
	}
}

// makeRoom removes what a session that is being deleted can lose before its claim says so. If this engine
// is lost meanwhile, the log tells the next owner that the session is to be deleted and which commands are
// done. So the log goes only if all is set, when nothing else made room, and after the commands: without
// the log they would be carried out once more.
func (c *Conn) makeRoom(ctx context.Context, ref schemas.SessionRef, all bool) error {
	if err := c.purgeBeside(ctx, ref); err != nil {
		return err
	}
	if err := c.purgeFrames(ctx, ref, kindLive); err != nil || !all {
		return err
	}
	return c.purgeFrames(ctx, ref, kindLog)
}

// entomb replaces the session's claim by one that says the session is deleted, if it does not say so yet.
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
