//go:build peers

// Package sample names Kubernetes' own sample device plugin, so that go.mod and go.sum hold what it needs.
package sample

import _ "k8s.io/kubernetes/test/images/sample-device-plugin"
