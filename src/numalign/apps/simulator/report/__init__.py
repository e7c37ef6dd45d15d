"""What came of a simulation, for people and for programs."""
