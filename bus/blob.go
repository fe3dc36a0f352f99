package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// Payloads over the broker's limit are kept as blobs. A blob's name is used once: a blob that
// is put again under the same name breaks the reads that are under way. It is stored before the
// frame that refers to it, so a reader that finds the frame finds the blob.

// ErrBlobMissing says that a blob is not there.
var ErrBlobMissing = errors.New("the blob is gone")

// blobReference is a line of a frame that stands for a message kept outside of it.
type blobReference struct {
	Blob string `json:"blob"`
	Size int    `json:"size"`
}

// blobPrefix begins every reference, and no message: those begin with their timestamp.
var blobPrefix = []byte(`{"blob":`)

func blobLine(name string, size int) []byte {
	line, err := schemas.EncodeJSON(blobReference{Blob: name, Size: size})
	if err != nil {
		panic(err) // a string and a number
	}
	return line
}

func parseBlobLine(line []byte) (name string, ok bool) {
	if !bytes.HasPrefix(line, blobPrefix) {
		return "", false
	}
	var r blobReference
	if err := schemas.DecodeJSON(line, &r); err != nil || r.Blob == "" {
		return "", false
	}
	return r.Blob, true
}

// sessionBlobs begins the names of all blobs of a session.
func sessionBlobs(ref schemas.SessionRef) string { return ref.Project + "/" + ref.ID + "/" }

// splitBlobName splits the name of a blob into its session and the rest; false if it is no session's.
func splitBlobName(name string) (ref schemas.SessionRef, rest string, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return ref, "", false
	}
	ref = schemas.SessionRef{Project: parts[0], ID: parts[1]}
	return ref, parts[2], ref.Validate() == nil
}

func frameBlob(ref schemas.SessionRef, fence, n uint64, line int) string {
	return fmt.Sprintf("%s%d.%d.%d", sessionBlobs(ref), fence, n, line)
}

// sessionOfFrameBlob parses the name of a frame's blob; false for a blob that something else refers to.
func sessionOfFrameBlob(name string) (schemas.SessionRef, bool) {
	ref, rest, ok := splitBlobName(name)
	numbers := strings.Split(rest, ".")
	if !ok || len(numbers) != 3 {
		return ref, false
	}
	_, err1 := strconv.ParseUint(numbers[0], 10, 64)
	_, err2 := strconv.ParseUint(numbers[1], 10, 64)
	return ref, err1 == nil && err2 == nil
}

// putBlob stores a blob under a name that was never used before. It returns once the broker has
// acknowledged all of it.
func (c *Conn) putBlob(ctx context.Context, name string, data []byte) error {
	return c.putObject(ctx, name, bytes.NewReader(data), nil)
}

// blobChunk is the size of the messages an object is cut into. The broker must take it.
const blobChunk = 128 << 10

// putObject stores what r holds as an object of the bucket, chunk by chunk, each acknowledged before the
// next. It tries each as long as ctx allows, unless final says that a refusal of the broker is final; an
// error of r ends it. The object exists once its description is stored, which comes last.
//
// The client library's own Put is not used: it publishes without waiting, and leaves a goroutine behind
// when it is stopped too soon.
func (c *Conn) putObject(ctx context.Context, name string, r io.Reader, final func(error) bool) error {
	info, err := c.putChunks(ctx, name, r, final)
	if err != nil {
		return err
	}
	return c.putObjectInfo(ctx, info, final)
}

// putChunks stores what r holds, and returns the description that makes an object of it.
func (c *Conn) putChunks(ctx context.Context, name string, r io.Reader, final func(error) bool) (info jetstream.ObjectInfo, err error) {
	info = jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: blobChunk}},
		Bucket:     bucketBlobs, NUID: newNonce(),
	}
	chunks := objectChunks(info.NUID)
	defer func() {
		if err != nil {
			c.dropChunks(ctx, info)
		}
	}()
	digest := sha256.New()
	chunk := make([]byte, min(blobChunk, c.maxBody()))
	for {
		n, readErr := io.ReadFull(r, chunk)
		if readErr != nil && readErr != io.EOF && readErr != io.ErrUnexpectedEOF {
			return info, fmt.Errorf("store blob %s: %w", name, readErr)
		}
		if n > 0 {
			info.Chunks++
			info.Size += uint64(n)
			digest.Write(chunk[:n])
			m := nats.NewMsg(chunks)
			m.Data = chunk[:n]
			m.Header.Set(headerMsgID, fmt.Sprintf("%s.%d", info.NUID, info.Chunks))
			if _, err := c.publishRetry(ctx, m, final); err != nil {
				return info, fmt.Errorf("store blob %s: %w", name, err)
			}
		}
		if readErr != nil {
			break
		}
	}
	info.Digest = jetstream.GetObjectDigestValue(digest)
	return info, nil
}

