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

	c := client.New(client.NATS(braid.conn, project)) // without a gateway
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
