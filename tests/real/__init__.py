"""Real peers that tests download and run privately."""
