// Package sandbox starts other people's programs and makes sure that they die.
//
// [Process] runs them as processes of the person who runs bobbin: nothing keeps them from what that person may do. What it
// does keep is order: no shell, a minimal environment, an own process group, bounded buffers, and an end that comes.
//
// How the end is made sure of, on Linux: the process group is killed; then everything that carries the child's mark in its
// environment (BOBBIN_SERVER), which finds grandchildren that left the group with setsid. A killed bobbin takes its direct
// children with it (PR_SET_PDEATHSIG); the rest see the end of their input, and [Process.Sweep] ends them at the next
// start. On other Unix systems there is the process group only, on Windows a job object that dies with bobbin.
package sandbox
