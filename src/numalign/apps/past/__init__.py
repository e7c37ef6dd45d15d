"""What the agent remembers of its last decisions, for those who look back."""
