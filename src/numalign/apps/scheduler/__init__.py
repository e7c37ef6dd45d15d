"""The scheduler: a pure step over the state of a cluster, and the driver that carries it out."""
