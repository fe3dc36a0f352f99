package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Topology describes the streams and buckets Braid lives on. The zero value means the defaults.
// What exists already is never changed: a difference is an error that names it, since a shard
// count or an age changed under a running system loses data silently.
type Topology struct {
	// Shards is the number of session streams, fixed when the cluster is made. 0 takes what
	// exists, or 8.
	Shards int
	// Replicas is the number of copies of every stream. 0 takes what exists, or 3 on a clustered
	// broker and 1 on a single one.
	Replicas int
	// LiveTTL is how long fragments stay readable for watchers that come back, in whole seconds;
	// fixed when the cluster is made, so that every engine knows what has expired. 0 takes what
	// exists, or 1 h.
	LiveTTL time.Duration
	// OutputAge is how long call records are kept; default 7 days. Queued tool calls live less
	// than half of it, so that a call can't outlast the record that guards it.
	OutputAge time.Duration
}

// ErrTopology says that an existing stream or bucket is not what Braid expects.
var ErrTopology = errors.New("the broker's streams differ from what this process expects")

const (
	defaultShards = 8
	dedupWindow   = 2 * time.Minute
	markerTTL     = time.Minute

	metaEpoch  = "braid.epoch"
	metaFormat = "braid.format"
	metaShards = "braid.shards"
	metaLive   = "braid.live_ttl"

	defaultLiveTTL = time.Hour

	formatVersion = "1"
)

func (t Topology) withDefaults() Topology {
	if t.OutputAge <= 0 {
		t.OutputAge = 7 * 24 * time.Hour
	}
	return t
}

// newEpoch names an incarnation of a stream.
func newEpoch() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// sessions is the stream of a shard's frames and claims.
func (t Topology) sessions(shard int) jetstream.StreamConfig {
	s := strconv.Itoa(shard)
	return jetstream.StreamConfig{
		Name:        sessionsStream(shard),
		Description: "ordered session streams and their ownership",
		Subjects: []string{
			"braid.*.session." + s + ".*.log",
			"braid.*.session." + s + ".*.live",
			"braid.*.owner." + s + ".*",
		},
		Storage:     jetstream.FileStorage,
		Replicas:    t.Replicas,
		Discard:     jetstream.DiscardNew,
		Duplicates:  dedupWindow,
		AllowRollup: true,
		AllowDirect: true,
		AllowMsgTTL: true,
		RePublish: &jetstream.RePublish{
			Source:      "braid.*.session." + s + ".*.*",
			Destination: "braid.{{wildcard(1)}}.feed.{{wildcard(2)}}.{{wildcard(3)}}",
		},
		Metadata: t.metadata(),
	}
}

// outputs is the stream of the call records of a shard's sessions.
func (t Topology) outputs(shard int) jetstream.StreamConfig {
	s := strconv.Itoa(shard)
	return jetstream.StreamConfig{
		Name:        outputsStream(shard),
		Description: "what must survive of tool calls",
		Subjects:    []string{"braid.*.output." + s + ".*.*"},
		Storage:     jetstream.FileStorage,
		Replicas:    t.Replicas,
		Discard:     jetstream.DiscardOld,
		MaxAge:      t.OutputAge,
		Duplicates:  dedupWindow,
		AllowDirect: true,
		RePublish: &jetstream.RePublish{
			Source:      "braid.*.output." + s + ".*.*",
			Destination: "braid.{{wildcard(1)}}.record.{{wildcard(2)}}.{{wildcard(3)}}",
		},
		Metadata: t.metadata(),
	}
}

// commands is the stream of commands and of those that are scheduled.
func (t Topology) commands() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              streamCommands,
		Description:       "what sessions are asked to do",
		Subjects:          []string{"braid.*.command.>"},
		Storage:           jetstream.FileStorage,
		Replicas:          t.Replicas,
		Discard:           jetstream.DiscardOld, // with discard new the broker refuses schedules
		Duplicates:        dedupWindow,
		AllowRollup:       true,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		AllowMsgSchedules: true,
		Metadata:          t.metadata(),
	}
}

