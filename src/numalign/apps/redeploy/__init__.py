"""The redeploy loop: cleans up after refused pods, and keeps new ones from the same fate."""
