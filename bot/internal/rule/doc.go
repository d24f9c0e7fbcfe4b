// Package rule is who may do what in a thread: the lists about tools and hosts, what managers allow to servers and to members, and the
// questions in the middle of a call that these lists raise. Deciding is schemas.Policy's; this asks people, and writes down what they
// say.
package rule
