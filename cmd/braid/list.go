package main

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/schemas"
)

// This file is how lists are printed: as a table for people, or one JSON object a line.

// printObject prints a JSON object on a line.
func printObject(w io.Writer, v any) error {
	line, err := schemas.EncodeJSON(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

// listing prints things: as the rows of a table, or one JSON object a line if --json asks for that.
type listing struct {
	json  bool
	table *table
}

// newListing makes the listing of a command, and its flag.
func newListing(flags *pflag.FlagSet, columns ...string) *listing {
	l := &listing{table: newTable(columns...)}
	flags.BoolVar(&l.json, "json", false, "print JSON, one object per line")
	return l
}

// add lists a thing: what programs get of it, and its cells for people.
func (l *listing) add(w io.Writer, thing any, cells ...string) error {
	if l.json {
		return printObject(w, thing)
	}
	l.table.row(cells...)
	return nil
}

// finish prints what is not printed yet.
func (l *listing) finish(w io.Writer) error {
	if l.json {
		return nil
	}
	return l.table.write(w)
}

// printFirst lists the first things, as many as limit says, or all if that is 0; none is what people read if there
// is not one.
func printFirst[T any](cmd *cobra.Command, things iter.Seq2[T, error], limit int, list *listing, none string, cells func(T) []string) error {
	n := 0
	for thing, err := range things {
		if err != nil {
			return err
		}
		if err := list.add(cmd.OutOrStdout(), thing, cells(thing)...); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	if n == 0 && !list.json {
		fmt.Fprintln(cmd.ErrOrStderr(), none)
		return nil
	}
	return list.finish(cmd.OutOrStdout())
}

// table is printed with its columns aligned.
type table struct{ rows [][]string }

func newTable(columns ...string) *table { return &table{[][]string{columns}} }

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = escapeControls(c, "")
	}
	t.rows = append(t.rows, cells)
}

// fact adds a row of two, if there is something to tell.
func (t *table) fact(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

func (t *table) write(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shorten cuts a text to one line of at most n characters.
func shorten(text string, n int) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > n {
		return string(line[:n-1]) + "…"
	}
	return string(line)
}

// localTime is an RFC 3339 time in people's own zone; the text itself if it is none.
func localTime(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return t.Local().Format("2006-01-02 15:04")
}

// dollars is what something cost; nothing if it is not known to have cost anything.
func dollars(amount schemas.USD) string {
	if amount == 0 {
		return ""
	}
	return "$" + amount.String()
}
