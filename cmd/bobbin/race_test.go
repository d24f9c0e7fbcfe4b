//go:build race

package main

// racing says that the race detector slows everything down several times.
const racing = true
