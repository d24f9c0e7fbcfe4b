// Package model opens the providers of models that an operator set up.
package model
