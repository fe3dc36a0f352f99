package schematest

import "braid/schemas"

// heads is how pictures of each type begin.
var heads = map[string]string{
	"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff\xe0", "image/gif": "GIF89a", "image/webp": "RIFF\x00\x00\x00\x00WEBP",
}

// Image is a data URL of a picture of that type and size in bytes: it begins like one, and nobody
// could look at it. An unknown type has no beginning.
func Image(mimeType string, size int) string {
	data := make([]byte, max(size, len(heads[mimeType])))
	copy(data, heads[mimeType])
	return schemas.DataURL(mimeType, data)
}
