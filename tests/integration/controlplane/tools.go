//go:build tools

package main

// kubectl is built from this module too, so that tests can look at what a user sees.
import _ "k8s.io/kubernetes/cmd/kubectl"
