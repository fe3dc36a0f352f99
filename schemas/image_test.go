package schemas_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"braid/schemas"
	"braid/schemas/schematest"
)

func TestParseImage(t *testing.T) {
	png := schematest.Image("image/png", 20)
	data := func(mimeType, bytes string) string { return schemas.DataURL(mimeType, []byte(bytes)) }
	tests := []struct {
		url  string
		want string // of the error; empty: it is a picture
		why  string
	}{
		{png, "", "a picture of one of the types"},
		{schematest.Image("image/jpeg", 4), "", "the shortest that can be told"},
		{schematest.Image("image/gif", 33), "", "any length, so any padding"},
		{data("image/gif", "GIF87a"), "", "the older of two beginnings"},
		{schematest.Image("image/webp", 12), "", "a type told by two words"},
		{schematest.Image("image/png", schemas.MaxImage), "", "just within the limit"},
		{"https://example.com/a.png?sig=1#x", "", "a network URL"},
		{"http://[::1]:8080/a", "", "a provider of one's own may reach it"},

		{schematest.Image("image/png", schemas.MaxImage+1), "over the limit of 10485760", "one byte over the limit"},
		{"", "scheme http, https or data", "nothing"},
		{"cat.png", "scheme http, https or data", "a file name"},
		{"file:///etc/passwd", "scheme http, https or data", "a file of whoever would fetch it"},
		{"ftp://example.com/a.png", "scheme http, https or data", "no provider fetches it"},
		{"javascript:alert(1)", "scheme http, https or data", "it would run where it is shown"},
		{"//example.com/a.png", "scheme http, https or data", "relative to what?"},
		{"https://", "no host", "nowhere"},
		{"https://:443/a.png", "no host", "a port alone"},
		{"https://me:secret@example.com/a.png", "credentials", "they would be stored for ever"},
		{"https://me@example.com/a.png", "credentials", "half of them"},
		{"https://example.com/a b.png", "no spaces", "a space ends a URL wherever it is printed"},
		{"https://example.com/a\x00.png", "no spaces and no control", "NUL"},
		{"https://example.com/%zz", "not a URL", "a broken escape"},
		{"https://example.com/" + strings.Repeat("a", schemas.MaxImageURL), "over the limit of 8192", "too long for a URL"},

		{"data:", "data:<type>;base64,<data>", "no comma"},
		{"data:image/png," + "x", "data:<type>;base64,<data>", "not base64"},
		{"data:;base64,iVBORw0KGgo=", `the type "" is none of`, "no type"},
		{"data:image/svg+xml;base64,PHN2Zz4=", "is none of image/png", "a type that providers refuse"},
		{"data:image/jpg;base64,/9j/4A==", `"image/jpg" is none of`, "a type that is often meant"},
		{"data:text/plain;base64,aGk=", "is none of", "no picture at all"},
		{"data:image/png;charset=utf-8;base64,iVBORw0KGgo=", "is none of", "a parameter"},
		{"data:" + strings.Repeat("i", 99) + ";base64,aGk=", "data:<type>;base64,<data>", "a type without end is not repeated"},
		{"data:image/png;base64,", "empty", "no data"},
		{"data:image/png;base64,!!!!", "not valid base64", "another alphabet"},
		{"data:image/png;base64,iVBORw0KGgo", "not valid base64", "no padding"},
		{"data:image/png;base64,iVBORw0KGgp=", "not valid base64", "bits behind the end: not the one form"},
		{"data:image/png;base64,iVBORw0K\nGgo=", "not valid base64", "a line break, as mail has it"},
		{png + "=", "not valid base64", "more padding than needed"},
		{png + "!", "not valid base64", "a fault at the very end"},
		{png + "A", "not valid base64", "one character too many"},
		{png[:len(png)-4] + base64.URLEncoding.EncodeToString([]byte{0xff, 0xff, 0xfb}), "not valid base64", "the alphabet for URLs"},
		{data("image/png", "\xff\xd8\xff\xe0...."), "not image/png: it is image/jpeg", "another picture than it says"},
		{data("image/jpeg", "<svg></svg>"), "no picture that is known", "no picture"},
		{data("image/webp", "RIFF\x00\x00\x00\x00WAVE"), "no picture that is known", "a sound in the same wrapping"},
	}
	for _, tt := range tests {
		i, err := schemas.ParseImage(tt.url)
		shown := tt.url[:min(len(tt.url), 60)]
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s (%s): %v", shown, tt.why, err)
			}
			if (i.URL == "") == (i.Data == "") || (i.Data == "") != (i.MIMEType == "") {
				t.Errorf("%s: %+v is neither a URL nor data", shown, i)
			}
			continue
		}
		refused, ok := errors.AsType[*schemas.Error](err)
		if !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s (%s): %v, want %q", shown, tt.why, err, tt.want)
			continue
		}
		if over := strings.Contains(tt.want, "over the limit"); (refused.Code == schemas.CodeTooLarge) != over {
			t.Errorf("%s (%s): code %s", shown, tt.why, refused.Code)
		}
	}
}

func TestDescribeImage(t *testing.T) {
	for url, want := range map[string]string{
		schematest.Image("image/png", 10):                    "image/png, 10 B",
		schematest.Image("image/png", 11):                    "image/png, 11 B",
		schematest.Image("image/jpeg", 999):                  "image/jpeg, 999 B",
		schematest.Image("image/gif", 11_500):                "image/gif, 12 kB",
		schematest.Image("image/webp", 2_340_000):            "image/webp, 2.3 MB",
		"https://example.com/a.png?signature=secret#part":    "https://example.com/a.png",
		"data:image/png;base64,this is not base64 at all...": "unreadable, 50 B",
	} {
		if got := schemas.DescribeImage(url); got != want {
			t.Errorf("%.40s: %q, want %q", url, got, want)
		}
	}
}

// Whatever the text: it is refused, or what was read is what was written, and decodes.
func FuzzParseImage(f *testing.F) {
	for _, s := range []string{"https://a/b", "data:image/png;base64,iVBORw0KGgo=", "data:image/gif;base64,R0lGODdh", "http://u:p@h", "data:,", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, err := schemas.ParseImage(s)
		_ = schemas.DescribeImage(s)
		if err != nil {
			if _, ok := errors.AsType[*schemas.Error](err); !ok {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if i.Data == "" {
			if i.URL != s {
				t.Fatalf("%q became %q", s, i.URL)
			}
			return
		}
		b, err := base64.StdEncoding.DecodeString(i.Data)
		if err != nil || len(b) != i.Size() || schemas.SniffImage(b) != i.MIMEType {
			t.Fatalf("%+v: %d bytes, %v", i, len(b), err)
		}
		if schemas.DataURL(i.MIMEType, b) != s {
			t.Fatalf("%q is not the one form of it", s)
		}
	})
}
