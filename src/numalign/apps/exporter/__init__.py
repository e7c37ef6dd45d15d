"""The exporter: what this host's NUMA nodes have, offer and still have to give, for schedulers."""
