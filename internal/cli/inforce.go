package cli

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// InForce prints the flags of a command as a configuration file, and where each value comes from: values
// first, then the documents that stand in the file. Secrets are masked. It is called by the command's own
// code, when [Execute] has found the values.
func InForce(cmd *cobra.Command, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var documents strings.Builder
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		d, _ := f.Value.(*Document)
		switch {
		case !configurable(f):
		case d != nil && d.inline != nil:
			documents.WriteString(d.shown(f.Name, Source(f)))
		case f.Value.String() == "":
			fmt.Fprintf(table, "# %s:\t# not set\n", f.Name)
		default:
			fmt.Fprintf(table, "%s: %s\t# %s\n", f.Name, shown(f), Source(f))
		}
	})
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, documents.String())
	return err
}

// shown is the value of a flag as YAML, without its secrets.
func shown(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values := slices.Clone(list.GetSlice())
		for i, v := range values {
			values[i] = quoted(masked(f.Name, v))
		}
		return "[" + strings.Join(values, ", ") + "]"
	}
	return quoted(masked(f.Name, f.Value.String()))
}

// simple is text that YAML takes for itself anywhere, and secrets what of a URL must not be shown: users,
// also where there is no scheme before them, which brokers' URLs can do without, and keys.
var (
	simple        = regexp.MustCompile(`^[\w./~][\w./~:@+-]*$`)
	secretUser    = regexp.MustCompile(`://[^\s,?#]*@`)
	brokerUser    = regexp.MustCompile(`(^|,)([a-z]+://)?[^\s,?#]*@`)
	secretInQuery = regexp.MustCompile(`(?i)([?&#][^=&#\s]*(?:token|key|secret|pass|sig|auth)[^=&#\s]*=)[^&#\s]*`)
)

// quoted is text as YAML, in quotes if it has to be.
func quoted(text string) string {
	if simple.MatchString(text) && !strings.HasSuffix(text, ":") {
		return text
	}
	return inQuotes(text)
}

// inQuotes is text as YAML in quotes; nothing in it is invisible.
func inQuotes(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return `"` + b.String() + `"`
}

// mask stands for a secret.
const mask = "***"

// masked takes out of a value what others must not see.
func masked(name, text string) string {
	if text != "" && (name == "token" || strings.HasSuffix(name, "-token")) {
		return mask
	}
	text = secretUser.ReplaceAllString(text, "://"+mask+"@")
	if name == "nats" {
		text = brokerUser.ReplaceAllString(text, "${1}${2}"+mask+"@")
	}
	return secretInQuery.ReplaceAllString(text, "${1}"+mask)
}

// mentioned is a flag in a message for people.
var mentioned = regexp.MustCompile(`--[a-z][a-z-]*`)

// origins says of the flags that a message names where they were given, if not on the command line.
func origins(flags *pflag.FlagSet, message string) string {
	var said []string
	for _, name := range mentioned.FindAllString(message, -1) {
		f := flags.Lookup(strings.TrimPrefix(name, "--"))
		if f == nil || len(f.Annotations[sourceKey]) == 0 {
			continue
		}
		if text := name + " is from " + Source(f); !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if len(said) == 0 {
		return ""
	}
	return " (" + strings.Join(said, ", ") + ")"
}
