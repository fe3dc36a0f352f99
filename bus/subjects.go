package bus

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"braid/schemas"
)

// This file holds every subject and stream name, the patterns streams and permissions use, and
// the parsers. Project names and ids are valid names (see schemas.ValidName), so no token ever
// needs escaping and no wildcard can hide in one; every entry point of the package checks that
// before it builds a subject.
//
//	braid.<project>.session.<shard>.<id>.{log,live}   stored frames
//	braid.<project>.owner.<shard>.<id>                claims
//	braid.<project>.feed.<id>.{log,live,tail}         what watchers subscribe to
//	braid.<project>.command.{run,ctl}.<id>            commands
//	braid.<project>.command.at.<id>.<call>            schedules that become commands
//	braid.<project>.tool.<pool>.<name>                queued tool calls
//	braid.<project>.output.<shard>.<id>.<call>        call records
//	braid.<project>.record.<id>.<call>                the same, republished as a hint
//	braid.<project>.fragment.<id>                     output of running calls, core NATS
//	braid.engine.<instance>.deliver                   an engine hands a wake-up to the owner
//	braid.toolrunner.<instance>.control               cancel, resend
//	braid.query                                       questions to any engine

const (
	streamCommands = "COMMANDS"
	streamTools    = "TOOLS"

	bucketRegistry  = "REGISTRY"
	bucketInstances = "INSTANCES"
	bucketRunning   = "RUNNING"
	bucketBlobs     = "BLOBS"

	kindLog  = "log"
	kindLive = "live"
	kindTail = "tail"

	subjectQuery = "braid.query"
)

func sessionsStream(shard int) string { return "SESSIONS-" + strconv.Itoa(shard) }
func outputsStream(shard int) string  { return "OUTPUTS-" + strconv.Itoa(shard) }

// shardOf is the shard a session lives in: FNV-1a of its id, modulo the count that was fixed
// when the cluster was made.
func shardOf(ref schemas.SessionRef, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(ref.ID))
	return int(h.Sum32() % uint32(shards))
}

func frameSubject(ref schemas.SessionRef, shard int, kind string) string {
	return fmt.Sprintf("braid.%s.session.%d.%s.%s", ref.Project, shard, ref.ID, kind)
}

func ownerSubject(ref schemas.SessionRef, shard int) string {
	return fmt.Sprintf("braid.%s.owner.%d.%s", ref.Project, shard, ref.ID)
}

// logSubjects match what a trace of a shard is made from: recorded frames, and claims, which
// tell of deleted sessions.
func logSubjects(shard int) []string {
	return []string{
		fmt.Sprintf("braid.*.session.%d.*.%s", shard, kindLog),
		fmt.Sprintf("braid.*.owner.%d.*", shard),
	}
}

// FeedSubject is where a session's stored frames (kinds "log" and "live") and tail marks
// ("tail") are published; kind "*" subscribes to all three.
func FeedSubject(ref schemas.SessionRef, kind string) string {
	return fmt.Sprintf("braid.%s.feed.%s.%s", ref.Project, ref.ID, kind)
}

// projectSubject is the feed of all sessions of a project, of one kind.
func projectSubject(project, kind string) string {
	return fmt.Sprintf("braid.%s.feed.*.%s", project, kind)
}

// refFromFeedSubject parses the subject of a feed.
func refFromFeedSubject(subject string) (schemas.SessionRef, error) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || t[0] != "braid" || t[2] != "feed" {
		return schemas.SessionRef{}, fmt.Errorf("subject %q names no feed", subject)
	}
	return schemas.SessionRef{Project: t[1], ID: t[3]}, nil
}

func commandSubject(ref schemas.SessionRef, lane Lane) string {
	return fmt.Sprintf("braid.%s.command.%s.%s", ref.Project, lane, ref.ID)
}

func scheduleSubject(ref schemas.SessionRef, call string) string {
	return fmt.Sprintf("braid.%s.command.at.%s.%s", ref.Project, ref.ID, call)
}

func toolSubject(project, pool, name string) string {
	return fmt.Sprintf("braid.%s.tool.%s.%s", project, pool, name)
}

func outputSubject(ref schemas.SessionRef, shard int, call string) string {
	return fmt.Sprintf("braid.%s.output.%d.%s.%s", ref.Project, shard, ref.ID, call)
}

func recordSubject(ref schemas.SessionRef, call string) string {
	return fmt.Sprintf("braid.%s.record.%s.%s", ref.Project, ref.ID, call)
}

func fragmentSubject(ref schemas.SessionRef) string {
	return fmt.Sprintf("braid.%s.fragment.%s", ref.Project, ref.ID)
}

func deliverSubject(instance string) string { return "braid.engine." + instance + ".deliver" }
func controlSubject(instance string) string { return "braid.toolrunner." + instance + ".control" }

// refFromFrameSubject parses the subject of a stored frame: its session and kind.
func refFromFrameSubject(subject string) (ref schemas.SessionRef, kind string, err error) {
	t := strings.Split(subject, ".")
	if len(t) != 6 || t[0] != "braid" || t[2] != "session" {
		return ref, "", fmt.Errorf("subject %q names no frame", subject)
	}
	return schemas.SessionRef{Project: t[1], ID: t[4]}, t[5], nil
}

// refFromOwnerSubject parses the subject of a claim.
func refFromOwnerSubject(subject string) (schemas.SessionRef, error) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || t[0] != "braid" || t[2] != "owner" {
		return schemas.SessionRef{}, fmt.Errorf("subject %q names no claim", subject)
	}
	return schemas.SessionRef{Project: t[1], ID: t[4]}, nil
}

// refFromCommandSubject parses the subject of a command.
func refFromCommandSubject(subject string) (schemas.SessionRef, Lane, error) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || t[0] != "braid" || t[2] != "command" {
		return schemas.SessionRef{}, "", fmt.Errorf("subject %q names no command", subject)
	}
	return schemas.SessionRef{Project: t[1], ID: t[4]}, Lane(t[3]), nil
}
