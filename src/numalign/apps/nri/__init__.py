"""The NRI plugin: the kubelet's placement under a kubelet that places nothing."""
