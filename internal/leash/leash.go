// Package leash holds a program and all that it starts, so that none of it outlives whoever started it: a process group, and a job
// object on Windows.
//
// [Prepare] a command, start it, [Tie] its process, [Leash.Wait] for its end, [Leash.Kill] what is left while the pid is held, reap
// it, and [Leash.Release]. A command that [Prepare] has seen ends on Linux with the thread that starts it.
package leash
