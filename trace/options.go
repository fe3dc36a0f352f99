package trace

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// SyncMode says when a batch is on the disk.
type SyncMode int

const (
	// SyncLazy, the default, leaves it to the operating system. A process that is killed may
	// lose its last batches, a machine that loses power some more; the projector applies them
	// again from the stream.
	SyncLazy SyncMode = iota
	// SyncAlways syncs every batch before [Store.Apply] returns.
	SyncAlways
)

// cacheBytes is the size of the block cache.
const cacheBytes = 64 << 20

// Options are the settings of a store; the zero value is fit for use.
type Options struct {
	// Sync says when what was applied is on the disk. The default, SyncLazy, is right for a trace that
	// can be rebuilt from the streams.
	Sync SyncMode
	// Logger gets what people who run the store must know, and at debug level what Pebble says.
	// No message content is logged.
	Logger zerolog.Logger
	// FS is where the store lives; nil means the operating system's files.
	FS vfs.FS
	// MinFreeBytes is the free space on the disk, in bytes, under which the store refuses to
	// open or to write. The default is 64 MiB.
	MinFreeBytes uint64
	// MemTableBytes is how much is kept in memory before it is written out as a table, in
	// bytes; up to four times as much may be in memory. The default is 16 MiB.
	MemTableBytes uint64
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = 64 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 16 << 20
	}
	return o
}

// pebbleOptions returns Pebble's options.
func (s *Store) pebbleOptions(lock *pebble.Lock) *pebble.Options {
	p := &pebble.Options{
		FS:                          s.fuse,
		Lock:                        lock,
		Logger:                      pebbleLogger{s},
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		CacheSize:                   cacheBytes,
		MemTableSize:                s.o.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                256,
		// Writers never wait for compactions: one that can't make progress would block them for
		// ever. A compaction that fails degrades the store, so tables can't pile up.
		L0StopWritesThreshold: 1 << 20,
		WALBytesPerSync:       1 << 20,
		// Deleted sessions give their space back even when nothing else is written.
		FlushDelayDeleteRange: deleteFlushDelay,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.degrade(err) },
			DataCorruption:  func(i pebble.DataCorruptionInfo) { s.degrade(i.Details) },
		},
	}
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

// pebbleLogger hands Pebble's words to the store's logger.
type pebbleLogger struct{ s *Store }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.s.o.Logger.Debug().Msgf("pebble: "+format, args...)
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.s.o.Logger.Warn().Msgf("pebble: "+format, args...)
}

// Fatalf does not end the process, as Pebble expects of it: a trace is not worth a process full
// of sessions. The store is unusable from then on, so nothing builds on what went wrong.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.s.degrade(fatalError(format, args...))
}