// tools is the work queue of tool calls.
func (t Topology) tools() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        streamTools,
		Description: "tool calls waiting for a toolrunner",
		Subjects:    []string{"braid.*.tool.*.*"},
		Retention:   jetstream.WorkQueuePolicy,
		Storage:     jetstream.FileStorage,
		Replicas:    t.Replicas,
		Discard:     jetstream.DiscardOld,
		MaxAge:      t.OutputAge * 2 / 5,
		Duplicates:  dedupWindow,
		AllowDirect: true,
		Metadata:    t.metadata(),
	}
}

// metadata is what every stream says of the cluster it was made for.
func (t Topology) metadata() map[string]string {
	return map[string]string{metaFormat: formatVersion, metaShards: strconv.Itoa(t.Shards), metaLive: ttl(t.LiveTTL)}
}

// ensureTopology creates what is missing and checks what exists. It fills in the topology that
// is in force and the epoch of each session stream.
func (c *Conn) ensureTopology(ctx context.Context, want Topology) error {
	t := want.withDefaults()
	if err := c.adoptExisting(ctx, &t); err != nil {
		return err
	}
	configs := []jetstream.StreamConfig{t.commands(), t.tools()}
	for shard := range t.Shards {
		configs = append(configs, t.sessions(shard), t.outputs(shard))
	}
	epochs := make([]string, t.Shards)
	for _, config := range configs {
		epoch, err := c.ensureStream(ctx, config)
		if err != nil {
			return err
		}
		if shard, ok := strings.CutPrefix(config.Name, "SESSIONS-"); ok {
			n, _ := strconv.Atoi(shard)
			epochs[n] = epoch
		}
	}
	c.topology = t
	c.mu.Lock()
	c.mu.epochs = epochs
	c.mu.Unlock()
	return c.ensureBuckets(ctx)
}

// adoptExisting takes over what the cluster was made with: the shard and replica counts, and how
// long fragments live.
func (c *Conn) adoptExisting(ctx context.Context, t *Topology) error {
	stream, err := c.js.Stream(ctx, sessionsStream(0))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if t.Shards <= 0 {
			t.Shards = defaultShards
		}
		if t.Replicas <= 0 {
			t.Replicas = 1
			if c.nc.ConnectedClusterName() != "" {
				t.Replicas = 3
			}
		}
		if t.LiveTTL <= 0 {
			t.LiveTTL = defaultLiveTTL
		}
		return nil
	case err != nil:
		return fmt.Errorf("look for stream %s: %w", sessionsStream(0), err)
	}
	existing := stream.CachedInfo().Config
	shards, err := strconv.Atoi(existing.Metadata[metaShards])
	if err != nil || shards <= 0 {
		return fmt.Errorf("%w: stream %s was not made by Braid", ErrTopology, existing.Name)
	}
	if t.Shards > 0 && t.Shards != shards {
		return fmt.Errorf("%w: %d shards exist, %d were asked for; the count is fixed when a cluster is made", ErrTopology, shards, t.Shards)
	}
	t.Shards = shards
	if t.Replicas <= 0 {
		t.Replicas = existing.Replicas
	}
	t.LiveTTL, err = liveTTLInForce(existing.Metadata[metaLive], t.LiveTTL)
	return err
}

// liveTTLInForce is how long fragments live in a cluster that exists; those that do not say it were
// made when there was no choice.
func liveTTLInForce(existing string, asked time.Duration) (time.Duration, error) {
	live := defaultLiveTTL
	if existing != "" {
		d, err := time.ParseDuration(existing)
		if err != nil || d <= 0 {
			return 0, fmt.Errorf("%w: %s is %q", ErrTopology, metaLive, existing)
		}
		live = d
	}
	if asked > 0 && asked != live {
		return 0, fmt.Errorf("%w: fragments live for %s, %s was asked for; that is fixed when a cluster is made", ErrTopology, live, asked)
	}
	return live, nil
}