// streamBlobs is the stream that the bucket is.
const streamBlobs = "OBJ_" + bucketBlobs

// objectChunks is where the content of an object is stored; each has a NUID of its own.
func objectChunks(nuid string) string { return "$O." + bucketBlobs + ".C." + nuid }

// dropChunks removes what is stored of an object that never will be one. It is best effort.
func (c *Conn) dropChunks(ctx context.Context, info jetstream.ObjectInfo) {
	if info.Chunks == 0 {
		return
	}
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
	defer cancel()
	if err := c.purge(tidy, streamBlobs, objectChunks(info.NUID)); err != nil {
		c.log.Debug().Err(err).Str("blob", info.Name).Msg("pieces of a blob that was not stored stay behind")
	}
}

// putObjectInfo stores the description of an object whose chunks are stored.
func (c *Conn) putObjectInfo(ctx context.Context, info jetstream.ObjectInfo, final func(error) bool) error {
	data, err := schemas.EncodeJSON(info)
	if err != nil {
		return fmt.Errorf("store blob %s: %w", info.Name, err)
	}
	m := nats.NewMsg(objectSubject(info.Name))
	m.Data = data
	m.Header.Set(headerRollup, "sub")
	m.Header.Set(headerMsgID, info.NUID)
	if _, err := c.publishRetry(ctx, m, final); err != nil {
		return fmt.Errorf("store blob %s: %w", info.Name, err)
	}
	return nil
}

// objectDescriptions is what the subjects of objects' descriptions begin with.
const objectDescriptions = "$O." + bucketBlobs + ".M."

// objectSubject is where an object's description is stored.
func objectSubject(name string) string {
	return objectDescriptions + base64.URLEncoding.EncodeToString([]byte(name))
}

// objectName is the name of the object whose description is stored there; empty if that is no object's.
func objectName(subject string) string {
	name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, objectDescriptions))
	if err != nil {
		return ""
	}
	return string(name)
}

// deleteBlob removes a blob, if there is one of that name.
func (c *Conn) deleteBlob(ctx context.Context, name string) error {
	return c.deleteBlobBefore(ctx, name, time.Time{})
}

// deleteBlobBefore is deleteBlob, but spares a blob that was described after a time, unless that is zero.
func (c *Conn) deleteBlobBefore(ctx context.Context, name string, before time.Time) error {
	info, err := c.describeBlob(ctx, name)
	if errors.Is(err, errNotFound) || err == nil && !before.IsZero() && info.ModTime.After(before) {
		return nil
	}
	if err == nil || errors.Is(err, errNoDescription) {
		err = c.removeBlob(ctx, info)
	}
	if err != nil {
		return fmt.Errorf("delete blob %s: %w", name, err)
	}
	return nil
}

// removeBlob removes a blob as it was described, which takes no room: first the description, so that
// nobody finds it any more, then the pieces. One that was described anew since stays.
func (c *Conn) removeBlob(ctx context.Context, info blobInfo) error {
	subject := objectSubject(info.Name)
	if err := c.purge(ctx, streamBlobs, subject, jetstream.WithPurgeSequence(info.sequence+1)); err != nil {
		return err
	}
	if info.NUID == "" {
		return nil // its pieces are found by a sweep
	}
	newer, err := c.describeBlob(ctx, info.Name)
	if err == nil && newer.NUID == info.NUID {
		return nil
	}
	if err != nil && !errors.Is(err, errNotFound) {
		return err
	}
	return c.purge(ctx, streamBlobs, objectChunks(info.NUID))
}

// purge removes the messages of a subject from a stream.
func (c *Conn) purge(ctx context.Context, stream, subject string, which ...jetstream.StreamPurgeOpt) error {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	return s.Purge(ctx, append(which, jetstream.WithPurgeSubject(subject))...)
}

// listBlobs returns the names of the blobs that begin with prefix, sorted. It goes by the stream's
// subjects, and not by the client library's List: that one waits for as many descriptions as there
// were when it began, for ever if somebody removes one of them meanwhile.
func (c *Conn) listBlobs(ctx context.Context, prefix string) ([]string, error) {
	subjects, err := c.blobSubjects(ctx, objectDescriptions+"*")
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	var names []string
	for subject := range subjects {
		if name := objectName(subject); name != "" && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// blobSubjects returns the subjects of the bucket's stream that match a filter.
func (c *Conn) blobSubjects(ctx context.Context, filter string) (subjects map[string]uint64, err error) {
	err = retryRead(ctx, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, streamBlobs)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err == nil {
			subjects = info.State.Subjects
		}
		return err
	})
	return subjects, err
}

// blobNames are the blobs that a frame's lines refer to.
func blobNames(data []byte) []string {
	var names []string
	for line := range bytes.Lines(data) {
		if name, ok := parseBlobLine(line); ok {
			names = append(names, name)
		}
	}
	return names
}
