// Package form turns what a JSON Schema asks for into a form that a person fills in, and what they filled in into arguments; and it
// shows the arguments of a call to who has to allow it. It is pure.
package form
