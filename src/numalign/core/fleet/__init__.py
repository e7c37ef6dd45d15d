"""What a whole fleet of hosts can take, does over time, and could do better."""
