package trace

func childMain() bool { return false }
