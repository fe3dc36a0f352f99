// Package web is the page that a gateway serves at "/": sessions, one of them live, and the trace
// of a task as a waterfall. It is plain HTML, CSS and ES modules, embedded as they stand in static/,
// without a build step and without code of others:
//
//	index.html      the frame; nothing in it runs, nothing in it is styled in place
//	token.js        takes the token out of the address before anything else happens
//	app.js          what is shown: the address decides
//	api.js          requests; commands are repeated under one key until they are answered
//	seen.js         work for as long as the page is seen
//	sse.js          one stream over fetch: reading, resuming, noticing silence
//	news.js         the stream of all sessions, which tabs share
//	roster.js       all sessions that are known: a fold of that stream, which knows no document
//	sessions.js     the list of them
//	start.js        making one
//	session.js      one session: history, then the stream from where the history ends
//	details.js      what it is and used, and deleting it
//	composer.js     prompts, decisions, aborting, what waits
//	transcript.js   messages to what is shown of them: a fold, which knows no document
//	view.js         that to a document, piece by piece as it changes
//	markdown.js     the model's words, as elements
//	waterfall.js    a task's stored messages as bars
//	dom.js, text.js small helpers
//	page.css        both colour schemes, both widths
//
// The page keeps nothing but the token (in sessionStorage, so it ends with its tab). It never makes
// markup of text: its policy forbids that (Trusted Types), along with anything in place and anything
// from elsewhere.
package web
