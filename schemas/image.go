package schemas

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Limits of pictures, in bytes.
const (
	// MaxImage bounds one picture that a data URL holds, decoded.
	MaxImage = 10 << 20
	// MaxImageURL bounds a network URL.
	MaxImageURL = 8 << 10
)

// Image is a picture as an image_url, or an element of images, names it.
type Image struct {
	// URL is where the picture is, for the model's provider to fetch; empty if Data holds it.
	URL string
	// MIMEType is the picture's type, one of [ImageTypes]; empty if URL names it.
	MIMEType string
	// Data is the picture in base64, as the data URL has it; empty if URL names it.
	Data string
}

// imageTypes are the types that every provider with eyes reads.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// ImageTypes lists the media types a data URL may have.
func ImageTypes() []string { return slices.Clone(imageTypes) }

// ParseImage reads a picture's URL: http or https, absolute, without credentials; or
// data:<type>;base64,<data>, of one of [ImageTypes], whose data is base64 in its one canonical form
// and begins as that type does. The error is an *[Error] of code [CodeInvalid] or [CodeTooLarge]
// that repeats nothing of the picture.
func ParseImage(s string) (Image, error) {
	if rest, ok := strings.CutPrefix(s, "data:"); ok {
		return parseDataURL(rest)
	}
	if len(s) > MaxImageURL {
		return Image{}, Errorf(CodeTooLarge, "a URL of %d bytes is over the limit of %d", len(s), MaxImageURL)
	}
	u, err := url.Parse(s)
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return Image{}, Errorf(CodeInvalid, "a URL holds no spaces and no control characters")
	case err != nil:
		return Image{}, Errorf(CodeInvalid, "this is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return Image{}, Errorf(CodeInvalid, "a picture has a URL of scheme http, https or data")
	case u.User != nil:
		return Image{}, Errorf(CodeInvalid, "the URL holds credentials, which would be stored and sent on")
	case u.Hostname() == "":
		return Image{}, Errorf(CodeInvalid, "the URL names no host")
	}
	return Image{URL: s}, nil
}

// parseDataURL reads what follows "data:".
func parseDataURL(s string) (Image, error) {
	head, data, ok := strings.Cut(s, ",")
	if !ok || len(head) > MaxNameLength {
		return Image{}, Errorf(CodeInvalid, "a data URL is data:<type>;base64,<data>")
	}
	mimeType, ok := strings.CutSuffix(head, ";base64")
	switch {
	case !ok:
		return Image{}, Errorf(CodeInvalid, "a data URL of a picture is data:<type>;base64,<data>")
	case !slices.Contains(imageTypes, mimeType):
		return Image{}, Errorf(CodeInvalid, "the type %q is none of %s", mimeType, strings.Join(imageTypes, ", "))
	case data == "":
		return Image{}, Errorf(CodeInvalid, "the picture is empty")
	}
	i := Image{MIMEType: mimeType, Data: data}
	if i.Size() > MaxImage {
		return Image{}, Errorf(CodeTooLarge, "a picture of %d bytes is over the limit of %d", i.Size(), MaxImage)
	}
	head16, err := checkBase64(data)
	if err != nil {
		return Image{}, err
	}
	if is := SniffImage(head16); is != mimeType {
		if is == "" {
			is = "no picture that is known here"
		}
		return Image{}, Errorf(CodeInvalid, "the data is not %s: it is %s", mimeType, is)
	}
	return i, nil
}

// checkBase64 checks that the text is base64 in its canonical form, and returns the first bytes
// that it stands for.
func checkBase64(data string) (head []byte, err error) {
	// The decoder skips line breaks, which a URL can't have.
	if !strings.ContainsAny(data, "\r\n") {
		r := base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(data))
		head = make([]byte, sniffLength)
		n, readErr := io.ReadFull(r, head)
		head = head[:n]
		if readErr == nil {
			_, readErr = io.Copy(io.Discard, r)
		}
		if readErr == nil || errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) && len(data)%4 == 0 {
			return head, nil
		}
	}
	return nil, Errorf(CodeInvalid, "the data is not valid base64: the standard alphabet, padded, without white space")
}

// Size is the number of bytes of the picture that Data holds; 0 for a URL.
func (i Image) Size() int {
	return len(i.Data)/4*3 - min(2, len(i.Data)-len(strings.TrimRight(i.Data, "=")))
}

// String describes the picture in a few words and never holds it: "image/png, 12 kB", or its URL
// without the query, which may be a secret.
func (i Image) String() string {
	if i.Data != "" {
		return i.MIMEType + ", " + sizeText(i.Size())
	}
	s, _, _ := strings.Cut(i.URL, "?")
	s, _, _ = strings.Cut(s, "#")
	return s
}

// sizeText is a number of bytes for people, rounded up.
func sizeText(n int) string {
	const kB, MB = 1000, 1000 * 1000
	switch {
	case n < kB:
		return fmt.Sprintf("%d B", n)
	case n < MB:
		return fmt.Sprintf("%d kB", (n+kB-1)/kB)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/MB)
}

// DescribeImage describes a picture by its URL as [Image.String] does, whatever the URL is.
func DescribeImage(url string) string {
	i, err := ParseImage(url)
	if err != nil {
		return "unreadable, " + sizeText(len(url))
	}
	return i.String()
}

// sniffLength is how many bytes [SniffImage] looks at.
const sniffLength = 16

// SniffImage says which of [ImageTypes] the data is, by how it begins; empty if it is none.
func SniffImage(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) >= 12 && bytes.HasPrefix(data, []byte("RIFF")) && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// DataURL is the URL of a picture that holds it.
func DataURL(mimeType string, data []byte) string {
	return "data:" + mimeType + ";base64," + base64.StdEncoding.EncodeToString(data)
}
