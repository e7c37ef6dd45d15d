"""What people see of a cluster: its hosts by NUMA node, and who sits where."""
