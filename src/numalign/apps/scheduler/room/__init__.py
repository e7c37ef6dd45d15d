"""Where pods compete for room: preemption, held room, and gangs."""
