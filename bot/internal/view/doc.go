// Package view is what a door draws, as data, and how the shapes of schemas are put into it: proposals, servers, tools, results,
// records, refusals. It is pure: no clock, no state, nobody to ask. Everything untrusted in what it gives is cleaned already.
package view
