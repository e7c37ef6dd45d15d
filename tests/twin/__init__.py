"""The real kubelet and our agent side by side on a real NUMA kernel."""
