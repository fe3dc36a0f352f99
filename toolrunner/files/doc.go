// Package files has the tools that read, write and search the files of a session's workspace.
//
// # Where they reach
//
// All paths are relative to the workspace; an absolute one is taken if it names something in it.
// They are cleaned first, so that "a/../b" is "b" whatever a is. Nothing outside the workspace is
// read or written: not by "..", and not through a symbolic link. Links within the workspace are
// followed if they are relative. The operating system resolves each path below the workspace's
// directory ([os.Root]), so a link that changes at the same moment makes no difference.
//
// Only regular files are opened: a device or a pipe is an error, and nothing waits for one.
//
// # Text
//
// The tools are for text in UTF-8. A file with a NUL byte in its first 8 KiB, or that is not UTF-8, is
// binary: it is named as such, not shown, not searched and not edited. Lines end in "\n" for the model,
// also where the file has "\r\n": reading says so, and editing a file that has nothing but "\r\n"
// keeps it that way. In one that has both, reading says which lines have it, and editing wants them exactly.
//
// # Writing
//
// A file is written beside its place and renamed into it: readers see the old text or the new one, and
// a toolrunner that dies leaves the old one, with perhaps a file named .braid-*.tmp beside it. The mode
// is kept, owner and hard links are not. Two writers of one file overwrite one another, as they do
// anywhere; edit_file takes what it has read as it was, moments before.
package files
