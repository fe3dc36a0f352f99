package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// smallTables makes tables rotate and compact all the time.
const smallTables = 32 << 10

func TestCrashLeavesAConsistentPrefix(t *testing.T) {
	for _, mode := range []SyncMode{SyncLazy, SyncAlways} {
		for _, percent := range []int{0, 10, 100} {
			t.Run(fmt.Sprintf("sync %d, %d%% of the rest", mode, percent), func(t *testing.T) {
				crashAfterEachBatch(t, mode, percent)
			})
		}
	}
}

func crashAfterEachBatch(t *testing.T, mode SyncMode, percent int) {
	fs := vfs.NewCrashableMem()
	s := open(t, Options{FS: fs, Sync: mode, MemTableBytes: smallTables})
	rng := rand.New(rand.NewPCG(uint64(percent), 7))
	stream := randomStream(1, 600)
	for i, batch := range batches(stream, 5) {
		if err := applyBatch(s, batch); err != nil {
			t.Fatal(err)
		}
		if i%10 != 0 {
			continue
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		mark := reopen(t, clone, stream)
		want := batch[len(batch)-1].Sequence
		if mark.Sequence > want || mode == SyncAlways && mark.Sequence != want {
			t.Fatalf("found %d applied after a crash at %d", mark.Sequence, want)
		}
	}
}

// reopen opens the files as they are, and checks what is there.
func reopen(t testing.TB, fs vfs.FS, stream []Frame) Mark {
	t.Helper()
	s, err := Open("trace", Options{FS: fs})
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	mark, err := check(s, stream)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return mark
}

// Every single write of a run fails once, alone or with all that follow. The process survives,
// nothing that failed is reported as stored, and what is on the disk is a consistent prefix.
func TestEveryWriteMayFail(t *testing.T) {
	for _, test := range []struct {
		mode    SyncMode
		lasting bool
	}{{SyncLazy, false}, {SyncAlways, false}, {SyncAlways, true}} {
		t.Run(fmt.Sprintf("sync %d, lasting %v", test.mode, test.lasting), func(t *testing.T) {
			stream := randomStream(2, 80)
			k, injected := int64(0), true
			for ; injected; k++ {
				injected = failWrite(t, stream, test.mode, k, test.lasting)
			}
			if k < 50 {
				t.Errorf("only %d writes failed", k)
			}
			t.Logf("failed each of %d writes", k-1)
		})
	}
}

// failWrite fails the k-th write of a run, and reports whether the run had that many.
func failWrite(t *testing.T, stream []Frame, mode SyncMode, k int64, lasting bool) bool {
	disk := vfs.NewCrashableMem()
	var count atomic.Int64
	var hit atomic.Bool
	broken := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		if n := count.Add(1) - 1; n == k || lasting && n > k {
			hit.Store(true)
			return errorfs.ErrInjected
		}
		return nil
	}))
	var acknowledged uint64
	s, err := Open("trace", Options{FS: broken, Sync: mode, MemTableBytes: smallTables})
	if err == nil {
		for _, batch := range batches(stream, 10) {
			if err = applyBatch(s, batch); err != nil {
				break
			}
			acknowledged = batch[len(batch)-1].Sequence
		}
		if closed := s.Close(); closed != nil && !errors.Is(closed, ErrDegraded) {
			t.Fatalf("write %d: close: %v", k, closed)
		} else if err == nil {
			err = closed
		}
		if err != nil && !errors.Is(err, ErrDegraded) {
			t.Fatalf("write %d: apply: %v", k, err)
		}
	}
	if hit.Load() != (err != nil) {
		t.Fatalf("write %d: failed: %v, reported: %v", k, hit.Load(), err)
	}
	lost := reopen(t, disk.CrashClone(vfs.CrashCloneCfg{}), stream)
	kept := reopen(t, disk, stream)
	if mode == SyncAlways && (lost.Sequence < acknowledged || kept.Sequence < acknowledged) {
		t.Fatalf("write %d: %d was acknowledged, %d is there, %d after a crash", k, acknowledged, kept.Sequence, lost.Sequence)
	}
	return hit.Load()
}

func TestFuseStopsAllWrites(t *testing.T) {
	disk := vfs.NewMem()
	var bad atomic.Bool
	var blown []error
	var f *fuse
	f = newFuse(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if bad.Load() && op.Kind == errorfs.OpFileSync {
			return errorfs.ErrInjected
		}
		return nil
	})), func(err error) {
		if f.blown() != nil {
			t.Error("changes are left out before anybody knows")
		}
		blown = append(blown, err)
	})

	file, err := f.Create("a", "")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if n, err := file.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	write("before")
	if err := newFuse(disk, nil).Remove("missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removing what is not there: %v", err)
	}
	bad.Store(true)
	if err := file.Sync(); err != nil || len(blown) != 1 || f.blown() == nil {
		t.Errorf("failed sync: %v, reported %v", err, blown)
	}
	bad.Store(false)
	write(" and after")
	other, err := f.Create("b", "")
	if err == nil {
		_, err = other.Write([]byte("x"))
	}
	if err := errors.Join(err, other.Sync(), other.Close(), file.Close(), f.Rename("a", "c"), f.Remove("a")); err != nil {
		t.Errorf("a blown fuse reports %v", err)
	}
	names, err := disk.List("")
	if err != nil || len(names) != 1 || names[0] != "a" {
		t.Errorf("the disk holds %q, %v", names, err)
	}
	if info, err := disk.Stat("a"); err != nil || info.Size() != int64(len("before")) {
		t.Errorf("the file changed: %v, %v", info, err)
	}
}