// ensureStream creates the stream or checks the one that exists, and returns its epoch. Two
// processes may create at once: the loser finds the winner's stream.
func (c *Conn) ensureStream(ctx context.Context, want jetstream.StreamConfig) (epoch string, err error) {
	stream, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		create := want
		create.Metadata = maps.Clone(want.Metadata)
		create.Metadata[metaEpoch] = newEpoch()
		stream, err = c.js.CreateStream(ctx, create)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = c.js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return "", fmt.Errorf("create stream %s: %w", want.Name, err)
	}
	got := stream.CachedInfo().Config
	if diff := streamDifferences(want, got); len(diff) > 0 {
		return "", fmt.Errorf("%w: stream %s: %s", ErrTopology, want.Name, strings.Join(diff, "; "))
	}
	return got.Metadata[metaEpoch], nil
}

// streamDifferences lists, in words, where an existing stream is not the one Braid needs.
func streamDifferences(want, got jetstream.StreamConfig) []string {
	var diffs []string
	differ := func(what string, want, got any) {
		if fmt.Sprint(want) != fmt.Sprint(got) {
			diffs = append(diffs, fmt.Sprintf("%s is %v, expected %v", what, got, want))
		}
	}
	gotSubjects, wantSubjects := slices.Sorted(slices.Values(got.Subjects)), slices.Sorted(slices.Values(want.Subjects))
	differ("subjects", wantSubjects, gotSubjects)
	differ("retention", want.Retention, got.Retention)
	differ("storage", want.Storage, got.Storage)
	differ("replicas", want.Replicas, got.Replicas)
	differ("discard", want.Discard, got.Discard)
	differ("max_age", want.MaxAge, got.MaxAge)
	differ("max_msgs", int64(-1), got.MaxMsgs)
	differ("max_bytes", int64(-1), got.MaxBytes)
	differ("max_msgs_per_subject", int64(-1), got.MaxMsgsPerSubject)
	differ("duplicate_window", want.Duplicates, got.Duplicates)
	differ("allow_rollup", want.AllowRollup, got.AllowRollup)
	differ("deny_purge", want.DenyPurge, got.DenyPurge)
	differ("allow_direct", want.AllowDirect, got.AllowDirect)
	differ("allow_msg_ttl", want.AllowMsgTTL, got.AllowMsgTTL)
	differ("allow_msg_schedules", want.AllowMsgSchedules, got.AllowMsgSchedules)
	differ("republish", republishText(want.RePublish), republishText(got.RePublish))
	differ("format", want.Metadata[metaFormat], got.Metadata[metaFormat])
	if live := got.Metadata[metaLive]; live != "" { // somebody else made it just now
		differ("live_ttl", want.Metadata[metaLive], live)
	}
	differ("shards", want.Metadata[metaShards], got.Metadata[metaShards])
	return diffs
}

func republishText(r *jetstream.RePublish) string {
	if r == nil {
		return "none"
	}
	return r.Source + " to " + r.Destination
}

// ensureBuckets creates the key-value buckets and the object store.
func (c *Conn) ensureBuckets(ctx context.Context) error {
	for _, bucket := range []string{bucketRegistry, bucketInstances, bucketRunning} {
		if err := c.ensureBucket(ctx, bucket); err != nil {
			return fmt.Errorf("create bucket %s: %w", bucket, err)
		}
	}
	blobs, err := c.js.ObjectStore(ctx, bucketBlobs)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		blobs, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: bucketBlobs, Description: "payloads over the broker's limit",
			Storage: jetstream.FileStorage, Replicas: c.topology.Replicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another process was first
			blobs, err = c.js.ObjectStore(ctx, bucketBlobs)
		}
	}
	if err != nil {
		return fmt.Errorf("create object store %s: %w", bucketBlobs, err)
	}
	c.blobs = blobs
	return nil
}

// ensureBucket creates a key-value bucket, unless it exists.
func (c *Conn) ensureBucket(ctx context.Context, name string) error {
	_, err := c.js.KeyValue(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	_, err = c.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: name, History: 1, Storage: jetstream.FileStorage,
		Replicas: c.topology.Replicas, LimitMarkerTTL: markerTTL,
	})
	if errors.Is(err, jetstream.ErrBucketExists) { // another process was first
		return nil
	}
	return err
}
