"""Random scenarios that run through the kubelet's own code and through ours."""
