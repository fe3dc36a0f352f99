package trace

import (
	"context"
	"fmt"
	"io"

	"braid/schemas"
)

// Export writes the session's messages as JSON Lines, one envelope a line, in order: what
// a [schemas.LineReader] reads. A session that does not exist is a *[schemas.Error].
func (s *Store) Export(ctx context.Context, ref schemas.SessionRef, w io.Writer) error {
	var out []byte
	head, err := s.walk(ctx, ref, func(chunk []rawEntry) error {
		out = out[:0]
		for _, e := range chunk {
			out = append(append(out, e.line...), '\n')
		}
		_, err := w.Write(out)
		return err
	})
	if err != nil {
		return fmt.Errorf("export %s: %w", ref, err)
	}
	if head == (Head{}) {
		return schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", ref)
	}
	return nil
}
