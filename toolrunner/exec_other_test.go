//go:build unix && !linux

package toolrunner

import "testing"

const victimEnv = "TOOLRUNNER_TEST_VICTIM"

func victim() {}

func markedProcesses(*testing.T, string) []string { return nil }
