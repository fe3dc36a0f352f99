// Package shell is a provider that needs no key and no network: a demonstration of an agent
// that runs commands, and a model for trying Braid out.
//
// Its one model, "demo", does what it is told. A prompt's lines that start with a dollar sign
// become calls of the tool exec_command, several in one turn if there are several:
//
//	Have a look around, please.
//	$ pwd
//	$ ls -l
//
// Once their outputs are in, the model sums them up: for each call, in the order of the calls,
// the exit code and the first lines of output. A prompt without such lines gets an explanation.
package shell
