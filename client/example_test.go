package client_test

import (
	"context"
	"fmt"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

// exampleWorld is a running Braid, as "braid dev" starts one. Its tools are a shell's.
func exampleWorld() (w *world, stop func()) {
	w, err := startWorld(nil, bus.Topology{})
	if err != nil {
		panic(err)
	}
	return w, func() {
		if err := w.stop(); err != nil {
			panic(err)
		}
	}
}

// Make a session, give it a task, and print what came of it.
func Example() {
	braid, stop := exampleWorld()
	defer stop()
	ctx := context.Background()

	c := client.New(client.HTTP(braid.url, token))
	defer c.Close()
	s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{
		Model: "shell/demo", ApprovalMode: schemas.ApproveAll,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := s.Run(ctx, client.Prompt("$ echo hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Status, result.Turns, result.ToolCalls[0].ToolName)
	// Output: completed 2 exec_command
}

// Watch a task turn by turn, and decide on the calls it asks about.
func ExampleSession_Turns() {
	braid, stop := exampleWorld()
	defer stop()
	ctx := context.Background()

	c := client.New(client.HTTP(braid.url, token))
	defer c.Close()
	s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{
		Model: "shell/demo", ApprovalMode: schemas.ApproveAsk,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	task, err := s.Start(ctx, client.Prompt("$ echo hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range s.Turns(ctx, client.WatchOptions{After: task.Cursor}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case client.State:
			for _, call := range e.Pending {
				if err := s.Approve(ctx, call.ToolCallID, call.Hash); err != nil && !client.IsCode(err, schemas.CodeNotPending) {
					fmt.Println(err)
				}
			}
		case client.Turn:
			switch d := e.Data.(type) {
			case *schemas.ToolUseBlock:
				fmt.Println(e.Type, d.Name)
			case *schemas.ToolResultBlock:
				fmt.Println(e.Type, d.IsError)
			case *schemas.TaskResult:
				fmt.Println(e.Type, d.Success)
				return
			}
		}
	}
	// Output:
	// tool_use exec_command
	// tool_result false
	// done true
}

// A program that was restarted finds its task by the key.
func ExampleKey() {
	braid, stop := exampleWorld()
	defer stop()
	ctx := context.Background()

	c := client.New(client.HTTP(braid.url, token))
	defer c.Close()
	s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{Model: "shell/demo"}}, client.Key("room-4"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the second time nothing is begun
		result, err := s.Run(ctx, client.Prompt("hello"), client.Key("order-17"))
		fmt.Println(result.TaskID, result.Status, err)
	}
	info, err := s.Info(ctx)
	fmt.Println(info.Tasks, err)
	// Output:
	// order-17 completed <nil>
	// order-17 completed <nil>
	// 1 <nil>
}

// A program that was restarted goes on watching from the cursor it kept: what it has does not come
// again, and nothing is left out.
func ExampleSession_Stream() {
	braid, stop := exampleWorld()
	defer stop()
	ctx := context.Background()

	c := client.New(client.HTTP(braid.url, token))
	defer c.Close()
	s, err := c.Create(ctx, client.CreateOptions{ID: "room-4", CreateBody: schemas.CreateBody{Model: "shell/demo"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	task, err := s.Start(ctx, client.Prompt("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// program takes what comes until it is enough, and returns where it is: what it has to keep.
	program := func(c *client.Client, after string, enough schemas.Kind) (cursor string) {
		for event, err := range c.Session("room-4").Stream(ctx, client.WatchOptions{After: after}) {
			if err != nil {
				fmt.Println(err)
				return cursor
			}
			m, ok := event.(client.Message)
			if !ok || m.Partial() { // what is being said now: it comes whole as well
				continue
			}
			cursor = m.Cursor
			if fmt.Println(m.Kind()); m.Kind() == enough {
				return cursor
			}
		}
		return cursor
	}
	kept := program(c, task.Cursor, schemas.KindText)

	again := client.New(client.HTTP(braid.url, token)) // another process, another gateway
	defer again.Close()
	program(again, kept, schemas.KindTaskEnd)
	// Output:
	// tool_list_ready
	// request_begin
	// text
	// token_usage
	// request_end
	// task_end
}

// Without a gateway: whoever reaches the broker runs the same sessions, with the same cursors and keys.
func ExampleNATS() {
	braid, stop := exampleWorld() // braid.conn is what bus.Connect(ctx, bus.Options{URL: ...}) returns
	defer stop()
	ctx := context.Background()

	c := client.New(client.NATS(braid.conn, project))
	s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{
		Model: "shell/demo", ApprovalMode: schemas.ApproveAll,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := s.Run(ctx, client.Prompt("$ echo hello"))
	fmt.Println(result.Status, result.Turns, err)
	// Output: completed 2 <nil>
}

// An agent is a name for what sessions run on.
func ExampleClient_PutAgent() {
	braid, stop := exampleWorld()
	defer stop()
	ctx := context.Background()

	c := client.New(client.HTTP(braid.url, token))
	defer c.Close()
	err := c.PutAgent(ctx, schemas.Agent{
		Name: "reader", Model: "shell/demo", SystemPrompt: "You read. You change nothing.", ApprovalMode: schemas.ApproveNone,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{Agent: "reader"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := s.Info(ctx)
	fmt.Println(info.Agent, info.Model, info.ApprovalMode, err)
	// Output: reader shell/demo deny-all <nil>
}

// Keep a list of all sessions: make it when watching begins, and have it told of each change.
func ExampleClient_Events() {
	braid, stop := exampleWorld()
	defer stop()
	ctx := context.Background()

	c := client.New(client.HTTP(braid.url, token))
	defer c.Close()
	states := map[string]bus.SessionState{}
	for event, err := range c.Events(ctx, "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case client.Watching: // also after a Missed
			clear(states)
			for info, err := range c.Sessions(ctx, client.SessionsOptions{}) {
				if err != nil {
					fmt.Println(err)
					return
				}
				states[info.ID] = info.State
			}
			fmt.Println(len(states), "sessions")
			if _, err := c.Create(ctx, client.CreateOptions{ID: "room-4", CreateBody: schemas.CreateBody{Model: "shell/demo"}}); err != nil {
				fmt.Println(err)
				return
			}
		case client.Changed:
			states[e.ID] = e.State
			fmt.Println(e.ID, e.State)
			return
		case client.Deleted:
			delete(states, e.ID)
		}
	}
	// Output:
	// 0 sessions
	// room-4 idle
}
