"""Other people's implementations of the same work, built and run for comparison."""
