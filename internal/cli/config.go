package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// EnvPrefix begins the names of Braid's environment variables.
const EnvPrefix = "BRAID_"

// EnvName is the environment variable that says what the flag of a name says.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

const (
	configFlag = "config"
	// sectionKey annotates commands with the section they read.
	sectionKey = "braid_section"
	// sourceKey annotates flags with where their value comes from, typedKey those that a command line
	// alone can say.
	sourceKey, typedKey = "braid_source", "braid_typed"
)

// Configure lets every flag that a command has also be given in the environment, see [EnvName], and
// in a YAML file under its own name, at the top or in the section of the command. The command line
// wins over the environment, that over the file, and a section over the top. [Execute] sees to it,
// before the command's code runs.
func Configure(cmd *cobra.Command, section string) {
	cmd.Flags().String(configFlag, "", "YAML `FILE` of settings: any of these flags by its name; each can also be set as "+EnvPrefix+"NAME in the environment")
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[sectionKey] = section
}

// OnlyTyped takes flags out of what [Configure] does: they can be given on the command line alone.
func OnlyTyped(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, typedKey, []string{"true"}) // it fails for no flag that is there
	}
}

// configurable reports that a flag can be given elsewhere than on the command line.
func configurable(f *pflag.Flag) bool {
	return f != nil && f.Name != "help" && f.Name != configFlag && f.Annotations[typedKey] == nil
}

// sourceDefault is the [Source] of a flag that was not given, sourceTyped of one on the command line.
const (
	sourceDefault = "default"
	sourceTyped   = "the command line"
)

// Given reports that the flag of a name was, in any of the places.
func Given(flags *pflag.FlagSet, name string) bool {
	return Source(flags.Lookup(name)) != sourceDefault
}

// Typed reports that the flag of a name was on the command line.
func Typed(flags *pflag.FlagSet, name string) bool {
	return Source(flags.Lookup(name)) == sourceTyped
}

// Source says where the value of a flag comes from; "default" if it was not given.
func Source(f *pflag.Flag) string {
	switch from := f.Annotations[sourceKey]; {
	case len(from) > 0:
		return from[0]
	case f.Changed:
		return sourceTyped
	}
	return sourceDefault
}

// Resolve gives the flags that are not on the command line what environment and file say. [Execute]
// does so; what runs without, to complete what somebody types, has to.
func Resolve(cmd *cobra.Command, environ []string) error {
	section, ok := cmd.Annotations[sectionKey]
	if !ok {
		return nil
	}
	flags, env := cmd.Flags(), environment(environ)
	for _, name := range append(flagNames(flags), configFlag) {
		if err := fromEnvironment(flags.Lookup(name), env); err != nil {
			return err
		}
	}
	file := flags.Lookup(configFlag).Value.String()
	if file == "" {
		return nil
	}
	own := flags
	if cmd.Name() != section { // a command that shares another's section need not know all of it
		own = nil
	}
	c, err := readConfig(file, section, own)
	if err != nil {
		return err
	}
	for _, e := range slices.Concat(c.sections[section], c.top) {
		f := flags.Lookup(e.key)
		if !configurable(f) || Source(f) != sourceDefault {
			continue
		}
		if err := c.set(f, e); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", file, e.line, e.key, err)
		}
		f.Annotations = annotated(f, fmt.Sprintf("%s:%d", file, e.line))
	}
	return nil
}

// environment indexes the variables that are set to something.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, variable := range environ {
		if name, value, ok := strings.Cut(variable, "="); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

// fromEnvironment takes what the environment says of a flag that was not given.
func fromEnvironment(f *pflag.Flag, env map[string]string) error {
	name := EnvName(f.Name)
	text, ok := env[name]
	if !ok || f.Changed {
		return nil
	}
	values := []string{text}
	if _, list := f.Value.(pflag.SliceValue); list {
		var err error
		if values, err = csv.NewReader(strings.NewReader(text)).Read(); err != nil {
			return fmt.Errorf("%s: must be values with commas between: %w", name, err)
		}
	}
	if err := setFlag(f, values); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.Annotations = annotated(f, name)
	return nil
}

// set gives a flag what an entry of the file says.
func (c *configFile) set(f *pflag.Flag, e entry) error {
	_, takesList := f.Value.(pflag.SliceValue)
	document, takesDocument := f.Value.(*Document)
	switch {
	case e.document != nil && takesDocument:
		document.embed(c.name, e.document)
		return nil
	case e.document != nil:
		return fmt.Errorf("it must be a value, not a mapping")
	case e.list && !takesList:
		return fmt.Errorf("it takes one value, not a list")
	}
	return setFlag(f, e.values)
}

func setFlag(f *pflag.Flag, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	return f.Value.Set(values[0])
}

func annotated(f *pflag.Flag, source string) map[string][]string {
	if f.Annotations == nil {
		return map[string][]string{sourceKey: {source}}
	}
	f.Annotations[sourceKey] = []string{source}
	return f.Annotations
}
