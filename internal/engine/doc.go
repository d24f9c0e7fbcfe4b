// Package engine is what members' sandboxes and the operator's servers alike need before they ask a container engine for
// anything: the way to it, and bobbin's own program where the engine can mount it.
package engine
