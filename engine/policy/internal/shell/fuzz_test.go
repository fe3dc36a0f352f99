package shell

import "testing"

// Reading never panics, also without the net under it, and finds the same each time.
func FuzzRead(f *testing.F) {
	for _, script := range []string{
		"rm -rf /x", "a <<E\n$(b)\nE\n", "for i in {1..3}; do $i; done", "find . -exec a {} +", "env -S 'a b' c", "xargs -I% %",
		"<<''&#0\n0", "trap a EXIT; alias b=c; eval d", "x=(a b); ${x[@]} \"${!y}\" $'\\x41' ~/z", "sudo -u a -- b=c d", "case a in b) c;; esac",
	} {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		one, other := read(script), read(script)
		if one.Unclear != other.Unclear || len(one.Commands) != len(other.Commands) {
			t.Errorf("%+v, then %+v", one, other)
		}
		for _, c := range one.Commands {
			if len(c.Words) == 0 || c.Words[0].Spread != One {
				t.Errorf("a command has no name: %+v", c)
			}
		}
	})
}
