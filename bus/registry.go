package bus

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"braid/schemas"
)

// Announcement is what a toolrunner offers.
type Announcement struct {
	Instance string `json:"instance"`
	Project  string `json:"project"`
	// Pools are the queues it serves.
	Pools []string `json:"pools"`
	// Tools are the tools it has; each names its pool, or is in the default one.
	Tools []schemas.ToolDefinition `json:"tools"`
	// Slots is how many calls it runs at once.
	Slots int `json:"slots"`
}

func (a Announcement) validate() error {
	if err := schemas.ValidateName("instance", a.Instance); err != nil {
		return err
	}
	if err := schemas.ValidateName("project", a.Project); err != nil {
		return err
	}
	for _, pool := range a.Pools {
		if err := schemas.ValidateName("pool", pool); err != nil {
			return err
		}
	}
	for _, tool := range a.Tools {
		if err := schemas.ValidateName("tool", tool.Name); err != nil {
			return err
		}
		if schemas.NestedTooDeep(tool.Parameters) {
			return schemas.Errorf(schemas.CodeInvalid, "the parameters of tool %s are nested more than %d levels deep", tool.Name, schemas.MaxNesting)
		}
		if pool := tool.WithDefaults().Pool; !slices.Contains(a.Pools, pool) {
			return schemas.Errorf(schemas.CodeInvalid, "tool %s is in pool %.80q, which the toolrunner does not serve", tool.Name, pool)
		}
	}
	return nil
}

const (
	// AnnounceEvery is how often a toolrunner repeats its announcement.
	AnnounceEvery = 5 * time.Minute
	// announceTTL removes the announcement of a toolrunner that was killed.
	announceTTL = time.Hour
)

func announcementKey(project, instance string) string {
	return "toolrunner." + project + "." + instance
}

// Announce publishes what a toolrunner offers, in place of what it announced before. It is
// forgotten after an hour, so a toolrunner repeats it every [AnnounceEvery].
func (c *Conn) Announce(ctx context.Context, a Announcement) error {
	if err := a.validate(); err != nil {
		return err
	}
	body, err := schemas.EncodeJSON(a)
	if err != nil {
		return fmt.Errorf("announce tools: %w", err)
	}
	if room := c.maxBody(); len(body) > room {
		return schemas.Errorf(schemas.CodeTooLarge, "the announced tools have %d bytes, the limit is %d", len(body), room)
	}
	_, err = c.kvPut(ctx, bucketRegistry, announcementKey(a.Project, a.Instance), body, announceTTL)
	return err
}

// Unannounce removes a toolrunner's announcement when it stops.
func (c *Conn) Unannounce(ctx context.Context, project, instance string) error {
	if err := (Announcement{Project: project, Instance: instance}).validate(); err != nil {
		return err
	}
	entries, err := c.kvList(ctx, bucketRegistry, announcementKey(project, instance))
	for _, e := range entries {
		err = c.kvPurge(ctx, bucketRegistry, e.Key, e.Revision)
	}
	return err
}

// ToolConflict says that toolrunners define a tool differently.
type ToolConflict struct {
	Name string
	// Used is the instance whose definition is taken, Ignored the one whose is not.
	Used, Ignored string
}

// Tools returns what the toolrunners of a project offer, sorted by name. Toolrunners that judge
// finds gone are left out; with a nil judge, those that have no key among the instances. Of
// several definitions of one name the toolrunner first by name wins, so that all engines take
// the same; the others are reported.
func (c *Conn) Tools(ctx context.Context, project string, judge *Beat) ([]schemas.ToolDefinition, []ToolConflict, error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, nil, err
	}
	announcements, err := c.Announcements(ctx, project)
	if err != nil {
		return nil, nil, err
	}
	alive, err := c.aliveToolrunners(ctx, announcements, judge)
	if err != nil {
		return nil, nil, err
	}
	tools, conflicts := mergeTools(alive)
	return tools, conflicts, nil
}

// Announcements lists what toolrunners announced in a project, whether they live or not.
func (c *Conn) Announcements(ctx context.Context, project string) ([]Announcement, error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, err
	}
	entries, err := c.kvList(ctx, bucketRegistry, announcementKey(project, "*"))
	if err != nil {
		return nil, err
	}
	var out []Announcement
	for _, e := range entries {
		var a Announcement
		err := schemas.DecodeJSON(e.Value, &a)
		if err == nil {
			err = a.validate()
		}
		if err != nil || announcementKey(project, a.Instance) != e.Key {
			c.log.Warn().Err(err).Str("key", e.Key).Msg("an announcement that can't be read is ignored")
			continue
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Announcement) int { return cmp.Compare(a.Instance, b.Instance) })
	return out, nil
}

// aliveToolrunners returns the announcements of toolrunners that live, as [Conn.Tools] judges it.
func (c *Conn) aliveToolrunners(ctx context.Context, all []Announcement, judge *Beat) ([]Announcement, error) {
	known := map[string]bool{}
	if judge == nil {
		instances, err := c.Instances(ctx, KindToolrunner)
		if err != nil {
			return nil, err
		}
		for _, i := range instances {
			known[i.Name] = true
		}
	}
	var alive []Announcement
	for _, a := range all {
		gone := !known[a.Instance]
		if judge != nil {
			var err error
			if gone, err = judge.Gone(ctx, KindToolrunner, a.Instance); err != nil {
				return nil, err
			}
		}
		if !gone {
			alive = append(alive, a)
		}
	}
	return alive, nil
}

// mergeTools takes announcements sorted by instance.
func mergeTools(announcements []Announcement) ([]schemas.ToolDefinition, []ToolConflict) {
	type offered struct {
		tool schemas.ToolDefinition
		by   string
	}
	byName := map[string]offered{}
	var conflicts []ToolConflict
	for _, a := range announcements {
		for _, tool := range a.Tools {
			tool = tool.WithDefaults()
			first, taken := byName[tool.Name]
			switch {
			case !taken:
				byName[tool.Name] = offered{tool: tool, by: a.Instance}
			case !reflect.DeepEqual(first.tool, tool):
				conflicts = append(conflicts, ToolConflict{Name: tool.Name, Used: first.by, Ignored: a.Instance})
			}
		}
	}
	tools := make([]schemas.ToolDefinition, 0, len(byName))
	for _, o := range byName {
		tools = append(tools, o.tool)
	}
	slices.SortFunc(tools, func(a, b schemas.ToolDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return tools, conflicts
}
