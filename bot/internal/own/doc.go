// Package own is the assistant's tools that bobbin itself offers, as data: their definitions, the check of what a model gives them,
// what of it may be shown, and the form of their answers. What they do stands in bot, on the cards that people use, too.
package own
