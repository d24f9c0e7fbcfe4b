// Package sandbox starts other people's programs and makes sure that they die.
//
// [Docker] runs them in containers of a Docker engine, one a member, without a network, capabilities or a way to this machine;
// [Build] makes the image. In each container runs bobbin's own proxy (`bobbin proxy`, mounted, not part of the image), which is told
// over a socket in a shared folder what to start. What a container is stands in one place, and nothing that a member says reaches it.
// The wall is between members: the servers of one run as one user, and can read each other's environment and change each other's
// files. Containers of their own keep apart their processes, not their workspace.
//
// [Process] runs them as processes of the person who runs bobbin: nothing keeps them from what that person may do. What it
// does keep is order: no shell, a minimal environment, an own process group, bounded buffers, and an end that comes.
//
// How their end is made sure of, on Linux: the process group is killed; then everything that carries the child's mark in its
// environment (BOBBIN_SERVER), which finds grandchildren that left the group with setsid. A killed bobbin takes its direct
// children with it (PR_SET_PDEATHSIG); the rest see the end of their input, and [Process.Sweep] ends them at the next
// start. On other Unix systems there is the process group only, on Windows a job object that dies with bobbin.
package sandbox
