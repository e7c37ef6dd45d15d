"""One host as it is or was, from whatever is known of it: files, a bundle, an agent, this host."""
